package cli

import (
	"context"

	"github.com/manent/action/cmd/internal/wire"
	"github.com/manent/action/providers"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

// checkExternal runs the conformance cases on a plugin that is a program of
// its own. With exercise nothing may be on its way in the environment.
func (a *app) checkExternal(ctx context.Context, c *checks, cfg config.Config, doc *state.Document, exercise bool) {
	const name = "plugin: "
	if exercise && (doc == nil || doc.Active()) {
		c.fail("exercise", "wait until no rollout is active and the state can be read", "the plugin was not exercised")
		exercise = false
	}
	left, run := 0, 0
	err := a.host.Conformance(ctx, cfg, slotsOf(doc), exercise, func(r wire.Case) {
		run++
		switch {
		case r.LeftOut != "":
			left++
		case r.Err != nil:
			c.fail(name+r.Name, providers.HintOf(r.Err), "%v", r.Err)
		default:
			c.ok(name+r.Name, "passed")
		}
	})
	if err != nil {
		c.broke("plugin", err)
	}
	if exercise && run == 0 && err == nil {
		c.fail("exercise", "leave --exercise out", "there is no plugin external to exercise")
	}
	if left > 0 {
		c.ok("plugin", "%d cases that deploy, scale or move traffic were left out; --exercise runs them", left)
	}
}

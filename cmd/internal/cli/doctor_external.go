package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/manent/action/cmd/internal/wire"
	"github.com/manent/action/providers"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

// exercise is what the environment's lease says meanwhile.
const exercise = "doctor --exercise"

// checkExternal runs the conformance cases on a plugin that is a program of
// its own. With exercise nothing may be on its way in the environment, and
// nothing begins meanwhile: it has the lease that a rollout would take. It
// deploys into the free slot, which must not be a version's way back.
func (a *app) checkExternal(ctx context.Context, c *checks, cfg config.Config, doc *state.Document, exercising bool) {
	switch {
	case exercising && (doc == nil || doc.Active()):
		c.fail("exercise", "wait until no rollout is active and the state can be read", "the plugin was not exercised")
	case exercising && wayBack(doc) != nil:
		err := wayBack(doc)
		c.fail("exercise", err.Hint, "the plugin was not exercised: %s", err.Reason)
	case exercising && wire.Exercisable(cfg):
		err := a.exclusive(ctx, cfg, func(ctx context.Context, doc *state.Document) error {
			if err := wayBack(doc); err != nil {
				return err
			}
			a.checkConformance(ctx, c, cfg, doc, true)
			return ctx.Err()
		})
		if err != nil {
			c.fail("exercise", endingOfError(err).Hint, "the plugin was not exercised to the end: %v", err)
		}
		return
	case exercising:
		c.fail("exercise", "leave --exercise out", "there is no plugin external to exercise")
	}
	a.checkConformance(ctx, c, cfg, doc, false)
}

// wayBack refuses to overwrite anything while `manent revert` could still bring
// traffic back: to the replaced version of a completed rollout as long as it is
// not scaled down, and in one that was stopped to the version that served.
func wayBack(doc *state.Document) *runner.UsageError {
	r := doc.Rollout
	if r == nil || r.First || r.Status == state.Returned {
		return nil
	}
	const elsewhere = "exercise the plugin in an environment of its own"
	if r.Status != state.Completed {
		return &runner.UsageError{
			Reason: fmt.Sprintf("rollout %s of version %s is %s, and `manent revert` still goes back from it", r.ID, r.Version, r.Status),
			Hint:   fmt.Sprintf("`manent revert --version %s` brings all traffic back, or roll out another version first; or %s", r.Version, elsewhere),
		}
	}
	for _, p := range doc.Passes {
		slot := p.Serving.Other()
		if p.Retired || slot == "" {
			continue
		}
		held := "what served before manent"
		if version := p.Slots.Get(slot).Version; version != "" {
			held = "version " + version
		}
		err := &runner.UsageError{Reason: fmt.Sprintf("slot %s holds %s, to which `manent revert` goes back", slot, held), Hint: elsewhere}
		if p.Retirement != nil {
			err.Hint = fmt.Sprintf("wait until it is scaled down: `manent resume` does it after %s; or %s", p.Retirement.Due.Format(time.RFC3339), elsewhere)
		}
		return err
	}
	return nil
}

// exclusive does something under the environment's lease.
func (a *app) exclusive(ctx context.Context, cfg config.Config, do func(context.Context, *state.Document) error) error {
	s, err := a.openStore(cfg.State)
	if err != nil {
		return err
	}
	platform, err := a.platform()
	if err != nil {
		return err
	}
	w, err := a.world(ctx, platform)
	if err != nil {
		return err
	}
	e := &runner.Engine{State: checkpoint.Open(s, cfg.Key(), a.now, checkpoint.Nonce), World: w, NoWait: true}
	return e.Exclusive(ctx, exercise, do)
}

func (a *app) checkConformance(ctx context.Context, c *checks, cfg config.Config, doc *state.Document, exercise bool) {
	const name = "plugin: "
	left := 0
	err := a.host.Conformance(ctx, cfg, passOf(doc), exercise, func(r wire.Case) {
		if ctx.Err() != nil { // nothing else shows how the weights were left
			a.screen.say(fmt.Sprintf("%s%s: %s", name, r.Name, outcome(r.Err)))
		}
		switch {
		case r.LeftOut != "" && !exercise:
			left++
		case r.LeftOut != "":
			c.warn(name+r.Name, "see to what failed before it", "left out: %s", r.LeftOut)
		case r.Err != nil:
			c.fail(name+r.Name, providers.HintOf(r.Err), "%v", r.Err)
		default:
			c.ok(name+r.Name, "passed")
		}
	})
	if err != nil {
		c.broke("plugin", err)
	}
	if left > 0 {
		c.ok("plugin", "%d cases that deploy, scale or move traffic were left out; --exercise runs them", left)
	}
}

// passOf is what the document knows of the slots.
func passOf(doc *state.Document) state.Pass {
	if doc == nil || len(doc.Passes) == 0 {
		return state.Pass{}
	}
	return doc.Passes[0]
}

// outcome is how a case ended, for a person.
func outcome(err error) string {
	if err != nil {
		return err.Error()
	}
	return "passed"
}

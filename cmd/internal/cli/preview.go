package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/manent/action/providers/router"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/plan"
	"github.com/manent/action/state"
)

// preview says from what a rollout of this configuration would begin: the
// router as it is, and the steps. It writes nothing.
func (a *app) preview(ctx context.Context, cfg config.Config, doc *state.Document) error {
	w, err := a.host.Connect(runner.World{}, cfg)
	if err != nil {
		return err
	}
	if r := w.Router(""); r != nil {
		one, cancel := limited(ctx)
		defer cancel()
		seen, err := r.Read(one, slotsOf(doc))
		if err == nil {
			err = seen.Err()
		}
		if err != nil {
			return &runner.UnsureError{Step: "read the router", Err: err}
		}
		for _, p := range seen.Parts {
			a.screen.say(partText(p))
		}
	}
	var names []string
	for _, s := range plan.Build(cfg, a.host.Catalog()).Steps {
		names = append(names, s.Name)
	}
	a.screen.say("steps: " + strings.Join(names, ", "))
	return nil
}

func partText(p router.Part) string {
	return fmt.Sprintf("part %s: a %s, b %s", p.ID, router.PercentText(p.Shares[state.SlotA]), router.PercentText(p.Shares[state.SlotB]))
}

package wire

import (
	"context"
	"errors"
	"fmt"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/external"
	"github.com/manent/action/providers/plugin/external"
	"github.com/manent/action/providers/plugin/external/conform"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

// ExternalSchema is the JSON Schema of what a plugin that is a program of its
// own is asked and answers.
func ExternalSchema() ([]byte, error) { return api.Schema() }

// Case is how one case of the conformance of such a program ended.
type Case struct {
	Name    string
	Err     error  // why it failed
	LeftOut string // why it was not run
}

// Exercisable reports whether a configuration has such a program.
func Exercisable(cfg config.Config) bool { return cfg.Plugin.Name == external.Spec().Name }

// Conformance runs all cases on the program of a configuration, those that
// change something only with exercise, and reports each; pass is what the state
// knows of its slots. Without such a program it does nothing.
func (h Host) Conformance(ctx context.Context, cfg config.Config, pass state.Pass, exercise bool, report func(Case)) error {
	if !Exercisable(cfg) {
		return nil
	}
	env := h.env(cfg.Secrets)
	env.Targets = targets(cfg.Targets)
	program, err := providers.Define(cfg.Plugin.Name, "", external.Open).Build(env, cfg.Plugin.Settings)
	if err != nil {
		return err
	}
	w, err := h.Connect(runner.World{}, cfg) // its router may be another
	if err != nil {
		return err
	}
	opts := conform.Options{Exercise: exercise, Slots: pass.Slots, Serving: pass.Serving, Shares: sharesFor(cfg.Rollout.Traffic.Steps)}
	if r := w.Router(""); r != nil {
		opts.Read = r.Read
	}
	opts.Tolerance = cfg.Tolerance(opts.Shares[0])
	conform.Run(ctx, program, opts, func(r conform.Result) { report(Case(r)) })
	if ctx.Err() != nil {
		return fmt.Errorf("conformance: %w", errors.Join(ctx.Err(), context.Cause(ctx)))
	}
	return nil
}

// sharesFor are two shares of the plan, which the router has to reach anyway.
func sharesFor(steps []float64) [2]float64 {
	if len(steps) < 3 || steps[1] >= 100 {
		return [2]float64{25, 50}
	}
	return [2]float64{steps[0], steps[1]}
}

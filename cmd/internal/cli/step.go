package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/manent/action/runner"
)

func (a *app) newStep() *cobra.Command {
	var f runFlags
	var w which
	cmd := &cobra.Command{
		Use:   "step -c FILE --version VERSION",
		Short: "do the one step that is next",
		Long: `Does what run does, once: the step that is next, one reading, or a bit of the
way back. It ends with 0 when a step was done, and otherwise like run. With
--rollout or --owner it only goes on and never begins.`,
		Example: "  manent step -c envconfig/shop/web/prod.yml --version 2.0",
	}
	w.flags(cmd)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "read everything, write nothing, print what would be done")
	cmd.Flags().BoolVar(&f.force, "force", false, "let a run go on that is older than the newest one")
	return a.acting(a.placeFlags(cmd), func(ctx context.Context, _ []string) (view, error) {
		if w.rollout != "" || w.owner != "" {
			return a.stepOf(ctx, w, f.dryRun)
		}
		f.version, f.noWait = w.version, true
		return a.step(ctx, f)
	})
}

// step begins or finds the rollout of a version and does one step.
func (a *app) step(ctx context.Context, f runFlags) (view, error) {
	p, doc, err := a.begin(ctx, f)
	if err != nil {
		return view{}, err
	}
	e, err := a.engine(ctx, p)
	if err != nil {
		return view{}, err
	}
	e.DryRun, e.NoWait, e.Fresh = f.dryRun, true, true
	if err := a.compare(ctx, e, doc, p, f); err != nil {
		return view{}, err
	}
	out, err := e.Step(ctx, f.request(p))
	return a.acted(ctx, p, f.dryRun, out, err)
}

// stepOf does one step of the rollout that is named.
func (a *app) stepOf(ctx context.Context, w which, dryRun bool) (view, error) {
	p, e, err := a.named(ctx, w)
	if err != nil {
		return view{}, err
	}
	e.DryRun, e.NoWait, e.Fresh = dryRun, true, true
	out, err := e.Advance(ctx)
	return a.acted(ctx, p, dryRun, out, err)
}

// named is the engine bound to the rollout that the flags name.
func (a *app) named(ctx context.Context, w which) (place, *runner.Engine, error) {
	p, err := a.place(ctx)
	if err != nil {
		return place{}, nil, err
	}
	e, err := a.engine(ctx, p)
	if err != nil {
		return place{}, nil, err
	}
	doc, err := a.document(ctx, p)
	if err != nil {
		return place{}, nil, err
	}
	r, err := w.find(doc, e.World.Process.Owner)
	if err != nil {
		return place{}, nil, err
	}
	e.Only = r.ID
	return p, e, nil
}

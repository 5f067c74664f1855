package runner

import (
	"context"
	"errors"
	"fmt"
	"github.com/manent/action/providers/router"
	"time"

	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/plan"
	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

// Reconfigure pins another configuration for the active rollout. What was done
// must be part of the new plan too, else nobody could say where the rollout
// is; a plan that lacks it is a UsageError.
func (e *Engine) Reconfigure(ctx context.Context, cfg config.Config) error {
	for range staleTries {
		err := e.reconfigure(ctx, cfg)
		if !errors.Is(err, errStale) {
			return err
		}
	}
	return &UnsureError{Step: "state", Err: fmt.Errorf("the document changed %d times while this call tried to reconfigure", staleTries)}
}

func (e *Engine) reconfigure(ctx context.Context, cfg config.Config) error {
	s, err := e.open(ctx)
	if err != nil {
		return err
	}
	r := s.doc.Rollout
	if r == nil || r.Status.Terminal() {
		return &UsageError{Reason: s.doc.Key + " has no active rollout", Hint: "the next `manent run` reads the file anyway"}
	}
	digest, err := checkpoint.Digest(cfg)
	if err != nil || digest == r.Digest || e.DryRun {
		return err
	}
	next := plan.Build(cfg, e.World.Catalog)
	if err := errors.Join(keeps(next, r), rises(next, s.doc)); err != nil {
		return err
	}
	raw, err := cfg.Pin()
	if err != nil {
		return err
	}
	r.Config, r.Digest, r.Resume = raw, digest, cfg.Rollout.Wait == "resume"
	for i := range r.Steps {
		r.Steps[i].Due = time.Time{} // what is waited for is the new configuration's to say
	}
	r.Stages = merge(stagesOf(next), r.Stages)
	return s.put(ctx, false, "reconfigured by "+e.World.Process.Owner.Actor)
}

// keeps refuses a plan that lacks a step which has a record.
func keeps(next plan.Plan, r *state.Rollout) error {
	for _, rec := range r.Steps {
		if rec.Kind == string(plan.Revert) || rec.Kind == string(kindComplete) {
			continue
		}
		if _, ok := next.Find(rec.Name); !ok {
			return &UsageError{
				Reason: fmt.Sprintf("step %s is %s, the new configuration does not have it", rec.Name, rec.State),
				Hint:   "keep what the rollout has done already, or end it with `manent revert` and start again",
			}
		}
	}
	return nil
}

// rises refuses a plan with a new share below the one in force: the step
// would be next, and the stage that is watched would lose its traffic.
func rises(next plan.Plan, d *state.Document) error {
	for _, step := range next.Steps {
		pass := d.Pass(step.Pass)
		if step.Kind != plan.Traffic || pass == nil || !ours(pass, d.Rollout.ID) || d.Rollout.Step(step.Name) != nil {
			continue
		}
		if step.Share < pass.Share {
			return &UsageError{
				Reason: fmt.Sprintf("step %s is new and below the share in force, which is %s", step.Name, router.PercentText(pass.Share)),
				Hint:   "leave it out, or end the rollout with `manent revert` and start again",
			}
		}
	}
	return nil
}

// merge takes the stages of the new plan, with what is known of each.
func merge(planned, known []state.Stage) []state.Stage {
	for i := range planned {
		for _, k := range known {
			if k.Name == planned[i].Name {
				planned[i] = k
			}
		}
	}
	return planned
}

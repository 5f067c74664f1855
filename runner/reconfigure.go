package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/plan"
	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

// Reconfigure pins another configuration to the active rollout. What is done
// stays done; a new step that comes before the current one is done next, but
// never one that would lower the share. A rollout on its way back keeps the
// configuration that it goes back by.
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
	next := plan.Build(cfg, e.World.Catalog)
	if err := s.mayReconfigure(cfg, next); err != nil || e.DryRun {
		return err
	}
	r := s.doc.Rollout
	raw, err := json.Marshal(cfg)
	if err != nil {
		return fmt.Errorf("pin configuration: %w", err)
	}
	digest, err := checkpoint.Digest(cfg)
	if err != nil {
		return fmt.Errorf("pin configuration: %w", err)
	}
	note := fmt.Sprintf("configuration %.12s replaces %.12s", digest, r.Digest)
	r.Config, r.Digest, r.Resume, r.Stages = raw, digest, cfg.Rollout.Wait == "resume", mergeStages(r.Stages, next)
	if err := s.put(ctx, false, note); err != nil {
		return err
	}
	e.World.Say(note)
	return nil
}

// mayReconfigure refuses what would not be the same rollout any more.
func (s *session) mayReconfigure(cfg config.Config, next plan.Plan) error {
	r := s.doc.Rollout
	refuse := func(format string, args ...any) error {
		return &UsageError{Reason: "cannot adopt the file: " + fmt.Sprintf(format, args...),
			Hint: "end the rollout with `manent revert`, then begin anew"}
	}
	switch {
	case r == nil || r.Status.Terminal() || r.Status == state.Returning:
		return refuse("there is no rollout on its way")
	case cfg.Key() != s.doc.Key:
		return refuse("it is of %s, the rollout of %s", cfg.Key(), s.doc.Key)
	case cfg.Rollout.Strategy != s.cfg.Rollout.Strategy || len(next.Passes) != len(s.plan.Passes):
		return refuse("strategy or waves differ")
	}
	for i, p := range next.Passes {
		if p.Name != s.plan.Passes[i].Name {
			return refuse("pass %s is not %s", p.Name, s.plan.Passes[i].Name)
		}
	}
	for _, step := range next.Steps {
		pass := s.doc.Pass(step.Pass)
		if step.Kind == plan.Traffic && r.Step(step.Name) == nil && pass != nil && ours(pass, r.ID) && step.Share < pass.Share {
			return refuse("%s would lower the share, which is %s by now", step.Name, shareOf(pass.Share))
		}
	}
	return nil
}

// mergeStages lists the stages of the new plan, with what is known of those
// that were entered; those that the plan no longer has are kept in front.
func mergeStages(have []state.Stage, p plan.Plan) []state.Stage {
	want := stagesOf(p)
	var out []state.Stage
	for _, st := range have {
		found := false
		for i := range want {
			if want[i].Name == st.Name {
				want[i], found = st, true
			}
		}
		if !found && st.Status != state.StagePending {
			out = append(out, st)
		}
	}
	return append(out, want...)
}

package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/manent/action/runner/gate"
	"github.com/manent/action/runner/plan"
	"github.com/manent/action/state"
)

// Resume is what the sweeper does for one environment: it finishes a return,
// takes the readings that are due while an approval is waited for, drives
// rollouts that were started with `wait: resume`, returns orphans, and scales
// down what is due. Elsewhere it never raises a share.
func (e *Engine) Resume(ctx context.Context) (out []Outcome, err error) {
	err = e.whileStale(func() error {
		one, err := e.resumeActive(ctx)
		out = one
		return err
	})
	if err != nil || e.DryRun {
		return out, err
	}
	var retired []Outcome
	err = e.whileStale(func() error {
		retired, err = e.Retire(ctx)
		return err
	})
	return append(out, retired...), err
}

// whileStale does something again while somebody else writes in between.
func (e *Engine) whileStale(do func() error) error {
	for range staleTries {
		if err := do(); !errors.Is(err, errStale) {
			return err
		}
	}
	return &UnsureError{Step: "state", Err: fmt.Errorf("the document changed %d times while this call tried to act", staleTries)}
}

// resumeActive is Resume for the rollout that is on its way, if there is one.
func (e *Engine) resumeActive(ctx context.Context) ([]Outcome, error) {
	s, err := e.open(ctx)
	if err != nil || !s.doc.Active() {
		return nil, err
	}
	one, err := s.resume(ctx)
	if err != nil {
		return nil, err
	}
	return []Outcome{one}, nil
}

func (s *session) resume(ctx context.Context) (Outcome, error) {
	now := s.e.World.Now().UTC()
	r := s.doc.Rollout
	if Apply(s.plan, s.doc, s.cfg, now) {
		s.dirty = true
	}
	switch {
	case r.Status == state.Returning || r.Resume:
		if err := s.save(ctx, "resume"); err != nil {
			return Outcome{}, err
		}
		return s.e.drive(ctx, RunOptions{NoWait: true})
	case r.Status == state.Waiting:
		return s.watch(ctx, now)
	case s.orphaned(now):
		return s.returnOrphan(ctx, now)
	}
	return Outcome{Result: NotYet, Step: currentStep(s.plan, r), Message: fmt.Sprintf("rollout %s is %s, its own job drives it", r.ID, r.Status)}, nil
}

// orphaned reports whether a step was due for orphanAfter and nobody did it.
func (s *session) orphaned(now time.Time) bool {
	act := Next(s.plan, s.doc, s.cfg, now)
	if act.Do != DoStep && act.Do != DoComplete {
		return false
	}
	since := s.doc.Written
	if rec := s.doc.Rollout.Step(act.Step.Name); rec != nil && rec.Due.After(since) {
		since = rec.Due
	}
	return now.Sub(since) > s.cfg.Rollout.OrphanAfter.Std()
}

func (s *session) returnOrphan(ctx context.Context, now time.Time) (Outcome, error) {
	fail(s.plan, s.doc, s.cfg, currentStep(s.plan, s.doc.Rollout),
		fmt.Sprintf("nobody has driven the rollout since %s (orphanAfter %s)", s.doc.Written.UTC().Format(time.RFC3339), s.cfg.Rollout.OrphanAfter),
		"look at the pipeline's job; start again with `manent retry`", now)
	s.dirty = true
	if err := s.save(ctx, "orphaned"); err != nil {
		return Outcome{}, err
	}
	return s.e.drive(ctx, RunOptions{NoWait: true})
}

// watch takes the reading that is due while a person is asked. A red one that
// the gate does not tolerate returns the rollout.
func (s *session) watch(ctx context.Context, now time.Time) (Outcome, error) {
	c, stage := s.watched(now)
	if c == nil || now.Before(nextWatch(stage, s.cfg.Rollout.Health.Interval.Std())) {
		return s.finish(ctx, asking(s.doc.Rollout))
	}
	out, rec, res, err := c.reading(ctx, c.clock(stage).Waiting(s.doc.Rollout.Pause.Until))
	switch {
	case err != nil:
		return Outcome{}, c.unsure(ctx, err)
	case res.state == isPaused:
		s.pause(c, res)
	case res.state == isFailed || out.Act == gate.Refuse:
		fail(s.plan, s.doc, s.cfg, c.step.Name, "while the approval was waited for: "+rec.Reason+res.message, "", now)
		s.dirty = true
		if err := s.save(ctx, "red while waiting for approval"); err != nil {
			return Outcome{}, err
		}
		return s.e.drive(ctx, RunOptions{NoWait: true})
	}
	return s.finish(ctx, asking(s.doc.Rollout))
}

// watched returns the gate of the stage that the open approval belongs to,
// nil when that stage has no traffic of the candidate to judge.
func (s *session) watched(now time.Time) (*call, *state.Stage) {
	name, err := plan.ParseName(s.doc.Rollout.Pause.Step)
	if err != nil || name.Wave != "" {
		return nil, nil
	}
	for _, step := range s.plan.Steps {
		if step.Kind != plan.Gate || step.Pass != name.Pass || step.Share != name.Share {
			continue
		}
		c := &call{session: s, step: step, pass: s.doc.Pass(step.Pass), now: now}
		if stage := c.stage(); !stage.InForce.IsZero() && stage.Status != state.StageUngated {
			return c, stage
		}
	}
	return nil, nil
}

func nextWatch(stage *state.Stage, interval time.Duration) time.Time {
	if n := len(stage.Readings); n > 0 {
		return stage.Readings[n-1].At.Add(interval)
	}
	return stage.InForce
}

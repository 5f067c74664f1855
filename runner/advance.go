package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/runner/plan"
	"github.com/manent/action/state"
)

// staleTries bounds how often a call reads again because somebody else wrote.
const staleTries = 8

// Advance does the one thing that is next: a step, a bit of the way back, the
// final proof. A returned error is a HeldError, an UnsureError or a signal;
// everything a rollout can come to is an Outcome.
func (e *Engine) Advance(ctx context.Context) (Outcome, error) {
	for range staleTries {
		out, err := e.once(ctx)
		if errors.Is(err, errStale) {
			continue
		}
		return out, err
	}
	return Outcome{}, &UnsureError{Step: "state", Err: fmt.Errorf("the document changed %d times while this call tried to act", staleTries)}
}

func (e *Engine) once(ctx context.Context) (Outcome, error) {
	s, err := e.open(ctx)
	if err != nil {
		return Outcome{}, err
	}
	if s.doc.Rollout == nil {
		return Outcome{}, &UsageError{Reason: s.doc.Key + " has no rollout", Hint: "start one with `manent run --version V`"}
	}
	return s.advance(ctx)
}

// advance goes on in the copy until something had to be done or waited for. A
// failure turns around within the same call, so that the reading that decided
// and the intent of the return are one write.
func (s *session) advance(ctx context.Context) (Outcome, error) {
	for {
		now := s.e.World.Now().UTC()
		if Apply(s.plan, s.doc, s.cfg, now) {
			s.dirty = true
		}
		act := Next(s.plan, s.doc, s.cfg, now)
		if s.e.DryRun {
			return s.preview(ctx, act, now)
		}
		if s.e.backOnly && act.Do != DoNothing && act.Do != DoReturn && act.Do != DoReturned {
			return Outcome{}, &HeldError{
				Reason: fmt.Sprintf("rollout %s is %s and not on its way back", s.doc.Rollout.ID, s.doc.Rollout.Status),
				Hint:   fmt.Sprintf("`manent revert --version %s` turns it around from any state", s.doc.Rollout.Version),
			}
		}
		switch act.Do {
		case DoNothing:
			return s.finish(ctx, endedBefore(s.doc.Rollout))
		case DoWait:
			return s.finish(ctx, Outcome{Result: NotYet, Step: act.Step.Name, Until: act.Until, Message: act.Reason, lost: act.Lost})
		case DoAsk:
			return s.finish(ctx, asking(s.doc.Rollout))
		}
		out, again, err := s.perform(ctx, act, now)
		if err != nil {
			return Outcome{}, err
		}
		if !again {
			return out, nil
		}
	}
}

// finish stores what Apply changed and returns the outcome.
func (s *session) finish(ctx context.Context, out Outcome) (Outcome, error) {
	return out, s.save(ctx, out.Message)
}

// perform enters one step. again asks for another round in the same copy.
func (s *session) perform(ctx context.Context, act Action, now time.Time) (out Outcome, again bool, err error) {
	step := s.stepOf(act)
	c := &call{session: s, step: step, pass: s.doc.Pass(step.Pass), now: now}
	res, err := enter(ctx, c)
	if err != nil {
		return Outcome{}, false, c.unsure(ctx, err)
	}
	switch res.state {
	case isFailed:
		s.closeRecord(c, state.Failed, res)
		fail(s.plan, s.doc, s.cfg, step.Name, res.message, res.remedy, now)
		s.dirty = true
		return Outcome{}, true, nil
	case isPaused:
		s.pause(c, res)
		out, err = s.finish(ctx, asking(s.doc.Rollout))
		return out, false, err
	case isPending:
		out, err = s.hold(ctx, c, res)
		return out, false, err
	}
	if act.Do == DoComplete || act.Do == DoReturn || act.Do == DoReturned {
		out, err = s.finish(ctx, ended(s.doc.Rollout, step.Name, res))
		return out, false, err
	}
	s.closeRecord(c, state.Done, res)
	out, err = s.finish(ctx, Outcome{Result: Progress, Step: step.Name, Message: res.message})
	return out, false, err
}

// stepOf makes a step of what is not in the plan: the way back, the end.
func (s *session) stepOf(act Action) plan.Step {
	switch act.Do {
	case DoReturn:
		n := plan.Name{Kind: plan.Revert, Pass: act.Pass}
		return plan.Step{Name: n.String(), Kind: plan.Revert, Pass: act.Pass}
	case DoReturned:
		return plan.Step{Name: "returned", Kind: kindReturned}
	case DoComplete:
		return plan.Step{Name: "complete", Kind: kindComplete}
	}
	return act.Step
}

// What is done besides the steps of a plan; a user's command may have any name.
const (
	kindComplete plan.Kind = "complete"
	kindReturned plan.Kind = "returned"
)

func enter(ctx context.Context, c *call) (result, error) {
	switch c.step.Kind {
	case kindComplete:
		return complete(ctx, c)
	case kindReturned:
		return returned(c)
	}
	return kindOf(c.step.Kind).perform(ctx, c)
}

func (s *session) closeRecord(c *call, st state.StepState, res result) {
	rec := c.record()
	rec.State, rec.Message, rec.Ended, rec.Due = st, res.message, c.e.World.Now().UTC(), time.Time{}
	s.dirty = true
}

// hold stores a step that has to be entered again later.
func (s *session) hold(ctx context.Context, c *call, res result) (Outcome, error) {
	out := Outcome{Result: NotYet, Step: c.step.Name, Until: res.until, Message: res.message}
	if s.doc.Rollout.Status == state.Returning {
		out.Result = Unfinished
	}
	rec := c.record()
	rec.Due, rec.Message = res.until, res.message
	s.dirty = true
	return s.finish(ctx, out)
}

// pause opens a question to a person.
func (s *session) pause(c *call, res result) {
	r := s.doc.Rollout
	rec := c.record()
	rec.Message = res.message
	p := res.pause
	p.Step, p.Since, p.Reason = c.step.Name, s.e.World.Now().UTC(), res.message
	s.doc.Pauses++
	p.ID = fmt.Sprintf("%s.%d", c.step.Name, s.doc.Pauses)
	r.Pause = p
	switch p.Kind {
	case state.PauseApproval:
		r.Status = state.Waiting
	case state.PauseDrift:
		r.Status = state.Drifted
	default:
		r.Status = state.Paused
	}
	s.dirty = true
}

// unsure ends a call that could not tell: the intent stays, the lease is given
// back if the store still answers, so that the next call need not wait.
func (c *call) unsure(ctx context.Context, err error) error {
	if errors.Is(err, errStale) {
		return err
	}
	if c.leased {
		c.unsettle(c.step.Name)
		if saveErr := c.save(ctx, "could not tell: "+c.step.Name); saveErr != nil {
			err = errors.Join(err, saveErr)
		}
	}
	if held, ok := errors.AsType[*HeldError](err); ok {
		return held
	}
	if ctx.Err() != nil && providers.Lost(err) {
		return ctx.Err()
	}
	return &UnsureError{Step: c.step.Name, Err: err}
}

// asking is the outcome while a pause is open.
func asking(r *state.Rollout) Outcome {
	out := Outcome{Result: PausedNow, Step: r.Pause.Step, Message: r.Pause.Reason, Until: r.Pause.Until}
	flags := fmt.Sprintf("--version %s --pause %s", r.Version, r.Pause.ID)
	if r.Pause.Seen != "" {
		flags += " --seen " + r.Pause.Seen
	}
	out.Remedy = fmt.Sprintf("`manent approve %s` or `manent reject %s`", flags, flags)
	if InRun(r) {
		out.Remedy = fmt.Sprintf("`manent approve` in a job of %s, or `manent reject %s` from anywhere", whose(r.Owner), flags)
	}
	if r.Pause.Kind == state.PauseApproval {
		out.Result = Approval
	}
	return out
}

// terminal is the outcome of a rollout that ended before.
func terminal(r *state.Rollout) Outcome {
	out := Outcome{Result: Failure}
	if r.Status == state.Completed {
		return Outcome{Result: Complete, Message: fmt.Sprintf("version %s serves", r.Version)}
	}
	if r.Failure != nil {
		out.Step, out.Message, out.Remedy = r.Failure.Step, r.Failure.Reason, r.Failure.Remedy
	}
	again := fmt.Sprintf("`manent retry --version %s` starts a new attempt", r.Version)
	switch {
	case out.Remedy == "":
		out.Remedy = again
	case !strings.Contains(out.Remedy, "`manent "):
		out.Remedy += "; then " + again
	}
	return out
}

// endedBefore is the outcome of a call that found its rollout at its end: of a
// failure it says when that was, since nothing was tried now.
func endedBefore(r *state.Rollout) Outcome {
	out := terminal(r)
	if out.Result == Failure && !r.Ended.IsZero() {
		out.Message = fmt.Sprintf("attempt %d of version %s ended at %s, nothing is tried now: %s", r.Attempt, r.Version, r.Ended.Format(time.RFC3339), out.Message)
	}
	return out
}

func ended(r *state.Rollout, step string, res result) Outcome {
	if !r.Status.Terminal() {
		return Outcome{Result: Progress, Step: step, Message: res.message}
	}
	out := terminal(r)
	if r.Status == state.Completed {
		out.Step, out.Message = step, res.message
		return out
	}
	out.Message += "; " + res.message // where it failed and why, then what the return did
	return out
}

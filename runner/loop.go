package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/manent/action/runner/plan"
	"github.com/manent/action/state"
)

// RunOptions say when a run ends besides its natural end.
type RunOptions struct {
	Until   string        // step or stage name; "" = to the end
	NoWait  bool          // end instead of sleeping
	MaxTime time.Duration // end instead of sleeping past it; 0 = no limit

	// InRun says that a later job of the same run answers the approval that
	// Until names: no yes is taken from elsewhere.
	InRun bool

	// HandOver uses all of MaxTime and makes its end a success: another job of
	// the same run goes on. A pause stays one.
	HandOver bool
}

// unsureTries is how often run asks again before it says that it cannot tell.
const unsureTries = 7

// Run is a loop over Advance: due steps until the rollout is complete, has
// failed, or must wait for a person or past the options.
func (e *Engine) Run(ctx context.Context, q Request, o RunOptions) (Outcome, error) {
	out, goOn, err := e.prepare(ctx, q)
	if err != nil || !goOn {
		return out, err
	}
	return e.drive(ctx, o)
}

// Step does what Run does, once: the step that is next, one reading, or a bit
// of the way back of the version that has to go first.
func (e *Engine) Step(ctx context.Context, q Request) (Outcome, error) {
	claim, err := e.Begin(ctx, q)
	if err != nil {
		return Outcome{}, err
	}
	if out, over, err := e.claimed(ctx, claim, q); over || err != nil {
		return out, err
	}
	return e.Advance(ctx)
}

// claimed is the outcome of a claim with which nothing is left to be done.
func (e *Engine) claimed(ctx context.Context, claim Claim, q Request) (Outcome, bool, error) {
	switch {
	case claim == Serves:
		out, err := e.servesAlready(ctx, q.Version)
		return out, true, err
	case e.DryRun && claim == Fresh:
		return Outcome{Result: NotYet, Message: fmt.Sprintf("would begin a rollout of version %s", q.Version)}, true, nil
	case e.DryRun && claim == Supersede:
		return Outcome{Result: NotYet, Message: fmt.Sprintf("would return the version that is on its way, then begin a rollout of version %s", q.Version)}, true, nil
	}
	return Outcome{}, false, nil
}

// prepare begins or finds the rollout; an older one is returned first.
func (e *Engine) prepare(ctx context.Context, q Request) (Outcome, bool, error) {
	for {
		claim, err := e.Begin(ctx, q)
		if err != nil {
			return Outcome{}, false, err
		}
		if out, over, err := e.claimed(ctx, claim, q); over || err != nil {
			return out, false, err
		}
		if claim != Supersede {
			return Outcome{}, true, nil
		}
		out, err := e.drive(ctx, RunOptions{NoWait: e.NoWait})
		if err != nil || out.Result != Failure {
			return out, false, err
		}
	}
}

// servesAlready proves at the router what the document says.
func (e *Engine) servesAlready(ctx context.Context, version string) (Outcome, error) {
	out, err := e.AtStable(ctx)
	if err == nil && out.Result == Complete {
		out.Message = fmt.Sprintf("version %s serves already, nothing to do", version)
	}
	return out, err
}

// AtStable reads the router: Complete when every part gives the serving slot
// everything, nothing else gets traffic and that is in force, PausedNow when somebody has set something
// else, an UnsureError when it cannot be seen.
func (e *Engine) AtStable(ctx context.Context) (Outcome, error) {
	s, err := e.open(ctx)
	if err != nil {
		return Outcome{}, err
	}
	var version string
	for i := range s.doc.Passes {
		c := &call{session: s, pass: &s.doc.Passes[i], now: e.World.Now().UTC(), step: plan.Step{Pass: s.doc.Passes[i].Name}}
		slot := c.pass.Serving
		version = c.pass.Slots.Get(slot).Version
		seen, err := c.read(ctx)
		if err != nil {
			return Outcome{}, &UnsureError{Err: err}
		}
		if found := astray(seen, slot); found != "" {
			return Outcome{
				Result:  PausedNow,
				Message: fmt.Sprintf("slot %s is recorded as serving, but %s", slot, found),
				Remedy:  wayBack(s.doc.Rollout, version, slot),
			}, nil
		}
		if ok, err := c.settledWith(ctx, seen.Weights(), nil); err != nil || !ok {
			return Outcome{}, &UnsureError{Err: fmt.Errorf("the router's weights are not seen in force: %w", orNotYet(err))}
		}
	}
	return Outcome{Result: Complete, Message: fmt.Sprintf("version %s serves with all traffic, read at the router", version)}, nil
}

func orNotYet(err error) error {
	if err == nil {
		return errors.New("not yet")
	}
	return err
}

// wayBack says what brings all traffic to the serving slot.
func wayBack(r *state.Rollout, version string, slot state.Slot) string {
	if r != nil && r.Version != version && !r.Status.Terminal() || r != nil && r.Status == state.Stopped {
		return fmt.Sprintf("`manent revert --version %s` brings all traffic back to slot %s", r.Version, slot)
	}
	return fmt.Sprintf("somebody has changed the weights since: set all traffic to slot %s at the router, or release another version", slot)
}

// drive advances until something ends it.
func (e *Engine) drive(ctx context.Context, o RunOptions) (Outcome, error) {
	began := e.World.Now()
	unsure := 0
	if o.InRun {
		e.inRun = o.Until
	}
	for {
		if o.Until != "" {
			if out, ok, err := e.reached(ctx, o.Until); err != nil || ok {
				return out, err
			}
			e.Fresh = true
		}
		out, err := e.Advance(ctx)
		if u, ok := errors.AsType[*UnsureError](err); ok && unsure < unsureTries && !e.NoWait && !definite(err) {
			unsure++
			e.World.Say(fmt.Sprintf("could not tell: %v; asking again", u))
			e.doing(strings.TrimPrefix(u.Step+": asking again", ": "), time.Time{})
			if err := e.World.Sleep(ctx, min(time.Second<<unsure, 30*time.Second)); err != nil {
				return out, err
			}
			continue
		}
		if err != nil {
			return out, err
		}
		if !out.lost {
			unsure = 0
		}
		if out.Message != "" {
			e.World.Say(line(out))
		}
		if ends(out) || e.DryRun {
			return o.asked(out), nil
		}
		if out.Result == Progress {
			continue
		}
		until, over := o.waits(out.Until, began, e.World.Now())
		if over {
			return o.handedOver(out), nil
		}
		e.doing(line(out), until)
		if err := e.World.Sleep(ctx, max(until.Sub(e.World.Now()), pollEvery)); err != nil {
			return out, err
		}
	}
}

// asked is how a run ends that was to go on until an approval is asked for.
func (o RunOptions) asked(out Outcome) Outcome {
	if out.Result == Approval && out.Step == o.Until {
		out.Result, out.Message, out.Remedy = Reached, "reached: "+out.Message, ""
	}
	return out
}

// waits says until when a run that began then waits for something due at
// until, or that its time is over.
func (o RunOptions) waits(until, began, now time.Time) (time.Time, bool) {
	end := began.Add(o.MaxTime)
	switch {
	case o.NoWait:
		return until, true
	case o.MaxTime == 0 || !until.After(end):
		return until, false
	case o.HandOver: // the next job waits no shorter
		return end, !now.Before(end)
	}
	return until, true
}

// handedOver is how a run ends whose time is over.
func (o RunOptions) handedOver(out Outcome) Outcome {
	if !o.HandOver || o.NoWait || out.Result != NotYet {
		return out
	}
	out.Result, out.Message = Reached, "the time of this job is over, the next one goes on: "+out.Message
	return out
}

// doing tells whoever shows progress what a wait is for.
func (e *Engine) doing(what string, until time.Time) {
	if e.World.Doing != nil {
		e.World.Doing(what, until)
	}
}

func line(out Outcome) string {
	if out.Step == "" {
		return out.Message
	}
	return out.Step + ": " + out.Message
}

// ends reports whether only a person, or nothing, can go on from here.
func ends(out Outcome) bool {
	switch out.Result {
	case Complete, Failure, PausedNow, Approval, Reached:
		return true
	}
	return false
}

// reached reports whether --until is satisfied: a step is next, or a stage
// with its gate is done. A planned approval is reached when it has been asked
// for: a job behind it answers, and until then the stage is watched. A name the
// plan does not have is a usage error.
func (e *Engine) reached(ctx context.Context, until string) (Outcome, bool, error) {
	s, err := e.open(ctx)
	if err != nil || s.doc.Rollout == nil {
		return Outcome{}, false, err
	}
	out := Outcome{Result: Reached, Step: until, Message: "reached"}
	if r := s.doc.Rollout; r.Status.Terminal() || r.Status == state.Returning {
		return out, false, nil
	}
	known := false
	for _, step := range s.plan.Steps {
		if step.Stage == until && step.Kind == plan.Gate {
			known = true
			if rec := s.doc.Rollout.Step(step.Name); rec != nil && rec.State == state.Done || !Applies(step, s.doc.Rollout) {
				return out, true, nil
			}
		}
		if step.Name == until {
			known = true
			if before(s, until) && !unasked(step, s.doc.Rollout) {
				return out, true, nil
			}
		}
	}
	if !known {
		return out, false, &UsageError{Reason: fmt.Sprintf("--until %s: the plan has no such step or stage", until),
			Hint: "`manent plan` lists them"}
	}
	return out, false, nil
}

// unasked reports whether a step is an approval that takes part in the rollout
// and has not been given.
func unasked(step plan.Step, r *state.Rollout) bool {
	return step.Kind == plan.Approval && Applies(step, r) && Given(step.Name, r) == ""
}

// Given names who has approved a step of the plan, "" for nobody yet.
func Given(step string, r *state.Rollout) string {
	if rec := r.Step(step); rec != nil {
		return rec.Receipt["approved"]
	}
	return ""
}

// before reports whether every step in front of name is done.
func before(s *session, name string) bool {
	for _, step := range s.plan.Steps {
		if step.Name == name {
			return true
		}
		rec := s.doc.Rollout.Step(step.Name)
		if Applies(step, s.doc.Rollout) && (rec == nil || rec.State != state.Done) {
			return false
		}
	}
	return false
}

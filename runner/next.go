package runner

import (
	"fmt"
	"time"

	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/plan"
	"github.com/manent/action/state"
)

// Do is what a call is to do.
type Do string

// What Next can ask for.
const (
	DoStep     Do = "step"     // start or enter Step
	DoWait     Do = "wait"     // nothing before Until
	DoAsk      Do = "ask"      // a person has to decide
	DoReturn   Do = "return"   // go on with the way back
	DoReturned Do = "returned" // end a return that has nothing (more) to move
	DoComplete Do = "complete" // prove that the new version serves, and end
	DoNothing  Do = "nothing"  // the rollout is terminal
)

// Action is Next's answer.
type Action struct {
	Do     Do
	Step   plan.Step // for DoStep and DoWait
	Pass   string    // for DoReturn
	Until  time.Time // for DoWait; for DoAsk when the approval expires
	Lost   bool      // for DoWait: on a call whose answer was lost
	Reason string
}

// Next says what is to be done now. It is pure: the same plan, document and
// time give the same answer. Decisions must have been applied (see Apply).
func Next(p plan.Plan, d *state.Document, cfg config.Config, now time.Time) Action {
	r := d.Rollout
	switch {
	case r == nil || r.Status.Terminal():
		return Action{Do: DoNothing}
	case r.Status == state.Returning && len(r.Return.Passes) > 0:
		return Action{Do: DoReturn, Pass: r.Return.Passes[0]}
	case r.Status == state.Returning:
		return Action{Do: DoReturned}
	case r.Pause != nil:
		return Action{Do: DoAsk, Until: r.Pause.Until, Reason: r.Pause.Reason}
	}
	for _, s := range p.Steps {
		if !Applies(s, r) {
			continue
		}
		rec := r.Step(s.Name)
		switch {
		case rec != nil && rec.State != state.Started:
			continue
		case rec != nil && now.Before(rec.Due):
			return Action{Do: DoWait, Step: s, Until: rec.Due, Reason: rec.Message}
		case now.Before(lostUntil(s, d, now)):
			return Action{Do: DoWait, Step: s, Until: lostUntil(s, d, now), Lost: true, Reason: "a call whose answer was lost may still land"}
		case rec != nil:
			return Action{Do: DoStep, Step: s}
		}
		if f := frozen(s, p, cfg, now); f != nil {
			return Action{Do: DoWait, Step: s, Until: f.To, Reason: freezeReason(f)}
		}
		return Action{Do: DoStep, Step: s}
	}
	return Action{Do: DoComplete}
}

// Applies reports whether a step of the plan takes part in this rollout: a
// first release has no testers, no intermediate shares and nobody to compare
// with, so the candidate gets all traffic at once.
func Applies(s plan.Step, r *state.Rollout) bool {
	if !r.First {
		return true
	}
	switch s.Kind {
	case plan.Testers:
		return false
	case plan.Traffic, plan.Gate:
		return s.Share == 0 || s.Share == 100
	case plan.Approval:
		return s.Share == 0 || s.Share == 100
	}
	return true
}

// lostUntil is until when a step has to wait because an earlier call may still
// land: nothing is claimed, raised or promoted before. The way back
// does not wait, it comes twice.
func lostUntil(s plan.Step, d *state.Document, now time.Time) time.Time {
	pass := d.Pass(s.Pass)
	switch s.Kind {
	case plan.Prepare, plan.Testers, plan.Traffic, plan.Promote:
		if pass != nil && pass.Unsettled.Sub(now) <= CallLimit { // else a clock was wrong
			return pass.Unsettled
		}
	}
	return time.Time{}
}

// frozen returns the freeze that keeps a step from raising the share.
func frozen(s plan.Step, p plan.Plan, cfg config.Config, now time.Time) *config.Freeze {
	if s.Kind != plan.Traffic {
		return nil
	}
	region := ""
	for _, pass := range p.Passes {
		if pass.Name == s.Pass {
			region = pass.Region
		}
	}
	for i, f := range cfg.Rollout.Freezes {
		if !now.Before(f.From) && now.Before(f.To) && (f.Region == "" || f.Region == region) {
			return &cfg.Rollout.Freezes[i]
		}
	}
	return nil
}

func freezeReason(f *config.Freeze) string {
	reason := "frozen until " + f.To.UTC().Format(time.RFC3339)
	if f.Reason != "" {
		reason += ": " + f.Reason
	}
	return reason
}

// Apply brings the decisions that people made, and time, into the document:
// answers to the open pause, reverts, approvals that nobody gave. It is pure
// and reports whether it changed anything.
func Apply(p plan.Plan, d *state.Document, cfg config.Config, now time.Time) bool {
	r := d.Rollout
	if r == nil {
		return false
	}
	changed := false
	for _, verb := range []string{"revert", "reject", "approve"} { // a no comes before any yes
		for i := range r.Decisions {
			dec := &r.Decisions[i]
			if dec.Verb != verb || dec.Applied || dec.Attempt != r.Attempt {
				continue
			}
			if applyDecision(p, d, cfg, dec, now) {
				dec.Applied, changed = true, true
			}
		}
	}
	if r.Pause != nil && r.Pause.Kind == state.PauseApproval && !r.Pause.Until.IsZero() && !now.Before(r.Pause.Until) {
		fail(p, d, cfg, r.Pause.Step, fmt.Sprintf("the approval expired at %s", r.Pause.Until.UTC().Format(time.RFC3339)),
			"start again with `manent retry`, and approve in time", now)
		return true
	}
	return changed
}

func applyDecision(p plan.Plan, d *state.Document, cfg config.Config, dec *state.Decision, now time.Time) bool {
	r := d.Rollout
	by := dec.Who
	if dec.Reason != "" {
		by += ": " + dec.Reason
	}
	switch {
	case dec.Verb == "revert" && (!r.Status.Terminal() || r.Status == state.Completed || r.Status == state.Stopped):
		if r.Status != state.Returning {
			beginReturn(p, d, cfg, state.Failure{Step: currentStep(p, r), Reason: "reverted by " + by, At: now}, true)
		}
		return true
	case r.Status.Terminal() || r.Status == state.Returning:
		return true
	case dec.Verb == "reject": // it named an open pause when it was recorded, whatever came first
		beginReturn(p, d, cfg, state.Failure{Step: currentStep(p, r), Reason: "rejected by " + by, At: now}, true)
		return true
	case r.Pause == nil || dec.Pause != r.Pause.ID:
		return false
	case dec.Verb == "approve" && dec.Seen == r.Pause.Seen:
		approve(d, dec)
		return true
	}
	return false
}

// approve closes the pause and lets its step go on. For a drift the weights
// that the person named count as known from here on: the step that last set
// weights is entered again and overwrites them, and nothing else.
func approve(d *state.Document, dec *state.Decision) {
	r := d.Rollout
	pause := r.Pause
	r.Pause, r.Status = nil, state.Running
	rec := r.Step(pause.Step)
	if rec == nil {
		return
	}
	if rec.Receipt == nil {
		rec.Receipt = state.Receipt{}
	}
	if plan.Kind(rec.Kind) != plan.Deploy || pause.Kind == state.PauseRerun {
		rec.Receipt["approved"] = dec.Who // else it is no word about a command that was interrupted
	}
	rec.Receipt["given"] = dec.At.UTC().Format(time.RFC3339Nano)
	rec.Due = time.Time{}
	if pause.Kind == state.PauseDrift {
		rec.Receipt[namedWeights] = pause.Seen
		overwrite(d, rec, pause.Weights, dec)
	}
}

// namedWeights is the key of the digest of the weights that a person, asked
// about them at this step, wants overwritten.
const namedWeights = "named"

func overwrite(d *state.Document, rec *state.Step, seen []state.PartWeights, dec *state.Decision) {
	pass := d.Pass(rec.Pass)
	pass.Weights = seen
	switch rec.Kind {
	case string(plan.Prepare):
		return
	case string(plan.Traffic):
		rec.Began = dec.At // its time begins anew: the question took some
		if rec.Intent != nil {
			rec.Intent.From = seen
		}
		return
	}
	last := lastShare(d.Rollout, rec.Pass)
	if last == nil {
		return
	}
	last.State, last.Began, last.Ended = state.Started, dec.At, time.Time{}
	last.Intent.From = seen
	if stage := d.Rollout.Stage(stageName(last)); stage != nil {
		stage.InForce = time.Time{}
	}
}

// lastShare returns the record of the newest step that set a share in a pass.
func lastShare(r *state.Rollout, pass string) *state.Step {
	for i := len(r.Steps) - 1; i >= 0; i-- {
		if s := &r.Steps[i]; s.Kind == string(plan.Traffic) && s.Pass == pass && s.Intent != nil {
			return s
		}
	}
	return nil
}

// stageName is the stage of a step's record.
func stageName(rec *state.Step) string {
	n, err := plan.ParseName(rec.Name)
	if err != nil {
		return ""
	}
	return plan.StageName(n.Pass, n.Share)
}

// currentStep names the step a rollout is at.
func currentStep(p plan.Plan, r *state.Rollout) string {
	if r.Pause != nil {
		return r.Pause.Step
	}
	for _, s := range p.Steps {
		if rec := r.Step(s.Name); Applies(s, r) && (rec == nil || rec.State == state.Started) {
			return s.Name
		}
	}
	return ""
}

// fail records the failure of a step and what onFailure makes of it.
func fail(p plan.Plan, d *state.Document, cfg config.Config, step, reason, remedy string, now time.Time) {
	beginReturn(p, d, cfg, state.Failure{Step: step, Reason: reason, Remedy: remedy, At: now}, false)
}

// beginReturn turns the rollout around. A person's word (asked) returns
// traffic whatever onFailure says. Without a stable there is nothing to return
// to: weights and candidate stay, and the failure says so.
func beginReturn(p plan.Plan, d *state.Document, cfg config.Config, f state.Failure, asked bool) {
	r := d.Rollout
	if r.Failure == nil {
		r.Failure = &f
	}
	r.Pause = nil
	switch {
	case r.First && claimed(d, r.ID) != "":
		r.Failure.Reason += "; there is no stable version to return to, weights and candidate are left as they are"
		end(r, state.Stopped, f.At)
	case cfg.Rollout.OnFailure == "stop" && !asked:
		end(r, state.Stopped, f.At)
	default:
		r.Status = state.Returning
		r.Ended = time.Time{}
		r.Return = &state.Return{Reason: f.Reason, Since: f.At, Passes: toReturn(p, d, cfg, f.Step, asked)}
	}
}

func end(r *state.Rollout, status state.Status, now time.Time) {
	r.Status, r.Ended = status, now
}

// toReturn lists the passes a return has to deal with, newest first: those
// this rollout has claimed a slot in; with rollback-wave the failed one only.
func toReturn(p plan.Plan, d *state.Document, cfg config.Config, step string, asked bool) []string {
	failed, _ := plan.ParseName(step)
	var passes []string
	for i := len(p.Passes) - 1; i >= 0; i-- {
		name := p.Passes[i].Name
		pass := d.Pass(name)
		if pass == nil || !ours(pass, d.Rollout.ID) {
			continue
		}
		if cfg.Rollout.OnFailure == "rollback-wave" && !asked && name != failed.Pass {
			continue
		}
		passes = append(passes, name)
	}
	return passes
}

// ours reports whether this rollout has claimed a slot of the pass.
func ours(pass *state.Pass, rollout string) bool {
	c := pass.Slots.Candidate
	return c != "" && pass.Slots.Get(c).Ref[state.RefRollout] == rollout
}

func claimed(d *state.Document, rollout string) string {
	for i := range d.Passes {
		if ours(&d.Passes[i], rollout) {
			return "pass " + d.Passes[i].Name
		}
	}
	return ""
}

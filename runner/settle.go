package runner

import (
	"fmt"
	"time"

	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

// Ended says how the jobs of a pipeline run ended, as far as its return job
// needs to know.
type Ended struct {
	Owner     state.RunRef // the run, whatever the attempt: GitLab counts those of each job
	Cancelled bool         // else a job failed
	Rejected  bool         // a person said no to the open approval, on the platform
}

// Settle says what the return job of a pipeline does: what to write down, if
// anything, whether to bring traffic back, and else how the job ends. It acts
// on its own run's rollout only, and never in a pause that the plan did not
// foresee. It is pure.
func Settle(d *state.Document, cfg config.Config, ended Ended, now time.Time) Settlement {
	r := d.Rollout
	switch {
	case r == nil || !r.Owner.Same(ended.Owner):
		return nothing("this run has no rollout in %s", d.Key)
	case r.Status == state.Returned:
		return nothing("version %s is returned already", r.Version)
	case r.Status.Terminal():
		return Settlement{Outcome: terminal(r)}
	case r.Status == state.Returning:
		return Settlement{Back: true}
	case r.Pause != nil && r.Pause.Kind != state.PauseApproval:
		return Settlement{Outcome: asking(r)}
	case r.Pause != nil && !r.Pause.Until.IsZero() && !now.Before(r.Pause.Until):
		return Settlement{Back: true} // expired: the return begins by itself
	case r.Pause != nil && ended.Rejected:
		return Settlement{Back: true, Verb: "reject", Pause: r.Pause.ID}
	case ended.Cancelled:
		return cancelled(r, cfg)
	case r.Resume:
		return Settlement{Outcome: Outcome{Result: NotYet, Message: fmt.Sprintf("rollout %s goes on with `manent resume`", r.ID),
			Remedy: "leave it to the schedule, or call `manent resume` now"}}
	case r.Pause != nil:
		out := asking(r)
		out.Result = PausedNow // a job that was to answer has failed
		return Settlement{Outcome: out}
	}
	return hold(r, cfg, "its job ended without a verdict")
}

// Settlement is Settle's answer.
type Settlement struct {
	Back    bool    // bring all traffic back
	Verb    string  // the decision to record before that: reject, revert or ""
	Pause   string  // that reject answers
	Outcome Outcome // how the job ends when nothing is done
}

func nothing(format string, args ...any) Settlement {
	return Settlement{Outcome: Outcome{Result: Progress, Message: fmt.Sprintf(format, args...) + ", nothing to do"}}
}

// cancelled is what onCancel makes of a rollout whose jobs were cancelled.
func cancelled(r *state.Rollout, cfg config.Config) Settlement {
	switch {
	case r.First:
		return hold(r, cfg, "its job was cancelled, and a first release has no stable version to return to")
	case cfg.Rollout.OnCancel == "hold":
		return hold(r, cfg, "its job was cancelled, and onCancel is hold")
	}
	return Settlement{Back: true, Verb: "revert"}
}

// hold leaves everything as it is, and says for how long.
func hold(r *state.Rollout, cfg config.Config, why string) Settlement {
	return Settlement{Outcome: Outcome{
		Result:  PausedNow,
		Message: fmt.Sprintf("rollout %s of version %s holds: %s", r.ID, r.Version, why),
		Remedy: fmt.Sprintf("`manent run --version %s` in the same run goes on, `manent revert --version %s` returns all traffic; after %s `manent resume` returns it",
			r.Version, r.Version, cfg.Rollout.OrphanAfter),
	}}
}

package runner_test

import (
	"testing"
	"time"

	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

// TestSettle is the table of a pipeline's return job: what it sees, and what
// it does.
func TestSettle(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	me := state.RunRef{Platform: "github", Repository: "o/r", Run: "7", Attempt: 2}
	approval := &state.Pause{ID: "approval@25.1", Kind: state.PauseApproval, Step: "approval@25", Until: now.Add(time.Hour)}
	expired := &state.Pause{ID: "approval@25.1", Kind: state.PauseApproval, Step: "approval@25", Until: now}
	drift := &state.Pause{ID: "traffic@25.1", Kind: state.PauseDrift, Step: "traffic@25", Seen: "abc"}
	type want struct {
		back   bool
		verb   string
		result runner.Result
	}
	for _, row := range []struct {
		name   string
		change func(r *state.Rollout, cfg *config.Config, e *runner.Ended)
		want   want
	}{
		{"another run's rollout", func(r *state.Rollout, _ *config.Config, _ *runner.Ended) { r.Owner.Run = "8" }, want{result: runner.Progress}},
		{"another repository's run of the same number", func(r *state.Rollout, _ *config.Config, e *runner.Ended) {
			r.Owner.Repository, e.Cancelled = "o/x", true
		}, want{result: runner.Progress}},
		{"another attempt of this run drove it", func(r *state.Rollout, _ *config.Config, e *runner.Ended) { r.Owner.Attempt, e.Cancelled = 3, true }, want{back: true, verb: "revert"}},
		{"returned already", func(r *state.Rollout, _ *config.Config, e *runner.Ended) {
			r.Status, e.Cancelled = state.Returned, true
		}, want{result: runner.Progress}},
		{"serves", func(r *state.Rollout, _ *config.Config, e *runner.Ended) {
			r.Status, e.Cancelled = state.Completed, true
		}, want{result: runner.Complete}},
		{"stopped where it was", func(r *state.Rollout, _ *config.Config, _ *runner.Ended) { r.Status = state.Stopped }, want{result: runner.Failure}},
		{"on its way back", func(r *state.Rollout, _ *config.Config, _ *runner.Ended) { r.Status = state.Returning }, want{back: true}},
		{"cancelled", func(_ *state.Rollout, _ *config.Config, e *runner.Ended) { e.Cancelled = true }, want{back: true, verb: "revert"}},
		{"cancelled while an approval is waited for", func(r *state.Rollout, _ *config.Config, e *runner.Ended) { r.Pause, e.Cancelled = approval, true }, want{back: true, verb: "revert"}},
		{"cancelled, onCancel hold", func(_ *state.Rollout, cfg *config.Config, e *runner.Ended) {
			cfg.Rollout.OnCancel, e.Cancelled = "hold", true
		}, want{result: runner.PausedNow}},
		{"cancelled, first release", func(r *state.Rollout, _ *config.Config, e *runner.Ended) { r.First, e.Cancelled = true, true }, want{result: runner.PausedNow}},
		{"cancelled in a drift", func(r *state.Rollout, _ *config.Config, e *runner.Ended) { r.Pause, e.Cancelled = drift, true }, want{result: runner.PausedNow}},
		{"paused", func(r *state.Rollout, _ *config.Config, _ *runner.Ended) { r.Pause = drift }, want{result: runner.PausedNow}},
		{"a rejection is no answer to a drift", func(r *state.Rollout, _ *config.Config, e *runner.Ended) { r.Pause, e.Rejected = drift, true }, want{result: runner.PausedNow}},
		{"ended without a verdict", func(*state.Rollout, *config.Config, *runner.Ended) {}, want{result: runner.PausedNow}},
		{"rejected", func(r *state.Rollout, _ *config.Config, e *runner.Ended) { r.Pause, e.Rejected = approval, true }, want{back: true, verb: "reject"}},
		{"expired", func(r *state.Rollout, _ *config.Config, _ *runner.Ended) { r.Pause = expired }, want{back: true}},
		{"the approval was not recorded", func(r *state.Rollout, _ *config.Config, _ *runner.Ended) { r.Pause = approval }, want{result: runner.PausedNow}},
		{"driven by resume", func(r *state.Rollout, _ *config.Config, _ *runner.Ended) { r.Resume = true }, want{result: runner.NotYet}},
		{"driven by resume, cancelled", func(r *state.Rollout, _ *config.Config, e *runner.Ended) { r.Resume, e.Cancelled = true, true }, want{back: true, verb: "revert"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := &state.Rollout{ID: "r1", Version: "v2", Owner: me, Attempt: 1, Status: state.Running}
			cfg := config.Config{Rollout: config.Rollout{OnCancel: "return", OrphanAfter: config.Duration(15 * time.Minute)}}
			ended := runner.Ended{Owner: me}
			row.change(r, &cfg, &ended)
			if r.Pause != nil {
				r.Status = state.Waiting
			}
			got := runner.Settle(&state.Document{Key: key, Rollout: r}, cfg, ended, now)
			if have := (want{got.Back, got.Verb, got.Outcome.Result}); have != row.want {
				t.Errorf("got %+v, want %+v (%s)", have, row.want, got.Outcome.Message)
			}
			if got.Verb == "reject" && got.Pause != r.Pause.ID {
				t.Errorf("reject answers %q, want %q", got.Pause, r.Pause.ID)
			}
		})
	}
	none := runner.Settle(&state.Document{Key: key}, config.Config{}, runner.Ended{Owner: me, Cancelled: true}, now)
	if none.Back || none.Outcome.Result != runner.Progress {
		t.Errorf("without a rollout: %+v, want nothing", none)
	}
}

// TestUntilAnApprovalAsksForIt: the job in front of an approval ends well once
// the question is open, so that the one behind it can answer, and called again
// it finds it open; a job after the approval goes on.
func TestUntilAnApprovalAsksForIt(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	s.cfg.Rollout.ApprovalsBetween = []string{"5"}
	s.cfg.Rollout.ApprovalTimeout = config.Duration(24 * time.Hour)
	for range 2 {
		is(t, run(t, s, "v2", runner.RunOptions{Until: "approval@5"}), runner.Reached)
		if p := s.doc().Rollout.Pause; p == nil || p.Step != "approval@5" || s.doc().Rollout.Status != state.Waiting {
			t.Fatalf("pause %+v, want approval@5 to be asked for", p)
		}
	}
	// A later job that comes too early is not told that it has reached anything.
	is(t, run(t, s, "v2", runner.RunOptions{Until: "50%"}), runner.Approval)
	decide(t, s, runner.Word{Verb: "approve", Version: "v2", Pause: s.doc().Rollout.Pause.ID})
	is(t, run(t, s, "v2", runner.RunOptions{Until: "50%"}), runner.Reached)
	is(t, run(t, s, "v2", runner.RunOptions{Until: "approval@5"}), runner.Reached)
	if runner.Given("approval@5", s.doc().Rollout) != "ann" {
		t.Errorf("approval@5 was given by %q, want ann", runner.Given("approval@5", s.doc().Rollout))
	}
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.Complete)
	s.holds(t)
}

// TestHandOver: a stage longer than a job is done by several; each but the
// last ends well when its time is over, and none of them in a pause.
func TestHandOver(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	s.cfg.Rollout.ApprovalsBetween = []string{"50"}
	s.cfg.Rollout.ApprovalTimeout = config.Duration(24 * time.Hour)
	short := runner.RunOptions{Until: "50%", MaxTime: time.Second}
	is(t, run(t, s, "v2", short), runner.NotYet)
	short.HandOver, short.MaxTime = true, 30*time.Second
	before := s.clock
	is(t, run(t, s, "v2", short), runner.Reached)
	if took := s.clock.Sub(before); took < short.MaxTime || took > short.MaxTime+5*time.Second {
		t.Errorf("the job took %s, expected all of %s", took, short.MaxTime)
	}
	if done := s.doc().Rollout.Stage("50%"); done.Status == state.StagePassed {
		t.Fatal("the stage is done, so nothing was handed over")
	}
	is(t, run(t, s, "v2", runner.RunOptions{Until: "50%"}), runner.Reached)
	is(t, run(t, s, "v2", runner.RunOptions{MaxTime: time.Second, HandOver: true}), runner.Approval)
	short.NoWait, short.Until = true, ""
	is(t, run(t, s, "v2", short), runner.Approval)
}

package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/runner"
	"github.com/manent/action/state"
)

func resume(t *testing.T, s *sim) []runner.Outcome {
	t.Helper()
	out, err := s.process().Resume(context.Background())
	if err != nil {
		t.Fatalf("resume: %v\n%s", err, strings.Join(s.says, "\n"))
	}
	return out
}

// TestResumeReturnsAnOrphan: a rollout whose job has ended holds; once nobody
// has driven it for orphanAfter past its due time it is returned.
func TestResumeReturnsAnOrphan(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	is(t, run(t, s, "v2", runner.RunOptions{Until: "gate@traffic@50"}), runner.Reached)
	_ = s.sleepAlive(10 * time.Minute)
	is(t, resume(t, s)[0], runner.NotYet)
	shares(t, s, "a 50, b 50")
	_ = s.sleepAlive(10 * time.Minute)
	is(t, resume(t, s)[0], runner.Failure)
	shares(t, s, "a 100, b 0")
	if r := s.doc().Rollout; r.Status != state.Returned || !strings.Contains(r.Failure.Reason, "orphanAfter") {
		t.Fatalf("rollout is %s: %+v", r.Status, r.Failure)
	}
}

// TestResumeDrivesWhatWaitsForIt: with wait: resume no job sleeps, scheduled
// calls do each step when it is due, and only these raise a share.
func TestResumeDrivesWhatWaitsForIt(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	s.cfg.Rollout.Wait = "resume"
	is(t, run(t, s, "v2", runner.RunOptions{NoWait: true}), runner.NotYet)
	for range 20 {
		_ = s.sleepAlive(time.Minute)
		if out := resume(t, s); len(out) > 0 && out[0].Result == runner.Complete {
			shares(t, s, "a 0, b 100")
			s.holds(t)
			return
		}
	}
	t.Fatalf("not complete after 20 calls\n%s", strings.Join(s.says, "\n"))
}

// TestResumeWatchesWhileAPersonIsAsked: readings go on during an approval, and
// a red one returns the rollout without waiting for the answer.
func TestResumeWatchesWhileAPersonIsAsked(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	s.cfg.Rollout.ApprovalsBetween = []string{"50"}
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.Approval)
	before := s.doc().Rollout.Stage("50%").Count
	_ = s.sleepAlive(time.Minute)
	is(t, resume(t, s)[0], runner.Approval)
	if n := s.doc().Rollout.Stage("50%").Count; n != before+1 {
		t.Fatalf("%d readings, want one more than %d", n, before)
	}
	s.broken = func(float64) bool { return true }
	_ = s.sleepAlive(time.Minute)
	is(t, resume(t, s)[0], runner.Failure)
	shares(t, s, "a 100, b 0")
}

// TestApprovalNeedsAFreshGreenReading: what was healthy when the question was
// asked need not be healthy when it is answered.
func TestApprovalNeedsAFreshGreenReading(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	s.cfg.Rollout.ApprovalsBetween = []string{"5"}
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.Approval)
	decide(t, s, runner.Word{Verb: "approve", Version: "v2", Pause: s.doc().Rollout.Pause.ID})
	s.broken = func(float64) bool { return true }
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.Failure)
	shares(t, s, "a 100, b 0")
}

// TestExpiredApproval: nobody may answer after its time, and it counts as a no.
func TestExpiredApproval(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	s.cfg.Rollout.ApprovalsBetween = []string{"5"}
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.Approval)
	_ = s.sleepAlive(2 * time.Hour)
	w := runner.Word{Verb: "approve", Version: "v2", Pause: s.doc().Rollout.Pause.ID, Who: "ann", From: "test"}
	err := s.process().Decide(context.Background(), w)
	if _, ok := errors.AsType[*runner.UsageError](err); !ok || !strings.Contains(err.Error(), "counts as rejected") {
		t.Fatalf("error %v, want a UsageError that says it is too late", err)
	}
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.Failure)
	shares(t, s, "a 100, b 0")
}

// TestNoShareOntoASlotWithoutAServer: the router sees no server of the
// candidate; after ReadyLimit the step has failed, and nothing was moved.
func TestNoShareOntoASlotWithoutAServer(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	is(t, run(t, s, "v2", runner.RunOptions{Until: "traffic@5"}), runner.Reached)
	s.router.SetUnits(state.SlotB, 0)
	began := s.clock
	out := run(t, s, "v2", runner.RunOptions{})
	is(t, out, runner.Failure)
	if took := s.clock.Sub(began); took < runner.ReadyLimit || took > 2*runner.ReadyLimit || s.router.MaxShare(state.SlotB) > 0 {
		t.Fatalf("failed after %v with a share of up to %v: %s", took, s.router.MaxShare(state.SlotB), out.Message)
	}
}

// TestServesIsReadAtTheRouter: "serves already" is never said from the
// document alone.
func TestServesIsReadAtTheRouter(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.Complete)
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.Complete)
	s.router.SetShare(0, 70)
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.PausedNow)
}

// TestDriftIsIgnoredOnRequest: onDrift: ignore overwrites, and asks nobody.
func TestDriftIsIgnoredOnRequest(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	drifting(s)
	s.cfg.Rollout.Traffic.OnDrift = "ignore"
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.Complete)
	shares(t, s, "a 0, b 100")
}

package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/runner"
	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

// run plays `manent run` once.
func run(t *testing.T, s *sim, version string, o runner.RunOptions) runner.Outcome {
	t.Helper()
	out, err := s.process().Run(context.Background(), runner.Request{Version: version, Config: s.cfg}, o)
	if err != nil {
		t.Fatalf("run %s: %v\n%s", version, err, strings.Join(s.says, "\n"))
	}
	return out
}

func decide(t *testing.T, s *sim, w runner.Word) {
	t.Helper()
	w.Who, w.From = "ann", "test"
	if err := s.process().Decide(context.Background(), w); err != nil {
		t.Fatalf("%s: %v", w.Verb, err)
	}
}

func is(t *testing.T, out runner.Outcome, want runner.Result) {
	t.Helper()
	if out.Result != want {
		t.Fatalf("%s at %s: %s, want %s", out.Result, out.Step, out.Message, want)
	}
}

func shares(t *testing.T, s *sim, want string) {
	t.Helper()
	if got := fmt.Sprintf("a %v, b %v", s.share(state.SlotA), s.share(state.SlotB)); got != want {
		t.Fatalf("router has %s, want %s", got, want)
	}
}

// TestRetirementDueWhileNextVersionIsInTheSlot: v2 completed, v1's slot a is
// due for scale-down; v3 claims it first, and nothing of v3 is touched.
func TestRetirementDueWhileNextVersionIsInTheSlot(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.Complete)
	if ret := s.doc().Passes[0].Retirement; ret == nil || ret.Slot != state.SlotA {
		t.Fatalf("retirement %+v, want slot a", ret)
	}
	s.owner.Run, s.owner.Order = "101", 101
	is(t, run(t, s, "v3", runner.RunOptions{Until: "traffic@5"}), runner.Reached)
	if ret := s.doc().Passes[0].Retirement; ret != nil {
		t.Fatalf("retirement %+v is still set after the slot was claimed", ret)
	}
	_ = s.sleepAlive(2 * time.Hour)
	out, err := s.process().Retire(context.Background())
	if err != nil || len(out) != 0 {
		t.Fatalf("retire: %v %v, want nothing to do", out, err)
	}
	if got := s.slots.Slot(state.SlotA); got.Version != "v3" || got.Capacity != 100 {
		t.Fatalf("slot a holds %+v, want v3 with its capacity", got)
	}
	is(t, run(t, s, "v3", runner.RunOptions{}), runner.Complete)
	s.holds(t)
}

// TestRetireOnlyUnderItsConditions: each condition of design §6 keeps the
// replaced version.
func TestRetireOnlyUnderItsConditions(t *testing.T) {
	for _, row := range []struct {
		name   string
		opts   routertest.MemoryOptions
		spoil  func(*sim)
		reason string // "" = could not tell
	}{
		{"not due", routertest.MemoryOptions{}, func(*sim) {}, "due at"},
		{"the slot has weight again", routertest.MemoryOptions{}, func(s *sim) { _ = s.sleepAlive(time.Hour); s.router.SetShare(0, 90) }, "still gives slot a"},
		{"clients are pinned to it", routertest.MemoryOptions{Pinned: 2 * time.Hour}, func(s *sim) { _ = s.sleepAlive(time.Hour) }, "pinned"},
		{"a rollout is active", routertest.MemoryOptions{}, func(s *sim) {
			_ = s.sleepAlive(time.Hour)
			s.owner.Run, s.owner.Order = "101", 101
			is(t, run(t, s, "v3", runner.RunOptions{Until: "traffic:prepare"}), runner.Reached)
		}, "is active"},
		{"the router does not answer", routertest.MemoryOptions{}, func(s *sim) {
			_ = s.sleepAlive(time.Hour)
			s.down = map[string]bool{"part0": true}
		}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newSim(t, row.opts)
			is(t, run(t, s, "v2", runner.RunOptions{}), runner.Complete)
			row.spoil(s)
			out, err := s.process().Retire(context.Background())
			if _, unsure := errors.AsType[*runner.UnsureError](err); row.reason == "" && !unsure {
				t.Fatalf("retire: %+v %v, want could not tell", out, err)
			}
			if row.reason != "" && (err != nil || len(out) != 1 || out[0].Result != runner.NotYet || !strings.Contains(out[0].Message, row.reason)) {
				t.Fatalf("retire: %+v %v, want %q", out, err, row.reason)
			}
			if got := s.slots.Slot(state.SlotA); got.Version != "v1" {
				t.Fatalf("slot a holds %+v, want v1 untouched", got)
			}
		})
	}
}

// TestReturnFailsTwice: the router refuses two returns in a row; each call
// says so, the third one finishes.
func TestReturnFailsTwice(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	s.broken = func(share float64) bool { return share >= 50 }
	is(t, run(t, s, "v2", runner.RunOptions{Until: "gate@traffic@50"}), runner.Reached)
	s.downWrites = true
	for range 2 {
		_ = s.sleepAlive(3 * time.Minute)
		e := s.process()
		e.NoWait = true
		out, err := e.Run(context.Background(), runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{NoWait: true})
		if err != nil {
			t.Fatal(err)
		}
		is(t, out, runner.Unfinished)
		if r := s.doc().Rollout; r.Status != state.Returning || len(r.Return.Pending) != 1 {
			t.Fatalf("rollout is %s, pending %v; want returning with a reason", r.Status, r.Return.Pending)
		}
	}
	s.downWrites = false
	_ = s.sleepAlive(time.Minute)
	if _, err := s.process().Resume(context.Background()); err != nil {
		t.Fatal(err)
	}
	if r := s.doc().Rollout; r.Status != state.Returned {
		t.Fatalf("rollout is %s, want returned", r.Status)
	}
	shares(t, s, "a 100, b 0")
}

// TestReturnOnADriftedRouter: a return never compares with stored weights.
func TestReturnOnADriftedRouter(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	is(t, run(t, s, "v2", runner.RunOptions{Until: "gate@traffic@50"}), runner.Reached)
	s.router.SetShare(0, 77)
	decide(t, s, runner.Word{Verb: "revert", Version: "v2"})
	out, err := s.process().Back(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	is(t, out, runner.Failure)
	shares(t, s, "a 100, b 0")
	if r := s.doc().Rollout; r.Status != state.Returned {
		t.Fatalf("rollout is %s, want returned", r.Status)
	}
}

// TestReturnWithOneInstanceDown: the reachable part goes back at once, the
// rest is recorded, and the rollout stays returning until it confirms.
func TestReturnWithOneInstanceDown(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{Parts: 2})
	is(t, run(t, s, "v2", runner.RunOptions{Until: "gate@traffic@50"}), runner.Reached)
	decide(t, s, runner.Word{Verb: "revert", Version: "v2"})
	s.down = map[string]bool{"part1": true}
	e := s.process()
	e.NoWait = true
	out, err := e.Back(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	is(t, out, runner.Unfinished)
	if !strings.Contains(out.Message, "part1") {
		t.Fatalf("message %q does not name part1", out.Message)
	}
	s.down = nil
	if w := s.weights(); w[0]["b"] != 0 || w[1]["b"] != 50 {
		t.Fatalf("weights %v, want part0 back and part1 untouched", w)
	}
	_ = s.sleepAlive(10 * time.Second)
	if out, err = s.process().Back(context.Background()); err != nil {
		t.Fatal(err)
	}
	is(t, out, runner.Failure)
	shares(t, s, "a 100, b 0")
}

// TestDecisionInTheMiddleOfAStep: a person reverts while the weights of 50 %
// are being written. The step's outcome is kept, the decision too, and the
// next thing that happens is the return.
func TestDecisionInTheMiddleOfAStep(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	s.onWrite = func() {
		if s.share(state.SlotB) == 5 && s.doc().Rollout.Decisions == nil {
			s.onWrite = nil
			handle := s.store.Again()
			if err := s.engineOn(handle, 99).Decide(context.Background(), runner.Word{Verb: "revert", Version: "v2", Who: "ann", From: "test"}); err != nil {
				t.Error(err)
			}
		}
	}
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.Failure)
	r := s.doc().Rollout
	if r.Status != state.Returned || len(r.Decisions) != 1 || !r.Decisions[0].Applied {
		t.Fatalf("rollout is %s, decisions %+v; want returned by the one decision", r.Status, r.Decisions)
	}
	if rec := r.Step("gate@traffic@50"); rec != nil {
		t.Fatalf("the stage went on after the decision: %+v", rec)
	}
	shares(t, s, "a 100, b 0")
}

// TestRerunOfAnOldPipeline: run 100 is started again after run 101 released.
func TestRerunOfAnOldPipeline(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.Complete)
	old := s.owner
	s.owner.Run, s.owner.Order = "101", 101
	is(t, run(t, s, "v3", runner.RunOptions{}), runner.Complete)
	before := s.doc().Seq
	s.owner = old
	s.owner.Attempt = 2
	_, err := s.process().Run(context.Background(), runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{})
	if _, ok := errors.AsType[*runner.HeldError](err); !ok || !strings.Contains(err.Error(), "run 101") {
		t.Fatalf("error %v, want a HeldError that names run 101", err)
	}
	if after := s.doc().Seq; after != before {
		t.Fatalf("the state was written: %d, was %d", after, before)
	}
	shares(t, s, "a 100, b 0")
	out, err := s.process().Run(context.Background(), runner.Request{Version: "v2", Config: s.cfg, Force: true}, runner.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	is(t, out, runner.Complete)
}

// TestEditedConfiguration: the file changes in mid-rollout. Run, return and
// retirement go by what was pinned; --reconfigure adopts the file, unless it
// lacks what was done already.
func TestEditedConfiguration(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	is(t, run(t, s, "v2", runner.RunOptions{Until: "traffic@50"}), runner.Reached)
	s.cfg.Rollout.Traffic.Steps = []float64{5, 20, 50, 100}
	is(t, run(t, s, "v2", runner.RunOptions{Until: "gate@traffic@50"}), runner.Reached)
	if rec := s.doc().Rollout.Step("traffic@20"); rec != nil {
		t.Fatalf("the edited file was used: %+v", rec)
	}
	other := s.cfg
	other.Rollout.Traffic.Steps = []float64{10, 100}
	if _, refused := errors.AsType[*runner.UsageError](s.process().Reconfigure(context.Background(), other)); !refused {
		t.Fatal("a plan without what was done was adopted")
	}
	other.Rollout.Traffic.Steps = []float64{5, 50, 75, 100}
	if err := s.process().Reconfigure(context.Background(), other); err != nil {
		t.Fatal(err)
	}
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.Complete)
	if rec := s.doc().Rollout.Step("traffic@75"); rec == nil || rec.State != state.Done {
		t.Fatalf("traffic@75 is %+v, want done", rec)
	}
}

// TestClocksTenMinutesApart: every process has a clock of its own, ten minutes
// before or behind the one that went before. No wait is lost, nothing is
// taken over early, the end is the same.
func TestClocksTenMinutesApart(t *testing.T) {
	for _, broken := range []bool{false, true} {
		t.Run(fmt.Sprint("broken ", broken), func(t *testing.T) {
			s := newSim(t, routertest.MemoryOptions{})
			s.broken = func(share float64) bool { return broken && share >= 50 }
			skews := []time.Duration{10 * time.Minute, -10 * time.Minute}
			want := map[bool]runner.Result{false: runner.Complete, true: runner.Failure}[broken]
			for i := range 60 {
				s.skew = skews[i%2]
				out := run(t, s, "v2", runner.RunOptions{NoWait: true})
				if out.Result == want {
					s.holds(t)
					return
				}
				is(t, out, runner.NotYet)
				_ = s.sleepAlive(time.Minute)
			}
			t.Fatalf("no end after 60 calls\n%s", strings.Join(s.says, "\n"))
		})
	}
}

// TestLeaseIsNotTakenEarly: a second process leaves a working one alone,
// whatever its clock says, and takes over once the record stands still.
func TestLeaseIsNotTakenEarly(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	is(t, run(t, s, "v2", runner.RunOptions{Until: "traffic@5"}), runner.Reached)
	s.strike, s.fault = 0, none
	s.onWrite = func() { s.dead = true } // dies with the lease taken, before the write
	_, err := s.process().Run(context.Background(), runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{Until: "gate@traffic@5"})
	if err == nil || s.doc().Lease == nil {
		t.Fatalf("error %v, lease %v; want a dead process's lease", err, s.doc().Lease)
	}
	s.onWrite = nil
	s.skew = 10 * time.Minute
	began := s.clock
	is(t, run(t, s, "v2", runner.RunOptions{Until: "gate@traffic@5"}), runner.Reached)
	if waited := s.clock.Sub(began); waited < 50*time.Second || waited > 60*time.Second {
		t.Fatalf("acted after %v, want 30 s for the lease and 20 s for a call that may land", waited)
	}
	shares(t, s, "a 95, b 5")
}

// TestNoWaitLeavesAtASignOfLife: a call that does not wait takes over from a
// dead process, and leaves a live one alone as soon as it is seen to live.
func TestNoWaitLeavesAtASignOfLife(t *testing.T) {
	for _, alive := range []bool{false, true} {
		t.Run(fmt.Sprint("alive ", alive), func(t *testing.T) {
			s := newSim(t, routertest.MemoryOptions{})
			s.onWrite = func() { s.dead = true } // with the lease taken, before the write
			if _, err := s.process().Run(context.Background(), runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{}); err == nil || s.doc().Lease == nil {
				t.Fatalf("error %v, lease %v; want a dead process's lease", err, s.doc().Lease)
			}
			s.onWrite = nil
			began, beats := s.clock, 0
			s.tick = func() {
				if alive && beats == 0 && s.clock.Sub(began) >= runner.BeatEvery {
					beats++
					beat(t, s)
				}
			}
			e := s.process()
			e.NoWait = true
			_, err := e.Run(context.Background(), runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{NoWait: true, Until: "gate@traffic@5"})
			waited := s.clock.Sub(began)
			_, held := errors.AsType[*runner.HeldError](err)
			if alive && (!held || waited > runner.BeatEvery+time.Second) {
				t.Errorf("%v after %v, want a HeldError as soon as the lease was renewed", err, waited)
			}
			if !alive && (err != nil || waited < checkpoint.Patience) {
				t.Errorf("%v after %v, want the lease to be taken after %v", err, waited, checkpoint.Patience)
			}
		})
	}
}

// beat renews the lease as its holder does.
func beat(t *testing.T, s *sim) {
	t.Helper()
	holder := checkpoint.Open(s.store.Again(), key, func() time.Time { return s.clock }, func() string { return "beat" })
	doc, err := holder.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	doc.Lease.Beat++
	if err := holder.Save(context.Background(), doc, "at work", nil, nil); err != nil {
		t.Fatal(err)
	}
}

// TestRejectAfterApprove: a no that was recorded while the question was open
// wins over a yes that nobody has acted on, and one that lost the race to it
// still brings traffic back. reject never raises a share.
func TestRejectAfterApprove(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("recorded while the yes was acted on ", late), func(t *testing.T) {
			s := newSim(t, routertest.MemoryOptions{})
			s.cfg.Rollout.ApprovalsBetween = []string{"5"}
			is(t, run(t, s, "v2", runner.RunOptions{}), runner.Approval)
			pause := s.doc().Rollout.Pause.ID
			decide(t, s, runner.Word{Verb: "approve", Version: "v2", Pause: pause})
			if late {
				s.onRead = func() { s.onRead = nil; reject(t, s, pause) }
				is(t, run(t, s, "v2", runner.RunOptions{}), runner.Failure)
			} else {
				reject(t, s, pause)
			}
			out, err := s.process().Back(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			is(t, out, runner.Failure)
			if r := s.doc().Rollout; r.Status != state.Returned || r.Step("traffic@50") != nil {
				t.Fatalf("rollout is %s, traffic@50 %+v; want returned from 5 %%", r.Status, r.Step("traffic@50"))
			}
			shares(t, s, "a 100, b 0")
		})
	}
}

// TestSecondAnswerIsRefused: a question takes one yes.
func TestSecondAnswerIsRefused(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	s.cfg.Rollout.ApprovalsBetween = []string{"5"}
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.Approval)
	w := runner.Word{Verb: "approve", Version: "v2", Pause: s.doc().Rollout.Pause.ID}
	decide(t, s, w)
	err := s.process().Decide(context.Background(), w)
	if _, ok := errors.AsType[*runner.UsageError](err); !ok || !strings.Contains(err.Error(), "answered by ann") {
		t.Fatalf("error %v, want a UsageError that says who has answered", err)
	}
}

// TestBackNeverGoesForward: a return that finds a rollout going on leaves it.
func TestBackNeverGoesForward(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	is(t, run(t, s, "v2", runner.RunOptions{Until: "traffic@50"}), runner.Reached)
	_, err := s.process().Back(context.Background())
	if _, ok := errors.AsType[*runner.HeldError](err); !ok {
		t.Fatalf("error %v, want a HeldError", err)
	}
	shares(t, s, "a 95, b 5")
}

// reject is another process's, beside the one that runs.
func reject(t *testing.T, s *sim, pause string) {
	t.Helper()
	w := runner.Word{Verb: "reject", Version: "v2", Pause: pause, Who: "bob", From: "test"}
	if err := s.engineOn(s.store.Again(), 77).Decide(context.Background(), w); err != nil {
		t.Error(err)
	}
}

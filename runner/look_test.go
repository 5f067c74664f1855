package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	pluginmem "github.com/manent/action/providers/plugin/memory"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

// altered is a router whose readings somebody else changes on their way.
type altered struct {
	*routertest.Memory
	change func(*router.Reading)
}

func (r altered) Read(ctx context.Context, slots state.Slots) (router.Reading, error) {
	seen, err := r.Memory.Read(ctx, slots)
	r.change(&seen)
	return seen, err
}

func (s *sim) altered(change func(*router.Reading)) *runner.Engine {
	e := s.process()
	e.World.Router = func(string) router.Router { return altered{s.router, change} }
	return e
}

func without(id string) func(*router.Reading) {
	return func(seen *router.Reading) {
		var kept []router.Part
		for _, p := range seen.Parts {
			if p.ID != id {
				kept = append(kept, p)
			}
		}
		seen.Parts = kept
	}
}

// TestDeployLooksAgain: after the slot was claimed somebody goes back to the
// version that is in it, by hand. Nothing is deployed over what serves, be it
// the first entry or one after a deployment that failed.
func TestDeployLooksAgain(t *testing.T) {
	for _, failed := range []bool{false, true} {
		s := newSim(t, routertest.MemoryOptions{})
		is(t, run(t, s, "v2", runner.RunOptions{}), runner.Complete)
		s.owner.Run, s.owner.Order = "101", 101
		is(t, run(t, s, "v3", runner.RunOptions{Until: "deploy"}), runner.Reached)
		s.slots.Hook(func(_ context.Context, e pluginmem.Event) error {
			if e.Op == pluginmem.Deploy && s.share(e.Call.Slot) > 0 {
				t.Errorf("deployed into slot %s, which has %v %%", e.Call.Slot, s.share(e.Call.Slot))
			}
			return errors.New("no answer")
		})
		if failed {
			_, _ = s.process().Run(context.Background(), runner.Request{Version: "v3", Config: s.cfg}, runner.RunOptions{NoWait: true})
		}
		s.router.SetShare(0, 0)
		_ = s.sleepAlive(time.Minute)
		out := run(t, s, "v3", runner.RunOptions{})
		is(t, out, runner.PausedNow)
		if out.Step != "deploy" {
			t.Errorf("paused at %s: %s", out.Step, out.Message)
		}
	}
}

// TestRetireLooksAtEverything: a slot stays while anything could reach it.
func TestRetireLooksAtEverything(t *testing.T) {
	for want, change := range map[string]func(*router.Reading){
		"testers' entry": func(seen *router.Reading) { seen.Testers = true },
		"part1 is gone":  without("part1"),
	} {
		s := newSim(t, routertest.MemoryOptions{Parts: 2})
		is(t, run(t, s, "v2", runner.RunOptions{}), runner.Complete)
		_ = s.sleepAlive(time.Hour)
		out, err := s.altered(change).Retire(context.Background())
		if err != nil || len(out) != 1 || !strings.Contains(out[0].Message, want) || s.slots.Slot(state.SlotA).Version == "" {
			t.Errorf("%+v, %v, slot a %+v; want it kept for %q", out, err, s.slots.Slot(state.SlotA), want)
		}
	}
}

// TestRetirementThatIsRefusedStays: what the plugin sees that reaches the slot is
// a reason, no mishap.
func TestRetirementThatIsRefusedStays(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.Complete)
	_ = s.sleepAlive(time.Hour)
	s.slots.Hook(func(_ context.Context, e pluginmem.Event) error {
		if e.Op == pluginmem.Retire {
			return &providers.Fault{Provider: "memory", Kind: providers.Conflict, Err: errors.New("rule 2 sends to slot a")}
		}
		return nil
	})
	out, err := s.process().Retire(context.Background())
	if err != nil || len(out) != 1 || out[0].Result != runner.NotYet || !strings.Contains(s.doc().Passes[0].Retirement.Reason, "rule 2 sends to slot a") {
		t.Errorf("%+v, %v, %+v", out, err, s.doc().Passes[0].Retirement)
	}
}

// TestFreeSlotWithWeightOfServersThatAreDown: it has no traffic now, and would
// have once the candidate is up.
func TestFreeSlotWithWeightOfServersThatAreDown(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	s.router.SetShare(0, 30)
	e := s.altered(func(seen *router.Reading) {
		seen.Parts[0].Shares = map[state.Slot]float64{state.SlotA: 100, state.SlotB: 0}
		seen.Parts[0].Units = map[state.Slot]int{state.SlotA: 1, state.SlotB: 0}
	})
	out, err := e.Run(context.Background(), runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	is(t, out, runner.PausedNow)
	if !strings.Contains(out.Message, "has weight 30 for b of slot b, which is down") || s.slots.Slot(state.SlotB).Version != "" {
		t.Errorf("%q, slot b %+v", out.Message, s.slots.Slot(state.SlotB))
	}
}

// TestHandBetweenShares: traffic that somebody moved past the weights between
// two calls is not overwritten by the next share.
func TestHandBetweenShares(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	is(t, run(t, s, "v2", runner.RunOptions{Until: "traffic@50"}), runner.Reached)
	s.router.SetShare(0, 1)
	s.router.Freeze(true)
	s.router.SetShare(0, 5) // 1 % stays in force
	out := run(t, s, "v2", runner.RunOptions{})
	is(t, out, runner.PausedNow)
	if out.Step != "traffic@50" || !strings.Contains(out.Message, "not in force any more") {
		t.Errorf("%s: %s", out.Step, out.Message)
	}
	shares(t, s, "a 95, b 5")
}

// TestReturnIsHeldByWhatMatters, and by nothing else.
func TestReturnIsHeldByWhatMatters(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*router.Reading)
		ignore bool // onDrift
		want   runner.Result
	}{
		"a part that is not reported": {without("part1"), false, runner.Unfinished},
		"a renamed server": {func(seen *router.Reading) {
			seen.Parts[0].Foreign = map[string]float64{"b-new": 50}
			seen.Parts[0].Shares = map[state.Slot]float64{state.SlotA: 50, state.SlotB: 0}
		}, true, runner.Unfinished},
		"shares added up from rounded ones": {func(seen *router.Reading) {
			if p := &seen.Parts[1]; p.Shares[state.SlotA] == 100 {
				p.Shares = map[state.Slot]float64{state.SlotA: 99.9, state.SlotB: 0}
			}
		}, false, runner.Failure},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, routertest.MemoryOptions{Parts: 2})
			s.cfg.Rollout.Traffic.Testers = &config.Testers{Header: "x-canary: always"}
			if tt.ignore {
				s.cfg.Rollout.Traffic.OnDrift = "ignore"
			}
			is(t, run(t, s, "v2", runner.RunOptions{Until: "gate@traffic@50"}), runner.Reached)
			decide(t, s, runner.Word{Verb: "revert", Version: "v2"})
			e := s.altered(tt.change)
			e.NoWait = true
			out, err := e.Back(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			is(t, out, tt.want)
			if seen, err := s.router.Read(context.Background(), state.Slots{}); err != nil || seen.Testers {
				t.Errorf("testers %v, %v: they leave the candidate whatever keeps the weights", seen.Testers, err)
			}
		})
	}
}

// TestLeaseIsRenewedBetweenSlowCalls: no call of a process is under way when
// another one may take over.
func TestLeaseIsRenewedBetweenSlowCalls(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{Parts: 3})
	s.cfg.Rollout.Traffic.Replicas = "proportional"
	oldest := time.Duration(0)
	slow := func() {
		s.clock = s.clock.Add(18 * time.Second)
		if l := s.doc().Lease; l != nil {
			oldest = max(oldest, s.clock.Sub(l.Since))
		}
	}
	is(t, run(t, s, "v2", runner.RunOptions{Until: "traffic@50"}), runner.Reached)
	s.slots.Hook(func(_ context.Context, e pluginmem.Event) error {
		if !e.After {
			slow()
		}
		return nil
	})
	is(t, run(t, s, "v2", runner.RunOptions{Until: "gate@traffic@50"}), runner.Reached)
	s.onWrite, s.downWrites = slow, true // a return writes part by part
	decide(t, s, runner.Word{Verb: "revert", Version: "v2"})
	e := s.process()
	e.NoWait = true
	if out, err := e.Back(context.Background()); err != nil || out.Result != runner.Unfinished {
		t.Fatal(out, err)
	}
	if oldest == 0 || oldest > 30*time.Second {
		t.Errorf("the lease became %s old under a call, and is taken over after 30 s", oldest)
	}
}

// planning notes what the planner is told.
type planning struct {
	*routertest.Memory
	approved *bool
}

func (r planning) Plan(slot state.Slot, share, tolerance float64, seen router.Reading) ([]state.PartWeights, float64, error) {
	*r.approved = *r.approved || seen.Approved
	return r.Memory.Plan(slot, share, tolerance, seen)
}

// TestApprovedWeightsAreNoHandAnyMore: what a person wants overwritten is not
// refused as somebody's hand; other weights are.
func TestApprovedWeightsAreNoHandAnyMore(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	is(t, run(t, s, "v2", runner.RunOptions{Until: "traffic@5"}), runner.Reached)
	approved := false
	on := func() runner.Outcome {
		e := s.process()
		e.World.Router = func(string) router.Router { return planning{s.router, &approved} }
		out, err := e.Run(context.Background(), runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{Until: "gate@traffic@5"})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	s.router.SetShare(0, 3)
	out := on()
	is(t, out, runner.PausedNow)
	if approved {
		t.Error("weights that nobody has named count as approved")
	}
	pause := s.doc().Rollout.Pause
	decide(t, s, runner.Word{Verb: "approve", Version: "v2", Pause: pause.ID, Seen: pause.Seen})
	is(t, on(), runner.Reached)
	if !approved {
		t.Error("the planner was not told that a person wants these weights overwritten")
	}
	shares(t, s, "a 95, b 5")
}

// TestPendingForAMoment: weights that are not in force for a few seconds are no
// drift to a call that does not wait. After a minute they are if the candidate
// gets more than it was given; with less, such as while its servers warm up,
// the stage is judged on.
func TestPendingForAMoment(t *testing.T) {
	for _, live := range []float64{9, 4} {
		s := newSim(t, routertest.MemoryOptions{})
		is(t, run(t, s, "v2", runner.RunOptions{Until: "gate@traffic@5"}), runner.Reached)
		_ = s.sleepAlive(time.Minute)
		s.router.SetShare(0, live)
		s.router.Freeze(true)
		s.router.SetShare(0, 5)
		once := func() runner.Outcome {
			e := s.process()
			e.NoWait = true
			out, err := e.Run(context.Background(), runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{NoWait: true})
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		is(t, once(), runner.NotYet)
		_ = s.sleepAlive(10 * time.Second)
		is(t, once(), runner.NotYet)
		_ = s.sleepAlive(time.Minute)
		if out := once(); (out.Result == runner.PausedNow) != (live > 5) {
			t.Errorf("with %v %% live: %s, %s", live, out.Result, out.Message)
		}
	}
}

// TestDecisionBeforeTheWrite: a return that a renewal of the lease brings keeps
// the weights from being written.
func TestDecisionBeforeTheWrite(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	is(t, run(t, s, "v2", runner.RunOptions{Until: "traffic@50"}), runner.Reached)
	asked := false
	s.slots.Hook(func(_ context.Context, e pluginmem.Event) error {
		if e.Op == pluginmem.Ready && e.Call.Slot == state.SlotB && !asked {
			asked = true
			s.clock = s.clock.Add(15 * time.Second) // so that the lease is renewed next
			return s.engineOn(s.store.Again(), 99).Decide(context.Background(), runner.Word{Verb: "revert", Version: "v2", Who: "ann", From: "test"})
		}
		return nil
	})
	s.onWrite = func() {
		if asked && s.share(state.SlotB) == 5 && len(s.doc().Rollout.Decisions) > 0 && s.doc().Rollout.Status == state.Running {
			t.Error("a share is written although the return has been asked for")
		}
	}
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.Failure)
	shares(t, s, "a 100, b 0")
}

// TestYesToADriftIsNoYesToACommand: a deployment that was interrupted is not
// repeated unasked because a person has said something about weights.
func TestYesToADriftIsNoYesToACommand(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	s.cfg.Steps = []config.Command{{Name: "copy", At: "deploy", Run: "true", Timeout: config.Duration(time.Minute), Rerun: "ask"}}
	is(t, run(t, s, "v2", runner.RunOptions{Until: "deploy"}), runner.Reached)
	s.router.SetShare(0, 5)
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.PausedNow)
	s.router.SetShare(0, 0)
	pause := s.doc().Rollout.Pause
	decide(t, s, runner.Word{Verb: "approve", Version: "v2", Pause: pause.ID, Seen: pause.Seen})
	runs := 0
	for range 2 {
		e := s.process()
		e.World.Command = func(context.Context, runner.Command) (map[string]string, error) {
			runs++
			s.dead = true
			return nil, errDead
		}
		_, _ = e.Run(context.Background(), runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{})
		_ = s.sleepAlive(time.Minute)
	}
	if runs != 1 || s.doc().Rollout.Pause == nil || s.doc().Rollout.Pause.Kind != state.PauseRerun {
		t.Errorf("the command ran %d times, pause %+v; want once, and the question", runs, s.doc().Rollout.Pause)
	}
}

// TestLookingLeavesTheLeaseAlone: a dry run, and a call that only reads, renew
// nobody's lease.
func TestLookingLeavesTheLeaseAlone(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.Complete)
	doc := *s.doc()
	doc.Lease = &state.Lease{ID: "other", Host: "elsewhere", PID: 7, Step: "doctor --exercise", Since: s.clock}
	s.plant(t, &doc)
	_ = s.sleepAlive(15 * time.Second)
	other := s.process()
	other.DryRun = true
	before := s.doc().Seq
	if _, err := other.Run(context.Background(), runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{}); err != nil {
		t.Error(err)
	}
	if after := s.doc().Seq; after != before {
		t.Errorf("a dry run wrote the document: %d became %d", before, after)
	}
}

// TestFirstReleaseOverWeightsOutOfForce: nobody is served by what a first
// release finds, and its own write is what brings weights into force.
func TestFirstReleaseOverWeightsOutOfForce(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	s.router.SetUnits(state.SlotA, 0)
	s.router.SetUnits(state.SlotB, 0)
	s.slots.Put(state.SlotA, pluginmem.Slot{})
	e := s.altered(func(seen *router.Reading) {
		if p := &seen.Parts[0]; p.Weights["a"] != 100 {
			p.Pending = true
		}
	})
	s.router.SetShare(0, 50)
	out, err := e.Run(context.Background(), runner.Request{Version: "v1", Config: s.cfg}, runner.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	is(t, out, runner.Complete)
	shares(t, s, "a 100, b 0")
}

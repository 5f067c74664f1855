package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

// TestServiceThatIsDownIsNoFirstRelease: a slot that is known to serve and has
// the traffic is not overwritten because no server of it is up right now.
func TestServiceThatIsDownIsNoFirstRelease(t *testing.T) {
	for _, onDrift := range []string{"pause", "ignore"} {
		t.Run(onDrift, func(t *testing.T) {
			s := newSim(t, routertest.MemoryOptions{})
			s.cfg.Rollout.Traffic.OnDrift = onDrift
			is(t, run(t, s, "v2", runner.RunOptions{}), runner.Complete)
			s.router.SetUnits(state.SlotB, 0)
			out := run(t, s, "v3", runner.RunOptions{})
			is(t, out, runner.PausedNow)
			if !strings.Contains(out.Message, "no server of it up") {
				t.Fatalf("message %q", out.Message)
			}
			shares(t, s, "a 0, b 100")
			if got := s.slots.Slot(state.SlotB); got.Version != "v2" {
				t.Fatalf("slot b holds %+v, want v2", got)
			}
		})
	}
}

// TestHiccupIsNoFirstRelease: one failed look at a service that no state knows
// of is looked at again.
func TestHiccupIsNoFirstRelease(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	s.router.SetUnits(state.SlotA, 0)
	s.tick = func() { s.router.SetUnits(state.SlotA, 1) }
	is(t, run(t, s, "v2", runner.RunOptions{Until: "deploy"}), runner.Reached)
	if p := s.doc().Passes[0]; p.Serving != state.SlotA || s.doc().Rollout.First {
		t.Fatalf("serving %q, first %v; want slot a adopted", p.Serving, s.doc().Rollout.First)
	}
}

// TestFreeSlotWithTrafficAndNoServer: weight without a server is still weight.
func TestFreeSlotWithTrafficAndNoServer(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	s.router.SetShare(0, 40)
	s.router.SetUnits(state.SlotB, 0)
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.PausedNow)
	if got := s.slots.Slot(state.SlotB); got.Version != "" {
		t.Fatalf("slot b holds %+v, want nothing deployed", got)
	}
}

// TestEditedStateIsRefused: the pinned configuration is what the rollout began
// with, or nothing is done.
func TestEditedStateIsRefused(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	is(t, run(t, s, "v2", runner.RunOptions{Until: "traffic@50"}), runner.Reached)
	doc := *s.doc()
	rollout := *doc.Rollout
	rollout.Config = []byte(strings.Replace(string(rollout.Config), `"onFailure":"rollback-all"`, `"onFailure":"stop"`, 1))
	doc.Rollout = &rollout
	s.plant(t, &doc)
	_, err := s.process().Run(context.Background(), runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{NoWait: true})
	if _, ok := errors.AsType[*runner.UnsureError](err); !ok || providers.KindOf(err) != providers.Invalid {
		t.Fatalf("error %v, want an UnsureError about the state", err)
	}
	shares(t, s, "a 95, b 5")
}

// plant puts a document in place, as somebody who can write the state would.
func (s *sim) plant(t *testing.T, doc *state.Document) {
	t.Helper()
	doc.Seq++
	doc.Nonce = "PLANTED"
	data, err := checkpoint.Encode(doc)
	if err != nil {
		t.Fatal(err)
	}
	_, revision, err := s.store.Get(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Put(context.Background(), key, store.Change{Data: data}, revision); err != nil {
		t.Fatal(err)
	}
}

// TestRouterThatRefusesToBeReadIsNoVerdict: a definite answer about a read
// says nothing about the candidate.
func TestRouterThatRefusesToBeReadIsNoVerdict(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	is(t, run(t, s, "v2", runner.RunOptions{Until: "gate@traffic@5"}), runner.Reached)
	_ = s.sleepAlive(time.Minute)
	s.forbidden = true
	e := s.process()
	e.NoWait = true
	_, err := e.Run(context.Background(), runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{NoWait: true})
	if _, ok := errors.AsType[*runner.UnsureError](err); !ok {
		t.Fatalf("error %v, want an UnsureError", err)
	}
	s.forbidden = false
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.Complete)
}

// TestAskIsAskedEachTime: rerun: ask asks before every repetition.
func TestAskIsAskedEachTime(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	s.cfg.Steps = []config.Command{{Name: "migrate", At: "initial", Run: "true", Timeout: config.Duration(time.Minute), Rerun: "ask"}}
	runs := 0
	once := func() (runner.Outcome, error) {
		e := s.process()
		e.World.Command = func(context.Context, runner.Command) (map[string]string, error) {
			runs++
			s.dead = true
			return nil, errDead
		}
		return e.Run(context.Background(), runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{})
	}
	for want := 1; want <= 3; want++ {
		if _, err := once(); err == nil || runs != want {
			t.Fatalf("%d runs, %v; want %d and a dead process", runs, err, want)
		}
		out, err := once()
		if err != nil || runs != want {
			t.Fatalf("%d runs, %v; want a question before the next one", runs, err)
		}
		is(t, out, runner.PausedNow)
		decide(t, s, runner.Word{Verb: "approve", Version: "v2", Pause: s.doc().Rollout.Pause.ID})
	}
}

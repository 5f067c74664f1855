package memory_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/plugin/memory"
	"github.com/manent/action/providers/plugin/plugintest"
	"github.com/manent/action/state"
)

func TestConformance(t *testing.T) {
	plugintest.Run(t, func(*testing.T) plugintest.World {
		world := memory.New(100)
		moods := map[string]plugintest.Mood{}
		started := map[string]chan struct{}{}
		for _, op := range []string{memory.Deploy, memory.Ready, memory.Scale, memory.Retire} {
			started[op] = make(chan struct{})
		}
		world.Hook(func(ctx context.Context, e memory.Event) error {
			switch {
			case e.After:
				return nil
			case moods[e.Op] == plugintest.NotYet:
				return memory.ErrNotYet
			case moods[e.Op] == plugintest.Refuses:
				return &providers.Fault{Provider: "memory", Op: e.Op, Kind: providers.Invalid, Err: errors.New("refused")}
			case moods[e.Op] == plugintest.Hangs:
				close(started[e.Op])
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		return plugintest.World{
			Name: "memory", Traits: plugin.Traits{Scales: true}, Lines: true,
			Open:     func(*testing.T) plugin.Bundle { return world.Bundle() },
			Holds:    func(_ *testing.T, slot state.Slot) string { return world.Slot(slot).Version },
			Capacity: func(_ *testing.T, slot state.Slot) float64 { return world.Slot(slot).Capacity },
			Set:      func(_ *testing.T, op plugintest.Op, mood plugintest.Mood) { moods[string(op)] = mood },
			Started:  func(_ *testing.T, op plugintest.Op) { <-started[string(op)] },
		}
	})
}

func deploy(t *testing.T, w *memory.World, call plugin.Call) error {
	t.Helper()
	_, err := w.Bundle().Deployer.Deploy(t.Context(), call)
	return err
}

// TestAnswerLost is the call that is carried out but not answered, and then
// made again.
func TestAnswerLost(t *testing.T) {
	world, call := memory.New(100), plugintest.Call(state.SlotB, "v2")
	lost := errors.New("connection reset")
	world.Hook(func(_ context.Context, e memory.Event) error {
		if e.After {
			return lost
		}
		return nil
	})
	if err := deploy(t, world, call); !errors.Is(err, lost) || providers.KindOf(err) != providers.Unknown {
		t.Errorf("error %v, expected an unknown fault that wraps %v", err, lost)
	}
	world.Hook(func(context.Context, memory.Event) error { return nil })
	if err := deploy(t, world, call); err != nil {
		t.Error(err)
	}
	if effects, calls := world.Effects(), world.Calls(memory.Deploy, call.StepID); len(effects) != 1 || calls != 2 || world.Doubles() != nil {
		t.Errorf("%d calls had effects %+v, expected 2 and one", calls, effects)
	}
}

// TestLate is the call that lands after the world moved on.
func TestLate(t *testing.T) {
	world, call := memory.New(100), plugintest.Call(state.SlotB, "v2")
	world.Hook(func(context.Context, memory.Event) error { return memory.ErrLate })
	if err := deploy(t, world, call); providers.KindOf(err) != providers.Unknown || err == nil {
		t.Errorf("error %v, expected an unknown fault", err)
	}
	if got := world.Slot(state.SlotB).Version; got != "" {
		t.Errorf("slot b holds %q before the call landed", got)
	}
	if n := world.Land(); n != 1 || world.Slot(state.SlotB).Version != "v2" {
		t.Errorf("%d calls landed, slot b holds %q", n, world.Slot(state.SlotB).Version)
	}
	if n := world.Land(); n != 0 {
		t.Errorf("%d calls landed a second time", n)
	}
}

// TestDoubles enters a step again under another id, which an engine that
// keeps its word never does.
func TestDoubles(t *testing.T) {
	world, call := memory.New(100), plugintest.Call(state.SlotB, "v2")
	other := call
	other.StepID = "r1/deploy/again"
	for _, c := range []plugin.Call{call, other} {
		if err := deploy(t, world, c); err != nil {
			t.Fatal(err)
		}
	}
	want := []memory.Effect{{Op: memory.Deploy, Slot: state.SlotB, Version: "v2", Rollout: "r1", StepID: other.StepID}}
	if diff := cmp.Diff(want, world.Doubles()); diff != "" {
		t.Error(diff)
	}
}

func TestOverlaps(t *testing.T) {
	world, call := memory.New(100), plugintest.Call(state.SlotB, "v2")
	inside := false
	world.Hook(func(ctx context.Context, e memory.Event) error {
		if inside || e.After {
			return nil
		}
		inside = true
		return world.Bundle().Scaler.Scale(ctx, call, 50)
	})
	if err := deploy(t, world, call); err != nil || world.Overlaps() != 1 {
		t.Errorf("%d overlaps, error %v, expected one", world.Overlaps(), err)
	}
}

func TestReadyNeedsCapacity(t *testing.T) {
	world, call := memory.New(0), plugintest.Call(state.SlotB, "v2")
	bundle := world.Bundle()
	if err := deploy(t, world, call); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		scale, share float64
		want         bool
	}{{0, 25, false}, {25, 25, true}, {25, 50, false}} {
		if err := bundle.Scaler.Scale(t.Context(), call, step.scale); err != nil {
			t.Fatal(err)
		}
		if ok, reason, err := bundle.Ready.Ready(t.Context(), call, step.share); ok != step.want || err != nil || ok == (reason != "") {
			t.Errorf("scaled to %v, ready for %v: %v, reason %q, error %v", step.scale, step.share, ok, reason, err)
		}
	}
}

package routertest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

var slots = state.Slots{A: state.Release{Version: "1"}, B: state.Release{Version: "2"}, Candidate: state.SlotB}

func TestMemory(t *testing.T) {
	for _, opts := range []MemoryOptions{
		{}, {Parts: 3}, {Parts: 2, Unconditional: true}, {Parts: 2, Lag: 2, Pinned: time.Minute},
	} {
		t.Run(fmt.Sprintf("%+v", opts)[:24], func(t *testing.T) {
			Run(t, func(*testing.T) Harness { return memoryHarness(opts) })
		})
	}
}

func memoryHarness(opts MemoryOptions) Harness {
	m := NewMemory(opts)
	for i := range m.parts {
		m.parts[i].unowned = map[string]float64{"other": 0}
	}
	var sneak func()
	var rule func(Point) Fault
	m.Hook(func(p Point) Fault {
		if p.Op == OpWrite && sneak != nil {
			now := sneak
			sneak = nil
			now()
		}
		if rule != nil {
			return rule(p)
		}
		return Fault{}
	})
	set := func(r func(Point) Fault) (heal func()) {
		rule = r
		return func() { rule = nil }
	}
	return Harness{
		Router: m, Again: func() router.Router { return m }, Slots: slots,
		Traits:  router.Traits{Unit: "percent", Step: 0.01, Conditional: !opts.Unconditional, Testers: "header"},
		Foreign: func(part int) { m.SetShare(part, 33) },
		Writes:  m.Writes, Touch: m.Touch,
		Hold:    func() func() { m.Freeze(true); return func() { m.Freeze(false) } },
		Unowned: func() string { return fmt.Sprint(m.parts[0].unowned) },
		Sneak:   func(change func()) { sneak = change },
		Probe:   func(router.Access) state.Slot { return m.testers },
		Down: func(part int) func() {
			id := m.ids[part]
			return set(func(p Point) Fault { return Fault{Mode: modeIf(p.Part == id, Refused), Kind: providers.Unavailable} })
		},
		Status: func(code int, on Calls) {
			set(func(p Point) Fault {
				return Fault{Mode: modeIf(code != 0 && hits(on, p), Refused), Kind: httpx.KindOf(code)}
			})
		},
		Hang: func(on Calls) func() {
			return set(func(p Point) Fault { return Fault{Mode: modeIf(hits(on, p), Hung)} })
		},
		Cut:  func(n int) func() { return set(after(n, Lost)) },
		Mute: func(n int) func() { return set(after(n, Unanswered)) },
		Late: func(n int) (func(), func()) { return set(after(n, Delayed)), m.Land },
		Shorten: func(on Calls) func() {
			return set(func(p Point) Fault { return Fault{Mode: modeIf(hits(on, p), Unanswered)} })
		},
	}
}

func modeIf(hit bool, mode Mode) Mode {
	if hit {
		return mode
	}
	return Pass
}

func hits(on Calls, p Point) bool {
	if p.Op == OpRead || p.Op == OpSettled {
		return on&Reads != 0
	}
	return on&Writes != 0
}

// after lets n-1 writes through, gives the n-th that mode, and loses all after.
func after(n int, mode Mode) func(Point) Fault {
	writes := 0
	return func(p Point) Fault {
		if p.Op == OpWrite {
			writes++
		}
		switch {
		case writes < n:
			return Fault{}
		case writes == n && p.Op == OpWrite:
			return Fault{Mode: mode}
		}
		return Fault{Mode: Lost}
	}
}

// TestMemoryModes: what each mode does to the world and tells the caller.
func TestMemoryModes(t *testing.T) {
	tests := []struct {
		mode  Mode
		kind  providers.Kind
		share float64
		dies  bool
		late  float64 // share after Land
	}{
		{KilledBefore, 0, 0, true, 0},
		{KilledAfter, 0, 25, true, 25},
		{Refused, providers.Throttled, 0, false, 0},
		{Lost, providers.Unknown, 0, false, 0},
		{Unanswered, providers.Unknown, 25, false, 25},
		{Delayed, providers.Unknown, 0, false, 25},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.mode), func(t *testing.T) {
			m := NewMemory(MemoryOptions{})
			seen, _ := m.Read(t.Context(), slots)
			want, _, _ := m.Plan(state.SlotB, 25, 0, seen)
			m.Hook(func(p Point) Fault { return Fault{Mode: modeIf(p.Op == OpWrite, tt.mode), Kind: providers.Throttled} })
			died, err := try(func() error { _, err := m.Write(t.Context(), slots, want, seen); return err })
			m.Hook(nil)
			if died != tt.dies || (!tt.dies && (err == nil || providers.KindOf(err) != tt.kind)) {
				t.Errorf("died %v, error %v, want died %v, kind %v", died, err, tt.dies, tt.kind)
			}
			if got := share(t, m); got != tt.share {
				t.Errorf("share %v, want %v", got, tt.share)
			}
			m.Land()
			if got := share(t, m); got != tt.late || m.MaxShare(state.SlotB) != tt.late {
				t.Errorf("share %v, at most %v, want %v after late writes landed", got, m.MaxShare(state.SlotB), tt.late)
			}
		})
	}
}

// TestLateOverReturn is the race window of an unconditional system.
func TestLateOverReturn(t *testing.T) {
	for _, unconditional := range []bool{false, true} {
		t.Run(fmt.Sprint(unconditional), func(t *testing.T) {
			m := NewMemory(MemoryOptions{Unconditional: unconditional})
			move := func(to float64) error {
				seen, _ := m.Read(t.Context(), slots)
				want, _, _ := m.Plan(state.SlotB, to, 0, seen)
				_, err := m.Write(t.Context(), slots, want, seen)
				return err
			}
			m.Hook(func(p Point) Fault { return Fault{Mode: modeIf(p.Op == OpWrite, Delayed)} })
			lost := move(25)
			m.Hook(nil)
			if err := errors.Join(move(50), move(0)); err != nil || lost == nil {
				t.Fatalf("moves: %v, delayed: %v", err, lost)
			}
			m.Land()
			want := map[bool]float64{false: 0, true: 25}[unconditional]
			if got := share(t, m); got != want {
				t.Errorf("share %v after the straggler, want %v", got, want)
			}
		})
	}
}

func TestOnKill(t *testing.T) {
	m := NewMemory(MemoryOptions{})
	var at Point
	m.OnKill(func(p Point) { at = p })
	m.Hook(func(p Point) Fault { return Fault{Mode: modeIf(p.Op == OpSettled, KilledBefore)} })
	_, err := m.Settled(t.Context(), nil, nil)
	if at != (Point{N: 1, Op: OpSettled}) || providers.KindOf(err) != providers.Unknown || err == nil {
		t.Errorf("killed at %+v, error %v", at, err)
	}
}

func TestChanges(t *testing.T) {
	now := time.Unix(0, 0)
	m := NewMemory(MemoryOptions{Now: func() time.Time { return now }})
	before := m.World()
	seen, _ := m.Read(t.Context(), slots)
	want, _, _ := m.Plan(state.SlotB, 10, 0, seen)
	var heard []string
	m.OnChange(func(c Change) { heard = append(heard, c.By) })
	if _, err := m.Write(t.Context(), slots, want, seen); err != nil {
		t.Fatal(err)
	}
	m.SetShare(0, 60)
	m.SetUnowned(0, "theirs", 100)
	m.SetShare(0, 0)
	m.SetUnowned(0, "theirs", 0)
	if _, err := m.Target(t.Context(), slots, state.SlotB, router.Match{}, true); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, c := range m.Changes() {
		got += fmt.Sprintf("%s %v@%d;", c.By, c.Shares[state.SlotB], c.Point)
	}
	if want := "write 10@2;foreign 60@2;foreign 30@2;foreign 0@2;foreign 0@2;testers 0@3;"; got != want {
		t.Errorf("changes %s, want %s", got, want)
	}
	if len(heard) != 6 || m.MaxShare(state.SlotB) != 60 || m.Points() != 3 || m.World() == before {
		t.Errorf("heard %v, at most %v, %d points", heard, m.MaxShare(state.SlotB), m.Points())
	}
}

// TestPromoting: killed anywhere and called again, it ends in the same world.
func TestPromoting(t *testing.T) {
	for _, swaps := range []bool{false, true} {
		for kill := range 4 {
			t.Run(fmt.Sprint(swaps, kill), func(t *testing.T) {
				p := NewMemory(MemoryOptions{Swaps: swaps}).Promoting()
				p.SetShare(0, 100)
				p.Hook(func(at Point) Fault { return Fault{Mode: modeIf(at.N == kill, KilledAfter)} })
				var to state.Slots
				var receipt state.Receipt
				promote := func() error {
					var err error
					to, _, receipt, err = p.Promote(t.Context(), slots, nil)
					return err
				}
				if died, _ := try(promote); died {
					if err := promote(); err != nil {
						t.Fatal(err)
					}
				}
				p.Hook(nil)
				serves := state.SlotB
				if swaps {
					serves = state.SlotA
				}
				seen, err := p.Read(t.Context(), to)
				if err != nil || seen.Parts[0].Shares[serves] != 100 || to.Get(serves).Version != "2" || to.Candidate != serves {
					t.Errorf("slots %+v, shares %v, error %v", to, seen.Parts, err)
				}
				again, _, _, err := p.Promote(t.Context(), to, receipt)
				if err != nil || fmt.Sprint(again) != fmt.Sprint(to) {
					t.Errorf("again: %+v, %v, want nothing to do", again, err)
				}
				back, seen, _, err := p.Unpromote(t.Context(), to, nil)
				if err != nil || back.A.Version != "1" || back.Candidate != state.SlotB {
					t.Errorf("back: %+v, %v, %v", back, seen.Parts, err)
				}
			})
		}
	}
}

func TestBare(t *testing.T) {
	if _, ok := NewMemory(MemoryOptions{}).Bare().(router.Targeter); ok {
		t.Error("Bare still has the optional abilities")
	}
}

func share(t *testing.T, m *Memory) float64 {
	t.Helper()
	seen, err := m.Read(t.Context(), slots)
	if err != nil {
		t.Fatal(err)
	}
	return seen.Share(state.SlotB)
}

// try runs f and catches a kill.
func try(f func() error) (died bool, err error) {
	defer func() {
		if k, ok := recover().(Killed); ok {
			died, err = true, k
		}
	}()
	return false, f()
}

func BenchmarkMemory(b *testing.B) {
	m := NewMemory(MemoryOptions{Parts: 2})
	m.Hook(func(Point) Fault { return Fault{} })
	for b.Loop() {
		seen, _ := m.Read(b.Context(), slots)
		m.changes = m.changes[:0]
		want := []state.PartWeights{{ID: "part0", Weights: map[string]float64{"a": 100 - float64(m.points%50), "b": float64(m.points % 50)}}}
		if _, err := m.Write(b.Context(), slots, want, seen); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(m.points)/b.Elapsed().Seconds(), "calls/s")
}

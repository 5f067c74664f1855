package routertest

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// broken is a router with one fault; the suite must find it.
type broken struct {
	*Memory
	read    func(context.Context, *Memory) (router.Reading, error)
	write   func(context.Context, *Memory, []state.PartWeights, router.Reading) (state.Receipt, error)
	settled func(context.Context, *Memory, []state.PartWeights) (bool, error)
	plan    func(share float64, seen router.Reading) ([]state.PartWeights, float64, error)
	target  func(*Memory, bool)
}

func (b *broken) Read(ctx context.Context, s state.Slots) (router.Reading, error) {
	if b.read != nil {
		return b.read(ctx, b.Memory)
	}
	return b.Memory.Read(ctx, s)
}

func (b *broken) Write(ctx context.Context, s state.Slots, want []state.PartWeights, expect router.Reading) (state.Receipt, error) {
	if b.write != nil {
		return b.write(ctx, b.Memory, want, expect)
	}
	return b.Memory.Write(ctx, s, want, expect)
}

func (b *broken) Settled(ctx context.Context, want []state.PartWeights, r state.Receipt) (bool, error) {
	if b.settled != nil {
		return b.settled(ctx, b.Memory, want)
	}
	return b.Memory.Settled(ctx, want, r)
}

func (b *broken) Plan(slot state.Slot, share, tolerance float64, seen router.Reading) ([]state.PartWeights, float64, error) {
	if b.plan != nil {
		return b.plan(share, seen)
	}
	return b.Memory.Plan(slot, share, tolerance, seen)
}

func (b *broken) Target(ctx context.Context, s state.Slots, slot state.Slot, m router.Match, on bool) (router.Access, error) {
	access, err := b.Memory.Target(ctx, s, slot, m, on)
	if b.target != nil {
		b.target(b.Memory, on)
	}
	return access, err
}

// fresh writes without regard to what the caller expected.
func fresh(ctx context.Context, m *Memory, want []state.PartWeights) (state.Receipt, error) {
	seen, err := m.Read(ctx, slots)
	if err != nil {
		return nil, err
	}
	return m.Write(ctx, slots, want, seen)
}

// breakages names the broken routers and a subtest that each must fail.
func breakages() map[string]struct {
	router broken
	fails  string
} {
	type row = struct {
		router broken
		fails  string
	}
	remember := map[*Memory][]state.PartWeights{}
	return map[string]row{
		"overwrites foreign weights": {broken{write: func(ctx context.Context, m *Memory, want []state.PartWeights, _ router.Reading) (state.Receipt, error) {
			return fresh(ctx, m, want)
		}}, "foreign_change_is_a_conflict"},
		"writes what is there": {broken{write: func(ctx context.Context, m *Memory, want []state.PartWeights, expect router.Reading) (state.Receipt, error) {
			receipt, err := m.Write(ctx, slots, want, expect)
			if err == nil {
				m.mu.Lock()
				m.writes++
				m.mu.Unlock()
			}
			return receipt, err
		}}, "as_wanted_already_is_no_write"},
		"compares revisions": {broken{write: func(ctx context.Context, m *Memory, want []state.PartWeights, expect router.Reading) (state.Receipt, error) {
			seen, err := m.Read(ctx, slots)
			if err == nil && seen.Parts[0].Revision != expect.Parts[0].Revision && !router.SameParts(seen.Weights(), want) {
				return nil, drifted("part0", seen.Parts[0].Weights, expect.Parts[0].Weights)
			}
			return m.Write(ctx, slots, want, expect)
		}}, "changed_revision_is_no_conflict"},
		"calls a lost write a conflict": {broken{write: func(ctx context.Context, m *Memory, want []state.PartWeights, expect router.Reading) (state.Receipt, error) {
			receipt, err := m.Write(ctx, slots, want, expect)
			if err != nil && providers.KindOf(err) == providers.Unknown {
				err = fault(providers.Conflict, err)
			}
			return receipt, err
		}}, "applied_but_unanswered"},
		"hides a lost write": {broken{write: func(ctx context.Context, m *Memory, want []state.PartWeights, expect router.Reading) (state.Receipt, error) {
			receipt, err := m.Write(ctx, slots, want, expect)
			if providers.KindOf(err) == providers.Unknown {
				err = nil
			}
			return receipt, err
		}}, "write_that_never_arrives"},
		"undoes its parts on failure": {broken{write: func(ctx context.Context, m *Memory, want []state.PartWeights, expect router.Reading) (state.Receipt, error) {
			receipt, err := m.Write(ctx, slots, want, expect)
			if err != nil {
				m.SetShare(0, 1)
			}
			return receipt, err
		}}, "stopped_in_the_middle"},
		"settled when accepted": {broken{settled: func(context.Context, *Memory, []state.PartWeights) (bool, error) { return true, nil }}, "accepted_is_not_settled"},
		"remembers": {broken{write: func(ctx context.Context, m *Memory, want []state.PartWeights, expect router.Reading) (state.Receipt, error) {
			if len(remember[m]) == 0 {
				remember[m] = want
				return m.Write(ctx, slots, want, expect)
			}
			return nil, nil
		}}, "zero_and_hundred"},
		"reads zeros for errors": {broken{read: func(ctx context.Context, m *Memory) (router.Reading, error) {
			seen, err := m.Read(ctx, slots)
			if len(seen.Parts) == 0 && err != nil {
				seen.Parts, err = []router.Part{{PartWeights: state.PartWeights{ID: "part0", Weights: map[string]float64{}}}}, nil
			}
			return seen, err
		}}, "read_cut_off"},
		"tells its secret": {broken{read: func(ctx context.Context, m *Memory) (router.Reading, error) {
			seen, err := m.Read(ctx, slots)
			if err != nil {
				err = fault(providers.KindOf(err), errors.New("call with hush-hush failed"))
			}
			return seen, err
		}}, "read_status_401"},
		"rounds up": {broken{plan: func(share float64, seen router.Reading) ([]state.PartWeights, float64, error) {
			return router.Percent(state.SlotB, math.Min(100, share+1), 1, 5, seen)
		}}, "plan_is_monotone_and_exact_at_its_ends"},
		"plans what was not asked": {broken{plan: func(_ float64, seen router.Reading) ([]state.PartWeights, float64, error) {
			return router.Percent(state.SlotB, 50, 1, 0, seen)
		}}, "plan_refuses_and_names_the_nearest"},
		"testers reset weights": {broken{target: func(m *Memory, _ bool) { m.SetShare(0, 0) }}, "testers_on_and_off_twice"},
		"touches the unowned":   {broken{target: func(m *Memory, _ bool) { m.SetUnowned(0, "other", 1) }}, "unowned_entries_survive"},
	}
}

const breakageEnv = "MANENT_TEST_BREAKAGE"

// TestSuiteFindsBrokenRouters runs the suite on each in a process of its own
// and expects it to fail where it should.
func TestSuiteFindsBrokenRouters(t *testing.T) {
	for name, row := range breakages() {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBroken$/^"+row.fails+"$")
			cmd.Env = append(os.Environ(), breakageEnv+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestBroken/"+row.fails) {
				t.Errorf("want subtest %s to fail: %v\n%s", row.fails, err, out)
			}
		})
	}
}

// TestBroken is the other process.
func TestBroken(t *testing.T) {
	row, ok := breakages()[os.Getenv(breakageEnv)]
	if !ok {
		return
	}
	Run(t, func(*testing.T) Harness {
		h := memoryHarness(MemoryOptions{Parts: 2})
		b := row.router
		b.Memory = h.Router.(*Memory)
		h.Router, h.Again, h.Secret = &b, func() router.Router { return &b }, "hush-hush"
		h.Patience = 50 * time.Millisecond
		return h
	})
}

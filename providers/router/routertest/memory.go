package routertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// MemoryOptions shape a Memory; the zero value is one conditional part.
type MemoryOptions struct {
	Parts         int           // default 1
	Unconditional bool          // the system does not check: a straggler overwrites whatever is there
	Step          float64       // smallest difference of share, default 0.01
	Lag           int           // looks of Settled that say no after each change
	Pinned        time.Duration // PinnedFor
	Swaps         bool          // Promote swaps the slots' releases; else it re-points
	Now           func() time.Time
}

// Memory is a router in memory, with the world behind it: as a Router it
// keeps nothing, so one value serves as many instances. It implements
// Planner, Targeter and Sticky too; Bare hides these and Promoting adds
// Promoter. Units are percent of each slot, "a" and "b".
//
// It is deterministic: no clock but Now, no goroutine, no randomness. Every
// call that a real router would send to its system is a Point, numbered from
// 1, but for the look before a write. The hook says what goes wrong there
// (Fault) and may change the world itself first, as somebody else would
// (SetShare, Touch, …), since it is called without a lock. Every change of
// the world is in Changes.
type Memory struct {
	opts MemoryOptions
	hook func(Point) Fault
	kill func(Point)
	ids  []string

	mu       sync.Mutex
	parts    []memoryPart
	testers  state.Slot // "" when off
	primary  state.Slot
	swapped  string // version that a swap put into slot a, "" for none
	frozen   bool
	points   int
	writes   int
	late     []func()
	changes  []Change
	most     map[state.Slot]float64
	units    map[state.Slot]int
	onChange func(Change)
}

type memoryPart struct {
	weights  map[string]float64 // accepted
	live     map[string]float64 // in force
	unowned  map[string]float64
	revision int
	lag      int
}

// Change is one change of the world.
type Change struct {
	Point   int // number of the call during or after which it came
	At      time.Time
	By      string // write, late, foreign, testers, promote
	Part    string
	Weights map[string]float64     // of the part, owned
	Shares  map[state.Slot]float64 // the part's, once in force
	Testers state.Slot             // "" when off
}

// NewMemory returns a world in which slot a has all the traffic.
func NewMemory(opts MemoryOptions) *Memory {
	if opts.Step == 0 {
		opts.Step = 0.01
	}
	if opts.Now == nil {
		opts.Now = func() time.Time { return time.Time{} }
	}
	m := &Memory{opts: opts, primary: state.SlotA, most: map[state.Slot]float64{}, units: map[state.Slot]int{state.SlotA: 1, state.SlotB: 1}}
	for i := range max(opts.Parts, 1) {
		all := map[string]float64{"a": 100, "b": 0}
		m.ids = append(m.ids, "part"+strconv.Itoa(i))
		m.parts = append(m.parts, memoryPart{weights: all, live: all, revision: 1})
	}
	return m
}

// Bare returns the same world as a router without optional abilities.
func (m *Memory) Bare() router.Router { return struct{ router.Router }{m} }

// Promoting returns the same world as a router that is a Promoter too.
func (m *Memory) Promoting() *Promoting { return &Promoting{Memory: m} }

// Read implements router.Router; one point for each part.
func (m *Memory) Read(ctx context.Context, _ state.Slots) (router.Reading, error) {
	var out router.Reading
	bad := 0
	for i, id := range m.ids {
		if err := m.step(ctx, OpRead, id, func() error { return nil }); err != nil {
			out.Parts = append(out.Parts, router.Part{PartWeights: state.PartWeights{ID: id}, Err: err})
			bad++
			continue
		}
		m.mu.Lock()
		out.Parts = append(out.Parts, m.partLocked(i))
		out.Testers = m.testers != ""
		m.mu.Unlock()
	}
	if bad == len(m.ids) {
		return router.Reading{}, out.Parts[0].Err
	}
	return out, nil
}

func (m *Memory) partLocked(i int) router.Part {
	p := &m.parts[i]
	return router.Part{
		PartWeights: state.PartWeights{ID: m.ids[i], Weights: maps.Clone(p.weights)},
		Shares:      sharesOf(p.live, p.unowned), Units: maps.Clone(m.units),
		Revision: strconv.Itoa(p.revision), Pending: p.lag > 0 || (m.frozen && !router.Same(p.live, p.weights)),
		Foreign: maps.Clone(p.unowned),
	}
}

func sharesOf(owned, unowned map[string]float64) map[state.Slot]float64 {
	total := 0.0
	for _, w := range owned {
		total += w
	}
	for _, w := range unowned {
		total += w
	}
	if total == 0 {
		return map[state.Slot]float64{}
	}
	return map[state.Slot]float64{state.SlotA: owned["a"] * 100 / total, state.SlotB: owned["b"] * 100 / total}
}

// Write implements router.Router; one point for each part that has to change.
func (m *Memory) Write(ctx context.Context, _ state.Slots, want []state.PartWeights, expect router.Reading) (state.Receipt, error) {
	receipt := state.Receipt{"written": "0"}
	if err := m.alive(ctx); err != nil {
		return receipt, err
	}
	expected := expect.Weights()
	for n, part := range want {
		i := slices.Index(m.ids, part.ID)
		if i < 0 {
			return receipt, fault(providers.NotFound, fmt.Errorf("no part %q", part.ID))
		}
		from, _ := router.Find(expected, part.ID)
		if err := m.writePart(ctx, i, part.Weights, from); err != nil {
			return receipt, err
		}
		receipt["written"] = strconv.Itoa(n + 1)
	}
	return receipt, nil
}

// writePart looks, compares and sends; a write that the system refuses as
// stale is looked at again, since weights count and not revisions.
func (m *Memory) writePart(ctx context.Context, i int, want, from map[string]float64) error {
	for range 5 {
		m.mu.Lock()
		seen, revision := m.parts[i].weights, m.parts[i].revision
		m.mu.Unlock()
		if router.Same(seen, want) {
			return nil
		}
		if !router.Same(seen, from) {
			return drifted(m.ids[i], seen, from)
		}
		err := m.step(ctx, OpWrite, m.ids[i], func() error { return m.apply(i, want, revision) })
		if !errors.Is(err, errStale) {
			return err
		}
	}
	return fault(providers.Conflict, fmt.Errorf("part %s: %w, five times", m.ids[i], errStale))
}

var errStale = errors.New("stale revision")

// apply is the system's side of a write.
func (m *Memory) apply(i int, want map[string]float64, revision int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.opts.Unconditional && m.parts[i].revision != revision {
		return errStale
	}
	if !router.Same(m.parts[i].weights, want) {
		m.writes++
		m.setLocked(i, maps.Clone(want), "write")
	}
	return nil
}

// Settled implements router.Router; one point.
func (m *Memory) Settled(ctx context.Context, want []state.PartWeights, _ state.Receipt) (bool, error) {
	in := false
	err := m.step(ctx, OpSettled, "", func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		in = true
		for i := range m.parts {
			p := &m.parts[i]
			if p.lag > 0 {
				p.lag--
			}
			if p.lag == 0 && !m.frozen {
				p.live = p.weights
			}
			if w, ok := router.Find(want, m.ids[i]); ok && !router.Same(p.live, w) {
				in = false
			}
		}
		return nil
	})
	return in && err == nil, err
}

// Plan implements router.Planner.
func (m *Memory) Plan(slot state.Slot, share, tolerance float64, seen router.Reading) ([]state.PartWeights, float64, error) {
	return router.Percent(slot, share, m.opts.Step, tolerance, seen)
}

// Target implements router.Targeter; one point.
func (m *Memory) Target(ctx context.Context, _ state.Slots, slot state.Slot, match router.Match, on bool) (router.Access, error) {
	access := router.Access{URL: "http://memory.invalid", Header: map[string]string{match.Header: match.Value}}
	return access, m.step(ctx, OpTarget, "", func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		to := slot
		if !on {
			to = ""
		}
		if m.testers != to {
			m.testers = to
			m.recordLocked(0, "testers")
		}
		return nil
	})
}

// PinnedFor implements router.Sticky.
func (m *Memory) PinnedFor() time.Duration { return m.opts.Pinned }

// setLocked changes a part's weights; with no lag they are in force at once.
func (m *Memory) setLocked(i int, weights map[string]float64, by string) {
	p := &m.parts[i]
	p.weights, p.lag = weights, m.opts.Lag
	p.revision++
	if p.lag == 0 && !m.frozen {
		p.live = weights
	}
	m.recordLocked(i, by)
}

func (m *Memory) recordLocked(i int, by string) {
	p := &m.parts[i]
	c := Change{
		Point: m.points, At: m.opts.Now(), By: by, Part: m.ids[i], Weights: p.weights,
		Shares: sharesOf(p.weights, p.unowned), Testers: m.testers,
	}
	for slot, share := range c.Shares {
		m.most[slot] = max(m.most[slot], share)
	}
	m.changes = append(m.changes, c)
	if m.onChange != nil {
		m.onChange(c)
	}
}

// Writes counts the effective changes of weights made through Write.
func (m *Memory) Writes() int { m.mu.Lock(); defer m.mu.Unlock(); return m.writes }

// Points counts the calls so far.
func (m *Memory) Points() int { m.mu.Lock(); defer m.mu.Unlock(); return m.points }

// Changes returns every change of the world, oldest first.
func (m *Memory) Changes() []Change { m.mu.Lock(); defer m.mu.Unlock(); return slices.Clone(m.changes) }

// MaxShare is the largest share a slot ever got on any part, by a change:
// accepted weights count, in force or not. It does not count the start.
func (m *Memory) MaxShare(slot state.Slot) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.most[slot]
}

// OnChange calls f with every change, with the world locked: f must not call
// back. Nil ends it.
func (m *Memory) OnChange(f func(Change)) { m.mu.Lock(); defer m.mu.Unlock(); m.onChange = f }

// World is the state of the world as text, the same for the same weights,
// testers and promotion however it came to them.
func (m *Memory) World() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for i, p := range m.parts {
		fmt.Fprintf(&b, "%s: %v in force %v, unowned %v\n", m.ids[i], p.weights, p.live, p.unowned)
	}
	fmt.Fprintf(&b, "testers %q, primary %q, swapped %q\n", m.testers, m.primary, m.swapped)
	return b.String()
}

// SetShare gives slot b a share of one part, as somebody else would.
func (m *Memory) SetShare(part int, share float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setLocked(part, map[string]float64{"a": 100 - share, "b": share}, "foreign")
}

// SetUnowned puts an entry with weight into a part that is not the router's;
// weight 0 takes it away.
func (m *Memory) SetUnowned(part int, name string, weight float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &m.parts[part]
	p.unowned = maps.Clone(p.unowned)
	if p.unowned == nil {
		p.unowned = map[string]float64{}
	}
	p.unowned[name] = weight
	if weight == 0 {
		delete(p.unowned, name)
	}
	p.revision++
	m.recordLocked(part, "foreign")
}

// SetUnits says how many servers of a slot are up; below 0 the router does not
// know.
func (m *Memory) SetUnits(slot state.Slot, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.units[slot] = n
	if n < 0 {
		delete(m.units, slot)
	}
}

// Touch changes every part's revision and nothing else.
func (m *Memory) Touch() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.parts {
		m.parts[i].revision++
	}
}

// Freeze keeps changes out of force until it is called with false.
func (m *Memory) Freeze(on bool) { m.mu.Lock(); defer m.mu.Unlock(); m.frozen = on }

func drifted(part string, seen, want map[string]float64) error {
	return fault(providers.Conflict, &router.ErrDrifted{Part: part, Seen: maps.Clone(seen), Want: maps.Clone(want)})
}

func fault(kind providers.Kind, err error) error {
	return &providers.Fault{Provider: "memory", Kind: kind, Err: err}
}

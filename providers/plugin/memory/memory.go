// Package memory is a plugin in memory for tests: it deploys into a World,
// which outlives the engines that are killed over it, counts what it did, and
// lets a test decide about every call. It is deterministic and must not know
// who calls it.
package memory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/state"
)

var (
	_ plugin.Deployer   = (*deployer)(nil)
	_ plugin.Ready      = (*deployer)(nil)
	_ plugin.SlotScaler = (*deployer)(nil)
)

// The operations, as events and effects name them.
const (
	Deploy = "deploy"
	Ready  = "ready"
	Scale  = "scale"
	Retire = "retire"
)

// ErrNotYet is returned by a hook for Ready to say "no capacity yet".
var ErrNotYet = errors.New("no capacity yet")

// ErrLate is returned by a hook before a change that is to land late: the
// call gives Unknown and the change is made by the next World.Land.
var ErrLate = errors.New("the answer was lost, the change is under way")

// Event is one instant of a call: a test's hook is told of each twice, before
// the world changes and after.
type Event struct {
	Op    string
	Call  plugin.Call
	Share float64
	After bool // the change was made, the answer is not yet on its way
}

// Effect is one change of the world, not one call: a call that finds the
// world as it wants it has none.
type Effect struct {
	Op      string
	Slot    state.Slot
	Version string
	Rollout string // from the release's Ref
	StepID  string
	Share   float64
}

// Slot is what the world has in a slot.
type Slot struct {
	Version  string
	StepID   string  // of the step that put it there
	Capacity float64 // share it has capacity for, percent
}

// World is what a plugin deploys into. Its zero value is not ready: use New.
type World struct {
	mu       sync.Mutex
	hook     func(context.Context, Event) error
	slots    map[state.Slot]Slot
	effects  []Effect
	late     []Effect
	calls    map[string]int
	busy     map[state.Slot]int
	overlaps int
	initial  float64
}

// New makes an empty world in which a deployed version has capacity for
// initial percent of the traffic: 100 as without `replicas`, 0 for one that
// the engine has to scale.
func New(initial float64) *World {
	return &World{
		hook: func(context.Context, Event) error { return nil }, initial: initial,
		slots: map[state.Slot]Slot{}, calls: map[string]int{}, busy: map[state.Slot]int{},
	}
}

// Hook sets what decides about calls. Before a change an error prevents it;
// after one the change stays and only the answer is lost. A *providers.Fault
// is returned as it is, ErrNotYet and ErrLate mean what they say, anything
// else becomes a fault of kind Unknown. A hook may panic, to kill the engine
// at that instant.
func (w *World) Hook(hook func(context.Context, Event) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hook = hook
}

// Bundle returns the plugin as one process has it.
func (w *World) Bundle() plugin.Bundle {
	d := &deployer{world: w}
	return plugin.Bundle{Deployer: d, Ready: d, Scaler: d}
}

// Slot returns what is in a slot.
func (w *World) Slot(slot state.Slot) Slot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.slots[slot]
}

// Put sets what is in a slot, without an effect.
func (w *World) Put(slot state.Slot, s Slot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slots[slot] = s
}

// Effects returns every change made, in order.
func (w *World) Effects() []Effect {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.effects)
}

// Calls returns how often a step called an operation, with or without effect.
func (w *World) Calls(op, stepID string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[op+" "+stepID]
}

// Overlaps returns how often a call changed a slot while another one did.
func (w *World) Overlaps() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.overlaps
}

// Doubles returns the deployments of a version into a slot that had received
// it in the same rollout already, and not been retired since: their step was
// entered again under another id.
func (w *World) Doubles() []Effect {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Effect
	last := map[state.Slot]Effect{}
	for _, e := range w.effects {
		before := last[e.Slot]
		switch {
		case e.Op == Retire:
			delete(last, e.Slot)
		case e.Op == Deploy && before.Version == e.Version && before.Rollout == e.Rollout:
			out = append(out, e)
		case e.Op == Deploy:
			last[e.Slot] = e
		}
	}
	return out
}

// Land makes the changes that are late, as if their calls had only now
// arrived, and returns how many there were.
func (w *World) Land() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	late := w.late
	w.late = nil
	for _, e := range late {
		w.apply(e)
	}
	return len(late)
}

// apply makes a change unless the world already is as it wants it; the caller
// holds the lock.
func (w *World) apply(e Effect) {
	before := w.slots[e.Slot]
	after := before
	switch e.Op {
	case Deploy:
		if before.Version == e.Version && before.StepID == e.StepID {
			return
		}
		after = Slot{Version: e.Version, StepID: e.StepID, Capacity: w.initial}
	case Scale:
		after.Capacity = e.Share
	case Retire:
		after = Slot{}
	}
	if before != after {
		w.slots[e.Slot] = after
		w.effects = append(w.effects, e)
	}
}

// deployer is one process's view of a world; it keeps nothing itself.
type deployer struct{ world *World }

// Deploy implements plugin.Deployer.
func (d *deployer) Deploy(ctx context.Context, call plugin.Call) (state.Release, error) {
	if call.Output != nil {
		call.Output(fmt.Sprintf("deploying %s into %s", call.Release.Version, call.Slot))
	}
	if err := d.change(ctx, Deploy, call, 0); err != nil {
		return state.Release{}, err
	}
	ref := maps.Clone(call.Release.Ref)
	if ref == nil {
		ref = state.Ref{}
	}
	ref["id"] = string(call.Slot) + "-" + call.Release.Version
	return state.Release{Version: call.Release.Version, Ref: ref}, nil
}

// Scale implements plugin.SlotScaler.
func (d *deployer) Scale(ctx context.Context, call plugin.Call, share float64) error {
	return d.change(ctx, Scale, call, share)
}

// Retire implements plugin.SlotScaler.
func (d *deployer) Retire(ctx context.Context, call plugin.Call) error {
	return d.change(ctx, Retire, call, 0)
}

// Ready implements plugin.Ready.
func (d *deployer) Ready(ctx context.Context, call plugin.Call, share float64) (bool, string, error) {
	err := d.tell(ctx, Event{Op: Ready, Call: call, Share: share})
	if errors.Is(err, ErrNotYet) {
		return false, ErrNotYet.Error(), nil
	}
	if err != nil {
		return false, "", fault(Ready, err)
	}
	slot := d.world.Slot(call.Slot)
	if slot.Version == "" || slot.Capacity < share {
		return false, fmt.Sprintf("slot %s has capacity for %v %%, not %v %%", call.Slot, slot.Capacity, share), nil
	}
	return true, "", nil
}

// change makes one change, told to the hook before and after. The hook is
// called without the lock, since it looks at the world.
func (d *deployer) change(ctx context.Context, op string, call plugin.Call, share float64) error {
	w := d.world
	defer w.enter(op, call)()
	event := Event{Op: op, Call: call, Share: share}
	effect := Effect{
		Op: op, Slot: call.Slot, Version: call.Release.Version, StepID: call.StepID, Share: share,
		Rollout: call.Release.Ref[state.RefRollout],
	}
	err := d.tell(ctx, event)
	if errors.Is(err, ErrLate) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.late = append(w.late, effect)
	}
	if err != nil {
		return fault(op, err)
	}
	w.mu.Lock()
	w.apply(effect)
	w.mu.Unlock()
	event.After = true
	return fault(op, d.tell(ctx, event))
}

// enter counts a call; the function it returns ends it.
func (w *World) enter(op string, call plugin.Call) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[op+" "+call.StepID]++
	if w.busy[call.Slot] > 0 {
		w.overlaps++
	}
	w.busy[call.Slot]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.busy[call.Slot]--
	}
}

func (d *deployer) tell(ctx context.Context, e Event) error {
	if err := ctx.Err(); err != nil && !e.After {
		return err
	}
	d.world.mu.Lock()
	hook := d.world.hook
	d.world.mu.Unlock()
	return hook(ctx, e)
}

func fault(op string, err error) error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*providers.Fault](err); ok {
		return f
	}
	return &providers.Fault{Provider: "memory", Op: op, Kind: providers.Unknown, Err: err}
}

package dialect

import (
	"fmt"
	"sync"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/kubernetes/route"
	"github.com/manent/action/state"
)

// Serving is what serves in the slots.
type Serving struct {
	Units map[state.Slot]int   // what is ready, without a slot of which nobody can know
	Mixed map[state.Slot]Mixed // slots whose traffic reaches pods of the other too

	// Shared is what both slots lead to by endpoints made by hand, "" for nothing.
	// It may tell the slots apart by itself, as an outer load balancer does.
	Shared string

	deploys bool // a deployment makes what a slot's pods are chosen by; never the subsets
}

// Mixed says why a slot's traffic reaches pods of the other slot, and how many
// percent of it do now: 0 when none of them is ready.
type Mixed struct {
	Err     error
	Percent float64
}

// Nothing reports that nothing serves in either slot, as before a first
// release: what is missing may come with it.
func (s Serving) Nothing() bool {
	return len(s.Units) == 2 && s.Units[state.SlotA] == 0 && s.Units[state.SlotB] == 0
}

// Unfit is why a share of a route would not be what it says, nil when it is. A
// slot without traffic is put right by a deployment that makes its Service.
func (s Serving) Unfit(r route.Split) error {
	shares := r.Shares("")
	for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
		if m, found := s.Mixed[slot]; found && (shares[slot] > 0 || !s.deploys) {
			return m.Err
		}
	}
	return nil
}

// Any is why no share can be raised, nil when one can.
func (s Serving) Any() error {
	for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
		if m, found := s.Mixed[slot]; found {
			return m.Err
		}
	}
	return nil
}

// Stray is how many percent of the other slot's traffic reach the candidate:
// none when that slot has no traffic.
func (s Serving) Stray(r route.Split, candidate state.Slot) float64 {
	if candidate == "" || r.Shares("")[candidate.Other()] == 0 {
		return 0
	}
	return s.Mixed[candidate.Other()].Percent
}

// Strayed names that, with the remedy.
func Strayed(candidate state.Slot) string {
	return fmt.Sprintf("pods of slot %s that are chosen for slot %s too, by a selector to be corrected", candidate, candidate.Other())
}

// chosen is how a slot's traffic finds its pods.
type chosen struct {
	by     string            // "Service shop-a"
	labels map[string]string // what pods are chosen by, empty when that is not said
	ready  map[string]bool   // what was found, by a name that is the same in both slots
	hidden bool              // nobody can know what is ready
}

// serving compares two slots. One whose labels are among those of the other
// chooses its pods too; where both have some pods and neither has all of the
// other's, nobody can say whose these are.
func serving(a, b chosen) Serving {
	slots := map[state.Slot]chosen{state.SlotA: a, state.SlotB: b}
	out := Serving{Units: map[state.Slot]int{}, Mixed: map[state.Slot]Mixed{}}
	both := 0
	for id := range a.ready {
		if b.ready[id] {
			both++
		}
	}
	if both > 0 && len(a.labels) == 0 && len(b.labels) == 0 {
		out.Shared = fmt.Sprintf("%d endpoints are ready in both slots, by %s and %s, which have no selector: whether what is behind them tells the slots apart cannot be seen", both, a.by, b.by)
		both = 0
	}
	known := len(a.labels) > 0 && len(b.labels) > 0
	wide := map[state.Slot]bool{state.SlotA: known && route.Within(a.labels, b.labels), state.SlotB: known && route.Within(b.labels, a.labels)}
	for slot, c := range slots {
		if !c.hidden {
			out.Units[slot] = len(c.ready)
		}
		if wide[slot] || both > 0 && !wide[slot.Other()] {
			out.Mixed[slot] = Mixed{mixed(a, b, both), 100 * float64(both) / float64(max(1, len(c.ready)))}
		}
	}
	return out
}

func mixed(a, b chosen, both int) error {
	f := &providers.Fault{Kind: providers.Invalid,
		Err:  fmt.Errorf("%d endpoints are ready in both slots, by %s and %s: what the one gets reaches pods of the other slot too", both, a.by, b.by),
		Hint: "give each slot a label that only its pods have, such as manent.io/track: a and manent.io/track: b"}
	if len(a.labels) > 0 && len(b.labels) > 0 {
		f.Err = fmt.Errorf("%s chooses pods by %s and %s by %s: what the one gets reaches pods of the other slot too", a.by, terms(a.labels), b.by, terms(b.labels))
	}
	return f
}

// each looks at both slots at once, so that a slow API server answers within
// one call of the engine.
func each(deploys bool, look func(state.Slot) (chosen, error)) (Serving, error) {
	var a, b chosen
	var failedA, failedB error
	var asked sync.WaitGroup
	asked.Go(func() { a, failedA = look(state.SlotA) })
	asked.Go(func() { b, failedB = look(state.SlotB) })
	asked.Wait()
	if failedA != nil {
		return Serving{}, failedA
	}
	out := serving(a, b)
	out.deploys = deploys
	return out, failedB
}

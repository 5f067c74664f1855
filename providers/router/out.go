package router

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/manent/action/providers"
	"github.com/manent/action/state"
)

// Splits reports whether members of both slots have weight.
func Splits(members []Member, weights map[string]float64) bool {
	return weighs(members, weights, state.SlotA) && weighs(members, weights, state.SlotB)
}

// Returns reports whether weights take slot out: nothing is wanted for it.
func Returns(members []Member, weights map[string]float64, slot state.Slot) bool {
	return slot != "" && !weighs(members, weights, slot)
}

// Sole returns the members of the slot that alone is to have weight, and the
// others; false where none or both are.
func Sole(members []Member, weights map[string]float64) (with, without []string, ok bool) {
	a, b := weighs(members, weights, state.SlotA), weighs(members, weights, state.SlotB)
	for _, m := range members {
		if (m.Slot == state.SlotA) == a {
			with = append(with, m.Name)
		} else {
			without = append(without, m.Name)
		}
	}
	return with, without, a != b
}

func weighs(members []Member, weights map[string]float64, slot state.Slot) bool {
	for _, m := range members {
		if m.Slot == slot && weights[m.Name] > 0 {
			return true
		}
	}
	return false
}

// Alone is the slot whose servers alone have weight, "" for none or both.
func Alone(servers []Server) state.Slot {
	has := map[state.Slot]bool{}
	for _, s := range servers {
		has[s.Slot] = has[s.Slot] || s.Weight > 0
	}
	switch {
	case has[state.SlotA] == has[state.SlotB]:
		return ""
	case has[state.SlotA]:
		return state.SlotA
	}
	return state.SlotB
}

// Hand is that somebody set something of the slot that serves by hand, which a
// share would undo. A Planner goes on where a person has Approved that.
type Hand struct{ Text string }

// Error implements error.
func (h *Hand) Error() string { return h.Text }

// byHand reports whether somebody's hand is all that keeps a share from a part.
func byHand(unfit error) bool {
	_, ok := errors.AsType[*Hand](unfit)
	return ok
}

// TakenOut refuses (Invalid, by a Hand) a share while servers of the slot that
// serves alone are out of service by somebody's hand, each with its state
// ("web2 is disabled"): the first share would put them back. nil when there are
// none. It comes after all other reasons against a share: it may be approved.
func TakenOut(slot state.Slot, servers []string) error {
	if len(servers) == 0 {
		return nil
	}
	return &providers.Fault{
		Kind: providers.Invalid, Err: &Hand{fmt.Sprintf("slot %s serves, and of its servers %s", slot, strings.Join(servers, ", "))},
		Hint: fmt.Sprintf("a share would give all servers of slot %s one weight, and so put these back: bring them into service first, or leave them as they are and take them out of the targets for as long", slot),
	}
}

// SettledParts asks about all parts at the same time, and is true when all are.
func SettledParts(want []state.PartWeights, settled func(state.PartWeights) (bool, error)) (bool, error) {
	in, problems := make([]bool, len(want)), make([]error, len(want))
	var all sync.WaitGroup
	for i, w := range want {
		all.Go(func() { in[i], problems[i] = settled(w) })
	}
	all.Wait()
	problems = slices.DeleteFunc(problems, func(err error) bool { return err == nil })
	return len(problems) == 0 && !slices.Contains(in, false), Join(problems)
}

// Names are the members' names in order.
func Names(members []Member) []string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.Name
	}
	return names
}

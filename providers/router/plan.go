package router

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/state"
)

// PlanMembers is the plan of a router that has a weight for each member, for
// each part by its own servers. Of the slot whose share it is all servers
// count, as one that is down may come back and must not raise the share then:
// whether any is up is asked before a write, and waited for. Of the other one
// those in service count. A return, share 0, is planned for the
// members that a part has weights of, whatever state these are in; for all
// where it has none that could take the traffic, so that its write says which
// are missing. A part that is Unfit refuses any other share, and so does a
// serving slot with a server that somebody took out, see takenOut, unless a
// person has Approved that. Of the shares that the parts achieve it returns the
// one that is furthest off.
func PlanMembers(members []Member, slot state.Slot, share, tolerance float64, units Units, seen Reading) ([]state.PartWeights, float64, error) {
	achieved, first := share, share > 0 && share < 100 && !seen.Approved && !taking(members, slot, seen)
	parts := make([]state.PartWeights, len(seen.Parts))
	for i, p := range seen.Parts {
		there, up := members, counted(members, slot, p)
		if share == 0 {
			there, up = present(members, p.Weights, slot.Other()), nil
		}
		weights, got, err := SolveMembers(there, up, slot, share, tolerance, units)
		if first {
			err = cmp.Or(takenOut(of(members, slot.Other()), p), err)
		}
		if named := seen.Approved && byHand(p.Unfit); share > 0 && !named {
			err = cmp.Or(p.Unfit, err)
		}
		if err != nil {
			return nil, 0, &providers.Fault{Op: "plan on " + p.ID, Kind: providers.KindOf(err), Err: err, Hint: providers.HintOf(err)}
		}
		if math.Abs(got-share) > math.Abs(achieved-share) {
			achieved = got
		}
		parts[i] = state.PartWeights{ID: p.ID, Weights: weights}
	}
	return parts, achieved, nil
}

// counted is how many servers of each slot a plan for slot counts, nil for all.
func counted(members []Member, slot state.Slot, p Part) map[state.Slot]int {
	if p.Units == nil {
		return nil
	}
	up := maps.Clone(p.Units)
	up[slot] = max(up[slot], p.Servers[slot], len(of(members, slot)))
	return up
}

func of(members []Member, slot state.Slot) []Member {
	return slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.Slot != slot })
}

// taking reports whether a slot has weight on any part.
func taking(members []Member, slot state.Slot, seen Reading) bool {
	return slices.ContainsFunc(seen.Parts, func(p Part) bool {
		return slices.ContainsFunc(of(members, slot), func(m Member) bool { return p.Weights[m.Name] > 0 })
	})
}

// takenOut refuses (Invalid) to begin while the members of the slot that serves
// have unlike weights: the first share would give them one, and so put back
// what somebody took out, or load what somebody spares. A first share that was
// cut off leaves such weights too: the caller who wrote it knows, and says that
// they are approved.
func takenOut(serving []Member, p Part) error {
	most, highest := 0.0, ""
	for _, m := range serving {
		if w := p.Weights[m.Name]; w > most {
			most, highest = w, m.Name
		}
	}
	var less []string
	for _, m := range serving {
		if w, there := p.Weights[m.Name]; there && w < most {
			less = append(less, fmt.Sprintf("%s has weight %v", m.Name, w))
		}
	}
	if len(less) == 0 {
		return nil
	}
	slot := serving[0].Slot
	return &providers.Fault{
		Kind: providers.Invalid, Err: &Hand{fmt.Sprintf("slot %s serves, and of its servers %s, %s has %v (0 is drained or disabled)", slot, strings.Join(less, ", "), highest, most)},
		Hint: fmt.Sprintf("the first share would give all servers of slot %s one weight, and so put these back: give them the weight of the others; one that is to stay out needs weight 0 (drained, disabled), and has to leave the targets for as long", slot),
	}
}

// present are the members with weights, all if none of them is of slot.
func present(members []Member, weights map[string]float64, slot state.Slot) []Member {
	there := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { _, ok := weights[m.Name]; return !ok })
	if len(of(there, slot)) > 0 {
		return there
	}
	return members
}

package router

import (
	"math"
	"slices"

	"github.com/manent/action/providers"
	"github.com/manent/action/state"
)

// PlanMembers is the plan of a router that has a weight for each member: for
// each part by its own servers up. A return, share 0, is planned for the
// members that a part has weights of, whatever state these are in; for all
// where it has none that could take the traffic, so that its write says which
// are missing. A part that is Unfit refuses any other share. Of the
// shares that the parts achieve it returns the one that is furthest off.
func PlanMembers(members []Member, slot state.Slot, share, tolerance float64, units Units, seen Reading) ([]state.PartWeights, float64, error) {
	achieved := share
	parts := make([]state.PartWeights, len(seen.Parts))
	for i, p := range seen.Parts {
		there, up := members, p.Units
		if share == 0 {
			there, up = present(members, p.Weights, slot.Other()), nil
		}
		weights, got, err := SolveMembers(there, up, slot, share, tolerance, units)
		if p.Unfit != nil && share > 0 {
			err = p.Unfit
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

// present are the members with weights, all if none of them is of slot.
func present(members []Member, weights map[string]float64, slot state.Slot) []Member {
	there := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { _, ok := weights[m.Name]; return !ok })
	if slices.ContainsFunc(there, func(m Member) bool { return m.Slot == slot }) {
		return there
	}
	return members
}

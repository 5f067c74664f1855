package f5

import (
	"fmt"
	"math"
	"slices"

	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// units are the ratios that every version takes; 0 is a disabled member.
func units() router.Units { return router.Units{Least: 1, Most: 100} }

// Plan implements router.Planner. A return, share 0, is planned for the
// members that there are, whatever state they are in.
func (r *Router) Plan(slot state.Slot, share, tolerance float64, seen router.Reading) ([]state.PartWeights, float64, error) {
	var parts []state.PartWeights
	achieved := share
	for _, p := range seen.Parts {
		members, up := r.members, p.Units
		switch {
		case share == 0:
			up = nil
			members = slices.DeleteFunc(slices.Clone(members), func(m router.Member) bool { _, there := p.Weights[m.Name]; return !there })
		case p.Unfit != nil:
			return nil, 0, named("plan on "+p.ID, p.Unfit)
		}
		weights, got, err := router.SolveMembers(members, up, slot, share, tolerance, units())
		if err != nil {
			return nil, 0, named("plan on "+p.ID, err)
		}
		achieved = got
		parts = append(parts, state.PartWeights{ID: p.ID, Weights: weights})
	}
	return parts, achieved, nil
}

// Reach implements router.Reacher.
func (r *Router) Reach(slot state.Slot, share, tolerance float64) error {
	_, _, err := router.SolveMembers(r.members, nil, slot, share, tolerance, units())
	return named("plan", err)
}

// whole is the weight of a unit as the pool takes it.
func whole(unit string, w float64) (int, error) {
	if w != math.Trunc(w) || w < 0 || w > 65535 {
		return 0, fmt.Errorf("weight %v of member %s, expected a whole number from 0 to 100", w, unit)
	}
	return int(w), nil
}

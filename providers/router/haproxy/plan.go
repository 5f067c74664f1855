package haproxy

import (
	"math"

	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// units are the weights of a server in service; 0 is out of service
// (HAProxy's configuration manual, server weight).
func units() router.Units { return router.Units{Least: 1, Most: 256} }

// scale is what the largest weight comes near to, whatever the share. A server
// keeps its place in HAProxy's round when weights change; were they 100 before
// and 1 after, the others would wait their turn for a hundred requests.
const scale = 100

// Plan implements router.Planner. A return, share 0, needs nothing of a part
// but its name, so that it is planned whatever state the servers are in.
func (r *Router) Plan(slot state.Slot, share, tolerance float64, seen router.Reading) ([]state.PartWeights, float64, error) {
	var parts []state.PartWeights
	achieved := share
	for _, p := range seen.Parts {
		if p.Unfit != nil && share > 0 {
			return nil, 0, named("plan on "+p.ID, p.Unfit)
		}
		up := p.Units
		if share == 0 {
			up = nil
		}
		weights, got, err := r.solve(slot, share, tolerance, up)
		if err != nil {
			return nil, 0, named("plan on "+p.ID, err)
		}
		if math.Abs(got-share) > math.Abs(achieved-share) {
			achieved = got
		}
		parts = append(parts, state.PartWeights{ID: p.ID, Weights: weights})
	}
	return parts, achieved, nil
}

// Reach implements router.Reacher.
func (r *Router) Reach(slot state.Slot, share, tolerance float64) error {
	_, _, err := r.solve(slot, share, tolerance, nil)
	return named("plan", err)
}

// solve takes the number of servers up in each slot, nil for all.
func (r *Router) solve(slot state.Slot, share, tolerance float64, up map[state.Slot]int) (map[string]float64, float64, error) {
	servers := make([]router.Server, len(r.members))
	counted := map[state.Slot]int{}
	for i, m := range r.members {
		// Which ones are up does not matter: all of a slot get the same.
		servers[i] = router.Server{ID: m.Name, Slot: m.Slot, Up: up == nil || counted[m.Slot] < up[m.Slot]}
		counted[m.Slot]++
	}
	weights, got, err := router.Solve(servers, slot, share, tolerance, units())
	if err != nil {
		return nil, 0, err
	}
	most := 1
	for _, w := range weights {
		most = max(most, w)
	}
	out := make(map[string]float64, len(weights))
	for id, w := range weights {
		out[id] = float64(w * max(1, scale/most))
	}
	return out, got, nil
}

package proxy

import (
	"context"

	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

func (p part) read(ctx context.Context) (router.Part, bool) {
	seen, err := p.admin.State(ctx)
	if err != nil {
		return router.Part{PartWeights: state.PartWeights{ID: p.id}, Err: err}, false
	}
	out := router.Part{
		PartWeights: state.PartWeights{ID: p.id, Weights: seen.Weights}, Revision: seen.Revision,
		Shares: map[state.Slot]float64{}, Units: map[state.Slot]int{},
	}
	for slot, share := range seen.Weights {
		out.Shares[state.Slot(slot)] = share
		if up := seen.Slots[slot].Up; up == nil || *up {
			out.Units[state.Slot(slot)] = 1
		} else {
			out.Units[state.Slot(slot)] = 0
		}
	}
	return out, seen.Testers.On
}

package cli

import (
	"testing"

	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// TestOwnWriteIsNoDrift: doctor beside a share that is being written.
func TestOwnWriteIsNoDrift(t *testing.T) {
	part := func(a, b float64) state.PartWeights {
		return state.PartWeights{ID: "x", Weights: map[string]float64{"a": a, "b": b}}
	}
	step := state.Step{State: state.Started, Intent: &state.Intent{From: []state.PartWeights{part(100, 0)}, To: []state.PartWeights{part(95, 5)}}}
	doc := &state.Document{Rollout: &state.Rollout{Steps: []state.Step{step}}, Passes: []state.Pass{{Weights: []state.PartWeights{part(100, 0)}}}}
	for want, seen := range map[int]state.PartWeights{0: part(95, 5), 1: part(60, 40)} {
		var c checks
		checkWeights(&c, doc, router.Reading{Parts: []router.Part{{PartWeights: seen}}})
		if len(c.list) != want {
			t.Errorf("%v: %+v, want %d findings", seen, c.list, want)
		}
	}
}

package runner

import (
	"strings"
	"testing"

	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// A write that was cut off within a part leaves some of its units as they were
// and others as they were to be. That is no drift; anything else is.
func TestHalfWrittenPartIsNoDrift(t *testing.T) {
	part := func(a1, a2, b1 float64) []state.PartWeights {
		return []state.PartWeights{{ID: "lb1", Weights: map[string]float64{"a1": a1, "a2": a2, "b1": b1}}}
	}
	intent := &state.Intent{From: part(100, 100, 0), To: part(19, 19, 2)}
	for name, tt := range map[string]struct {
		seen []state.PartWeights
		want string
	}{
		"nothing written": {part(100, 100, 0), ""},
		"one of three":    {part(19, 100, 0), ""},
		"two of three":    {part(19, 100, 2), ""},
		"all":             {part(19, 19, 2), ""},
		"another weight":  {part(19, 50, 2), "part lb1 has weights"},
		"another server":  {[]state.PartWeights{{ID: "lb1", Weights: map[string]float64{"a1": 19, "a2": 19, "b1": 2, "c1": 1}}}, "part lb1 has weights"},
	} {
		t.Run(name, func(t *testing.T) {
			seen := router.Reading{Parts: []router.Part{{PartWeights: tt.seen[0]}}}
			if got := drift(seen, intent.To, intent); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("with the write unfinished: %q, want %q", got, tt.want)
			}
		})
	}
	seen := router.Reading{Parts: []router.Part{{PartWeights: part(19, 100, 2)[0]}}}
	if got := drift(seen, intent.To, nil); got == "" {
		t.Error("with nothing unfinished a part between two writes is no drift")
	}
}

// What a write of manent's left that was cut off is no stranger's hand to the
// rollout after it.
func TestHalfWriteOfTheLastRollout(t *testing.T) {
	part := func(a1, a2, b1 float64) state.PartWeights {
		return state.PartWeights{ID: "lb1", Weights: map[string]float64{"a1": a1, "a2": a2, "b1": b1}}
	}
	intent := &state.Intent{From: []state.PartWeights{part(1, 1, 0)}, To: []state.PartWeights{part(99, 99, 5)}}
	stopped := &state.Rollout{Status: state.Stopped, Steps: []state.Step{{Name: "traffic@5", Kind: "traffic", State: state.Failed, Intent: intent}}}
	for name, tt := range map[string]struct {
		last *state.Rollout
		pass state.Pass
		seen state.PartWeights
		want bool
	}{
		"half of it":          {stopped, state.Pass{}, part(99, 1, 0), true},
		"nothing of it":       {stopped, state.Pass{}, part(1, 1, 0), true},
		"another weight":      {stopped, state.Pass{}, part(99, 50, 0), false},
		"of the one before":   {&state.Rollout{Status: state.Stopped}, state.Pass{Half: intent}, part(99, 1, 0), true},
		"returned since":      {&state.Rollout{Status: state.Returned, Steps: stopped.Steps}, state.Pass{}, part(99, 1, 0), false},
		"nothing was written": {&state.Rollout{Status: state.Stopped}, state.Pass{}, part(99, 1, 0), false},
	} {
		t.Run(name, func(t *testing.T) {
			pass := tt.pass
			pass.Half = halfDone(tt.last, &pass)
			c := &call{session: &session{doc: &state.Document{Rollout: &state.Rollout{}}}, pass: &pass}
			if got := c.named(router.Reading{Parts: []router.Part{{PartWeights: tt.seen}}}); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

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

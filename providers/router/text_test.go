package router

import (
	"testing"

	"github.com/manent/action/state"
)

func TestText(t *testing.T) {
	one := state.PartWeights{ID: "lb1", Weights: map[string]float64{"b": 5, "a": 95}}
	two := state.PartWeights{ID: "lb2", Weights: map[string]float64{"web2": 99.61089494163424, "web1": 0}}
	for got, want := range map[string]string{
		Text(nil):                             "nothing",
		TextOf([]state.PartWeights{one}):      "a 95, b 5",
		TextOf([]state.PartWeights{one, two}): "lb1: a 95, b 5; lb2: web1 0, web2 99.611",
		PercentText(0.38910505836575876):      "0.389 %",
		PercentText(5):                        "5 %",
		(&ErrDrifted{Part: "lb1", Seen: one.Weights, Want: map[string]float64{"a": 100, "b": 0}}).Error(): "part lb1 has weights a 95, b 5, expected a 100, b 0",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

package router

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/manent/action/state"
)

// Text shows weights for a person: "a 95, b 5", "nothing" when there are none.
func Text(weights map[string]float64) string {
	if len(weights) == 0 {
		return "nothing"
	}
	out := make([]string, 0, len(weights))
	for _, unit := range slices.Sorted(maps.Keys(weights)) {
		out = append(out, unit+" "+number(weights[unit]))
	}
	return strings.Join(out, ", ")
}

// TextOf shows the weights of parts, these by name when there are several:
// "lb1: a 95, b 5; lb2: a 100, b 0".
func TextOf(parts []state.PartWeights) string {
	if len(parts) == 1 {
		return Text(parts[0].Weights)
	}
	out := make([]string, 0, len(parts))
	for _, p := range parts {
		out = append(out, p.ID+": "+Text(p.Weights))
	}
	return strings.Join(out, "; ")
}

// PercentText shows a share for a person, to a thousandth of a percent.
func PercentText(share float64) string { return number(share) + " %" }

func number(v float64) string {
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}

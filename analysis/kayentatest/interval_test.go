package kayentatest

import (
	"math"
	"slices"
	"testing"
)

// TestPublishedInterval holds what that judge itself printed, in
// spinnaker/spinnaker issue 6278: 7 of 10 points 100 times worse pass, since
// the lower limit is not above 24.75. With 8 it fails.
func TestPublishedInterval(t *testing.T) {
	stable := slices.Repeat([]float64{1}, 10)
	bad := func(n int) []float64 {
		return append(slices.Repeat([]float64{1}, 10-n), slices.Repeat([]float64{100}, n)...)
	}
	low, high, estimate, ok := shift{bad(7), stable}.interval()
	if math.Abs(low/6.825022991538781e-05-1) > 1e-13 || high != 99 || estimate != 98.99992904170193 || !ok {
		t.Errorf("interval from %v to %v, estimate %v, %t; expected 6.825022991538781e-05 to 99 and 98.99992904170193", low, high, estimate, ok)
	}
	for n, want := range map[int]Class{6: Pass, 7: Pass, 8: High} {
		if got := Judge(bad(n), stable, ""); got != want {
			t.Errorf("%d of 10 points: %s, expected %s", n, got, want)
		}
	}
}

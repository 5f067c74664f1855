package analysis

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A candidate with a twentieth of the traffic has few events a point: it ranks
// low though nothing differs, and by luck its mean is lower half of the time.
// Neither direction may spend more than its bound.
func TestBoundOfASmallShare(t *testing.T) {
	const share, alpha, trials, looks = 0.05, 0.01, 200 / scale, 6
	for _, direction := range []Direction{Decrease, Either} {
		for _, events := range []float64{1.2, 5} { // of the candidate, a point
			for _, planned := range []int{60, 400} {
				g := rand.New(rand.NewPCG(7, uint64(planned)))
				rule := Rule{Direction: direction, MaxRatio: 1, MinRatio: 1, MinPoints: 5, Bound: &Bound{Alpha: alpha, Planned: planned, Share: share}}
				failed := 0
				for range trials {
					candidate, stable := make([]float64, planned), make([]float64, planned)
					for i := range candidate {
						// the same rate a request on both sides
						candidate[i] = poisson(g, events)
						stable[i] = events + math.Sqrt(events*share/(1-share))*g.NormFloat64()
					}
					if fails(candidate, stable, rule, looks) {
						failed++
					}
				}
				// 200 trials at 1 % are more than 8 with a chance of 1 in 5,000
				if failed > 8 {
					t.Errorf("%s, %v events a point, %d points: %d of %d fail, expected about %v at most", direction, events, planned, failed, trials, alpha*trials)
				}
			}
		}
	}
}

// fails looks at growing heads of the series.
func fails(candidate, stable []float64, rule Rule, looks int) bool {
	for k := 1; k <= looks; k++ {
		n := len(candidate) * k / looks
		if Compare(candidate[:n], stable[:n], rule).Outcome == Fail {
			return true
		}
	}
	return false
}

// While an approval is waited for the looks go on for days, on a series whose
// points are taken further and further apart. All of them together keep the
// bound.
func TestBoundOfLongWaits(t *testing.T) {
	const alpha, planned, most, trials = 0.05, 30, 128, 150 / scale
	failed := 0
	for trial := range trials {
		g := rand.New(rand.NewPCG(11, uint64(trial)))
		candidate, stable := make([]float64, 4000), make([]float64, 4000)
		for i := range candidate {
			candidate[i], stable[i] = g.NormFloat64()+10, g.NormFloat64()+10
		}
		if failsWhileWaiting(candidate, stable, planned, most, alpha) {
			failed++
		}
	}
	t.Logf("%d of %d", failed, trials)
	// 150 trials at 5 % are more than 17 with a chance of 1 in 1,000
	if failed > 17 {
		t.Errorf("%d of %d fail, expected about %v at most", failed, trials, alpha*trials)
	}
}

func failsWhileWaiting(candidate, stable []float64, planned, most int, alpha float64) bool {
	for n := 5; n <= len(candidate); n += max(1, n/12) {
		each := 1
		for n/each > most {
			each *= 2
		}
		rule := Rule{Direction: Increase, MaxRatio: 1, MinRatio: 1, MinPoints: 5, Bound: &Bound{Alpha: alpha, Planned: planned, Each: each}}
		if Compare(every(candidate[:n], each), every(stable[:n], each), rule).Outcome == Fail {
			return true
		}
	}
	return false
}

// every takes one of so many points.
func every(points []float64, each int) []float64 {
	var out []float64
	for i := each - 1; i < len(points); i += each {
		out = append(out, points[i])
	}
	return out
}

package analysis

import "math"

// fallP is the one-sided p of a fall of the mean, by the normal distribution.
// Where events are rare, points of a small share are skewed: most of them rank
// low although the means are alike. So a fall has to show in the means too.
//
// The candidate's variance is taken as no less than the stable's scaled to its
// part of the traffic, (1−share)÷share times it, as that of a mean of so many
// events is: a sample that happens to be low has too small a variance itself.
// Counts have a lower tail that is lighter than the normal one, so the p is on
// the safe side.
func fallP(candidate, stable []float64, c Comparison, share float64) float64 {
	if c.CandidatePoints < 2 || c.StablePoints < 2 {
		return 1
	}
	scale := 1.0
	if share > 0 && share < 1 {
		scale = max(1, (1-share)/share)
	}
	of, by := variance(candidate, c.CandidateMean), variance(stable, c.StableMean)
	deviation := math.Sqrt(max(of, scale*by)/float64(c.CandidatePoints) + by/float64(c.StablePoints))
	if !(deviation > 0) {
		if c.Delta < 0 {
			return math.SmallestNonzeroFloat64
		}
		return 1
	}
	return max(upperTail(-c.Delta/deviation), math.SmallestNonzeroFloat64)
}

// variance is the unbiased one of the points that are numbers.
func variance(points []float64, mean float64) float64 {
	sum, n := 0.0, 0
	for _, v := range points {
		if !math.IsNaN(v) {
			sum += (v - mean) * (v - mean)
			n++
		}
	}
	return sum / float64(n-1)
}

package analysis

import (
	"fmt"
	"math"
)

// MannWhitney compares two samples by the ranks of their points (Mann &
// Whitney 1947; ties as in Lehmann, Nonparametrics, 1975, §1.4). It takes
// O(n log n) and allocates one scratch slice.
//
// U counts the pairs in which the candidate is above, ties half. With Normal
// the two-sided p is
//
//	2·(1 − Φ((|U − mn/2| − ½) ÷ σ)),  σ² = mn/12 · (N + 1 − Σ(t³ − t) ÷ (N(N − 1)))
//
// for m and n points, N of both, and t points in each group of equal ones: R's
// wilcox.test(exact = FALSE) and SciPy's mannwhitneyu(method = "asymptotic").
// With Exact it is as exactP says, up to exactPairs pairs; beyond, Method of
// the result is Normal and a warning says so. Every other method is Normal.
// P is never 0: what is smaller than the smallest number is that number.
//
// With a confidence above 0 there is a Shift with an interval of that
// confidence, unless a point is infinite or a side is empty.
//
// NaN points are left out and counted in a warning. Infinite points have their
// rank. P is 1, with a warning, when all points are equal or a side is empty;
// the mean of an empty side, and all that follows from it, is NaN.
func MannWhitney(candidate, stable []float64, method Method, confidence float64) Comparison {
	s := newSamples(candidate, stable, method, confidence)
	c := Comparison{Effect: 0.5, P: 1, Method: s.method, CandidatePoints: len(s.x), StablePoints: len(s.y)}
	c.Warnings = s.warnings
	c.means(mean(s.x), mean(s.y))
	if len(s.x) == 0 || len(s.y) == 0 {
		return c
	}
	u, ties := rank(s.x, s.y)
	c.U, c.Effect = u, u/s.pairs()
	switch {
	case s.least() == s.most():
		c.warn("all points are equal")
	case s.method == Exact:
		c.P = exactP(s.x, s.y, s.free, u)
	default:
		c.P = normalP(u, len(s.x), len(s.y), ties)
	}
	if confidence > 0 {
		c.shift(s, confidence)
	}
	return c
}

func (c *Comparison) warn(format string, args ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...))
}

// means sets what follows from the means.
func (c *Comparison) means(candidate, stable float64) {
	c.CandidateMean, c.StableMean = candidate, stable
	c.Delta, c.Ratio = candidate-stable, candidate/stable
	if candidate == 0 && stable == 0 {
		c.Ratio = 1
	}
	for _, side := range []struct {
		name   string
		points int
		mean   float64
	}{{"candidate", c.CandidatePoints, candidate}, {"stable", c.StablePoints, stable}} {
		switch {
		case side.points == 0:
			c.warn("the %s has no points", side.name)
		case math.IsNaN(side.mean) || math.IsInf(side.mean, 0):
			c.warn("the %s has infinite points: its mean says nothing", side.name)
		}
	}
}

// samples are two sorted samples in one allocation.
type samples struct {
	x, y     []float64 // the candidate's and the stable's points, sorted, no NaN, no -0
	free     []float64 // the rest of the allocation
	method   Method
	warnings []string
}

func newSamples(candidate, stable []float64, method Method, confidence float64) samples {
	m, n := len(candidate), len(stable)
	space := 0
	if longer := max(m, n); longer >= radixFrom {
		space = longer
	}
	if confidence > 0 {
		space = max(space, gatherSpace(m+n))
	}
	if method == Exact && withinExact(m, n) {
		space = max(space, exactSpace(m, n))
	}
	scratch := make([]float64, m+n+space)
	s := samples{x: numbers(scratch[:0:m], candidate), y: numbers(scratch[m:m:m+n], stable), free: scratch[m+n:]}
	sortPoints(s.x, s.free)
	sortPoints(s.y, s.free)
	s.settle(method, m-len(s.x), n-len(s.y))
	return s
}

// settle chooses the method, and says what is not as asked for.
func (s *samples) settle(method Method, candidateGaps, stableGaps int) {
	if candidateGaps+stableGaps > 0 {
		s.warnings = append(s.warnings, fmt.Sprintf("left out points that are not numbers: %d of the candidate, %d of the stable", candidateGaps, stableGaps))
	}
	s.method = methodFor(method, len(s.x), len(s.y))
	if method == Exact && s.method != Exact {
		s.warnings = append(s.warnings, fmt.Sprintf("p is the normal approximation: exact is for up to %d pairs, these are %.0f", exactPairs, s.pairs()))
	}
}

// methodFor is the method that p-values of that many points are had by.
func methodFor(asked Method, m, n int) Method {
	if asked == Exact && withinExact(m, n) {
		return Exact
	}
	return Normal
}

func (s *samples) pairs() float64 { return float64(len(s.x)) * float64(len(s.y)) }
func (s *samples) least() float64 { return min(s.x[0], s.y[0]) }
func (s *samples) most() float64  { return max(s.x[len(s.x)-1], s.y[len(s.y)-1]) }

// numbers appends the points that are numbers to into. -0 becomes 0, which it
// is equal to.
func numbers(into, points []float64) []float64 {
	for _, v := range points {
		if !math.IsNaN(v) {
			into = append(into, v+0)
		}
	}
	return into
}

// rank returns U of x, and Σ(t³ − t) over the groups of t equal points, of two
// sorted samples with at least one point. Which side goes on is added, not
// branched on: a processor cannot guess it.
func rank(x, y []float64) (u, ties float64) {
	twice, i, j := int64(0), 0, 0 // 2U; what has been passed of x and y
	value, a, b := min(x[0], y[0]), 0, 0
	for i < len(x) && j < len(y) {
		if next := min(x[i], y[j]); next != value {
			twice += won(i-a, b, j-b)
			ties += tied(i - a + j - b)
			value, a, b = next, i, j // the group begins there
		}
		step := 0
		if x[i] <= y[j] {
			step = 1
		}
		i += step
		j += 1 - step
	}
	i, j = i+run(x[i:], value), j+run(y[j:], value)
	twice += won(i-a, b, j-b) + 2*int64(len(x)-i)*int64(len(y))
	return float64(twice) / 2, ties + tied(i-a+j-b) + tiesOf(x[i:]) + tiesOf(y[j:])
}

// won is twice what points of a group of x add to U: that many of y are below
// them, and that many equal.
func won(points, below, equal int) int64 { return int64(points) * int64(2*below+equal) }

func tiesOf(sorted []float64) (ties float64) {
	for len(sorted) > 0 {
		t := run(sorted, sorted[0])
		ties += tied(t)
		sorted = sorted[t:]
	}
	return ties
}

// tied is t³ − t.
func tied(points int) float64 {
	if points < 2 {
		return 0
	}
	t := float64(points)
	return t*t*t - t
}

// run counts the points at the head that equal v.
func run(sorted []float64, v float64) int {
	n := 0
	for n < len(sorted) && sorted[n] == v {
		n++
	}
	return n
}

// normalP is the two-sided p of the formula at MannWhitney. Not all points are
// equal.
func normalP(u float64, m, n int, ties float64) float64 {
	pairs, all := float64(m)*float64(n), float64(m)+float64(n)
	variance := pairs / 12 * (all + 1 - ties/(all*(all-1)))
	return twoSided(standardised(u, pairs, variance))
}

// standardised is |U − mn/2| less the continuity correction of ½, but not
// below 0, in standard deviations.
func standardised(u, pairs, variance float64) float64 {
	return max(math.Abs(u-pairs/2)-0.5, 0) / math.Sqrt(variance)
}

// twoSided is the chance that a standard normal variable is at least z ≥ 0
// away from 0, never 0 itself.
func twoSided(z float64) float64 {
	return max(math.Erfc(z/math.Sqrt2), math.SmallestNonzeroFloat64)
}

// mean of sorted points: compensated (Neumaier 1974), without overflow on the
// way, within their range, and NaN of none.
func mean(sorted []float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	low, high := sorted[0], sorted[len(sorted)-1]
	if low == high {
		return low
	}
	if math.IsInf(low, -1) || math.IsInf(high, 1) {
		return low + high
	}
	n, scale := float64(len(sorted)), 1.0
	if max(-low, high) > math.MaxFloat64/n {
		n, scale = 1, 1/n
	}
	return min(max(sum(sorted, scale)/n, low), high)
}

func sum(points []float64, scale float64) float64 {
	total, lost := 0.0, 0.0
	for _, v := range points {
		v *= scale
		next := total + v
		if math.Abs(total) >= math.Abs(v) {
			lost += total - next + v
		} else {
			lost += v - next + total
		}
		total = next
	}
	return total + lost
}

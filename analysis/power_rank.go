package analysis

import (
	"math"
	"time"
)

// RankTest is a Mann-Whitney comparison of error ratios, one point a window,
// looked at once, at the end.
type RankTest struct {
	Level     float64       // one-sided, of the last look: alpha ÷ 2 for the documented rule
	Bounded   bool          // by the largest variance of U, as with Rule.Bound
	Window    time.Duration // of the data behind one point
	Step      time.Duration // of the query
	MaxRatio  float64       // of means, tolerated
	MinPoints int
}

// Points is how many points each side has after that time, taken as far apart
// as the longer of step and window, since closer ones say nothing new.
func (r RankTest) Points(watched time.Duration) int {
	apart := max(r.Step, r.Window)
	if apart <= 0 || watched < r.Window {
		return 0
	}
	return int((watched-r.Window)/apart) + 1
}

// Chance is that the ranks are significant and the means beyond the ratio.
// Looks before the last add to it, so it is rather too low; within 0.1 of
// simulations of that look from about one request of the candidate a point on.
func (r RankTest) Chance(t Traffic, candidateError float64) float64 {
	n := r.Points(t.Time)
	if n < max(r.MinPoints, 2) {
		return 0
	}
	behind := r.Window // data of one point
	if behind <= 0 {
		behind = r.Step
	}
	t.Time = behind
	x, y := t.Requests()
	if x <= 0 || y <= 0 {
		return 0
	}
	significant := r.significant(spread(x, candidateError, 1/x), spread(y, t.StableError, 1/y), float64(n))
	t.Time *= time.Duration(n)
	beyond := RatioTest{MaxRatio: r.MaxRatio}.Chance(t, candidateError)
	return math.Min(significant, beyond) // nearly the same event, not two independent ones
}

// significant is the probability that U of n points a side drawn from these
// distributions is beyond the level, upwards.
func (r RankTest) significant(candidate, stable []float64, n float64) float64 {
	higher, equal := pairs(candidate, stable)
	above := higher + equal/2
	a, b := variation(candidate, stable), variation(stable, candidate)
	one := higher + equal/4 - above*above // variance of one pair
	sd := n * math.Sqrt(math.Max((n-1)*(a+b)+one, 1e-12))
	limit := n*n/2 + 0.5 + quantile(1-r.Level)*math.Sqrt(r.variance(candidate, stable, n))
	return upperTail((limit - n*n*above) / sd)
}

// variance of U that the test reckons with.
func (r RankTest) variance(candidate, stable []float64, n float64) float64 {
	if r.Bounded {
		return n * n * n / 4
	}
	ties := n * (zeros(candidate) + zeros(stable)) // other values hardly repeat
	ties = math.Max(0, ties*ties*ties-ties)
	return n * n / 12 * (2*n + 1 - ties/(2*n*(2*n-1)))
}

// cells is how many equally likely values stand for a distribution.
const cells = 400

// spread is the distribution of the bad ones of n requests, each bad with
// probability rate, times a scale: rising values, each as likely as the others.
func spread(n, rate, scale float64) []float64 {
	values := make([]float64, cells)
	mean := n * rate
	if mean > 100 {
		sd := math.Sqrt(mean * (1 - rate))
		for i := range values {
			values[i] = scale * math.Max(0, mean+sd*quantile((float64(i)+0.5)/cells))
		}
		return values
	}
	count, p := 0.0, math.Exp(-mean) // Poisson
	sum := p
	for i := range values {
		for sum < (float64(i)+0.5)/cells && count < n {
			count++
			p *= mean / count
			sum += p
		}
		values[i] = scale * count
	}
	return values
}

// pairs are the parts of all pairs in which the first is higher, and in which
// both are equal.
func pairs(a, b []float64) (higher, equal float64) {
	below, upTo := 0, 0 // values of b below, and not above, the value of a
	for _, v := range a {
		for below < len(b) && b[below] < v {
			below++
		}
		for upTo < len(b) && b[upTo] <= v {
			upTo++
		}
		higher += float64(below)
		equal += float64(upTo - below)
	}
	all := float64(len(a) * len(b))
	return higher / all, equal / all
}

// variation is the variance, over the values of a, of the part of b below.
func variation(a, b []float64) float64 {
	below, upTo := 0, 0
	var sum, squares float64
	for _, v := range a {
		for below < len(b) && b[below] < v {
			below++
		}
		for upTo < len(b) && b[upTo] <= v {
			upTo++
		}
		part := float64(below+upTo) / float64(2*len(b))
		sum += part
		squares += part * part
	}
	n := float64(len(a))
	return squares/n - sum/n*sum/n
}

// zeros is the part of the values that is 0.
func zeros(rising []float64) float64 {
	n := 0
	for n < len(rising) && rising[n] == 0 {
		n++
	}
	return float64(n) / float64(len(rising))
}

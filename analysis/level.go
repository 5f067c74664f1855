package analysis

import "math"

// Shares of a bound's alpha: for the looks of the planned bake, and for all
// later ones.
const (
	plannedShare = 0.9
	laterShare   = 0.1
)

// Level returns the one-sided level of a look at the part t of the planned
// points, so that a statistic looked at any number of times, in one direction,
// is ever beyond its level with a chance of at most alpha when nothing differs.
//
// It is an O'Brien-Fleming-type boundary (spending as in Lan & DeMets,
// Biometrika 70, 1983) that needs no count of looks. Under no difference z·√t
// at the looks is a Brownian motion B(t) seen now and then, and for it the
// reflection principle gives P(max over s ≤ T of B(s) ≥ a·√T) = 2·(1 − Φ(a)):
//
//	t ≤ 1:             z ≥ z(0.45·alpha) ÷ √t,           which spends 0.9·alpha
//	2^(e−1) < t ≤ 2^e: z ≥ z(alphaₑ ÷ 2) · √(2^e ÷ t),   alphaₑ = 0.1·alpha·2^−e, e = 1, 2, …
//
// with z(p) the upper p-quantile of the normal distribution; the sum is alpha.
// A look just after the planned end is therefore much stricter than one at it.
// Level is 0 where alpha is not between 1e-9 and 1, or t not above 0 and at
// most 2^20.
func Level(alpha, t float64) float64 {
	if !(alpha >= 1e-9 && alpha < 1 && t > 0 && t <= 1<<20) {
		return 0
	}
	if t <= 1 {
		return upperTail(upperQuantile(plannedShare*alpha/2) / math.Sqrt(t))
	}
	epoch := math.Ceil(math.Log2(t))
	spent := laterShare * alpha * math.Exp2(-epoch)
	return upperTail(upperQuantile(spent/2) * math.Sqrt(math.Exp2(epoch)/t))
}

// PointsFor returns the smallest number of points a side with which a rule with
// a Bound of that alpha can fail at all at the end of the bake. Of direction
// Either each direction has half, so ask for half. It is math.MaxInt when no
// number is enough.
func PointsFor(alpha float64) int {
	level := Level(alpha, 1)
	return fewest(func(n int) bool { return boundedP(float64(n)*float64(n), n, n) < level })
}

// PointsForAlpha returns the smallest number of points a side with which the
// documented rule can fail at all: where complete separation of points that
// are all different has p < alpha. It is math.MaxInt when no number is enough.
func PointsForAlpha(alpha float64, method Method) int {
	return fewest(func(n int) bool { return leastP(n, n, method) < alpha })
}

// fewest returns the smallest number that is enough. What 2,000 points a side
// cannot do, no number can: their p is below the smallest float64.
func fewest(enough func(n int) bool) int {
	for n := 1; n <= 2000; n++ {
		if enough(n) {
			return n
		}
	}
	return math.MaxInt
}

// boundedP is the one-sided p of a U that is high, with the continuity
// correction of ½, by the largest variance that U can have when it is centred,
// whatever the spread of each side:
//
//	Var(U) ≤ mn·max(m, n) ÷ 4
//
// (van Dantzig 1951; Birnbaum & Klose 1957). The variance of the textbook
// holds for equal distributions only; a candidate with a twentieth of the
// traffic has points that scatter far more than the stable's, and at equal
// numbers up to 1.5 times that variance. It is never 0, and NaN of no points.
func boundedP(u float64, m, n int) float64 {
	pairs := float64(m) * float64(n)
	z := (u - pairs/2 - 0.5) / math.Sqrt(pairs*float64(max(m, n))/4)
	return max(upperTail(z), math.SmallestNonzeroFloat64)
}

// upperTail is the chance that a standard normal variable is above z.
func upperTail(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }

// upperQuantile is the z ≥ 0 whose upperTail is p, 0 < p ≤ ½: Newton's method
// on the logarithm of the tail, which is nearly a parabola. (math.Erfcinv goes
// through 1 − x and knows nothing of small p.)
func upperQuantile(p float64) float64 {
	z := math.Sqrt(max(-2*math.Log(2*p), 0))
	for range 8 {
		tail := upperTail(z)
		density := math.Exp(-z*z/2) / math.Sqrt(2*math.Pi)
		z += tail / density * math.Log(tail/p)
	}
	return max(z, 0)
}

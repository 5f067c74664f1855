package analysis

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestUpperQuantile: values of R's qnorm(p, lower.tail = FALSE).
func TestUpperQuantile(t *testing.T) {
	for p, want := range map[float64]float64{
		0.5: 0, 0.4: 0.2533471031357997, 0.05: 1.644853626951473, 0.025: 1.959963984540054,
		0.001: 3.090232306167813, 1e-6: 4.753424308822899, 1e-10: 6.361340902404056, 1e-15: 7.941345326170998,
	} {
		if got := upperQuantile(p); math.Abs(got-want) > 1e-12 {
			t.Errorf("quantile of %g is %.16g, expected %.16g", p, got, want)
		}
		within(t, "tail of the quantile", upperTail(upperQuantile(p)), p, 1e-13)
	}
}

func TestLevel(t *testing.T) {
	for _, c := range []struct{ alpha, t, want float64 }{
		{0.05, 1, 0.0225},          // 0.45·alpha
		{0.05, 0.25, 3.044835e-05}, // z(0.0225)·2 = 4.0093
		{0.05, 2, 0.00125},         // epoch 1: 0.1·alpha ÷ 2 ÷ 2
		{0.05, 4, 0.000625},        // epoch 2
		{0.05, 1.0001, 9.5381e-06}, // z(0.00125)·√2 = 4.2754
		{0.01, 1, 0.0045},
	} {
		within(t, "level", Level(c.alpha, c.t), c.want, 2e-3)
	}
	for _, alpha := range []float64{1e-9, 0.001, 0.05, 0.5, 0.999} {
		for _, bake := range [][2]float64{{0.001, 1}, {1.001, 2}, {2.001, 4}, {512.001, 1024}} {
			last := 0.0
			for t1 := bake[0]; t1 <= bake[1]; t1 *= 1.01 {
				if got := Level(alpha, t1); !(got >= last && got < alpha/2) {
					t.Errorf("level of %g at %g is %g, after %g: expected to grow, below half of alpha", alpha, t1, got, last)
				}
				last = Level(alpha, t1)
			}
		}
	}
	nan := math.NaN()
	for _, c := range [][2]float64{{0, 1}, {1, 1}, {nan, 1}, {-1, 1}, {0.05, 0}, {0.05, -1}, {0.05, nan}, {0.05, math.Inf(1)}} {
		if got := Level(c[0], c[1]); got != 0 {
			t.Errorf("level of %g at %g is %g, expected 0", c[0], c[1], got)
		}
	}
}

// TestLevelSpendsAtMostAlpha walks at random and looks a number of times up to
// the planned end, and as often after it up to four times its length.
func TestLevelSpendsAtMostAlpha(t *testing.T) {
	const trials = 2000 / scale
	for _, looks := range []int{15, 60, 1000} {
		for _, alpha := range []float64{0.05, 0.2} {
			planned, ever := crossings(looks, alpha, trials)
			t.Logf("%d looks, alpha %g: crossed %.4f up to the planned end, %.4f ever", looks, alpha, planned, ever)
			margin := 3 * math.Sqrt(alpha*(1-alpha)/trials)
			if planned > plannedShare*alpha+margin || ever > alpha+margin {
				t.Errorf("%d looks, alpha %g: crossed %.4f and %.4f, expected at most %.4f and %.4f", looks, alpha, planned, ever, plannedShare*alpha, alpha)
			}
			if ever < 0.5*alpha-margin {
				t.Errorf("%d looks, alpha %g: crossed %.4f, expected most of alpha to be spent", looks, alpha, ever)
			}
		}
	}
}

func crossings(looks int, alpha float64, trials int) (planned, ever float64) {
	barrier := make([]float64, 4*looks)
	for i := range barrier {
		barrier[i] = upperQuantile(Level(alpha, float64(i+1)/float64(looks))) * math.Sqrt(float64(i+1))
	}
	g := rand.New(rand.NewPCG(uint64(looks), math.Float64bits(alpha)))
	for range trials {
		walk := 0.0
		for i, b := range barrier {
			if walk += g.NormFloat64(); walk > b {
				ever++
				if i < looks {
					planned++
				}
				break
			}
		}
	}
	return planned / float64(trials), ever / float64(trials)
}

// TestLevelOnCoins is exact: each of the candidate's points is above or below
// all of the stable's by the toss of a coin, which gives U the largest
// variance there is, in steps as coarse as can be. A look each point crosses
// with at most the part of alpha that is for the planned bake.
func TestLevelOnCoins(t *testing.T) {
	worst := 0.0
	for _, alpha := range []float64{0.1, 0.01, 0.01 / 3, 0.01 / 12, 1e-4} {
		for n := 3; n <= 120; n += 1 + n/20 {
			chance := coinsCross(n, alpha)
			worst = max(worst, chance/alpha)
			if chance > alpha*0.92 {
				t.Errorf("alpha %g, %d points: crosses with %g", alpha, n, chance)
			}
		}
	}
	t.Logf("at most %.3f of alpha", worst)
	if worst < 0.7 {
		t.Errorf("at most %.3f of alpha, expected that some plan spends most of it", worst)
	}
}

// coinsCross is the chance to cross at one of n looks. Heads less tails s make
// U = k²/2 + k·s/2 after k points.
func coinsCross(n int, alpha float64) (crossed float64) {
	chances := make([]float64, 2*n+3) // of s, at n + 1 + s
	chances[n+1] = 1
	for k := 1; k <= n; k++ {
		next := make([]float64, len(chances))
		for s := -k; s <= k; s++ {
			chance := (chances[n+s] + chances[n+2+s]) / 2
			u := float64(k) * float64(k+s) / 2
			if chance > 0 && boundedP(u, k, k) < Level(alpha, float64(k)/float64(n)) {
				crossed += chance
				continue
			}
			next[n+1+s] = chance
		}
		chances = next
	}
	return crossed
}

// TestBoundedRuleOnRareEvents is the whole rule: equal error rates, a candidate
// with a twentieth of the traffic, a look each point. The documented rule
// fails most of these.
func TestBoundedRuleOnRareEvents(t *testing.T) {
	const trials, points = 600 / scale, 30
	for _, requests := range []float64{3, 30, 300} { // of the candidate, each point
		bound := Rule{Direction: Increase, MinPoints: 2, Bound: &Bound{Alpha: 0.05, Planned: points}}
		either := Rule{Direction: Either, MinPoints: 2, Bound: &Bound{Alpha: 0.05, Planned: points}}
		documented := Rule{Direction: Increase, MinPoints: 2, Alpha: 0.05}
		fails := map[*Rule]int{}
		g := rand.New(rand.NewPCG(12, uint64(requests)))
		for range trials {
			candidate, stable := make([]float64, points), make([]float64, points)
			for i := range points {
				candidate[i] = poisson(g, requests*0.01) / requests
				stable[i] = poisson(g, 19*requests*0.01) / (19 * requests)
			}
			for _, r := range []*Rule{&bound, &either, &documented} {
				fails[r] += failsAtALook(candidate, stable, *r)
			}
		}
		part := func(r *Rule) float64 { return float64(fails[r]) / trials }
		t.Logf("%g requests a point: bounded %.4f, either direction %.4f, documented %.4f", requests, part(&bound), part(&either), part(&documented))
		if part(&bound) > 0.05 || part(&either) > 0.05 {
			t.Errorf("%g requests a point: returned %.4f and %.4f, expected at most 0.05", requests, part(&bound), part(&either))
		}
		if part(&documented) < 0.06 {
			t.Errorf("%g requests a point: the documented rule returned %.4f; if it holds alpha, this proves nothing", requests, part(&documented))
		}
	}
}

func failsAtALook(candidate, stable []float64, r Rule) int {
	for n := 3; n <= len(candidate); n += 3 {
		if Compare(candidate[:n], stable[:n], r).Outcome == Fail {
			return 1
		}
	}
	return 0
}

func TestPointsFor(t *testing.T) {
	for alpha, want := range map[float64]int{0.05: 5, 0.01: 8, 0.01 / 3: 10, 0.001: 12} {
		n := PointsFor(alpha)
		if n != want {
			t.Errorf("%d points for %g, expected %d", n, alpha, want)
		}
		for _, d := range []Direction{Increase, Either} {
			spend := alpha
			if d == Either {
				spend *= 2
			}
			checkPointsFor(t, n, Rule{Direction: d, Bound: &Bound{Alpha: spend, Planned: n}}, Rule{Direction: d, Bound: &Bound{Alpha: spend, Planned: n - 1}})
		}
	}
	for alpha, want := range map[float64][2]int{0.05: {4, 4}, 0.01: {6, 5}, 0.001: {8, 7}, 1e-6: {17, 12}} {
		for i, method := range []Method{Normal, Exact} {
			n := PointsForAlpha(alpha, method)
			if n != want[i] {
				t.Errorf("%s: %d points for %g, expected %d", method, n, alpha, want[i])
			}
			r := Rule{Direction: Increase, Alpha: alpha, Method: method}
			checkPointsFor(t, n, r, r)
		}
	}
	for _, alpha := range []float64{0, -1, math.NaN()} {
		if a, b := PointsFor(alpha), PointsForAlpha(alpha, Normal); a != math.MaxInt || b != math.MaxInt {
			t.Errorf("%d and %d points for %g, expected that no number is enough", a, b, alpha)
		}
	}
}

// checkPointsFor: n points a side, completely separate, fail; one fewer are
// out of reach.
func checkPointsFor(t *testing.T, n int, enough, few Rule) {
	t.Helper()
	low, high := make([]float64, n), make([]float64, n)
	for i := range n {
		low[i], high[i] = float64(i+1), float64(n+i+1)
	}
	if v := Compare(high, low, enough); v.Outcome != Fail {
		t.Errorf("%d points: %s, %s, expected a failure", n, v.Outcome, v.Cause)
	}
	if v := Compare(high[1:], low[1:], few); v.Cause != OutOfReach || v.Outcome != Inconclusive {
		t.Errorf("%d points: %s, %s, expected out of reach", n-1, v.Outcome, v.Cause)
	}
}

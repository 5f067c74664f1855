package simulate

import (
	"math"
	"math/rand/v2"
	"testing"
)

// moments draws and returns mean and variance.
func moments(n int, draw func() int) (mean, variance float64) {
	sum, squares := 0.0, 0.0
	for range n {
		v := float64(draw())
		sum += v
		squares += v * v
	}
	mean = sum / float64(n)
	return mean, squares/float64(n) - mean*mean
}

// near fails beyond 5 standard errors: mean and variance of n draws of about
// normal shape with the given variance.
func near(t *testing.T, n int, mean, variance, wantMean, wantVariance float64) {
	t.Helper()
	se := math.Sqrt(wantVariance / float64(n))
	if math.Abs(mean-wantMean) > 5*se {
		t.Errorf("mean %v, want %v ± %v", mean, wantMean, 5*se)
	}
	if tolerance := 0.05 + 1/math.Sqrt(wantVariance)/20; math.Abs(variance/wantVariance-1) > tolerance {
		t.Errorf("variance %v, want %v within %v", variance, wantVariance, tolerance)
	}
}

func TestPoissonMoments(t *testing.T) {
	const n = 40_000
	for _, mean := range []float64{0.02, 0.5, 3, 9.99, 10.01, 40, 3_000, 1_800_000} {
		rng := rand.New(rand.NewPCG(1, 2))
		m, v := moments(n, func() int { return poisson(rng, mean) })
		near(t, n, m, v, mean, mean)
	}
	if got := poisson(nil, 0); got != 0 {
		t.Errorf("%d events of none", got)
	}
}

func TestBinomialMoments(t *testing.T) {
	const n = 40_000
	for _, tt := range []struct {
		n int
		p float64
	}{{1, 0.5}, {20, 0.1}, {20, 0.9}, {30, 0.34}, {100, 0.2}, {100, 0.8}, {50_000, 0.0001}, {50_000, 0.3}, {50_000, 0.99}} {
		rng := rand.New(rand.NewPCG(3, 4))
		m, v := moments(n, func() int {
			k := binomial(rng, tt.n, tt.p)
			if k < 0 || k > tt.n {
				t.Fatalf("%d of %d", k, tt.n)
			}
			return k
		})
		mean := float64(tt.n) * tt.p
		near(t, n, m, v, mean, mean*(1-tt.p))
	}
	for p, want := range map[float64]int{0: 0, -1: 0, 1: 7, 1.5: 7} {
		if got := binomial(nil, 7, p); got != want {
			t.Errorf("p %v: %d, want %d", p, got, want)
		}
	}
}

// The whole distribution, not only its moments: chi-squared over single
// values, at a mean where rejection is used and one where inversion is.
func TestPoissonDistribution(t *testing.T) {
	const n = 200_000
	for _, mean := range []float64{4, 15} {
		rng := rand.New(rand.NewPCG(5, 6))
		seen := map[int]int{}
		for range n {
			seen[poisson(rng, mean)]++
		}
		chi, cells := 0.0, 0
		for k := range 60 {
			want := n * math.Exp(float64(k)*math.Log(mean)-mean-logFactorial(float64(k)))
			if want >= 20 {
				chi += (float64(seen[k]) - want) * (float64(seen[k]) - want) / want
				cells++
			}
		}
		// mean cells, standard deviation √(2·cells)
		if limit := float64(cells) + 5*math.Sqrt(2*float64(cells)); chi > limit {
			t.Errorf("mean %v: chi-squared %v over %d values, want below %v", mean, chi, cells, limit)
		}
	}
}

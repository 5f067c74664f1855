package simulate

import (
	"math"
	"math/rand/v2"
)

// small is the mean below which a count is found by going up from 0, which
// takes a time proportional to it.
const small = 10

// poisson draws a number of events with the given mean, exactly: by inversion
// where it is small, else by Hörmann's transformed rejection (PTRS, "The
// transformed rejection method for generating Poisson random variables", 1993).
func poisson(rng *rand.Rand, mean float64) int {
	switch {
	case !(mean > 0):
		return 0
	case mean < small:
		return rising(rng, math.Exp(-mean), func(k float64) float64 { return mean / k })
	}
	b := 0.931 + 2.53*math.Sqrt(mean)
	a := -0.059 + 0.02483*b
	logMean, scale := math.Log(mean), math.Log(1.1239+1.1328/(b-3.4))
	fits := func(k float64) float64 { return k*logMean - mean - logFactorial(k) - scale }
	return rejection(rng, hat{a: a, b: b, centre: mean + 0.43, accept: 0.9277 - 3.6224/(b-2), most: math.Inf(1)}, fits)
}

// binomial draws how many of n events happen at p each, exactly: by inversion
// where few do, else by Hörmann's transformed rejection (BTRS, "The generation
// of binomial random variates", 1993).
func binomial(rng *rand.Rand, n int, p float64) int {
	mean := float64(n) * p
	switch {
	case n <= 0 || !(p > 0):
		return 0
	case p >= 1:
		return n
	case p > 0.5:
		return n - binomial(rng, n, 1-p)
	case mean < small:
		odds := p / (1 - p)
		return min(n, rising(rng, math.Exp(float64(n)*math.Log1p(-p)), func(k float64) float64 {
			return odds * (float64(n) + 1 - k) / k
		}))
	}
	spread := math.Sqrt(mean * (1 - p))
	b := 1.15 + 2.53*spread
	a := -0.0873 + 0.0248*b + 0.01*p
	mode := math.Floor((float64(n) + 1) * p)
	logOdds := math.Log(p / (1 - p))
	peak := logFactorial(mode) + logFactorial(float64(n)-mode)
	scale := math.Log((2.83 + 5.1/b) * spread)
	fits := func(k float64) float64 {
		return peak - logFactorial(k) - logFactorial(float64(n)-k) + (k-mode)*logOdds - scale
	}
	return rejection(rng, hat{a: a, b: b, centre: mean + 0.5, accept: 0.92 - 4.2/b, most: float64(n)}, fits)
}

// rising is inversion: first is the chance of 0, ratio that of k to that of
// k-1. What rounding leaves over ends where chances no longer count.
func rising(rng *rand.Rand, first float64, ratio func(k float64) float64) int {
	u, p, k := rng.Float64(), first, 0
	for u > p && k < 1000 {
		u -= p
		k++
		p *= ratio(float64(k))
	}
	return k
}

// hat is the curve that a transformed rejection draws from.
type hat struct {
	a, b, centre float64
	accept       float64 // what lies below it in the middle is taken unseen
	most         float64
}

// rejection draws a number; fits is the logarithm of its chance beside the
// hat's.
func rejection(rng *rand.Rand, h hat, fits func(k float64) float64) int {
	for {
		u, v := rng.Float64()-0.5, rng.Float64()
		us := 0.5 - math.Abs(u)
		k := math.Floor((2*h.a/us+h.b)*u + h.centre)
		switch {
		case k < 0 || k > h.most:
		case us >= 0.07 && v <= h.accept:
			return int(k)
		case math.Log(v)-math.Log(h.a/(us*us)+h.b) <= fits(k):
			return int(k)
		}
	}
}

func logFactorial(k float64) float64 {
	v, _ := math.Lgamma(k + 1)
	return v
}

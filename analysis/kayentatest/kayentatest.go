// Package kayentatest is the rule by which Kayenta's NetflixACAJudge-v1.0
// classifies a metric, with its defaults, for tests that compare manent with
// it. It is written from a description of what that judge does, mistakes
// included; nothing but tests may use it, and it must not know manent's rules.
package kayentatest

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/manent/action/analysis"
)

// Class is what that judge makes of a metric.
type Class string

// The classes. An Error is ignored by its score, as Nodata is.
const (
	Pass   Class = "Pass"
	High   Class = "High"
	Low    Class = "Low"
	Nodata Class = "Nodata"
	Error  Class = "Error"
)

const (
	tolerance = 0.25 // of the estimated shift, not of the baseline
	quantile  = 2.3263478740408408
)

// Judge classifies a metric: High when the 98 % interval of the shift lies
// above a quarter of the estimated shift and the ratio of means is no
// decrease, Low the other way round. NaN points are dropped.
//
// Where each side is constant that judge adds noise of a hundred thousandth of
// the value; here its seed is fixed.
func Judge(candidate, stable []float64, direction analysis.Direction) Class {
	x, y := prepared(candidate), prepared(stable)
	if len(x) == 0 || len(y) == 0 {
		return Nodata
	}
	if slices.Equal(x, y) || constant(x) && constant(y) && x[0] == y[0] {
		return Pass
	}
	ratio := mean(x) / mean(y)
	if mean(x) == 0 || mean(y) == 0 {
		ratio = math.NaN()
	}
	if constant(x) && constant(y) {
		g := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // noise, not a secret
		x, y = noisy(g, x), noisy(g, y)
	}
	s := shift{x, y}
	low, high, estimate, ok := s.interval()
	bound := tolerance * math.Abs(estimate)
	switch {
	case !ok:
		return Error
	case direction != analysis.Decrease && low > bound && !(ratio < 1):
		return High
	case direction != analysis.Increase && high < -bound && !(ratio > 1):
		return Low
	}
	return Pass
}

// prepared returns the points that are numbers, sorted.
func prepared(points []float64) []float64 {
	out := slices.DeleteFunc(slices.Clone(points), math.IsNaN)
	slices.Sort(out)
	return out
}

func constant(sorted []float64) bool { return sorted[0] == sorted[len(sorted)-1] }

func mean(points []float64) float64 {
	total := 0.0
	for _, v := range points {
		total += v
	}
	return total / float64(len(points))
}

func noisy(g *rand.Rand, points []float64) []float64 {
	out := slices.Clone(points)
	for i, v := range out {
		out[i] = v + g.NormFloat64()*1e-5*v
	}
	slices.Sort(out)
	return out
}

// shift is how far sorted x lies above sorted y.
type shift struct{ x, y []float64 }

// interval is that of R's wilcox.test(conf.int = TRUE, exact = FALSE), with a
// continuity correction in the estimate too. It is not ok where all points
// are tied at a shift that the search looks at: there that judge throws.
func (s shift) interval() (low, high, estimate float64, ok bool) {
	least := s.x[0] - s.y[len(s.y)-1]
	most := s.x[len(s.x)-1] - s.y[0]
	ok = true
	at := func(z float64) func(float64) float64 {
		return func(d float64) float64 {
			w, fine := s.standardised(d)
			ok = ok && fine
			return w - z
		}
	}
	limit := func(z float64) float64 {
		f := at(z)
		switch fLeast, fMost := f(least), f(most); {
		case fLeast <= 0:
			return least
		case fMost >= 0:
			return most
		}
		return root(f, least, most)
	}
	low, high = limit(quantile), limit(-quantile)
	estimate = root(at(0), least, most)
	return low, high, estimate, ok
}

// standardised is the rank sum of x, moved down by d, less what is expected
// and ½ towards it, in standard deviations. It is not fine when those are 0.
func (s shift) standardised(d float64) (w float64, fine bool) {
	m, n := float64(len(s.x)), float64(len(s.y))
	u, ties := s.ranks(d)
	dev := math.Sqrt(m * n / 12 * (m + n + 1 - ties/((m+n)*(m+n-1))))
	off := u - m*n/2
	switch {
	case off > 0:
		off -= 0.5
	case off < 0:
		off += 0.5
	}
	return off / dev, dev > 0
}

// ranks walks both samples from one distinct value to the next.
func (s shift) ranks(d float64) (u, ties float64) {
	for i, j := 0, 0; i < len(s.x) || j < len(s.y); {
		v := math.Inf(1)
		if i < len(s.x) {
			v = s.x[i] - d
		}
		if j < len(s.y) {
			v = min(v, s.y[j])
		}
		a, b := 0, 0
		for i+a < len(s.x) && s.x[i+a]-d == v {
			a++
		}
		for j+b < len(s.y) && s.y[j+b] == v {
			b++
		}
		u += float64(a) * (float64(j) + float64(b)/2)
		t := float64(a + b)
		ties += t*t*t - t
		i, j = i+a, j+b
		if a+b == 0 {
			break // infinite or not a number
		}
	}
	return u, ties
}

package kayentatest

import "math"

// Of that judge's root finder. The tolerance is absolute, whatever the scale
// of the metric.
const (
	precision = 1e-4
	passes    = 1000
)

// root is where f, which falls, is 0 between a and b, by Brent's method
// (Algorithms for Minimization without Derivatives, 1973, ch. 4) as in R's
// uniroot. b is always the best guess, c a point on the other side of the root,
// and a the guess before.
func root(f func(float64) float64, a, b float64) float64 {
	fa, fb := f(a), f(b)
	c, fc := a, fa
	for range passes {
		before := b - a
		if math.Abs(fc) < math.Abs(fb) {
			a, b, c = b, c, b
			fa, fb, fc = fb, fc, fb
		}
		least := 2*0x1p-52*math.Abs(b) + precision/2
		step := (c - b) / 2
		if math.Abs(step) <= least || fb == 0 {
			return b
		}
		if math.Abs(before) >= least && math.Abs(fa) > math.Abs(fb) {
			step = interpolated(a, b, c, fa, fb, fc, before, least)
		}
		if math.Abs(step) < least {
			step = math.Copysign(least, step)
		}
		a, fa = b, fb
		b += step
		fb = f(b)
		if math.Signbit(fb) == math.Signbit(fc) && fb != 0 && fc != 0 {
			c, fc = a, fa
		}
	}
	return b
}

// interpolated is a step by the secant or the inverse parabola, or half the
// way to c when that leads too far.
func interpolated(a, b, c, fa, fb, fc, before, least float64) float64 {
	var p, q float64
	if a == c {
		s := fb / fa
		p, q = (c-b)*s, 1-s
	} else {
		r, s, t := fa/fc, fb/fc, fb/fa
		p = t * ((c-b)*r*(r-s) - (b-a)*(s-1))
		q = (r - 1) * (s - 1) * (t - 1)
	}
	if p > 0 {
		q = -q
	}
	p = math.Abs(p)
	if p < 0.75*(c-b)*q-math.Abs(least*q)/2 && p < math.Abs(before*q)/2 {
		return p / q
	}
	return (c - b) / 2
}

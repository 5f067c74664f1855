package analysis

import (
	"math"
	"slices"
)

// gatherSpace is how many differences are gathered and sorted at once: about
// what one more pass over all points costs.
func gatherSpace(points int) int { return 32 + points/32 }

// shift sets the Hodges-Lehmann estimate and its interval: the differences at
// places C and mn + 1 − C of all mn sorted ones, with
//
//	C = ⌊mn/2 − z·√(mn(N + 1) ÷ 12)⌋, z the normal quantile of the confidence
//
// (Hollander & Wolfe, Nonparametric Statistical Methods, §4.2 and §4.3, large
// samples). These are differences of points to the last bit, never the result
// of a search with a tolerance.
func (c *Comparison) shift(s samples, confidence float64) {
	if math.IsInf(s.least(), 0) || math.IsInf(s.most(), 0) {
		c.warn("the shift is not estimated: a point is infinite")
		return
	}
	confidence = min(confidence, 1)
	m, n := float64(len(s.x)), float64(len(s.y))
	pairs := int64(len(s.x)) * int64(len(s.y))
	place := math.Floor(m*n/2 - math.Sqrt2*math.Erfinv(confidence)*math.Sqrt(m*n*(m+n+1)/12))
	if !(place >= 1) {
		c.warn("no interval of the shift has a confidence of %g with so few points: the widest is shown", confidence)
		place = 1
	}
	d := differences{x: s.x, y: s.y, space: s.free[:gatherSpace(len(s.x)+len(s.y))]}
	low := d.kth((pairs + 1) / 2)
	high := d.after(low, pairs/2+1)
	c.Shift = Shift{Estimate: middle(low, high), Confidence: confidence}
	c.Shift.Low, c.Shift.High = d.kth(int64(place)), d.kth(pairs+1-int64(place))
}

// middle is the mean of two numbers, without overflow.
func middle(a, b float64) float64 {
	if sum := a + b; !math.IsInf(sum, 0) {
		return sum / 2
	}
	return a/2 + b/2
}

// differences are all x − y of two sorted samples, which are never all held:
// those up to a value are a staircase in the table of the samples, walked in
// O(m + n) (Monahan, Algorithm 616, 1984, selects in the same table).
type differences struct {
	x, y  []float64
	space []float64 // at least gatherSpace elements
}

// count returns how many differences are at most v, the largest of these, and
// the smallest of the others.
func (d *differences) count(v float64) (n int64, below, above float64) {
	below, above = math.Inf(-1), math.Inf(1)
	j := 0
	for _, x := range d.x {
		for j < len(d.y) && x-d.y[j] > v {
			j++
		}
		n += int64(len(d.y) - j)
		if j < len(d.y) && x-d.y[j] > below {
			below = x - d.y[j]
		}
		if j > 0 && x-d.y[j-1] < above {
			above = x - d.y[j-1]
		}
	}
	return n, below, above
}

// after returns the k-th smallest difference, given it or the one before it.
func (d *differences) after(before float64, k int64) float64 {
	n, _, above := d.count(before)
	if n >= k {
		return before
	}
	return above
}

// gather sorts the differences from low to high, which fit into the space.
func (d *differences) gather(low, high float64) []float64 {
	out, j := d.space[:0], 0
	for _, x := range d.x {
		for j < len(d.y) && x-d.y[j] > high {
			j++
		}
		for i := j; i < len(d.y) && x-d.y[i] >= low; i++ {
			out = append(out, x-d.y[i])
		}
	}
	slices.Sort(out)
	return out
}

// kth returns the k-th smallest difference, counted from 1.
func (d *differences) kth(k int64) float64 {
	b := d.bracket(k)
	for d.narrow(&b) {
	}
	if b.low == b.high {
		return b.low
	}
	return d.gather(b.low, b.high)[k-b.before-1]
}

// bracket begins the search for the k-th difference.
func (d *differences) bracket(k int64) bracket {
	m, n := len(d.x), len(d.y)
	all := int64(m) * int64(n)
	return bracket{k: k, low: d.x[0] - d.y[n-1], high: d.x[m-1] - d.y[0], upto: all, space: int64(len(d.space))}
}

// narrow takes one step unless what is left can be gathered.
func (d *differences) narrow(b *bracket) bool {
	if b.low == b.high || b.inside() <= b.space {
		return false
	}
	b.narrow(d.count(b.pivot()))
	return true
}

// bracket holds the k-th difference between two differences that exist.
type bracket struct {
	k            int64
	low, high    float64
	before, upto int64 // differences below low, and up to high
	space        int64 // few enough to be gathered
	stuck        int   // passes since the bracket last halved
}

func (b *bracket) inside() int64 { return b.upto - b.before }

// pivot returns where to count next, from low to below high. Interpolation
// needs few passes where differences are spread, but none where many are
// equal: then the ends are tried, each of which is a difference, and the
// middle in the order of all floating-point numbers, which cannot take more
// than 64 turns.
func (b *bracket) pivot() float64 {
	v := b.low + (b.high-b.low)*(b.aim()/float64(b.inside()))
	switch b.stuck % 6 {
	case 2, 5:
		v = fromSortKey(sortKey(b.low)/2 + sortKey(b.high)/2)
	case 3:
		v = b.low
	case 4:
		v = math.Nextafter(b.high, math.Inf(-1))
	}
	if v >= b.low && v < b.high {
		return v
	}
	return b.low
}

// aim is the place in the bracket to interpolate to. It is beyond the k-th, as
// seen from the nearer end, by about what interpolation errs: an exact aim
// would bring the near end closer and closer and never move the far one.
func (b *bracket) aim() float64 {
	below, above, all := float64(b.k-b.before), float64(b.upto-b.k), float64(b.inside())
	near := min(below, above)
	beyond := min(max(near*near/all, float64(b.space)/4), all/8)
	if below < above {
		return below + beyond
	}
	return below - beyond
}

// narrow moves an end to the difference next to the pivot, of which n are at
// most the pivot.
func (b *bracket) narrow(n int64, below, above float64) {
	was := b.inside()
	if n >= b.k {
		b.high, b.upto = below, n
	} else {
		b.low, b.before = above, n
	}
	if b.stuck++; b.inside() <= was/2 {
		b.stuck = 0
	}
}

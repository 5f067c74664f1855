package analysis

import (
	"math"
	"math/bits"
	"slices"
)

// radixFrom is the number of points from which a radix sort beats slices.Sort
// (measured on random points; below it counting costs more than comparing).
const radixFrom = 200

// A digit has as many values as keep the counts of three within the fastest
// cache.
const (
	digitBits = 11
	buckets   = 1 << digitBits
)

// sortPoints sorts points, which are not NaN, with the help of tmp, which has
// at least as many elements when there are radixFrom points or more.
func sortPoints(points, tmp []float64) {
	if len(points) < radixFrom {
		slices.Sort(points)
		return
	}
	radixSort(points, tmp[:len(points)])
}

// radixSort sorts by the upper 33 of the bits in which the points differ, in
// digits of 11 from the lowest, and then what those leave unsorted. A digit
// that all points share needs no pass.
func radixSort(points, tmp []float64) {
	d := digitsOf(points)
	var counts [3][buckets]uint32
	for _, v := range points {
		k := d.of(v)
		counts[0][k%buckets]++
		counts[1][k>>digitBits%buckets]++
		counts[2][k>>(2*digitBits)%buckets]++
	}
	from, to, first := points, tmp, d.of(points[0])
	for i := range counts {
		if shift := digitBits * i; int(counts[i][first>>shift%buckets]) < len(points) {
			d.distribute(from, to, shift, &counts[i])
			from, to = to, from
		}
	}
	if &from[0] != &points[0] {
		copy(points, from)
	}
	d.finish(points)
}

// digits takes the bits to sort by from a point.
type digits struct {
	least uint64 // sort key
	shift int
}

func digitsOf(points []float64) digits {
	least, most := sortKey(points[0]), sortKey(points[0])
	for _, v := range points {
		k := sortKey(v)
		least, most = min(least, k), max(most, k)
	}
	return digits{least, max(0, bits.Len64(most-least)-3*digitBits)}
}

func (d digits) of(v float64) uint64 { return (sortKey(v) - d.least) >> (d.shift & 63) }

// distribute moves each point to where its digit puts it; counts become places.
func (d digits) distribute(from, to []float64, shift int, counts *[buckets]uint32) {
	place := uint32(0)
	for i, n := range counts {
		counts[i] = place
		place += n
	}
	for _, v := range from {
		at := &counts[d.of(v)>>(shift&63)%buckets]
		to[*at] = v
		*at++
	}
}

// finish sorts the runs of points that share all bits sorted by.
func (d digits) finish(points []float64) {
	if d.shift == 0 {
		return
	}
	start, digit := 0, d.of(points[0])
	for i, v := range points {
		if next := d.of(v); next != digit {
			if i-start > 1 {
				slices.Sort(points[start:i])
			}
			start, digit = i, next
		}
	}
	slices.Sort(points[start:])
}

// sortKey maps numbers to integers of the same order: the sign bit is turned,
// and with a negative number all other bits too. -0 comes before 0.
func sortKey(v float64) uint64 {
	k := math.Float64bits(v)
	return k ^ (uint64(int64(k)>>63) | 1<<63) //nolint:gosec // the sign is meant to be spread
}

// fromSortKey is the inverse of sortKey.
func fromSortKey(key uint64) float64 {
	if key>>63 == 1 {
		return math.Float64frombits(key ^ 1<<63)
	}
	return math.Float64frombits(^key)
}

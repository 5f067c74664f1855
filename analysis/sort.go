package analysis

import (
	"math"
	"slices"
)

// radixFrom is the number of points from which a radix sort beats slices.Sort
// (measured on random points; below it counting costs more than comparing).
const radixFrom = 160

// sortPoints sorts points, which are not NaN, with the help of tmp, which has
// at least as many elements when there are radixFrom points or more.
func sortPoints(points, tmp []float64) {
	if len(points) < radixFrom {
		slices.Sort(points)
		return
	}
	radixSort(points, tmp[:len(points)])
}

// radixSort sorts by one byte of the order-preserving key at a time, the
// lowest first. A byte that all points share needs no pass.
func radixSort(points, tmp []float64) {
	var counts [8][256]uint32
	for _, v := range points {
		k := sortKey(v)
		counts[0][byte(k)]++
		counts[1][byte(k>>8)]++
		counts[2][byte(k>>16)]++
		counts[3][byte(k>>24)]++
		counts[4][byte(k>>32)]++
		counts[5][byte(k>>40)]++
		counts[6][byte(k>>48)]++
		counts[7][byte(k>>56)]++
	}
	from, to, first := points, tmp, sortKey(points[0])
	for i := range counts {
		shift := uint(8 * i)
		if counts[i][byte(first>>shift)] == uint32(len(points)) {
			continue
		}
		scatter(from, to, shift, &counts[i])
		from, to = to, from
	}
	if &from[0] != &points[0] {
		copy(points, from)
	}
}

// scatter moves each point to where its byte puts it; counts become places.
func scatter(from, to []float64, shift uint, counts *[256]uint32) {
	place := uint32(0)
	for i, n := range counts {
		counts[i] = place
		place += n
	}
	for _, v := range from {
		at := &counts[byte(sortKey(v)>>(shift&63))]
		to[*at] = v
		*at++
	}
}

// sortKey maps numbers to integers of the same order: the sign bit is turned,
// and with a negative number all other bits too. -0 comes before 0.
func sortKey(v float64) uint64 {
	bits := math.Float64bits(v)
	return bits ^ (uint64(int64(bits)>>63) | 1<<63) //nolint:gosec // the sign is meant to be spread
}

// fromSortKey is the inverse of sortKey.
func fromSortKey(key uint64) float64 {
	if key>>63 == 1 {
		return math.Float64frombits(key ^ 1<<63)
	}
	return math.Float64frombits(^key)
}

package analysis

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSortPoints(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 1))
	inf := math.Inf(1)
	odd := []float64{inf, -inf, 0, 5e-324, -5e-324, math.MaxFloat64, -math.MaxFloat64, 1, -1, 1 + 0x1p-52}
	for _, n := range []int{0, 1, 2, radixFrom - 1, radixFrom, radixFrom + 1, 5000} {
		for _, kind := range []distributed{
			{"normal", (*rand.Rand).NormFloat64},
			{"odd", func(g *rand.Rand) float64 { return odd[g.IntN(len(odd))] }},
			{"equal", func(*rand.Rand) float64 { return 2 }},
			{"integer", func(g *rand.Rand) float64 { return float64(g.IntN(300) - 150) }},
			{"any", func(g *rand.Rand) float64 { return math.Float64frombits(g.Uint64() &^ (1 << 62)) }},
		} {
			points := kind.points(g, n)
			want := slices.Clone(points)
			slices.Sort(want)
			sortPoints(points, make([]float64, n))
			if !slices.Equal(points, want) {
				t.Errorf("%d %s points are not sorted", n, kind.name)
			}
		}
	}
}

func TestSortKey(t *testing.T) {
	in := []float64{math.Inf(-1), -math.MaxFloat64, -1, -5e-324, math.Copysign(0, -1), 0, 5e-324, 1, math.MaxFloat64, math.Inf(1)}
	for i, v := range in {
		if i > 0 && sortKey(in[i-1]) >= sortKey(v) {
			t.Errorf("the key of %g is not below that of %g", in[i-1], v)
		}
		if back := fromSortKey(sortKey(v)); math.Float64bits(back) != math.Float64bits(v) {
			t.Errorf("%g came back as %g", v, back)
		}
	}
}

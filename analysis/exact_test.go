package analysis

import (
	"math/bits"
	"math/rand/v2"
	"testing"
)

// enumerated is exactP by going through all ways to choose the candidate's
// points, with U counted pair by pair.
func enumerated(x, y []float64) float64 {
	all := append(append([]float64{}, x...), y...)
	seen := pairwise(x, y)
	below, above, ways := 0, 0, 0
	for set := range uint(1) << len(all) {
		if bits.OnesCount(set) != len(x) {
			continue
		}
		var a, b []float64
		for i, v := range all {
			if set>>i&1 == 1 {
				a = append(a, v)
			} else {
				b = append(b, v)
			}
		}
		ways++
		if u := pairwise(a, b); u <= seen {
			below++
		}
		if u := pairwise(a, b); u >= seen {
			above++
		}
	}
	return min(1, 2*float64(min(below, above))/float64(ways))
}

func pairwise(x, y []float64) (u float64) {
	for _, a := range x {
		for _, b := range y {
			switch {
			case a > b:
				u++
			case a == b:
				u += 0.5
			}
		}
	}
	return u
}

func TestExactAgainstEnumeration(t *testing.T) {
	g := rand.New(rand.NewPCG(2, 2))
	for range 80 {
		m, n, kinds := 1+g.IntN(6), 1+g.IntN(6), 2+g.IntN(12)
		x, y := wholes(g, m, kinds), wholes(g, n, kinds)
		c := MannWhitney(x, y, Exact, 0)
		within(t, "u", c.U, pairwise(x, y), 0)
		within(t, "p", c.P, enumerated(x, y), 1e-13)
		if t.Failed() {
			t.Fatalf("candidate %v, stable %v", x, y)
		}
	}
}

// TestExactAddsUp: the ways counted are all ways there are, for lopsided and
// for large samples too.
func TestExactAddsUp(t *testing.T) {
	g := rand.New(rand.NewPCG(3, 3))
	for _, size := range [][2]int{{1, 1}, {1, 10_000 / scale}, {10_000 / scale, 1}, {100 / scale, 100}, {3, 400}} {
		for _, kinds := range []int{2, 5, 1 << 30} {
			x, y := wholes(g, size[0], kinds), wholes(g, size[1], kinds)
			s := newSamples(x, y, Exact, 0)
			if len(s.x) > len(s.y) {
				s.x, s.y = s.y, s.x
			}
			d := newDistribution(s.x, s.y, s.free)
			got, want := 0.0, 1.0
			for _, ways := range d.row(d.m) {
				got += ways
			}
			for k := 1; k <= d.m; k++ {
				want *= float64(d.n+k) / float64(k)
			}
			within(t, "number of ways", got, want, 1e-10)
		}
	}
}

func BenchmarkExact(b *testing.B) {
	g := rand.New(rand.NewPCG(4, 4))
	for name, draw := range map[string]func() []float64{
		"100 points, all different": func() []float64 { return normals(g, 100, 0, 1) },
		"100 points, 10 values":     func() []float64 { return wholes(g, 100, 10) },
		"15 points, all different":  func() []float64 { return normals(g, 15, 0, 1) },
	} {
		x, y := draw(), draw()
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				MannWhitney(x, y, Exact, 0)
			}
		})
	}
}

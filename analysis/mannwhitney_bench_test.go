package analysis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// benchSizes are points on each side.
func benchSizes() []int { return []int{60, 1_000, 10_000, 100_000} }

func benchPoints(n int) (candidate, stable []float64) {
	g := rand.New(rand.NewPCG(11, uint64(n)))
	return normals(g, n, 100, 10), normals(g, n, 100, 10)
}

// BenchmarkMannWhitney has the goal of twice BenchmarkSort at most.
func BenchmarkMannWhitney(b *testing.B) {
	for _, n := range benchSizes() {
		candidate, stable := benchPoints(n)
		for _, confidence := range []float64{0, 0.95} {
			b.Run(fmt.Sprintf("points=%d/shift=%g", n, confidence), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					MannWhitney(candidate, stable, Normal, confidence)
				}
			})
		}
	}
}

// BenchmarkSort is slices.Sort of both samples joined.
func BenchmarkSort(b *testing.B) {
	for _, n := range benchSizes() {
		candidate, stable := benchPoints(n)
		joined := make([]float64, 0, 2*n)
		b.Run(fmt.Sprintf("points=%d", 2*n), func(b *testing.B) {
			for b.Loop() {
				joined = append(append(joined[:0], candidate...), stable...)
				slices.Sort(joined)
			}
		})
	}
}

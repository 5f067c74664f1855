package analysis

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// allShifts is the shift by sorting all differences.
func allShifts(x, y []float64, confidence float64) Shift {
	var d []float64
	for _, a := range x {
		for _, b := range y {
			d = append(d, a-b)
		}
	}
	slices.Sort(d)
	m, n := float64(len(x)), float64(len(y))
	// Of the normal distribution: qnorm(0.975) and qnorm(0.75), as R prints them.
	z := map[float64]float64{0.95: 1.959963984540054, 0.5: 0.6744897501960817}[confidence]
	c := max(1, int(math.Floor(m*n/2-z*math.Sqrt(m*n*(m+n+1)/12))))
	return Shift{
		Estimate: (d[(len(d)-1)/2] + d[len(d)/2]) / 2, Low: d[c-1], High: d[len(d)-c], Confidence: confidence,
	}
}

func checkShift(t *testing.T, x, y []float64) {
	t.Helper()
	for _, confidence := range []float64{0.95, 0.5} {
		got, want := MannWhitney(x, y, Normal, confidence), allShifts(x, y, confidence)
		if got.Shift != want {
			t.Fatalf("%+v, expected %+v, of %v and %v", got.Shift, want, x, y)
		}
	}
}

func TestShiftAgainstAllDifferences(t *testing.T) {
	samplePairs(func(_ *rand.Rand, x, y []float64) { checkShift(t, x, y) })
	g := rand.New(rand.NewPCG(5, 5))
	for _, size := range [][2]int{{300, 200}, {2, 700}, {700, 1}} {
		for _, kind := range distributions() {
			t.Run(kind.name, func(t *testing.T) { checkShift(t, kind.points(g, size[0]), kind.points(g, size[1])) })
		}
	}
}

type distributed struct {
	name string
	draw func(*rand.Rand) float64
}

// distributions are such as are hard to select from: atoms among spread
// points, heavy tails, extreme scales.
func distributions() []distributed {
	return []distributed{
		{"normal", (*rand.Rand).NormFloat64},
		{"integers", func(g *rand.Rand) float64 { return float64(g.IntN(4)) }},
		{"mostly zero", func(g *rand.Rand) float64 { return max(0, g.Float64()-0.7) }},
		{"mostly one", func(g *rand.Rand) float64 { return 1 + max(0, g.NormFloat64()-0.3)*1e-12 }},
		{"scales", func(g *rand.Rand) float64 { return math.Exp(200 * g.NormFloat64()) }},
		{"cauchy", func(g *rand.Rand) float64 { return g.NormFloat64() / g.NormFloat64() }},
		{"minute", func(g *rand.Rand) float64 { return 5e-324 * float64(g.IntN(1000)) }},
		{"offset", func(g *rand.Rand) float64 { return 1e15 + g.Float64() }},
		{"outlier", func(g *rand.Rand) float64 { return g.Float64() + 1e300*float64(g.IntN(50)/49) }},
	}
}

func (d distributed) points(g *rand.Rand, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = d.draw(g)
	}
	return out
}

// TestPassesOfShift: selection takes few passes whatever the points.
func TestPassesOfShift(t *testing.T) {
	const n = 10_000
	g := rand.New(rand.NewPCG(6, 6))
	for _, kind := range distributions() {
		x, y := kind.points(g, n), kind.points(g, n)
		slices.Sort(x)
		slices.Sort(y)
		for _, k := range []int64{n * n / 2, n*n/2 - n*n/100, n * n / 5, 1, n * n} {
			passes := 0
			d := differences{x: x, y: y, space: make([]float64, gatherSpace(2*n))}
			for b := d.bracket(k); d.narrow(&b); {
				passes++
			}
			t.Logf("%s: place %d in %d passes", kind.name, k, passes)
			if passes > 80 {
				t.Errorf("%s: place %d took %d passes over the points, expected at most 80", kind.name, k, passes)
			}
		}
	}
}

func TestNoShift(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		name       string
		x, y       []float64
		confidence float64
		want       Shift
		warning    string
	}{
		{"not asked for", []float64{1, 2}, []float64{3}, 0, Shift{}, ""},
		{"NaN", []float64{1, 2}, []float64{3}, math.NaN(), Shift{}, ""},
		{"infinite", []float64{1, inf}, []float64{3}, 0.95, Shift{}, "a point is infinite"},
		{"empty", nil, []float64{3}, 0.95, Shift{}, "no points"},
		{"few", []float64{1, 2}, []float64{3}, 0.95, Shift{-1.5, -2, -1, 0.95}, "the widest is shown"},
		{"certain", []float64{1, 2, 4, 8}, []float64{3}, 2, Shift{0, -2, 5, 1}, "the widest is shown"},
		{"overflow", []float64{math.MaxFloat64, math.MaxFloat64}, []float64{-math.MaxFloat64}, 0.1, Shift{inf, inf, inf, 0.1}, ""},
	} {
		got := MannWhitney(c.x, c.y, Normal, c.confidence)
		all := strings.Join(got.Warnings, "; ")
		if got.Shift != c.want || !strings.Contains(all, c.warning) || c.warning == "" && c.name != "overflow" && all != "" {
			t.Errorf("%s: %+v with warnings %q, expected %+v with %q", c.name, got.Shift, all, c.want, c.warning)
		}
	}
}

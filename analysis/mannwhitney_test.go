package analysis

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// within compares to a part of what is wanted, however small that is.
func within(t *testing.T, what string, got, want, part float64) {
	t.Helper()
	if got != want && !(math.Abs(got-want) <= part*math.Abs(want)) {
		t.Errorf("%s is %.17g, expected %.17g to %g of it", what, got, want, part)
	}
}

// TestWilcoxRows holds the figures that R's wilcox.test printed.
func TestWilcoxRows(t *testing.T) {
	text, err := os.ReadFile("testdata/mannwhitney.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Name              string
		Candidate, Stable []float64
		U                 float64
		PNormal           float64  `json:"p_normal"`
		PExact            *float64 `json:"p_exact"`
	}
	if err := json.Unmarshal(text, &rows); err != nil || len(rows) != 40 {
		t.Fatalf("read %d rows, error %v, expected 40", len(rows), err)
	}
	exact := 0
	for _, r := range rows {
		c := MannWhitney(r.Candidate, r.Stable, Normal, 0)
		within(t, r.Name+": u", c.U, r.U, 0)
		within(t, r.Name+": p_normal", c.P, r.PNormal, 1e-9)
		if r.PExact != nil {
			exact++
			c = MannWhitney(r.Candidate, r.Stable, Exact, 0)
			within(t, r.Name+": p_exact", c.P, *r.PExact, 1e-9)
			within(t, r.Name+": u", c.U, r.U, 0)
			if c.Method != Exact || len(c.Warnings) > 0 {
				t.Errorf("%s: method %s, warnings %q", r.Name, c.Method, c.Warnings)
			}
		}
	}
	if exact != 11 {
		t.Errorf("%d rows have an exact p, expected 11", exact)
	}
}

// zerosAgainst is the documented example: 11 zeros of the stable against one
// zero and ten distinct positive numbers.
func zerosAgainst() (candidate, stable []float64) {
	return []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}, make([]float64, 11)
}

// TestWorkedValues holds values printed by R 4.2.2 and SciPy 1.10.1, from
// their documentation: R's help of wilcox.test (Hollander & Wolfe 1973, p. 69)
// and SciPy's page of mannwhitneyu.
func TestWorkedValues(t *testing.T) {
	candidate, stable := zerosAgainst()
	for _, c := range []struct {
		name                   string
		candidate, stable      []float64
		u, normal, exact, part float64
	}{
		{
			"Hollander & Wolfe",
			[]float64{.80, .83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, .73, 1.46}, []float64{1.15, .88, .90, .74, 1.21},
			35, .2446236051269834, .2544122544122544, 1e-12,
		},
		{"SciPy", []float64{19, 22, 16, 29, 24}, []float64{20, 11, 17, 12}, 17, .1113468865331405, .1111111111111111, 1e-12},
		{"ties", []float64{1, 2, 2, 3, 4}, []float64{2, 3, 4, 5, 5, 6}, 5, .07794691458872481, 44. / 462, 1e-12},
		{"the documented message", candidate, stable, 115.5, 9.2987e-05, 24. / 705432, 5e-6},
	} {
		normal, exact := MannWhitney(c.candidate, c.stable, Normal, 0), MannWhitney(c.candidate, c.stable, Exact, 0)
		within(t, c.name+": u", normal.U, c.u, 0)
		within(t, c.name+": normal p", normal.P, c.normal, c.part)
		within(t, c.name+": exact p", exact.P, c.exact, c.part)
	}
}

func TestCompleteSeparation(t *testing.T) {
	for n, want := range map[int]float64{3: .1, 4: .02857143, 5: .007936508, 6: .002164502, 8: .0001554002, 11: 2.835142e-06} {
		low, high := make([]float64, n), make([]float64, n)
		for i := range n {
			low[i], high[i] = float64(i+1), float64(n+i+1)
		}
		c := MannWhitney(high, low, Exact, 0)
		within(t, "p", c.P, want, 1e-6)
		within(t, "u", c.U, float64(n*n), 0)
		within(t, "effect", c.Effect, 1, 0)
		within(t, "least exact p", leastP(n, n, Exact), c.P, 1e-12)
		within(t, "least normal p", leastP(n, n, Normal), MannWhitney(low, high, Normal, 0).P, 1e-12)
	}
}

func TestFigures(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	huge := []float64{1.7e308, 1.6e308, 1.5e308}
	for _, c := range []struct {
		name                   string
		candidate, stable      []float64
		cMean, sMean           float64
		ratio, delta, u, p     float64
		candidatePts, stablePt int
		warning                string
	}{
		{"gaps", []float64{1, nan, 2, nan}, []float64{nan, 1}, 1.5, 1, 1.5, .5, 1.5, 1, 2, 1, "left out points that are not numbers: 2 of the candidate, 1 of the stable"},
		{"both zero", []float64{0, 0}, []float64{0, math.Copysign(0, -1)}, 0, 0, 1, 0, 2, 1, 2, 2, "all points are equal"},
		{"stable zero", []float64{1, 1, 0}, []float64{0}, 2. / 3, 0, inf, 2. / 3, 2.5, 0.6170750774519738, 3, 1, ""},
		{"below zero", []float64{-1, -1, 0}, []float64{0}, -2. / 3, 0, -inf, -2. / 3, .5, 0.6170750774519738, 3, 1, ""},
		{"no candidate", nil, []float64{1, 2}, nan, 1.5, nan, nan, 0, 1, 0, 2, "the candidate has no points"},
		{"no stable", []float64{1, 2}, []float64{nan}, 1.5, nan, nan, nan, 0, 1, 2, 0, "the stable has no points"},
		{"infinite", []float64{inf, 1, 2}, []float64{1, 0}, inf, .5, inf, inf, 5.5, 0.23613697022165292, 3, 2, "the candidate has infinite points"},
		{"both infinities", []float64{inf, -inf}, []float64{1}, nan, 1, nan, nan, 1, 1, 2, 1, "the candidate has infinite points"},
		{"huge", huge, huge[:1], 1.6e308, 1.7e308, 16. / 17, -1e307, .5, 0.6373518882339371, 3, 1, ""},
		{"tiny", []float64{5e-324, 5e-324}, []float64{5e-324}, 5e-324, 5e-324, 1, 0, 1, 1, 2, 1, "all points are equal"},
		{"cancelling", []float64{1e16, 1, -1e16, 1}, []float64{1}, .5, 1, .5, -.5, 2, 1, 4, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := MannWhitney(c.candidate, c.stable, Normal, 0)
			for _, f := range []struct {
				what      string
				got, want float64
			}{
				{"candidate's mean", got.CandidateMean, c.cMean}, {"stable's mean", got.StableMean, c.sMean},
				{"ratio", got.Ratio, c.ratio}, {"delta", got.Delta, c.delta}, {"u", got.U, c.u},
			} {
				if !(math.IsNaN(f.got) && math.IsNaN(f.want)) {
					within(t, f.what, f.got, f.want, 2e-15)
				}
			}
			within(t, "p", got.P, c.p, 1e-14)
			if got.CandidatePoints != c.candidatePts || got.StablePoints != c.stablePt {
				t.Errorf("%d and %d points", got.CandidatePoints, got.StablePoints)
			}
			all := strings.Join(got.Warnings, "; ")
			if c.warning == "" && all != "" || !strings.Contains(all, c.warning) {
				t.Errorf("warnings %q, expected %q", all, c.warning)
			}
		})
	}
}

func TestTooManyPairsForExact(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 2))
	x, y := normals(g, 101, 0, 1), normals(g, 100, 0, 1)
	got, want := MannWhitney(x, y, Exact, 0), MannWhitney(x, y, Normal, 0)
	if got.Method != Normal || got.P != want.P || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "10000 pairs, these are 10100") {
		t.Errorf("method %s, p %g, warnings %q; expected the normal p %g and why", got.Method, got.P, got.Warnings, want.P)
	}
	if got := MannWhitney(x[:100], y, Exact, 0); got.Method != Exact || len(got.Warnings) > 0 || math.Abs(got.P-MannWhitney(x[:100], y, Normal, 0).P) > 1e-3 {
		t.Errorf("100 points a side: method %s, p %g, warnings %q", got.Method, got.P, got.Warnings)
	}
}

// TestSmallestP: a p is never 0, which would be a certainty.
func TestSmallestP(t *testing.T) {
	low, high := make([]float64, 3000), make([]float64, 3000)
	for i := range low {
		low[i], high[i] = float64(i), float64(i+3000)
	}
	if p := MannWhitney(high, low, Normal, 0).P; p != math.SmallestNonzeroFloat64 {
		t.Errorf("p is %g", p)
	}
}

func normals(g *rand.Rand, n int, mean, deviation float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = mean + deviation*g.NormFloat64()
	}
	return out
}

// wholes returns small integers, most of which occur more than once.
func wholes(g *rand.Rand, n, kinds int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(g.IntN(kinds))
	}
	return out
}

func mapped(points []float64, f func(float64) float64) []float64 {
	out := slices.Clone(points)
	for i, v := range out {
		out[i] = f(v)
	}
	return out
}

// samplePairs calls f with many random samples of all kinds.
func samplePairs(f func(g *rand.Rand, x, y []float64)) {
	g := rand.New(rand.NewPCG(3, 4))
	for range 100 / scale {
		m, n := 1+g.IntN(30), 1+g.IntN(30)
		f(g, normals(g, m, 10, 1), normals(g, n, 10, 2))
		f(g, wholes(g, m, 1+g.IntN(9)), wholes(g, n, 1+g.IntN(9)))
	}
}

func TestSwapSymmetry(t *testing.T) {
	samplePairs(func(_ *rand.Rand, x, y []float64) {
		for _, method := range []Method{Normal, Exact} {
			a, b := MannWhitney(x, y, method, 0.9), MannWhitney(y, x, method, 0.9)
			within(t, "p", a.P, b.P, 1e-12)
			within(t, "u", a.U, float64(len(x)*len(y))-b.U, 0)
			within(t, "effect", a.Effect, 1-b.Effect, 1e-12)
			within(t, "delta", a.Delta, -b.Delta, 0)
			within(t, "shift", a.Shift.Estimate, -b.Shift.Estimate, 0)
			within(t, "low", a.Shift.Low, -b.Shift.High, 0)
			within(t, "high", a.Shift.High, -b.Shift.Low, 0)
		}
	})
}

func TestOrderDoesNotMatter(t *testing.T) {
	samplePairs(func(g *rand.Rand, x, y []float64) {
		want := MannWhitney(x, y, Exact, 0.9)
		g.Shuffle(len(x), func(i, j int) { x[i], x[j] = x[j], x[i] })
		got := MannWhitney(x, y, Exact, 0.9)
		if got.P != want.P || got.U != want.U || got.CandidateMean != want.CandidateMean || got.Shift != want.Shift {
			t.Errorf("%+v, expected %+v", got, want)
		}
	})
}

// TestMonotoneMaps: ranks see nothing but the order.
func TestMonotoneMaps(t *testing.T) {
	for name, f := range map[string]func(float64) float64{
		"shrunk": func(v float64) float64 { return v / (1 << 20) },
		"cubed":  func(v float64) float64 { return math.Round(v*1e3) * v * v },
		"exp":    math.Exp,
	} {
		samplePairs(func(_ *rand.Rand, x, y []float64) {
			for _, method := range []Method{Normal, Exact} {
				a, b := MannWhitney(x, y, method, 0), MannWhitney(mapped(x, f), mapped(y, f), method, 0)
				if name != "cubed" && (a.P != b.P || a.U != b.U || a.Effect != b.Effect) {
					t.Fatalf("%s: %+v, expected %+v", name, b, a)
				}
			}
		})
	}
}

func TestRangeOfP(t *testing.T) {
	samplePairs(func(_ *rand.Rand, x, y []float64) {
		for _, method := range []Method{Normal, Exact} {
			if p := MannWhitney(x, y, method, 0).P; !(p > 0 && p <= 1) {
				t.Errorf("p is %g", p)
			}
		}
	})
}

// TestMoreShiftNeverRaisesP: of points that all differ, once the candidate is
// the higher one. (With ties the textbook variance changes too.)
func TestMoreShiftNeverRaisesP(t *testing.T) {
	g := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		x, y := normals(g, 2+g.IntN(20), 0, 1), normals(g, 2+g.IntN(20), 0, 2)
		for _, method := range []Method{Normal, Exact} {
			last := math.Inf(1)
			for shift := -3.0; shift < 6; shift += 0.2 {
				c := MannWhitney(mapped(x, func(v float64) float64 { return v + shift }), y, method, 0)
				if c.Effect < 0.5 {
					continue
				}
				if c.P > last*(1+1e-12) {
					t.Fatalf("%s: p rises from %g to %g at a shift of %g", method, last, c.P, shift)
				}
				last = c.P
			}
		}
	}
}

func TestOneAllocation(t *testing.T) {
	g := rand.New(rand.NewPCG(7, 8))
	for _, n := range few([]int{1000, 60, 2}) {
		x, y := normals(g, n, 0, 1), normals(g, n, 0, 1)
		for _, confidence := range []float64{0, 0.5} {
			for _, method := range []Method{Normal, Exact} {
				if method == Exact && !withinExact(n, n) {
					continue // says so in a warning, which is another allocation
				}
				if got := testing.AllocsPerRun(5, func() { MannWhitney(x, y, method, confidence) }); got != 1 {
					t.Errorf("%d points, %s, confidence %g: %g allocations, expected 1", n, method, confidence, got)
				}
			}
		}
	}
}

func TestAMillionPoints(t *testing.T) {
	g := rand.New(rand.NewPCG(9, 10))
	const n = 1_000_000 / scale
	less := math.Sqrt(scale) // fewer points tell apart what is so many times further apart
	x, y := normals(g, n, 100+0.1*less, 10), normals(g, n, 100, 10)
	if c := MannWhitney(x, y, Normal, 0); !(c.P < 1e-6 && c.Effect > 0.5 && c.Effect < 0.51) || c.CandidatePoints != n {
		t.Errorf("%+v", c)
	}
	c := MannWhitney(x[:n/10], y, Normal, 0.95)
	if within(t, "shift", c.Shift.Estimate, 0.1*less, 0.6); !(c.Shift.Low < c.Shift.Estimate && c.Shift.Estimate < c.Shift.High && c.Shift.High < c.Shift.Low+0.2*less) {
		t.Errorf("shift %+v", c.Shift)
	}
}

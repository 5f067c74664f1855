package kayentatest_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/manent/action/analysis"
	"github.com/manent/action/analysis/kayentatest"
)

// normals have a deviation of 0.1 whatever their mean, times the scale.
func normals(g *rand.Rand, n int, mean, scale float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = scale * (mean + g.NormFloat64()/10)
	}
	return out
}

// window is the mean over steps points that overlap, as of rate[5m] each minute.
func window(g *rand.Rand, n, steps int) []float64 {
	raw, out := normals(g, n+steps, 1, 1), make([]float64, n)
	for i := range out {
		for _, v := range raw[i : i+steps] {
			out[i] += v
		}
	}
	return out
}

// sparse has points of about 1 with that chance, else 0.
func sparse(g *rand.Rand, n int, chance float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		if g.Float64() < chance {
			out[i] = 1 + g.NormFloat64()/10
		}
	}
	return out
}

type draw func(g *rand.Rand) (candidate, stable []float64)

// part is in how many of the trials that judge, with its default direction,
// says one of the classes.
func part(trials int, d draw, classes ...kayentatest.Class) float64 {
	g := rand.New(rand.NewPCG(21, 22))
	found := 0
	for range trials {
		candidate, stable := d(g)
		if slices.Contains(classes, kayentatest.Judge(candidate, stable, analysis.Either)) {
			found++
		}
	}
	return float64(found) / float64(trials)
}

// TestOperatingCharacteristics holds figures that were measured with another
// implementation of the same description: points are normal with a deviation
// of a tenth of the mean. The margin is what so many trials leave open.
func TestOperatingCharacteristics(t *testing.T) {
	same := func(n int) draw {
		return func(g *rand.Rand) ([]float64, []float64) { return normals(g, n, 1, 1), normals(g, n, 1, 1) }
	}
	rise := func(n int, by float64) draw {
		return func(g *rand.Rand) ([]float64, []float64) { return normals(g, n, 1+by, 1), normals(g, n, 1, 1) }
	}
	third := func(scale float64) draw {
		return func(g *rand.Rand) ([]float64, []float64) {
			return normals(g, 60, 1, 1.3*scale), normals(g, 60, 1, scale)
		}
	}
	windows := func(steps int) draw {
		return func(g *rand.Rand) ([]float64, []float64) { return window(g, 60, steps), window(g, 60, steps) }
	}
	errors := func(chance float64) draw {
		return func(g *rand.Rand) ([]float64, []float64) { return sparse(g, 60, chance), make([]float64, 60) }
	}
	high, failed := []kayentatest.Class{kayentatest.High}, []kayentatest.Class{kayentatest.High, kayentatest.Low}
	for _, c := range few([]struct {
		name    string
		trials  int
		draw    draw
		classes []kayentatest.Class
		want    float64
		margin  float64
	}{
		{"no change, 60 points", 2000, same(60), failed, 0.0025, 0.0025},
		{"no change, 10 points", 2000, same(10), failed, 0.0023, 0.0023},
		{"no change, 4 points", 2000, same(4), failed, 0.010, 0.005},
		{"no change, 3 points", 2000, same(3), failed, 0.050, 0.012},
		{"no change, 2 points", 2000, same(2), failed, 0.233, 0.025},
		{"no change, a window of 2 steps", 1000, windows(2), failed, 0.028, 0.013},
		{"no change, a window of 5 steps", 500, windows(5), failed, 0.155, 0.04},
		{"no change, a window of 10 steps", 500, windows(10), failed, 0.326, 0.05},
		{"+5 %, 60 points", 500, rise(60, 0.05), high, 0.33, 0.05},
		{"+10 %, 60 points", 500, rise(60, 0.10), high, 0.985, 0.02},
		{"+10 %, 30 points", 500, rise(30, 0.10), high, 0.70, 0.05},
		{"+20 %, 6 points", 500, rise(6, 0.20), high, 0.278, 0.05},
		{"+50 %, 6 points", 500, rise(6, 0.50), high, 0.995, 0.01},
		{"+30 % of 1e-3", 300, third(1e-3), high, 1, 0},
		{"+30 % of 1e-4", 500, third(1e-4), high, 0.76, 0.05},
		{"+30 % of 5e-5, to which it is blind", 500, third(5e-5), high, 0, 0},
		{"+30 % of 1e-6", 500, third(1e-6), high, 0, 0},
		{"errors in 20 % of the minutes", 500, errors(0.2), high, 0, 0.005},
		{"errors in 30 % of the minutes", 500, errors(0.3), high, 0.008, 0.01},
		{"errors in 40 % of the minutes", 500, errors(0.4), high, 0.17, 0.04},
		{"errors in 50 % of the minutes", 500, errors(0.5), high, 0.29, 0.06},
		{"errors in 60 % of the minutes", 500, errors(0.6), high, 0.47, 0.05},
		{"errors in 70 % of the minutes", 500, errors(0.7), high, 0.94, 0.04},
	}) {

		got := part(c.trials, c.draw, c.classes...)
		t.Logf("%-40s %.4f, described %.4f", c.name, got, c.want)
		if math.Abs(got-c.want) > c.margin {
			t.Errorf("%s: %.4f, described %.4f ± %.4f", c.name, got, c.want, c.margin)
		}
	}
}

func TestOnePointEachThrows(t *testing.T) {
	got := part(4000, func(g *rand.Rand) ([]float64, []float64) { return normals(g, 1, 1, 1), normals(g, 1, 1, 1) }, kayentatest.Error)
	if got < 0.8 {
		t.Errorf("%.3f throw, described as 0.85 to 1", got)
	}
}

func TestShortCuts(t *testing.T) {
	nan := math.NaN()
	ones := slices.Repeat([]float64{1}, 10)
	twos := slices.Repeat([]float64{2}, 10)
	for _, c := range []struct {
		name              string
		candidate, stable []float64
		direction         analysis.Direction
		want              kayentatest.Class
	}{
		{"no data", []float64{nan}, ones, analysis.Either, kayentatest.Nodata},
		{"no stable", ones, nil, analysis.Either, kayentatest.Nodata},
		{"the same in another order", []float64{1, 2, 3}, []float64{3, 1, 2}, analysis.Either, kayentatest.Pass},
		{"one value", ones, ones[:3], analysis.Either, kayentatest.Pass},
		{"two constants", twos, ones, analysis.Either, kayentatest.High},
		{"two constants, lower", ones, twos, analysis.Either, kayentatest.Low},
		{"higher is good", twos, ones, analysis.Decrease, kayentatest.Pass},
		{"lower is good", ones, twos, analysis.Increase, kayentatest.Pass},
		{"gaps are dropped", append([]float64{nan}, twos...), ones, analysis.Increase, kayentatest.High},
	} {
		if got := kayentatest.Judge(c.candidate, c.stable, c.direction); got != c.want {
			t.Errorf("%s: %s, expected %s", c.name, got, c.want)
		}
	}
}

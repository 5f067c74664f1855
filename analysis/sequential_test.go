package analysis

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s: got %.10g, expected %.10g within %g", what, got, want, tolerance)
	}
}

func TestEvidenceOfOneBlock(t *testing.T) {
	c := Counts{CandidateBad: 3, CandidateAll: 100, StableBad: 4, StableAll: 900}
	s := Sums{}.Add(c, 2)
	p0 := 200.0 / 1100
	sum := 0.0
	for i, r := range ratios() {
		p1 := r * 200 / (r*200 + 900)
		gain := 3*math.Log(p1/p0) + 4*math.Log((1-p1)/(1-p0))
		near(t, "gain", s.Gains[i], gain, 1e-12)
		sum += prior()[i] * math.Exp(gain)
	}
	near(t, "one stage", Evidence([]Sums{s}, 1), math.Log(sum), 1e-12)
	near(t, "first of three", Evidence([]Sums{s}, 3), math.Log(0.4*sum+0.6), 1e-12)
	near(t, "second of three", Evidence([]Sums{{}, s}, 3), math.Log(0.7*sum+0.3), 1e-12)
	near(t, "third of three", Evidence([]Sums{{}, {}, s}, 3), math.Log(sum), 1e-12)
	near(t, "more stages than planned", Evidence([]Sums{{}, s}, 1), math.Log(sum), 1e-12)
}

func TestEvidenceWithoutData(t *testing.T) {
	for planned := range 4 {
		near(t, "no stage", Evidence(nil, planned), 0, 0)
		near(t, "an empty stage", Evidence([]Sums{{}}, planned), 0, 1e-12)
	}
	silent := Sums{}.Add(Counts{CandidateAll: 5, CandidateBad: 5}, 1).Add(Counts{StableAll: 7, StableBad: 2}, 1).Add(Counts{CandidateAll: 3, StableAll: 9}, 1)
	if want := (Sums{CandidateBad: 5, CandidateAll: 8, StableBad: 2, StableAll: 16}); silent != want {
		t.Errorf("blocks that say nothing: got %+v, expected %+v", silent, want)
	}
}

func TestEvidenceOfHugeCounts(t *testing.T) {
	for _, c := range []Counts{
		{1e15, 1e15, 0, 1e15}, {0, 1e15, 1e15, 1e15}, {1, 1, 0, 1e15}, {1e15, 1e15, 1, 1}, {1 << 40, 1 << 50, 1, 1 << 50},
	} {
		s := Sums{}.Add(c, 1)
		e := Evidence([]Sums{s, s, s}, 3)
		if math.IsNaN(e) || math.IsInf(e, 0) {
			t.Errorf("%+v: evidence %v, expected a finite number", c, e)
		}
	}
}

func TestSumsDoNotDependOnOrder(t *testing.T) {
	a, b := Counts{3, 100, 4, 900}, Counts{1, 50, 20, 400}
	x, y := Sums{}.Add(a, 1).Add(b, 1), Sums{}.Add(b, 1).Add(a, 1)
	near(t, "evidence", Evidence([]Sums{x}, 2), Evidence([]Sums{y}, 2), 1e-12)
}

func TestCountsRefused(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, test := range []struct {
		counts Counts
		want   string
	}{
		{Counts{nan, 1, 0, 1}, "candidate: NaN bad of 1 events"},
		{Counts{0, inf, 0, 1}, "candidate: 0 bad of +Inf events"},
		{Counts{0, 1, -1, 1}, "stable: -1 bad of 1 events"},
		{Counts{0, 1, 0.5, 1}, "stable: 0.5 bad of 1 events"},
		{Counts{0, 1, 0, 1 << 53}, "whole numbers"},
		{Counts{2, 1, 0, 1}, "candidate: 2 bad of 1 events, expected at most"},
		{Counts{0, 1, 5, 4}, "stable: 5 bad of 4 events, expected at most"},
	} {
		err := test.counts.Check()
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v, expected %q", test.counts, err, test.want)
		}
		before := Sums{}.Add(Counts{1, 2, 1, 2}, 1)
		if after := before.Add(test.counts, 1); after != before {
			t.Errorf("%+v: added, expected the sums as they were", test.counts)
		}
	}
	if err := (Counts{1, 1, 0, 0}).Check(); err != nil {
		t.Error(err)
	}
}

func TestWeights(t *testing.T) {
	sum, last := 0.0, 1.0
	for i, r := range ratios() {
		sum += prior()[i]
		if r <= last {
			t.Errorf("ratio %v after %v, expected rising ones above 1", r, last)
		}
		last = r
	}
	near(t, "prior in all", sum, 1, 1e-12)
	for planned := 1; planned <= 20; planned++ {
		sum := 0.0
		for s := range planned {
			sum += stageWeight(s, planned)
		}
		near(t, "stages in all", sum, 1, 1e-12)
	}
}

// Stored sums mean nothing under other ratios: this fails when they change.
func TestSumsStored(t *testing.T) {
	s := Sums{}.Add(Counts{CandidateBad: 1, CandidateAll: 1, StableAll: 1}, 1)
	got, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"candidate_bad":1,"candidate_all":1,"stable_bad":0,"stable_all":1,"gains":[`
	if !strings.HasPrefix(string(got), want) {
		t.Errorf("stored as %s, expected %s…", got, want)
	}
	var back Sums
	if err := json.Unmarshal(got, &back); err != nil || back != s {
		t.Errorf("read back as %+v, %v, expected %+v", back, err, s)
	}
	for i, r := range []float64{1.03, 1.07, 1.15, 1.3, 1.5, 1.75, 2, 2.4, 2.9, 3.5, 4.3, 5.5, 7.5, 11, 18, 32, 60, 120} {
		near(t, "gain of one bad event at equal traffic", back.Gains[i], math.Log(r/((1+r)/2)), 1e-12)
	}
}

// The bound rests on this: no block's factor is above 1 on average while the
// candidate is no worse than tolerated. Here over all outcomes of small blocks.
func TestFactorOfABlockAveragesAtMostOne(t *testing.T) {
	for _, n := range []int{1, 3, 12} {
		for _, m := range []int{1, 5, 20} {
			for _, rate := range []float64{0.001, 0.05, 0.3, 0.5} {
				for _, maxRatio := range []float64{0.5, 1, 2} {
					mean := averageFactors(n, m, rate*maxRatio, rate, maxRatio)
					for i, f := range mean {
						if f > 1+1e-12 {
							t.Errorf("%d and %d events, rate %v, maxRatio %v, ratio %v: factor %v on average, expected at most 1", n, m, rate, maxRatio, ratios()[i], f)
						}
					}
				}
			}
		}
	}
}

func averageFactors(n, m int, candidate, stable, maxRatio float64) (mean [grid]float64) {
	for x := 0; x <= n; x++ {
		for y := 0; y <= m; y++ {
			p := chanceOf(x, n, candidate) * chanceOf(y, m, stable)
			s := Sums{}.Add(Counts{float64(x), float64(n), float64(y), float64(m)}, maxRatio)
			for i := range mean {
				mean[i] += p * math.Exp(s.Gains[i])
			}
		}
	}
	return mean
}

// chanceOf is the binomial probability of k of n.
func chanceOf(k, n int, p float64) float64 {
	c := 1.0
	for i := range k {
		c *= float64(n-i) / float64(i+1)
	}
	return c * math.Pow(p, float64(k)) * math.Pow(1-p, float64(n-k))
}

func TestReachable(t *testing.T) {
	for _, test := range []struct {
		name   string
		stages []Sums
		want   bool
	}{
		{"nothing", nil, false},
		{"no traffic", []Sums{{}}, false},
		{"two requests beside many", []Sums{{CandidateAll: 2, StableAll: 1000}}, true},
		{"two of two", []Sums{{CandidateAll: 2, StableAll: 2}}, false},
		{"as many as the stable, which fails too", []Sums{{CandidateAll: 100, StableAll: 100, StableBad: 100}}, false},
		{"enough, stable half bad", []Sums{{CandidateAll: 100, StableAll: 100, StableBad: 50}}, true},
		{"only a stage without a stable", []Sums{{CandidateAll: 1000}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Reachable(test.stages, 3, 0.05, 1); got != test.want {
				t.Errorf("got %v, expected %v", got, test.want)
			}
		})
	}
}

func TestSmallestRatioAtTheEdges(t *testing.T) {
	inf := math.Inf(1)
	for _, test := range []struct {
		name   string
		stages []Sums
		low    float64
		high   float64
	}{
		{"no stage", nil, inf, inf},
		{"no candidate", []Sums{{StableAll: 1000, StableBad: 3}}, inf, inf},
		{"no stable", []Sums{{CandidateAll: 1000}}, inf, inf},
		{"ten requests each", []Sums{{CandidateAll: 5, StableAll: 5}}, inf, inf},
		{"every event of the stable bad", []Sums{{CandidateAll: 1e4, StableAll: 1e4, StableBad: 1e4}}, inf, inf},
		{"stable clean", []Sums{{CandidateAll: 1e4, StableAll: 1e4}}, 3, 10},
		{"much traffic", []Sums{{CandidateAll: 1e7, StableAll: 1e7, StableBad: 1e5}}, 1, 1.05},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := SmallestRatio(test.stages, 3, 0.01, 1, 0.8)
			if !(got >= test.low && got <= test.high) {
				t.Errorf("got %v, expected %v to %v", got, test.low, test.high)
			}
		})
	}
	loose := SmallestRatio([]Sums{{CandidateAll: 1e7, StableAll: 1e7, StableBad: 1e5}}, 3, 0.01, 2, 0.8)
	if !(loose > 2 && loose < 2.1) {
		t.Errorf("maxRatio 2: got %v, expected little above 2", loose)
	}
}

// One look of the third stage of three: a block and the evidence.
func BenchmarkSequentialLook(b *testing.B) {
	stages := make([]Sums, 3)
	for b.Loop() {
		stages[2] = stages[2].Add(Counts{3, 600, 2, 600}, 1)
		Evidence(stages, 3)
	}
}

package analysis

import (
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// More trials make the printed figures finer: go test -run Sequential -v -trials 50.
var moreTrials = flag.Int("trials", 1, "multiply the trials of simulations")

// simStage is a stage of a simulated rollout: a look after each block.
type simStage struct {
	candidate, stable float64 // events a block
	looks             int
	candidateRate     float64
	stableRate        float64
}

// plan3 is 5, 25 and 50 % of a traffic, 15 minutes each, a block a minute.
func plan3(perSecond, candidateRate, stableRate float64) []simStage {
	var stages []simStage
	for _, share := range []float64{0.05, 0.25, 0.5} {
		stages = append(stages, simStage{60 * perSecond * share, 60 * perSecond * (1 - share), 15, candidateRate, stableRate})
	}
	return stages
}

// poisson draws a count: exactly up to a mean of 100, normal and rounded beyond.
func poisson(g *rand.Rand, mean float64) float64 {
	if mean > 100 {
		return max(0, math.Round(mean+math.Sqrt(mean)*g.NormFloat64()))
	}
	n, limit := 0.0, math.Exp(-mean)
	for p := g.Float64(); p > limit; p *= g.Float64() {
		n++
	}
	return n
}

// events are the bad ones and all of a time.
func events(g *rand.Rand, mean, rate float64) (bad, all float64) {
	bad = poisson(g, mean*rate)
	return bad, bad + poisson(g, mean*(1-rate))
}

// failedAt simulates one rollout and gives the look at which each threshold was
// reached, counted from 1 over all stages; 0 for never.
func failedAt(g *rand.Rand, stages []simStage, planned int, alphas []float64) []int {
	at := make([]int, len(alphas))
	sums := make([]Sums, 0, len(stages))
	look := 0
	for _, stage := range stages {
		sums = append(sums, Sums{})
		for range stage.looks {
			look++
			var c Counts
			c.CandidateBad, c.CandidateAll = events(g, stage.candidate, stage.candidateRate)
			c.StableBad, c.StableAll = events(g, stage.stable, stage.stableRate)
			sums[len(sums)-1] = sums[len(sums)-1].Add(c, 1)
			evidence := Evidence(sums, planned)
			for i, alpha := range alphas {
				if at[i] == 0 && evidence >= Threshold(alpha) {
					at[i] = look
				}
			}
			if !slices.Contains(at, 0) {
				return at
			}
		}
	}
	return at
}

// course is how simulated rollouts ended, per alpha.
type course struct {
	failed []float64 // part of the rollouts
	median []float64 // look of failure; +Inf when less than half failed
}

func simulateCounts(trials int, stages []simStage, planned int, alphas ...float64) course {
	g := rand.New(rand.NewPCG(3, uint64(len(stages))))
	looks := make([][]float64, len(alphas))
	for range trials {
		for i, at := range failedAt(g, stages, planned, alphas) {
			if at > 0 {
				looks[i] = append(looks[i], float64(at))
			}
		}
	}
	var c course
	for i := range alphas {
		c.failed = append(c.failed, float64(len(looks[i]))/float64(trials))
		middle := math.Inf(1)
		slices.Sort(looks[i])
		if len(looks[i]) > trials/2 {
			middle = looks[i][trials/2]
		}
		c.median = append(c.median, middle)
	}
	return c
}

func TestSequentialFalseAlarms(t *testing.T) {
	block := func(perSecond, share, rate float64, hours int) simStage {
		return simStage{15 * perSecond * share, 15 * perSecond * (1 - share), hours * 240, rate, rate}
	}
	for _, test := range few([]struct {
		name   string
		stages []simStage
	}{
		{"one stage of 3 hours, 20/s, 1 %", []simStage{block(20, 0.1, 0.01, 3)}},
		{"one stage of 3 hours, 200/s, 0.1 %", []simStage{block(200, 0.5, 0.001, 3)}},
		{"one stage of an hour, 2/s, 30 %", []simStage{block(2, 0.25, 0.3, 1)}},
		{"three stages of an hour, 20/s, 1 %", []simStage{block(20, 0.05, 0.01, 1), block(20, 0.25, 0.01, 1), block(20, 0.5, 0.01, 1)}},
		{"three stages of an hour, 200/s, 0.1 %", []simStage{block(200, 0.05, 0.001, 1), block(200, 0.25, 0.001, 1), block(200, 0.5, 0.001, 1)}},
		{"three stages of 15 minutes, 20/s, 1 %", plan3(20, 0.01, 0.01)},
		{"three stages of 15 minutes, 200/s, 0.1 %", plan3(200, 0.001, 0.001)},
	}) {
		t.Run(test.name, func(t *testing.T) {
			trials := 200 * *moreTrials
			c := simulateCounts(trials, test.stages, len(test.stages), 0.05, 0.01)
			t.Logf("returned %.4f at 5 %%, %.4f at 1 %%, of %d", c.failed[0], c.failed[1], trials)
			for i, alpha := range []float64{0.05, 0.01} {
				if limit := alpha + 2*math.Sqrt(alpha/float64(trials)); c.failed[i] > limit {
					t.Errorf("alpha %v: returned %v, expected at most %v", alpha, c.failed[i], limit)
				}
			}
		})
	}
}

func TestSequentialTimeToDetect(t *testing.T) {
	alphas := []float64{0.05, 0.01}
	for _, test := range []struct {
		name string
		rate float64
		gain float64 // expected log likelihood ratio a minute, from the exact binomials
	}{
		{"1 to 5 %", 0.05, 5*math.Log(5/1.4) - 9*math.Log(1.4)},
		{"1 to 2 %", 0.02, 2*math.Log(2/1.1) - 9*math.Log(1.1)},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := simulateCounts(300**moreTrials, []simStage{{100, 900, 200, test.rate, 0.01}}, 1, alphas...)
			for i, alpha := range alphas {
				bound := Threshold(alpha) / test.gain
				t.Logf("alpha %v: median %v minutes, bound %.2f", alpha, c.median[i], bound)
				if c.median[i] > 1.5*bound+1 {
					t.Errorf("alpha %v: median %v minutes, expected at most 1.5 times %.2f and one look", alpha, c.median[i], bound)
				}
			}
		})
	}
}

func TestSequentialSparseErrors(t *testing.T) {
	g := rand.New(rand.NewPCG(5, 5))
	trials := 400 * *moreTrials
	returned := 0
	for range trials {
		var s Sums
		for range 40 {
			c := Counts{StableAll: poisson(g, 750), CandidateAll: poisson(g, 250)}
			if g.Float64() < 0.1 {
				bad := poisson(g, 50)
				c.CandidateBad, c.CandidateAll = bad, bad+poisson(g, 200)
			}
			s = s.Add(c, 1)
			if Evidence([]Sums{s}, 3) >= Threshold(0.01) {
				returned++
				break
			}
		}
	}
	part := float64(returned) / float64(trials)
	t.Logf("20 %% errors in 10 %% of the minutes: returned %.4f within 40 minutes; without any such minute %.4f", part, math.Pow(0.9, 40))
	if part < 0.97 {
		t.Errorf("returned %v, expected at least 0.97", part)
	}
}

// A fault that shows only from the last stage on is found about as fast as by a
// test begun there.
func TestSequentialLateFault(t *testing.T) {
	alphas := []float64{0.05, 0.01}
	for _, test := range few([]struct {
		name         string
		perSecond    float64
		bad, healthy float64
	}{
		{"20/s, 1 to 3 %", 20, 0.03, 0.01},
		{"20/s, 1 to 2 %", 20, 0.02, 0.01},
		{"20/s, 0.1 to 0.3 %", 20, 0.003, 0.001},
		{"200/s, 1 to 1.3 %", 200, 0.013, 0.01},
	}) {
		t.Run(test.name, func(t *testing.T) {
			stages := plan3(test.perSecond, test.healthy, test.healthy)
			for i := range stages { // blocks of 15 s, so that medians are fine enough to compare
				stages[i].candidate, stages[i].stable, stages[i].looks = stages[i].candidate/4, stages[i].stable/4, 60
			}
			stages[2].candidateRate, stages[2].looks = test.bad, 600
			all := simulateCounts(200**moreTrials, stages, 3, alphas...)
			own := simulateCounts(200**moreTrials, stages[2:], 1, alphas...)
			for i := range alphas {
				took := all.median[i] - 120
				t.Logf("alpha %v: median %v blocks, begun there %v", alphas[i], took, own.median[i])
				if took > 1.5*own.median[i] {
					t.Errorf("alpha %v: median %v blocks, expected at most 1.5 times %v", alphas[i], took, own.median[i])
				}
			}
		})
	}
}

func TestSequentialPower(t *testing.T) {
	for _, test := range few([]struct {
		name                string
		perSecond, bad, was float64
		least               float64
	}{
		{"20/s, 0.1 to 0.3 %", 20, 0.003, 0.001, 0.8},
		{"20/s, 1 to 3 %", 20, 0.03, 0.01, 0.99},
		{"200/s, 0.1 to 0.3 %", 200, 0.003, 0.001, 0.99},
		{"2/s, 1 to 3 %", 2, 0.03, 0.01, 0.8},
		{"2/s, 0.1 to 0.3 %", 2, 0.003, 0.001, 0},
	}) {
		t.Run(test.name, func(t *testing.T) {
			c := simulateCounts(1000**moreTrials, plan3(test.perSecond, test.bad, test.was), 3, 0.01)
			t.Logf("returned %.4f, median minute %v", c.failed[0], c.median[0])
			if c.failed[0] < test.least {
				t.Errorf("returned %v, expected at least %v", c.failed[0], test.least)
			}
		})
	}
}

// The ratio said to be seen with a power is returned about that often.
func TestSmallestRatioAgainstSimulation(t *testing.T) {
	for _, test := range few([]struct {
		name      string
		perSecond float64
		rate      float64
		stages    int
	}{
		{"20/s, 1 %, one stage", 20, 0.01, 1},
		{"20/s, 0.1 %, three stages", 20, 0.001, 3},
		{"200/s, 1 %, three stages", 200, 0.01, 3},
		{"2/s, 1 %, three stages", 2, 0.01, 3},
		{"2/s, 10 %, two stages", 2, 0.1, 2},
		{"20/s, 0.01 %, three stages", 20, 0.0001, 3},
	}) {
		t.Run(test.name, func(t *testing.T) {
			for _, power := range []float64{0.5, 0.8, 0.95} {
				stages := plan3(test.perSecond, test.rate, test.rate)[:test.stages]
				sums := make([]Sums, len(stages))
				for i, s := range stages {
					n := float64(s.looks)
					sums[i] = Sums{CandidateAll: n * s.candidate, StableAll: n * s.stable, StableBad: n * s.stable * test.rate}
				}
				ratio := SmallestRatio(sums, 3, 0.01, 1, power)
				for i := range stages {
					stages[i].candidateRate = ratio * test.rate
				}
				c := simulateCounts(400**moreTrials, stages, 3, 0.01)
				t.Logf("ratio %.3f for power %v: returned %.3f", ratio, power, c.failed[0])
				near(t, "returned", c.failed[0], power, 0.1)
			}
		})
	}
}

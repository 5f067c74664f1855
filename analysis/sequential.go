package analysis

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// SumsVersion changes with what Sums mean: grid, prior or weights.
const SumsVersion = 1

// The sequential test asks whether the candidate's rate of bad events is above
// maxRatio times the stable's. It may be read any number of times.
//
// # What it computes
//
// A block is a time during which shares do not change, in which the candidate
// had n events, x of them bad, and the stable m events, y of them bad. Given
// all B = x+y bad ones, x is compared with the binomial distribution of B draws
// with p0 = maxRatio·n ÷ (maxRatio·n + m), the part that the candidate's
// traffic allows it. The alternative of ratio r says that its rate is r times
// the tolerated one: p1 = r·p0 ÷ (1 + (r−1)·p0). The block's gain, the
// logarithm of the likelihood ratio, is
//
//	x·ln(p1/p0) + (B−x)·ln((1−p1)/(1−p0)) = x·ln r − B·ln(1 + (r−1)·p0).
//
// Gains add up over blocks. The process begun at a stage is the mean over a
// fixed prior on r of exp(gains from that stage on), and the evidence is the
// mean, with weights fixed by the plan alone, of the processes of all stages of
// the plan, in which a stage that has not begun counts 1. So a fault that shows
// only under load is not drowned by the quiet stages before it.
//
// # Why the error is at most alpha
//
// If each block's factor exp(gain) has an expectation of at most 1 given the
// past, every process is a nonnegative supermartingale that begins at 1, so is
// their mean, and by Ville's inequality it ever reaches 1/alpha with a
// probability of at most alpha, however often and whenever it is read.
//
// The expectation is at most 1 also though bad events are at most all events:
// let event i be bad with probability q_i, independently of the others, and let
// the mean of q over the candidate's events be at most maxRatio times that over
// the stable's. With a = p1/p0 ≥ 1 and b = (1−p1)/(1−p0) ≤ 1
//
//	E[a^x·b^y] = Π(1 + q_i(a−1))·Π(1 + q_j(b−1)) ≤ exp((a−1)·Σq_i + (b−1)·Σq_j)
//
// where Σq_i ≤ maxRatio·n·q and Σq_j = m·q for the stable's mean q, and
// (a−1)·maxRatio·n + (b−1)·m = (maxRatio·n + m)·((p1−p0) + (p0−p1)) = 0. For
// equal rates this is what Hoeffding (1963) says in other words: given B, x is
// hypergeometric, and that is smaller in convex order than the binomial.
//
// # What is assumed
//
// Within a block both sides meet the same conditions (q may change from block
// to block at will, the ratio of traffic too), and events are independent given
// these. A client that repeats a failing request many times breaks that: count
// what fails once, such as orders, or leave room with maxRatio.
//
// # How grid, prior and weights were chosen
//
// A test that knew the ratio would need ln(1/alpha) nats of evidence. Not
// knowing it costs −ln of the prior mass near the true ratio: with J the
// information on ln r at the time of the decision (about the candidate's bad
// events when its share is small: 80 at r = 1.5, 30 at 2, 7 at 5), ratios within
// 1.2/√J of each other in ln r share one's work with a loss below 0.2 nats. So
// the grid is dense around 2 and sparse above 5. Most of the mass lies on 1.75
// to 5.5, where a gate decides between returned and not seen, which costs 1 to
// 1.5 nats there; for smaller ratios traffic has to be plenty anyway, and above
// 10 each event counts so much that a mass of a hundredth is made up for by one
// or two. The low end is there because a ratio of r is never seen, whatever the
// traffic, unless an alternative is below about r²; the high end tells from
// three events at a share of 1 %.
//
// The stages share the evidence unequally: 0.4 is on the process begun at the
// first, since most faults show at once and this process alone has seen all
// data (cost 0.9 nats), the rest in equal parts on the others (1.2 nats each
// with three stages).
//
// Measured with that (the tests print it), three stages of 5, 25 and 50 %, 15
// minutes each, a look a minute, 20 requests/s, alpha 1 %: of candidates with
// 0.3 % errors against 0.1 %, about 9.7 nats in all, 87 % are returned; with a
// uniform prior and equal weights 84 %. A fault from 50 % on only takes a median
// of 1.15 to 1.42 times what a test begun there takes. A rise from 1 to 2 % at
// 10 % of 1,000 requests a minute takes a median of 11 minutes at alpha 5 % and
// 16 at 1 % (bounds: 8.9 and 13.6), one from 1 to 5 % 2 and 2 (0.9 and 1.4).
// Unchanged rollouts of three hours, looks each 15 s: at most 3.0 % returned at
// alpha 5 %, 0.8 % at 1 %.

// grid is the number of alternatives. Ratios, prior and stage weights are part
// of what stored sums mean: change them only with the schema of the state.
const grid = 18

// ratios are the alternatives: the candidate's rate ÷ the tolerated one.
func ratios() [grid]float64 {
	return [grid]float64{1.03, 1.07, 1.15, 1.3, 1.5, 1.75, 2, 2.4, 2.9, 3.5, 4.3, 5.5, 7.5, 11, 18, 32, 60, 120}
}

// prior is what each alternative's process weighs, in all 1.
func prior() [grid]float64 {
	return [grid]float64{.01, .01, .02, .03, .05, .07, .10, .13, .13, .12, .10, .08, .05, .03, .02, .02, .02, .01}
}

// stageWeight is the weight of the process begun at a stage, counted from 0,
// in all 1 over the planned ones.
func stageWeight(stage, planned int) float64 {
	switch {
	case planned == 1:
		return 1
	case stage == 0:
		return 0.4
	default:
		return 0.6 / float64(planned-1)
	}
}

// Counts of one block of time, during which shares did not change. They are
// whole numbers; Check tells.
type Counts struct {
	CandidateBad float64
	CandidateAll float64
	StableBad    float64
	StableAll    float64
}

// Check says what makes counts unusable: NaN, infinite, negative or broken
// numbers, or more bad events than events.
func (c Counts) Check() error {
	for _, side := range []struct {
		name     string
		bad, all float64
	}{{"candidate", c.CandidateBad, c.CandidateAll}, {"stable", c.StableBad, c.StableAll}} {
		if !whole(side.bad) || !whole(side.all) {
			return fmt.Errorf("%s: %v bad of %v events, expected whole numbers from 0", side.name, side.bad, side.all)
		}
		if side.bad > side.all {
			return fmt.Errorf("%s: %v bad of %v events, expected at most as many bad ones as events", side.name, side.bad, side.all)
		}
	}
	return nil
}

// whole says whether x is a count that a float64 holds exactly.
func whole(x float64) bool { return x >= 0 && x < 1<<53 && x == math.Trunc(x) }

// Sums is what the blocks of one stage add up to: all that the test has to
// remember of them. The zero value is a stage without blocks.
type Sums struct {
	CandidateBad float64 `json:"candidate_bad"`
	CandidateAll float64 `json:"candidate_all"`
	StableBad    float64 `json:"stable_bad"`
	StableAll    float64 `json:"stable_all"`
	Gains        gains   `json:"gains"` // per ratio of the grid: what the blocks' likelihood ratios add up to, in nats
}

// Check says what makes sums unusable: numbers that no blocks add up to.
func (s Sums) Check() error {
	for _, g := range s.Gains {
		if math.IsNaN(g) || math.IsInf(g, 0) || math.Abs(g) > 1e15 {
			return fmt.Errorf("a gain of %v, expected a finite number", g)
		}
	}
	return Counts{s.CandidateBad, s.CandidateAll, s.StableBad, s.StableAll}.Check()
}

// gains are one sum per alternative.
type gains [grid]float64

// UnmarshalJSON implements json.Unmarshaler. Another number of alternatives is
// another test.
func (g *gains) UnmarshalJSON(data []byte) error {
	var all []float64
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	if len(all) != grid {
		return fmt.Errorf("%d gains, expected %d", len(all), grid)
	}
	copy(g[:], all)
	return nil
}

// Add is the stage with one more block. A block in which a side has no traffic,
// or nothing is bad, says nothing and adds to the totals only; one that Check
// refuses adds nothing at all. maxRatio is the tolerated ratio of the
// candidate's rate to the stable's, above 0, the same for all blocks.
func (s Sums) Add(c Counts, maxRatio float64) Sums {
	if c.Check() != nil {
		return s
	}
	return s.add(c, maxRatio)
}

// add is Add also of expected counts, which are not whole numbers.
func (s Sums) add(c Counts, maxRatio float64) Sums {
	s.CandidateBad += c.CandidateBad
	s.CandidateAll += c.CandidateAll
	s.StableBad += c.StableBad
	s.StableAll += c.StableAll
	bad := c.CandidateBad + c.StableBad
	if bad == 0 || c.CandidateAll == 0 || c.StableAll == 0 {
		return s
	}
	part := allowed(c, maxRatio)
	for i, r := range ratios() {
		s.Gains[i] += c.CandidateBad*math.Log(r) - bad*math.Log1p((r-1)*part)
	}
	return s
}

// allowed is the part of all bad events that is the candidate's when its rate
// is maxRatio times the stable's.
func allowed(c Counts, maxRatio float64) float64 {
	n := maxRatio * c.CandidateAll
	return n / (n + c.StableAll)
}

// Evidence is the natural logarithm of the evidence that the candidate's rate
// is above the tolerated one, after these stages: earlier ones first, the
// running one last. planned is the number of stages of the whole plan, those
// without a comparison not counted; it must not change during a rollout. An
// evidence of at least Threshold(alpha) fails the candidate.
func Evidence(stages []Sums, planned int) float64 {
	planned = max(planned, len(stages))
	prior := prior()
	terms := make([]float64, 0, len(stages)+1)
	var since Sums // gains from a stage on, per ratio
	waiting := 1.0 // weight of the stages not begun
	for s := len(stages) - 1; s >= 0; s-- {
		var process [grid]float64
		for i := range process {
			since.Gains[i] += stages[s].Gains[i]
			process[i] = since.Gains[i] + math.Log(prior[i])
		}
		w := stageWeight(s, planned)
		waiting -= w
		terms = append(terms, math.Log(w)+logSum(process[:]))
	}
	if len(stages) < planned {
		terms = append(terms, math.Log(waiting))
	}
	if len(terms) == 0 {
		return 0
	}
	return logSum(terms)
}

// Threshold is the evidence that fails a candidate when the chance of failing
// one that is no worse than tolerated may be alpha.
func Threshold(alpha float64) float64 { return -math.Log(alpha) }

// logSum is ln Σ exp(x), without overflow, of at least one finite number.
func logSum(x []float64) float64 {
	top := x[0]
	for _, v := range x {
		top = max(top, v)
	}
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(v - top)
	}
	return top + math.Log(sum)
}

// Reachable says whether the evidence would have sufficed if all of the
// candidate's events of the running stage, the last one, had been bad. If not,
// not having failed says nothing of that stage, and it is inconclusive rather
// than passed.
func Reachable(stages []Sums, planned int, alpha, maxRatio float64) bool {
	if len(stages) == 0 {
		return false
	}
	worst := slices.Clone(stages)
	last := &worst[len(worst)-1]
	*last = Sums{}.add(Counts{
		CandidateBad: last.CandidateAll, CandidateAll: last.CandidateAll,
		StableBad: last.StableBad, StableAll: last.StableAll,
	}, maxRatio)
	return Evidence(worst, planned) >= Threshold(alpha)
}

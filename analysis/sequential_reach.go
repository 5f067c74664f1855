package analysis

import "math"

// SmallestRatio is the smallest ratio of the candidate's rate of bad events to
// the stable's that the sequential test would have failed with probability
// power (between 0 and 1) over the traffic of these stages, had the candidate
// had it from the first of them on. It is +Inf when even a candidate whose
// events are all bad would not have been failed that often, or when a side has
// no traffic.
//
// The stable's rate is what these stages show; if nothing of it is bad, the
// rate that its events exclude with 95 % (about 3 ÷ events), so the ratio is
// then one to a rate that the stable most likely stays below.
func SmallestRatio(stages []Sums, planned int, alpha, maxRatio, power float64) float64 {
	flows := make([]flow, len(stages))
	bad, all := 0.0, 0.0
	for i, s := range stages {
		flows[i] = flow{s.CandidateAll, s.StableAll}
		bad += s.StableBad
		all += s.StableAll
	}
	if all == 0 {
		return math.Inf(1)
	}
	rate := bad / all
	if bad == 0 {
		rate = math.Min(1, -math.Log(0.05)/all)
	}
	chance := func(ratio float64) float64 {
		return evidenceChance(flows, planned, rate, ratio*rate, alpha, maxRatio)
	}
	return smallest(maxRatio, 1/rate, power, chance)
}

// flow is the traffic of one stage: events of either side.
type flow struct{ candidate, stable float64 }

// evidenceChance approximates the probability that the evidence reaches the
// threshold during these stages when the sides have these rates of bad events
// throughout. The log likelihood ratio of the true rates (at most of those of the
// last alternative) is taken as a Brownian
// motion with drift, whose barrier is the threshold and what the mixtures over
// ratios and stages cost at the expected counts. Within 0.1 of simulations from
// about three expected bad events of the candidate on.
func evidenceChance(flows []flow, planned int, stable, candidate, alpha, maxRatio float64) float64 {
	ratio := math.Min(candidate/(stable*maxRatio), ratios()[grid-1])
	if !(ratio > 1) {
		return 0
	}
	var mean, variance float64
	sums := make([]Sums, len(flows))
	for i, f := range flows {
		if f.candidate <= 0 || f.stable <= 0 {
			continue
		}
		c := Counts{f.candidate * candidate, f.candidate, f.stable * stable, f.stable}
		sums[i] = Sums{}.add(c, maxRatio)
		other := math.Log1p((ratio - 1) * allowed(c, maxRatio)) // what a bad event of the stable takes away
		own := math.Log(ratio) - other
		mean += c.CandidateBad*own - c.StableBad*other
		variance += c.CandidateBad*(1-candidate)*own*own + c.StableBad*(1-stable)*other*other
	}
	cost := math.Max(0, mean-Evidence(sums, planned))
	return crossing(Threshold(alpha)+cost, mean, variance)
}

// crossing is the probability that a Brownian motion from 0 with this mean and
// variance at the end of its time has been at or above a positive barrier.
func crossing(barrier, mean, variance float64) float64 {
	if variance <= 0 {
		if mean >= barrier {
			return 1
		}
		return 0
	}
	sd := math.Sqrt(variance)
	reflected := 2 * barrier * mean / variance
	back := (barrier + mean) / sd
	if reflected > 700 || back > 37 { // e^700 times nothing
		return upperTail((barrier - mean) / sd)
	}
	return math.Min(1, upperTail((barrier-mean)/sd)+math.Exp(reflected)*upperTail(back))
}

// smallest is the smallest value between two positive ones, low excluded, at
// which a chance that grows with it is at least power: +Inf if it is less at
// high.
func smallest(low, high, power float64, chance func(float64) float64) float64 {
	if !(low < high) || chance(high) < power {
		return math.Inf(1)
	}
	for range 60 {
		middle := math.Sqrt(low * high)
		if chance(middle) < power {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

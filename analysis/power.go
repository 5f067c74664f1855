package analysis

import (
	"math"
	"time"
)

// Traffic is what a stage sees: both sides have the same rate of requests per
// unit of share throughout.
type Traffic struct {
	Rate        float64       // requests a second, of both sides together
	Share       float64       // of the candidate, 0 to 100
	StableError float64       // the stable's rate of bad requests, 0 to 1
	Time        time.Duration // that the stage is watched
}

// Requests are those that each side is expected to see.
func (t Traffic) Requests() (candidate, stable float64) {
	all := t.Rate * t.Time.Seconds()
	return all * t.Share / 100, all * (1 - t.Share/100)
}

// Chance is the probability, as a closed form approximates it, that a test
// fails a candidate with this rate of bad requests (0 to 1) at the latest at
// the end of the traffic's time. The method Chance of each test is one.
type Chance func(t Traffic, candidateError float64) float64

// SmallestError is the smallest rate of bad requests above the stable's that is
// failed with probability power. It is +Inf when not even a candidate that
// fails every request is.
func SmallestError(t Traffic, power float64, chance Chance) float64 {
	return smallest(math.Max(t.StableError, 1e-9), 1, power, func(rate float64) float64 { return chance(t, rate) })
}

// longestBake bounds the search of TimeToSee.
const longestBake = 90 * 24 * time.Hour

// TimeToSee is how long, in whole seconds, the traffic has to be watched for a
// candidate with this rate of bad requests to be failed with probability power.
// It is false when 90 days are not enough. t.Time is not used.
func TimeToSee(t Traffic, candidateError, power float64, chance Chance) (time.Duration, bool) {
	seconds := smallest(0.5, longestBake.Seconds(), power, func(seconds float64) float64 {
		t.Time = time.Duration(seconds * float64(time.Second))
		return chance(t, candidateError)
	})
	if math.IsInf(seconds, 1) {
		return 0, false
	}
	return time.Duration(math.Ceil(seconds-1e-6)) * time.Second, true
}

// SequentialTest is the test of Evidence, looked at often.
type SequentialTest struct {
	Alpha    float64   // of the whole rollout
	Planned  int       // stages of the plan
	MaxRatio float64   // tolerated
	Before   []Traffic // earlier stages that had the same fault; with none this is the first stage
}

// Chance is that the evidence reaches the threshold at any time of the stage or
// of those before it. Within 0.1 of simulations from about three expected bad
// requests of the candidate on.
func (s SequentialTest) Chance(t Traffic, candidateError float64) float64 {
	flows := make([]flow, 0, len(s.Before)+1)
	for _, stage := range s.Before {
		n, m := stage.Requests()
		flows = append(flows, flow{n, m})
	}
	n, m := t.Requests()
	return evidenceChance(append(flows, flow{n, m}), s.Planned, t.StableError, candidateError, s.Alpha, s.MaxRatio)
}

// RatioTest is a plain threshold: the candidate fails when its rate of bad
// requests is above MaxRatio times the stable's. It is read once, at the end,
// over the whole time.
type RatioTest struct {
	MaxRatio   float64
	MinSamples float64 // requests of the candidate below which nothing is concluded
}

// Chance is that the ratio of rates is beyond the threshold. With equal rates
// it is the threshold's chance of a false alarm. Good to 0.01.
func (r RatioTest) Chance(t Traffic, candidateError float64) float64 {
	n, m := t.Requests()
	if n < r.MinSamples || n <= 0 || m <= 0 {
		return 0
	}
	candidate := spread(n, candidateError, 1/n)
	stable := spread(m, t.StableError, r.MaxRatio/m)
	higher, _ := pairs(candidate, stable)
	return higher
}

// SampleSize is how many requests of the candidate a test of two proportions
// needs, once, at the two-sided level alpha, to see these rates apart with
// probability power, when the stable has ratio times as many requests. It is
// +Inf for equal rates, and not rounded.
func SampleSize(candidate, stable, ratio, alpha, power float64) float64 {
	pooled := (candidate + ratio*stable) / (1 + ratio)
	null := math.Sqrt((1 + 1/ratio) * pooled * (1 - pooled))
	apart := math.Sqrt(candidate*(1-candidate) + stable*(1-stable)/ratio)
	z := quantile(1-alpha/2)*null + quantile(power)*apart
	d := candidate - stable
	return z * z / (d * d)
}

// CleanRequests is how many requests without a bad one show with that
// confidence that the rate of bad ones is below rate.
func CleanRequests(rate, confidence float64) float64 {
	return math.Ceil(math.Log1p(-confidence) / math.Log1p(-rate))
}

// quantile is the z that a standard normal variable is below with probability
// p, between 0 and 1.
func quantile(p float64) float64 {
	if p < 0.5 {
		return -upperQuantile(p)
	}
	return upperQuantile(1 - p)
}

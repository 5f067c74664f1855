// Package analysis is the statistics of a gate: numbers in, verdict, figures
// and warnings out. It is pure and uses the standard library only. It must not
// know a clock, a metric system, a rollout or its configuration.
package analysis

// Direction says which difference of a candidate is the bad one.
type Direction string

// The directions.
const (
	Increase Direction = "increase"
	Decrease Direction = "decrease"
	Either   Direction = "either"
)

// Method is how a p-value was had.
type Method string

// The methods.
const (
	Normal Method = "normal" // tie-corrected normal approximation with continuity correction
	Exact  Method = "exact"  // distribution of U over all assignments of the points seen, ties included
)

// Outcome of an analysis.
type Outcome string

// The outcomes. Only Pass is a pass.
const (
	Pass         Outcome = "pass"
	Fail         Outcome = "fail"
	Inconclusive Outcome = "inconclusive"
)

// Comparison is what two samples say of each other.
type Comparison struct {
	U               float64 // of the candidate: pairs in which it is above, ties count half
	P               float64 // two-sided, 0 < P ≤ 1
	Method          Method  // that gave P
	Effect          float64 // common-language effect: U ÷ pairs, 0.5 when no side is above
	CandidateMean   float64
	StableMean      float64
	Ratio           float64 // of means; 1 when both are 0, ±Inf when only the stable's is 0
	Delta           float64 // candidate's mean − stable's
	CandidatePoints int
	StablePoints    int
	Shift           Shift
	Warnings        []string
}

// Shift is the Hodges-Lehmann estimate: the median of all differences
// candidate − stable, with its interval. It is the zero value when it was not
// asked for, which a Confidence of 0 tells.
type Shift struct {
	Estimate   float64
	Low, High  float64
	Confidence float64 // of the interval, such as 0.95
}

// Rule is when a Mann-Whitney comparison fails.
type Rule struct {
	Direction Direction
	MaxRatio  float64 // ratio of means tolerated upwards, 1 for none; for Increase and Either
	MinRatio  float64 // and downwards; for Decrease and Either
	Alpha     float64 // two-sided significance level of the documented rule; not used with Bound
	MinPoints int     // of either side
	Method    Method
	Bound     *Bound // nil for the documented rule

	Confidence float64 // of the interval of the shift, which decides nothing; 0 for no shift
}

// Bound replaces a rule's level where the false alarms of a whole rollout are
// bounded. Then a comparison fails only when ranks and means agree on the
// direction, and the variance of U is the largest that it can have whatever
// the spread of each side.
type Bound struct {
	Alpha   float64 // chance of a false alarm that this metric may spend in this stage, over all looks
	Planned int     // points of each side at the end of the bake
	Each    int     // each point stands for so many planned ones, where a long series was asked for more coarsely; 0 is 1
	Share   float64 // the candidate's part of the traffic, from 0 to 1; 0 for unknown, which is taken as a half
	Last    bool    // the bake is over: a side with fewer points than planned gets no more of them in time
}

// Cause says which part of a rule decided.
type Cause string

// The causes.
const (
	FewPoints    Cause = "few points"              // inconclusive: below MinPoints
	OutOfReach   Cause = "out of reach"            // inconclusive: no points of that number could be significant
	TooSparse    Cause = "too sparse"              // inconclusive: ranks of a mostly constant side mean nothing downwards
	NotFinite    Cause = "infinite points"         // inconclusive: the means are not numbers
	NoDifference Cause = "not significant"         // pass
	Tolerated    Cause = "within the ratio"        // pass: significant, and the ratio of means is tolerated
	Better       Cause = "in the good direction"   // pass
	Disagreeing  Cause = "ranks against the means" // pass, with Bound only
	Signed       Cause = "ratio of signed means"   // inconclusive: a tolerated ratio says nothing about means below 0
	Worse        Cause = "significantly worse"     // fail
)

// Verdict is what a rule says of a comparison.
type Verdict struct {
	Comparison
	Outcome Outcome
	Cause   Cause
	Judged  float64 // the p-value that decided: P, or with Bound the one that holds whatever the spreads, for the bad side alone
	Level   float64 // that Judged was compared with: alpha, or with Bound the level of this look
}

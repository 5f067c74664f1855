package gate

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/manent/action/analysis"
	"github.com/manent/action/runner/config"
)

// confidence of the interval of a shift, for people to read.
const confidence = 0.95

// judgeRanks judges a metric with analysis: mann-whitney.
func judgeRanks(m config.Metric, got MetricResult, r Record) (finding, *Statistics) {
	if why := unusable(m, got); why != "" {
		return finding{Errored, "", why}, nil
	}
	for _, p := range sidesOf(got) {
		if why := p.side.early(r.InForce); why != "" {
			return finding{Inconclusive, "", p.name + ": " + why}, nil
		}
	}
	requests, f := countRequests(m, got, r.AtEnd)
	if f != nil {
		return *f, nil
	}
	candidate, why := got.Candidate.series(m, requests.candidate)
	if why != "" {
		return finding{Inconclusive, "", "candidate: " + why}, nil
	}
	stable, why := got.Stable.series(m, requests.stable)
	if why != "" {
		return finding{Inconclusive, "", "stable: " + why}, nil
	}
	if m.PerShare {
		scale(candidate, r.Share)
		scale(stable, 100-r.Share)
	}
	demand := rule(m, r.Health, r.Course, got.Planned)
	if demand.Bound != nil {
		demand.Bound.Last, demand.Bound.Each, demand.Bound.Share = r.AtEnd, got.Each, r.Share/100
	}
	f2, stats := compare(candidate, stable, demand, requests.String(), r.AtEnd)
	for _, side := range []*Side{got.Candidate, got.Stable} {
		if !side.none() {
			f2 = aged(f2, r, side, side.newest())
		}
	}
	return f2, stats
}

func scale(values []float64, share float64) {
	for i := range values {
		values[i] /= share / 100
	}
}

// rule is what a metric's comparison has to meet. Where false alarms are
// bounded the bound is shared out evenly, over the metrics with analysis and
// over the stages.
func rule(m config.Metric, h config.Health, c Course, planned int) analysis.Rule {
	rule := analysis.Rule{
		Direction: analysis.Direction(m.Direction), MaxRatio: ratioOr1(m.MaxRatio), MinRatio: ratioOr1(m.MinRatio),
		Alpha: m.Alpha, MinPoints: m.MinPoints, Method: analysis.Normal,
	}
	if h.FalseAlarm != nil {
		rule.Bound = &analysis.Bound{Alpha: h.MetricAlpha(m) / float64(max(1, c.Stages)), Planned: planned}
	}
	return rule
}

func ratioOr1(v *float64) float64 {
	if v == nil {
		return 1
	}
	return *v
}

// compare makes a finding of two series. The shift takes most of the time and
// decides nothing: it is for the last reading and for a failed one.
func compare(candidate, stable []float64, rule analysis.Rule, requests string, last bool) (finding, *Statistics) {
	v := analysis.Compare(candidate, stable, rule)
	if last || v.Outcome == analysis.Fail {
		rule.Confidence = confidence
		v = analysis.Compare(candidate, stable, rule)
	}
	f := finding{result: resultOf(v.Outcome), rule: ruleText(rule)}
	f.reason = fmt.Sprintf("candidate %s, stable %s (means of %d and %d points): %s%s",
		meanText(v.CandidateMean, v.StableMean, v.CandidatePoints), meanText(v.StableMean, v.StableMean, v.StablePoints), v.CandidatePoints, v.StablePoints, decided(v, rule), requests)
	return f, statisticsOf(v)
}

// meanText writes a mean beside another; a side without points has none.
func meanText(mean, other float64, points int) string {
	if points == 0 {
		return "nothing"
	}
	return beside(mean, other)
}

// resultOf keeps the outcomes apart; one nobody knows is an error.
func resultOf(o analysis.Outcome) Result {
	switch o {
	case analysis.Pass:
		return Pass
	case analysis.Fail:
		return Fail
	case analysis.Inconclusive:
		return Inconclusive
	}
	return Errored
}

func ruleText(rule analysis.Rule) string {
	text := "mann-whitney"
	if rule.Direction != analysis.Decrease && rule.MaxRatio != 1 {
		text += " maxRatio " + limit(rule.MaxRatio)
	}
	if rule.Direction != analysis.Increase && rule.MinRatio != 1 {
		text += " minRatio " + limit(rule.MinRatio)
	}
	if rule.Bound != nil {
		return text + " falseAlarm"
	}
	return text + " alpha " + limit(rule.Alpha)
}

// decided says in words what the rule made of the figures.
func decided(v analysis.Verdict, rule analysis.Rule) string {
	p := fmt.Sprintf("p=%s", pValue(v.Judged))
	sign := " >= "
	if v.Judged < v.Level {
		sign = " < "
	}
	level := limit(v.Level)
	if rule.Bound != nil {
		level = pValue(v.Level)
	}
	figures := ratioText(v, rule) + ", " + p + sign + level
	switch v.Cause {
	case analysis.FewPoints:
		return fmt.Sprintf("minPoints is %d", rule.MinPoints)
	case analysis.NotFinite:
		return "a mean is not finite"
	case analysis.OutOfReach:
		return "no difference between so few points can be significant at " + level
	case analysis.TooSparse:
		return figures + ", but most of the candidate's points are the same: events are too rare for ranks to tell a fall"
	case analysis.Signed:
		return figures + ", but a ratio of means below 0 says nothing: tolerate no ratio, or turn the sign in the query"
	case analysis.Worse, analysis.NoDifference:
		return figures
	case analysis.Tolerated:
		return figures + ", within the tolerated ratio"
	case analysis.Better:
		return figures + ", for the better"
	case analysis.Disagreeing:
		return figures + ", but ranks and means disagree on the direction"
	}
	return fmt.Sprintf("cause %q is not known", v.Cause)
}

func ratioText(v analysis.Verdict, rule analysis.Rule) string {
	if min(v.CandidateMean, v.StableMean) < 0 {
		return "difference " + figure(v.Delta)
	}
	text := "ratio " + ratioFigure(v.Ratio)
	switch {
	case v.Cause != analysis.Worse:
	case v.Ratio > rule.MaxRatio && rule.MaxRatio != 1 && rule.Direction != analysis.Decrease:
		text += " > " + limit(rule.MaxRatio)
	case v.Ratio < rule.MinRatio && rule.MinRatio != 1 && rule.Direction != analysis.Increase:
		text += " < " + limit(rule.MinRatio)
	}
	return text
}

func ratioFigure(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return figure(v)
}

// pValue writes a p-value in two digits.
func pValue(p float64) string { return strconv.FormatFloat(p, 'g', 2, 64) }

func statisticsOf(v analysis.Verdict) *Statistics {
	s := &Statistics{
		U: Number(v.U), P: Number(v.P), Level: Number(v.Level), Method: v.Method, Effect: Number(v.Effect),
		Ratio: Number(v.Ratio), Delta: Number(v.Delta), CandidateMean: Number(v.CandidateMean), StableMean: Number(v.StableMean),
		CandidatePoints: v.CandidatePoints, StablePoints: v.StablePoints, Warnings: v.Warnings,
	}
	if v.Shift.Confidence > 0 {
		s.Shift = &Shift{Number(v.Shift.Estimate), Number(v.Shift.Low), Number(v.Shift.High), v.Shift.Confidence}
	}
	return s
}

// JudgeSeries judges a metric with analysis: mann-whitney from two series
// alone, as read from a file: NaN is a gap. The documented rule holds, without
// a bound on false alarms, since one look is all there is.
func JudgeSeries(m config.Metric, candidate, stable []float64, method analysis.Method) MetricResult {
	rule := rule(m, config.Health{}, Course{}, 0)
	rule.Method = method
	got := MetricResult{Name: m.Name, Weight: m.Weight, Critical: m.Critical != nil && *m.Critical}
	f, stats := compare(candidate, stable, rule, "", true)
	got.Result, got.Rule, got.Reason, got.Statistics = f.result, f.rule, "metric "+m.Name+": "+f.reason, stats
	return got
}

// Conclusive reports whether every metric that was judged passed or failed.
func Conclusive(metrics []MetricResult) bool {
	return !slices.ContainsFunc(metrics, func(m MetricResult) bool { return m.Result == Inconclusive || m.Result == Errored })
}

// Weigh makes the score and the verdict of results that are judged already.
func Weigh(h config.Health, metrics []MetricResult) (points *float64, says Verdict, reason string) {
	r := Record{Health: h, Metrics: metrics}
	r.Score = score(r)
	says, reason = verdict(r)
	return r.Score, says, reason
}

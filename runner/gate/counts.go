package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/manent/action/analysis"
	"github.com/manent/action/runner/config"
)

// power is the chance with which the ratio that a pass names would have shown.
const power = 0.8

// counted is what a metric with analysis: sequential carries over from one
// reading of a stage to the next.
type counted struct {
	Until  time.Time     `json:"until,omitzero"`   // counted so far
	Of     string        `json:"of"`               // what is counted: queries, maxRatio and the version of the sums
	Blocks int           `json:"blocks,omitempty"` // of time
	Resets int           `json:"resets,omitempty"` // blocks left out because a counter fell
	Lost   time.Duration `json:"lost,omitempty"`   // time of those, nanoseconds
	Sums   analysis.Sums `json:"sums"`
	Peak   float64       `json:"peak,omitempty"` // largest evidence so far, natural logarithm

	// when either side's events last grew
	CandidateGrew time.Time `json:"candidateGrew,omitzero"`
	StableGrew    time.Time `json:"stableGrew,omitzero"`

	// what the candidate's and the stable's events fell by in the smallest
	// fall after which they have not come back
	CandidateFell float64 `json:"candidateFell,omitempty"`
	StableFell    float64 `json:"stableFell,omitempty"`
}

// memory is what a stage's analyses carry over, by metric.
type memory map[string]counted

// carry is a stage's memory from one reading to the next.
type carry struct {
	was memory
	err error // of reading it
	now memory
}

// recall reads a stage's memory as of a time; one that cannot be read, or
// cannot be true, is an error, as beginning anew would spend the bound twice.
func recall(raw json.RawMessage, now time.Time) (memory, error) {
	all := memory{}
	if len(raw) == 0 {
		return all, nil
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("the stage's memory cannot be read: %w", err)
	}
	for name, c := range all {
		if err := c.check(now); err != nil {
			return nil, fmt.Errorf("the stage's memory of metric %s cannot be true: %w", name, err)
		}
	}
	return all, nil
}

func (n counted) check(now time.Time) error {
	switch {
	case n.Until.After(now):
		return fmt.Errorf("counted until %s, after this reading", clock(n.Until))
	case n.CandidateGrew.After(n.Until), n.StableGrew.After(n.Until):
		return errors.New("grown after it was last counted")
	case n.Blocks < 0, n.Resets < 0, n.Lost < 0, !(n.Peak >= 0 && n.Peak < 1e300):
		return fmt.Errorf("%d blocks, %d left out of %s, evidence %v", n.Blocks, n.Resets, n.Lost, n.Peak)
	case !(n.CandidateFell >= 0 && n.StableFell >= 0):
		return fmt.Errorf("fallen by %v and %v events", n.CandidateFell, n.StableFell)
	}
	return n.Sums.Check()
}

// subjectOf names what a metric counts. Sums of something else say nothing of it.
func subjectOf(m config.Metric) string {
	text := fmt.Sprintf("%d|%s|%q|%q|%v", analysis.SumsVersion, m.Provider, m.Query, m.SamplesQuery, ratioOr1(m.MaxRatio))
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

// counting is where the next reading of a sequential metric begins: where the
// last one ended.
func counting(m config.Metric, c Course, inForce time.Time) time.Time {
	var all map[string]struct {
		Until time.Time `json:"until"`
	}
	// A memory that cannot be read is conclude's to report.
	if len(c.Memory) > 0 && json.Unmarshal(c.Memory, &all) == nil && all[m.Name].Until.After(inForce) {
		return all[m.Name].Until
	}
	return inForce
}

// judgeCounts judges a metric with analysis: sequential, and says what it
// carries over. What could not be read leaves that as it was.
func judgeCounts(m config.Metric, got MetricResult, r Record, was counted) (finding, *Statistics, counted) {
	if was.Of != subjectOf(m) { // the first reading, or --reconfigure changed what is counted
		was = counted{Of: subjectOf(m)}
	}
	if why := unusable(m, got); why != "" {
		return finding{Errored, "", why}, nil, was
	}
	for _, p := range sidesOf(got) {
		if why := p.side.early(r.InForce); why != "" && (p.side.State != Unasked || was.Until.IsZero()) {
			return finding{Inconclusive, "", p.name + ": " + why}, nil, was
		}
	}
	if why := silentSide(m, got); why != "" && was.Peak < analysis.Threshold(countAlpha(m, r)) {
		return finding{Inconclusive, "", why}, nil, was
	}
	now, f := count(m, got, was)
	if f != nil {
		return *f, nil, was
	}
	stages, err := earlier(m, r)
	if err != nil {
		return finding{Errored, "", err.Error()}, nil, was
	}
	t := test{
		stages: append(stages.sums, now.Sums), planned: max(r.Course.Stages, len(stages.sums)+1),
		alpha: countAlpha(m, r), maxRatio: ratioOr1(m.MaxRatio),
	}
	now.Peak = max(was.Peak, stages.peak, analysis.Evidence(t.stages, t.planned))
	if r.AtEnd {
		t.smallest = analysis.SmallestRatio(t.stages, t.planned, t.alpha, t.maxRatio, power)
	}
	f2 := unheard(t.judge(m, now, r.AtEnd), r, got.Candidate, now)
	return aged(f2, r, got.Candidate, now.Until), t.statistics(now), now
}

// countAlpha is a metric's chance of a false alarm in one pass: the evidence
// of each is judged by itself.
func countAlpha(m config.Metric, r Record) float64 {
	return r.Health.MetricAlpha(m) / float64(max(1, r.Course.Passes))
}

// unheard makes a pass at the end of a bake inconclusive when one side has
// fallen silent, or more than a quarter of the time had to be left out.
func unheard(f finding, r Record, s *Side, now counted) finding {
	if f.result != Pass || !r.AtEnd {
		return f
	}
	allowed := patience(r, s)
	for _, side := range []struct {
		name string
		grew time.Time
	}{{"candidate", now.CandidateGrew}, {"stable", now.StableGrew}} {
		if side.grew.Before(now.Until.Add(-allowed)) {
			f.result = Inconclusive
			f.reason += fmt.Sprintf(", but the %s has had no event since %s", side.name, clock(side.grew))
		}
	}
	if now.Lost > s.To.Sub(r.InForce)/4 {
		f.result = Inconclusive
		f.reason += fmt.Sprintf(", but %s of the time are left out", now.Lost.Round(time.Second))
	}
	return f
}

// silentSide says which counter has nothing, "" when all have or its absence
// counts as 0.
func silentSide(m config.Metric, got MetricResult) string {
	for _, p := range sidesOf(got) {
		bad := p.side == got.Candidate || p.side == got.Stable
		switch {
		case p.side.State == Unasked || !p.side.none() || bad && m.Empty == "zero":
		case bad:
			return fmt.Sprintf("%s: no data (query %s); empty: zero takes that for no bad event", p.name, short(p.side.Query))
		default:
			return fmt.Sprintf("%s: no data (query %s)", p.name, short(p.side.Query))
		}
	}
	return ""
}

// past is the evidence of a pass's earlier stages.
type past struct {
	sums []analysis.Sums
	peak float64
}

func earlier(m config.Metric, r Record) (past, error) {
	var p past
	for _, raw := range r.Course.Earlier {
		all, err := recall(raw, r.At)
		if err != nil {
			return past{}, err
		}
		if one, ok := all[m.Name]; ok && one.Of == subjectOf(m) {
			p.sums, p.peak = append(p.sums, one.Sums), max(p.peak, one.Peak)
		}
	}
	return p, nil
}

// test is the sequential test of one metric.
type test struct {
	stages   []analysis.Sums
	planned  int
	alpha    float64
	maxRatio float64
	smallest float64 // ratio that would have shown; at the end of a bake only
}

func (t test) judge(m config.Metric, now counted, atEnd bool) finding {
	f := finding{rule: "sequential alpha " + limit(t.alpha)}
	if t.maxRatio != 1 {
		f.rule = "sequential maxRatio " + limit(t.maxRatio) + " alpha " + limit(t.alpha)
	}
	s := now.Sums
	counts := fmt.Sprintf("candidate %s of %s bad, stable %s of %s", whole(s.CandidateBad), whole(s.CandidateAll), whole(s.StableBad), whole(s.StableAll))
	evidence := "evidence " + evidenceText(now.Peak)
	needed := figure(1 / t.alpha)
	switch {
	case now.Peak >= analysis.Threshold(t.alpha):
		f.result, f.reason = Fail, fmt.Sprintf("%s: ratio %s, %s >= %s", counts, ratioFigure(rateRatio(s)), evidence, needed)
	case s.CandidateAll == 0 && s.StableAll > 0 && atEnd:
		f.result, f.reason = Fail, fmt.Sprintf("the candidate is silent: no events, stable has %s", whole(s.StableAll))
	case s.CandidateAll == 0 || s.StableAll == 0:
		f.result, f.reason = Inconclusive, "no events to compare so far: "+counts
	case m.MinSamples != nil && !(s.CandidateAll >= *m.MinSamples):
		f.result, f.reason = Inconclusive, fmt.Sprintf("%s: minSamples is %s", counts, limit(*m.MinSamples))
	case !atEnd:
		f.result, f.reason = Inconclusive, fmt.Sprintf("%s: not yet, %s of %s", counts, evidence, needed)
	case !analysis.Reachable(t.stages, t.planned, t.alpha, t.maxRatio):
		f.result, f.reason = Inconclusive, counts+": too few events, even if all of the candidate's had been bad"
	default:
		f.result, f.reason = Pass, fmt.Sprintf("%s: %s < %s, %s", counts, evidence, needed, t.seen())
	}
	if now.Resets > 0 {
		f.reason += fmt.Sprintf(" (blocks of time left out because a counter was reset: %d)", now.Resets)
	}
	return f
}

// evidenceText writes e to the power of v, however large.
func evidenceText(v float64) string {
	if v > 600 {
		return fmt.Sprintf("1e+%.0f", math.Floor(v/math.Ln10))
	}
	return figure(math.Exp(v))
}

// seen says what a pass could have seen.
func (t test) seen() string {
	if !finite(t.smallest) {
		return "no ratio would have shown in this traffic"
	}
	return fmt.Sprintf("a ratio of %s would have shown in 4 of 5 rollouts", figure(t.smallest))
}

func (t test) statistics(now counted) *Statistics {
	s := now.Sums
	stats := &Statistics{
		Ratio: Number(rateRatio(s)), CandidateMean: Number(s.CandidateBad / s.CandidateAll), StableMean: Number(s.StableBad / s.StableAll),
		CandidatePoints: now.Blocks, StablePoints: now.Blocks,
		Counts:   &analysis.Counts{CandidateBad: s.CandidateBad, CandidateAll: s.CandidateAll, StableBad: s.StableBad, StableAll: s.StableAll},
		Evidence: Number(math.Exp(now.Peak)), Needed: Number(1 / t.alpha), Smallest: Number(t.smallest),
	}
	stats.Delta = stats.CandidateMean - stats.StableMean
	if now.Resets > 0 {
		stats.Warnings = []string{fmt.Sprintf("blocks of time left out because a counter was reset: %d", now.Resets)}
	}
	return stats
}

// rateRatio is the candidate's rate ÷ the stable's; 1 when neither has a bad event.
func rateRatio(s analysis.Sums) float64 {
	if s.CandidateBad == 0 && s.StableBad == 0 {
		return 1
	}
	return (s.CandidateBad / s.CandidateAll) / (s.StableBad / s.StableAll)
}

func whole(v float64) string { return fmt.Sprintf("%.0f", v) }

// encode gives what a stage's analyses carry over. What cannot be encoded
// leaves what was carried over before, and so does what could not be read: it
// stays an error, since beginning anew would spend the bound twice.
func (c carry) encode(was json.RawMessage) json.RawMessage {
	if c.err != nil || len(c.now) == 0 {
		return was
	}
	data, err := json.Marshal(c.now)
	if err != nil {
		return was
	}
	return data
}

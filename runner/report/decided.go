package report

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/manent/action/runner/gate"
	"github.com/manent/action/state"
)

// decided is the reading that decided: its metrics with both sides, those that
// said no first.
func (m *summary) decided(r *state.Rollout) {
	st, last := Deciding(r)
	if last == nil {
		return
	}
	m.add("")
	m.add("**Decided by** reading %d of stage %s at %s: %s", last.N, m.text(st.Name, mostName), stamp(last.At), m.text(last.Reason, mostReason))
	if m.seen == nil || len(m.seen.Metrics)+len(m.seen.Probes)+len(m.seen.Alarms) == 0 {
		return
	}
	m.add("")
	m.add("%s", row("Metric", "Result", "Rule", "Candidate", "Stable", "What was seen"))
	m.add("%s", row("---", "---", "---", "---", "---", "---"))
	metrics := slices.Clone(m.seen.Metrics)
	slices.SortStableFunc(metrics, func(a, b gate.MetricResult) int { return refused(b) - refused(a) })
	for _, v := range metrics {
		m.add("%s", row(m.text(v.Name, mostName), m.text(string(v.Result), mostName), m.text(dash(v.Rule), mostCell),
			sideText(v.Candidate), sideText(v.Stable), m.text(v.Reason, mostCell)))
	}
	for _, v := range m.seen.Probes {
		m.add("%s", row(m.text(v.Name, mostName), m.text(string(v.Result), mostName), "probe", "–", "–", m.text(dash(v.Reason), mostCell)))
	}
	for _, v := range m.seen.Alarms {
		m.add("%s", row(m.text(v.Name, mostName), m.text(string(v.Result), mostName), "alarm", "–", "–", m.text(dash(v.Reason), mostCell)))
	}
}

func refused(v gate.MetricResult) int {
	if v.Result == gate.Fail {
		return 1
	}
	return 0
}

// sideText is the value of one side, of a series its mean.
func sideText(s *gate.Side) string {
	if s == nil || len(s.Points) == 0 {
		return "–"
	}
	sum := 0.0
	for _, p := range s.Points {
		sum += p.Value
	}
	text := strconv.FormatFloat(sum/float64(len(s.Points)), 'g', 4, 64)
	if n := len(s.Points); n > 1 {
		text += fmt.Sprintf(" (mean of %d)", n)
	}
	return text
}

// Deciding is the last red reading of the stage that failed, with the stage;
// nil when no reading has failed the rollout.
func Deciding(r *state.Rollout) (*state.Stage, *state.Reading) {
	if r == nil || r.Failure == nil && r.Return == nil {
		return nil, nil
	}
	for i := len(r.Stages) - 1; i >= 0; i-- {
		st := &r.Stages[i]
		for k := len(st.Readings) - 1; k >= 0 && st.Status == state.StageFailed; k-- {
			if st.Readings[k].Verdict == string(gate.Red) {
				return st, &st.Readings[k]
			}
		}
	}
	return nil, nil
}

package cli

import (
	"fmt"
	"math"
	"strings"

	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/gate"
)

// judgeJSON is the document of `manent judge --json`.
type judgeJSON struct {
	Verdict  string         `json:"verdict"`            // pass, fail, inconclusive, or error when it could not be told
	Score    *float64       `json:"score"`              // 0 to 100, null without health.analysis or when nothing is conclusive
	Metrics  []judgedJSON   `json:"metrics"`            // of a replay: of the last reading
	Tracks   *tracksJSON    `json:"tracks,omitempty"`   // of an access log
	Readings []replayedJSON `json:"readings,omitempty"` // of a replay, in the order of time
}

// judgedJSON is one metric. A figure that there is none of is null; what JSON
// has no number for is text: "+Inf", "-Inf" or "NaN".
type judgedJSON struct {
	Name            string        `json:"name"`                     // of the metric; of an access log error_rate, p95 and abandoned
	Result          gate.Result   `json:"result"`                   // pass, fail, inconclusive, error or skipped
	Reason          string        `json:"reason"`                   // both sides and what decided, in words
	U               *gate.Number  `json:"u"`                        // Mann-Whitney: pairs in which the candidate is above, ties count half
	P               *gate.Number  `json:"p"`                        // two-sided
	Method          *string       `json:"method"`                   // that gave p: normal or exact
	Shift           *gate.Number  `json:"shift"`                    // Hodges-Lehmann: median of all differences candidate − stable
	ShiftInterval   []gate.Number `json:"shift_interval,omitempty"` // its interval, low and high
	Ratio           *gate.Number  `json:"ratio"`                    // of means; 1 when both are 0, "+Inf" or "-Inf" when only the stable's is
	Delta           *gate.Number  `json:"delta"`                    // candidate's mean − stable's
	MeanCandidate   *gate.Number  `json:"mean_candidate"`           // of an access log the rate or part, 0 to 1, or the p95 in seconds
	MeanStable      *gate.Number  `json:"mean_stable"`              // likewise
	PointsCandidate int           `json:"points_candidate"`         // gaps are none; of an access log requests
	PointsStable    int           `json:"points_stable"`            // likewise
	Critical        bool          `json:"critical"`                 // red by itself, whatever the score
	Weight          float64       `json:"weight"`                   // in the score
	Warnings        []string      `json:"warnings"`                 // about the figures
}

func judgedOf(metrics []gate.MetricResult) []judgedJSON {
	out := []judgedJSON{}
	for _, m := range metrics {
		j := judgedJSON{Name: m.Name, Result: m.Result, Reason: m.Reason, Critical: m.Critical, Weight: m.Weight, Warnings: []string{}}
		if s := m.Statistics; s != nil {
			j.fill(*s)
		}
		out = append(out, j)
	}
	return out
}

func (j *judgedJSON) fill(s gate.Statistics) {
	if s.Method != "" {
		method := string(s.Method)
		j.U, j.P, j.Method = &s.U, &s.P, &method
	}
	if s.Shift != nil {
		j.Shift, j.ShiftInterval = &s.Shift.Estimate, []gate.Number{s.Shift.Low, s.Shift.High}
	}
	j.PointsCandidate, j.PointsStable = s.CandidatePoints, s.StablePoints
	j.Ratio, j.Delta, j.MeanCandidate, j.MeanStable = known(s.Ratio), known(s.Delta), known(s.CandidateMean), known(s.StableMean)
	j.Warnings = append(j.Warnings, s.Warnings...)
}

// known is a figure, nil for one that there is none of.
func known(n gate.Number) *gate.Number {
	if math.IsNaN(float64(n)) {
		return nil
	}
	return &n
}

// judged weighs what was judged, and shows it.
func (a *app) judged(h config.Health, metrics []gate.MetricResult) (view, error) {
	score, verdict, reason := gate.Weigh(h, metrics)
	if verdict == gate.Thin && gate.Conclusive(metrics) {
		verdict = gate.Red // there is no time left in which the score could rise
	}
	var b strings.Builder
	for _, m := range metrics {
		fmt.Fprintf(&b, "%-12s  %s\n", m.Result, m.Reason)
		if m.Statistics == nil {
			continue
		}
		for _, w := range m.Statistics.Warnings {
			a.complain(fmt.Sprintf("manent: warning: metric %s: %s", m.Name, w), "")
		}
	}
	doc := judgeJSON{Verdict: verdictWord(verdict), Score: score, Metrics: judgedOf(metrics)}
	b.WriteString("verdict: " + doc.Verdict)
	if score != nil {
		fmt.Fprintf(&b, ", score %.4g", *score)
	}
	return view{JSON: doc, Text: b.String(), Outcome: verdictOutcome(verdict, reason)}, nil
}

// verdictWord is what a reading's verdict is called here. Only green is a
// pass: where nothing was evaluated, there is nothing to promote on.
func verdictWord(v gate.Verdict) string {
	switch v {
	case gate.Green:
		return "pass"
	case gate.Red:
		return "fail"
	case gate.Thin, gate.Ungated, gate.Void:
		return "inconclusive"
	}
	return "error"
}

func verdictOutcome(v gate.Verdict, reason string) *runner.Outcome {
	reason = few(strings.Split(reason, nextMetric), nextMetric)
	switch verdictWord(v) {
	case "pass":
		return &runner.Outcome{Result: runner.Progress}
	case "fail":
		return &runner.Outcome{Result: runner.Failure, Message: reason}
	case "inconclusive":
		return &runner.Outcome{Result: runner.NotYet, Message: "not enough data: " + reason}
	}
	return &runner.Outcome{Result: runner.Unsure, Message: reason}
}

// nextMetric stands between the metrics of a reading's reason.
const nextMetric = "; metric "

// few joins the first of many parts: a message is for one glance, and the
// report has them all.
func few(parts []string, separator string) string {
	const most = 5
	if len(parts) <= most {
		return strings.Join(parts, separator)
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(parts[:most], separator), len(parts)-most)
}

package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/manent/action/runner/config"
)

// score is 100 × weight of passed ÷ weight of conclusive metrics, rounded to
// nine places, so that a sum of decimal weights meets a threshold exactly;
// nil without scoring and when nothing is conclusive.
func score(r Record) *float64 {
	var passed, conclusive float64
	for _, m := range r.Metrics {
		if m.Result == Pass || m.Result == Fail {
			conclusive += m.Weight
		}
		if m.Result == Pass {
			passed += m.Weight
		}
	}
	s := math.Round(100*passed/conclusive*1e9) / 1e9
	if r.Health.Analysis == nil || !(conclusive > 0) || !(s >= 0 && s <= 100) {
		return nil
	}
	return &s
}

// tally sorts the messages of a reading.
type tally struct {
	passed                     int
	red, errors, thin, tainted []string // tainted: failed, but only the score counts
}

func (t *tally) add(result Result, message string) {
	switch result {
	case Pass:
		t.passed++
	case Fail:
		t.red = append(t.red, message)
	case Inconclusive:
		t.thin = append(t.thin, message)
	case SkippedHere:
	default: // an unknown result is never a pass
		t.errors = append(t.errors, message)
	}
}

// verdict weighs the results: red before error before thin before green, and
// ungated when nothing was evaluated.
func verdict(r Record) (Verdict, string) {
	var t tally
	scored := false
	for _, m := range r.Metrics {
		scored = scored || (r.Health.Analysis != nil && m.Result != SkippedHere)
		if m.Result == Fail && r.Health.Analysis != nil && !m.Critical {
			t.tainted = append(t.tainted, m.Reason)
			continue
		}
		t.add(m.Result, m.Reason)
	}
	for _, p := range r.Probes {
		where := ""
		if p.URL != "" {
			where = p.URL + ": "
		}
		t.add(p.Result, "probe "+p.Name+": "+where+p.Reason)
	}
	for _, a := range r.Alarms {
		t.add(a.Result, "alarm "+a.Name+": "+a.Reason)
	}
	scoreSays, why := Green, ""
	if scored {
		scoreSays, why = byScore(r.Score, *r.Health.Analysis)
	}
	return t.verdict(scoreSays, why)
}

// byScore compares the score with its thresholds; no score is thin.
func byScore(score *float64, a config.Analysis) (Verdict, string) {
	switch {
	case score == nil:
		return Thin, "no metric is conclusive, so there is no score"
	case *score < a.Marginal:
		return Red, fmt.Sprintf("score %s is below marginal %s", beside(*score, a.Marginal), limit(a.Marginal))
	case !(*score >= a.Pass):
		return Thin, fmt.Sprintf("score %s is below pass %s", beside(*score, a.Pass), limit(a.Pass))
	}
	return Green, "score " + figure(*score)
}

func (t tally) verdict(scoreSays Verdict, why string) (Verdict, string) {
	say := func(lists ...[]string) string { return strings.Join(slices.Concat(lists...), "; ") }
	var scored []string
	if why != "" {
		scored = []string{why}
	}
	switch {
	case scoreSays == Red:
		return Red, say(scored, t.red, t.tainted)
	case len(t.red) > 0:
		return Red, say(t.red, t.tainted)
	case len(t.errors) > 0:
		return Error, say(t.errors, t.thin, t.tainted)
	case scoreSays != Green:
		return Thin, say(scored, t.thin, t.tainted)
	case len(t.thin) > 0:
		return Thin, say(t.thin, t.tainted)
	case t.passed == 0 && len(t.tainted) == 0:
		return Ungated, "nothing was evaluated"
	case t.passed == 0:
		return Thin, say(scored, []string{"nothing passed"}, t.tainted)
	}
	return Green, say(scored, []string{fmt.Sprintf("%d passed", t.passed)}, t.tainted)
}

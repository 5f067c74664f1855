package gate

import (
	"fmt"
	"net/url"
	"time"

	"github.com/manent/action/providers/metric"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

// Ask returns what one reading asks: one Question per metric system, so that
// both sides of every comparison go out in one call, with windows that end at
// one instant. Not asked is a metric that is skipped here, and one whose
// window would begin before the share was in force: Judge calls it
// inconclusive.
//
// The errors name metrics that cannot be asked at all. Judge counts each as an
// error of that metric, so a caller may show them and go on.
func Ask(h config.Health, s Subject) ([]Question, []error) {
	var questions []Question
	var problems []error
	for _, m := range h.Metrics {
		for _, p := range sidesOf(frame(m, h, s)) {
			switch p.side.State {
			case Broken:
				problems = append(problems, fmt.Errorf("metric %s: %s: %s", m.Name, p.name, p.side.Error))
			case "":
				q := question(&questions, m.Provider)
				q.Queries = append(q.Queries, metric.Query{
					ID: p.id, Text: p.side.Query, Track: s.slot(p.stable),
					From: p.side.From, To: p.side.To, Step: p.side.Step,
				})
			}
		}
	}
	for _, a := range alarmsAt(h, s.Share) {
		q := question(&questions, a.Provider)
		q.Alarms = append(q.Alarms, a.Alarm)
	}
	return questions, problems
}

// AlarmID is the key of an alarm in Answers.
func AlarmID(provider, alarm string) string { return "alarm:" + provider + ":" + alarm }

// LargestDelay is how long after its bake a stage can be judged: the largest
// delay of the metrics that are evaluated at the subject's share.
func LargestDelay(h config.Health, s Subject) time.Duration {
	var longest time.Duration
	for _, m := range h.Metrics {
		if skipped(m, s.Share, s.First) == "" {
			longest = max(longest, delay(m, s.Systems[m.Provider]))
		}
	}
	return longest
}

// Needs is the shortest bake in which every metric can be conclusive at the
// subject's share: the longest range that one value stands for. The name is
// that metric's; 0 and "" when any bake will do.
func Needs(h config.Health, s Subject) (bake time.Duration, name string) {
	for _, m := range h.Metrics {
		if skipped(m, s.Share, s.First) != "" {
			continue
		}
		for _, query := range []string{m.Query, m.SamplesQuery} {
			if w := window(m, s.Systems[m.Provider], query); query != "" && w > bake {
				bake, name = w, m.Name
			}
		}
	}
	return bake, name
}

// Trial is how long a stage is to be pretended so that every query can be asked
// once before there is one. Of series that is short: systems bound the points
// of an answer, and a long series is asked for more coarsely.
func Trial(h config.Health, s Subject) time.Duration {
	step := time.Duration(0)
	for _, m := range h.Metrics {
		if m.Analysis != "" {
			step = max(step, m.Step.Std())
		}
	}
	if step == 0 {
		return 24 * time.Hour
	}
	window, _ := Needs(h, s)
	return 2*window + LargestDelay(h, s) + 20*step
}

func question(all *[]Question, provider string) *Question {
	for i := range *all {
		if (*all)[i].Provider == provider {
			return &(*all)[i]
		}
	}
	*all = append(*all, Question{Provider: provider})
	return &(*all)[len(*all)-1]
}

// skipped says why a metric is not evaluated, "" when it is.
func skipped(m config.Metric, share float64, first bool) string {
	switch {
	case share == 0:
		return "the candidate has no traffic at 0 %"
	case m.Compare != "" && first:
		return "there is no stable on a first release"
	case m.Compare != "" && share >= 100:
		return "the stable has no traffic at 100 %"
	}
	return ""
}

func alarmsAt(h config.Health, share float64) []config.Alarm {
	if share == 0 {
		return nil // the gate at 0 % is about the probes
	}
	return h.Alarms
}

// frame lays out a metric's result: each side it needs, with query and window.
func frame(m config.Metric, h config.Health, s Subject) MetricResult {
	r := MetricResult{Name: m.Name}
	if skipped(m, s.Share, s.First) != "" {
		return r
	}
	system := s.Systems[m.Provider]
	since := s.InForce
	if m.Analysis == "sequential" {
		since, r.Cumulative = counting(m, s.Course, s.InForce), system.Window != nil
	}
	l := layoutOf(m, h, s, since)
	if m.Analysis == "mann-whitney" {
		r.Planned, r.Each = planned(s.Course, s.InForce, window(m, system, m.Query), apart(m, h, system), system.Window == nil), l.each
	}
	r.Candidate, r.Stable = both(m, s, m.Query, l)
	if m.SamplesQuery == "" {
		return r
	}
	if m.Analysis != "sequential" {
		l.step = 0
	}
	r.Samples = &Samples{}
	r.Samples.Candidate, r.Samples.Stable = both(m, s, m.SamplesQuery, l)
	return r
}

// layout is how a metric's sides are asked.
type layout struct {
	since time.Time     // the time that counts begins here
	step  time.Duration // 0 for one value
	each  int           // steps of the metric that one step here stands for
	most  int           // points of a series, the newest; 0 for all
}

// layoutOf bounds the points of a series, as metric systems bound them: while
// an approval is waited for, a stage may last for weeks. Where every point
// counts for what is promised, they lie further apart; else the newest are
// asked for.
func layoutOf(m config.Metric, h config.Health, s Subject, since time.Time) layout {
	system := s.Systems[m.Provider]
	l := layout{since: since, step: apart(m, h, system), each: 1}
	if l.step <= 0 {
		return l
	}
	most := mostPoints(s.Course, l.step)
	if m.Analysis == "mann-whitney" && h.FalseAlarm == nil {
		l.most = most
		return l
	}
	from, to := span(m, s, l, window(m, system, m.Query), delay(m, system))
	for to.Sub(from)/l.step > time.Duration(most) {
		l.step, l.each = 2*l.step, 2*l.each
	}
	return l
}

// both makes a metric's two sides, or the one that it has.
func both(m config.Metric, s Subject, query string, l layout) (candidate, stable *Side) {
	candidate = ask(m, s, query, false, l)
	if m.Compare == "" {
		return candidate, nil
	}
	stable = ask(m, s, query, true, l)
	distinct(candidate, stable, s.Systems[m.Provider])
	return candidate, stable
}

// distinct breaks a comparison of a query with itself, which always passes.
func distinct(candidate, stable *Side, t metric.Traits) {
	if candidate.Query == stable.Query && stable.State != Broken && !t.OwnTracks {
		stable.broken("the same query as the candidate's, expected {track} in it")
	}
}

// placed is a side with its place in a metric.
type placed struct {
	id     string // of its query
	name   string // in messages
	stable bool
	side   *Side
}

// sidesOf lists the sides a result has. The metric's name is escaped in the
// ids, so that no name can be taken for another metric's side.
func sidesOf(r MetricResult) []placed {
	id := url.PathEscape(r.Name)
	all := []placed{
		{id + "/candidate", "candidate", false, r.Candidate},
		{id + "/stable", "stable", true, r.Stable},
	}
	if r.Samples != nil {
		all = append(all,
			placed{id + "/samples/candidate", "candidate's requests", false, r.Samples.Candidate},
			placed{id + "/samples/stable", "stable's requests", true, r.Samples.Stable})
	}
	var given []placed
	for _, p := range all {
		if p.side != nil {
			given = append(given, p)
		}
	}
	return given
}

// ask makes one side. Its state stays "" when it is to be asked.
func ask(m config.Metric, s Subject, query string, stable bool, l layout) *Side {
	side := &Side{Query: query, Step: l.step}
	system, ok := s.Systems[m.Provider]
	switch {
	case !ok:
		side.broken(fmt.Sprintf("metric system %q is not known here", m.Provider))
		return side
	case s.slot(stable) == "":
		side.broken(fmt.Sprintf("slot %q of the candidate, expected a or b", s.Candidate))
		return side
	}
	side.From, side.To = span(m, s, l, window(m, system, query), delay(m, system))
	if back := side.To.Add(-time.Duration(l.most) * l.step); l.most > 0 && l.step > 0 && back.After(side.From) {
		side.From = back
	}
	text, err := expand(query, s.values(stable, side, system), system.Escape)
	switch {
	case err != nil:
		side.broken(err.Error())
	case !side.From.Before(side.To) || side.From.Before(at(s.InForce)) || l.step > 0 && empty(side, m.Analysis == "sequential" || system.Window == nil):
		side.State = Unasked
	}
	if err == nil {
		side.Query = text
	}
	return side
}

// mostPoints is how many points a series has: as many as the bake gives, or two
// thousand, and never more than metric systems answer with.
func mostPoints(c Course, step time.Duration) int {
	const enough, limit = 2_000, 10_000
	return int(min(limit, max(enough, c.Bake/step+1)))
}

// empty reports whether the window of a series has no instant on the grid of
// its step; where counters are compared or a value stands for its step, whether
// it has none beyond its first.
func empty(side *Side, twice bool) bool {
	first, last, err := metric.Align(metric.Query{From: side.From, To: side.To, Step: side.Step})
	return err != nil || twice && !first.Before(last)
}

// span is a metric's window. One value stands for the range behind the end; a
// series, and a value without a range of its own, take the time in the stage,
// or the lookback of it. The first point of a series whose own range lies in
// the stage is one range after its beginning.
func span(m config.Metric, s Subject, l layout, window, delay time.Duration) (from, to time.Time) {
	to = at(s.Now.Add(-delay))
	if window > 0 && l.step == 0 {
		return to.Add(-window), to
	}
	if m.Analysis == "sequential" {
		return at(l.since), to
	}
	from = at(l.since).Add(window)
	if back := to.Add(-m.Lookback.Std()); m.Lookback > 0 && back.After(from) {
		from = back
	}
	return from, to
}

func window(m config.Metric, t metric.Traits, query string) time.Duration {
	if m.Window > 0 || t.Window == nil {
		return m.Window.Std()
	}
	return t.Window(query)
}

func delay(m config.Metric, t metric.Traits) time.Duration {
	if m.Delay > 0 {
		return m.Delay.Std()
	}
	return t.Delay
}

// at is a time in whole milliseconds, the finest that metric systems know.
func at(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func (s Subject) slot(stable bool) state.Slot {
	if stable {
		return s.Candidate.Other()
	}
	return s.Candidate.Other().Other() // "" for anything but a and b
}

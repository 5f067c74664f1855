package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/metric"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

// Truth is the gate's truth tables in Markdown, for the documentation. Each
// row is judged when it is printed; the tests hold the same rows against what
// they have to be.
func Truth() string {
	var b strings.Builder
	b.WriteString("| situation | during the bake | at its end | message |\n|---|---|---|---|\n")
	for _, s := range slices.Concat(situations(), ofRanks(), ofCounts()) {
		during, atEnd := s.judge(false), s.judge(true)
		fmt.Fprintf(&b, "| %s | %s | %s | `%s` |\n", s.name, during.Metrics[0].Result, atEnd.Metrics[0].Result, atEnd.Metrics[0].Reason)
	}
	b.WriteString("\n| results | scoring | reading | score | why |\n|---|---|---|---|---|\n")
	for _, w := range weighings() {
		r := w.weigh()
		scoring, points := "no", "–"
		if w.scoring {
			scoring = "pass 95, marginal 75"
		}
		if r.Score != nil {
			points = figure(*r.Score)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", w.name, scoring, r.Verdict, points, r.Reason)
	}
	b.WriteString("\n| when | reading | the stage | next reading | why |\n|---|---|---|---|---|\n")
	for _, m := range moments() {
		o := m.decide()
		next := "–"
		if o.Act == GoOn {
			next = fmt.Sprintf("minute %v", o.Next.Sub(noon()).Minutes())
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", m.name, m.verdict, o.Act, next, o.Reason)
	}
	return b.String()
}

// noon is when the share of every row is in force.
func noon() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

// situation is one row of the table of readings: what one metric saw, and
// what its result has to be.
type situation struct {
	name          string
	change        func(*config.Metric) // of the metric below, nil for none
	candidate     metric.Answer
	stable        metric.Answer
	requests      [2]metric.Answer // candidate, stable
	during, atEnd Result
}

// subject is ten minutes into a stage at 10 %.
func subject(atEnd bool) Subject {
	return Subject{
		Vars:      map[string]string{"application": "shop", "version": "1.1.0"},
		Candidate: state.SlotB, Share: 10, InForce: noon(), Now: noon().Add(10 * time.Minute), AtEnd: atEnd,
		Systems: map[string]metric.Traits{"prometheus": {
			Escape: func(s string) string { return s }, Window: func(string) time.Duration { return 0 },
		}},
	}
}

// errorRatio compares error ratios: at most 1.5 times the stable's, from 300
// requests on.
func errorRatio() config.Metric {
	ratio, samples := 1.5, 300.0
	return config.Metric{
		Name: "errors", Provider: "prometheus", Compare: "stable", Window: config.Duration(5 * time.Minute), Weight: 1,
		Query: `errors{track="{track}"}`, MaxRatio: &ratio, SamplesQuery: `requests{track="{track}"}`, MinSamples: &samples,
	}
}

func (s situation) judge(atEnd bool) Record {
	m := errorRatio()
	if s.change != nil {
		s.change(&m)
	}
	return Judge(config.Health{Metrics: []config.Metric{m}}, subject(atEnd), Answers{
		"errors/candidate": s.candidate, "errors/stable": s.stable,
		"errors/samples/candidate": s.requests[0], "errors/samples/stable": s.requests[1],
	}, nil)
}

// was is an answer of one value, minutes into the stage.
func was(v, minute float64) metric.Answer {
	return metric.Answer{Points: []metric.Point{{At: noon().Add(time.Duration(minute * float64(time.Minute))), Value: v}}}
}

func is(v float64) metric.Answer { return was(v, 10) }

func failed(kind providers.Kind, what string) metric.Answer {
	return metric.Answer{Err: &providers.Fault{Provider: "prometheus", Op: "query", Kind: kind, Err: fmt.Errorf("%s", what)}}
}

// worked are the requests of the worked example.
func worked() [2]metric.Answer { return [2]metric.Answer{is(396), is(3604)} }

func situations() []situation {
	zero := func(m *config.Metric) { m.Empty = "zero" }
	bare := func(m *config.Metric) { m.SamplesQuery, m.MinSamples = "", nil }
	absolute := func(m *config.Metric) {
		limit, least := 0.05, 0.0
		m.Compare, m.MaxRatio, m.Max, m.Min = "", nil, &limit, &least
	}
	none := metric.Answer{Err: metric.ErrNoData}
	two := metric.Answer{Err: metric.ErrSeveral}
	partial, early, twice := is(0.01), is(0.01), is(0.01)
	partial.Partial = true
	early.From, early.To = noon().Add(-time.Minute), noon().Add(10*time.Minute)
	twice.Points = append(twice.Points, twice.Points...)
	return []situation{
		{"both sides alike", nil, is(0.01), is(0.01), worked(), Pass, Pass},
		{"candidate worse than allowed", nil, is(0.02), is(0.01), worked(), Fail, Fail},
		{"396 requests with 19 errors, 3604 with none", nil, is(19.0 / 396), is(0), worked(), Fail, Fail},
		{"396 and 3604 requests, no errors", nil, is(0), is(0), worked(), Pass, Pass},
		{"the same, no error series yet, `empty: zero`", zero, none, none, worked(), Pass, Pass},
		{"19 errors, no error series of the stable yet, `empty: zero`", zero, is(19.0 / 396), none, worked(), Fail, Fail},
		{"19 requests with 1 error", nil, is(1.0 / 19), is(0), [2]metric.Answer{is(19), is(181)}, Inconclusive, Inconclusive},
		{"no series of the candidate", nil, none, is(0.01), worked(), Inconclusive, Inconclusive},
		{"no series of the stable", nil, is(0.01), none, worked(), Inconclusive, Inconclusive},
		{"no series of either", nil, none, none, worked(), Inconclusive, Inconclusive},
		{"an answer without points: all gaps", nil, metric.Answer{}, is(0.01), worked(), Inconclusive, Inconclusive},
		{"`empty: zero` without requests of the candidate", zero, none, is(0.01), [2]metric.Answer{is(0), is(0)}, Inconclusive, Inconclusive},
		{"`empty: zero`, number of requests unknown", zero, none, none, [2]metric.Answer{none, is(3604)}, Inconclusive, Inconclusive},
		{"candidate NaN", nil, is(math.NaN()), is(0.01), worked(), Inconclusive, Inconclusive},
		{"stable NaN", nil, is(0.01), is(math.NaN()), worked(), Inconclusive, Inconclusive},
		{"`empty: zero`, candidate NaN", zero, is(math.NaN()), is(0.01), worked(), Inconclusive, Inconclusive},
		{"candidate +Inf", nil, is(math.Inf(1)), is(0.01), worked(), Inconclusive, Inconclusive},
		{"candidate −Inf", nil, is(math.Inf(-1)), is(0.01), worked(), Inconclusive, Inconclusive},
		{"stable +Inf", nil, is(0.01), is(math.Inf(1)), worked(), Inconclusive, Inconclusive},
		{"absolute thresholds, NaN", absolute, is(math.NaN()), none, worked(), Inconclusive, Inconclusive},
		{"candidate silent, stable busy", nil, none, is(0.01), [2]metric.Answer{is(0), is(3604)}, Inconclusive, Fail},
		{"stable silent, candidate busy", nil, is(0), is(0), [2]metric.Answer{is(396), is(0)}, Inconclusive, Inconclusive},
		{"both silent", nil, is(0), is(0), [2]metric.Answer{is(0), is(0)}, Inconclusive, Inconclusive},
		{"number of requests NaN", nil, is(0.01), is(0.01), [2]metric.Answer{is(math.NaN()), is(3604)}, Inconclusive, Inconclusive},
		{"number of requests below 0", nil, is(0.01), is(0.01), [2]metric.Answer{is(-1), is(3604)}, Errored, Errored},
		{"value older than its window", nil, was(0.01, 4), is(0.01), worked(), Inconclusive, Inconclusive},
		{"evaluated from before the share was in force", nil, early, is(0.01), worked(), Inconclusive, Inconclusive},
		{"window longer than the time in the stage", func(m *config.Metric) { m.Window = config.Duration(time.Hour) }, is(0.01), is(0.01), worked(), Inconclusive, Inconclusive},
		{"several series", nil, two, is(0.01), worked(), Errored, Errored},
		{"several values where one was asked", nil, twice, is(0.01), worked(), Errored, Errored},
		{"partial answer", nil, partial, is(0.01), worked(), Errored, Errored},
		{"partial answer of the stable", nil, is(0.01), partial, worked(), Errored, Errored},
		{"query refused", nil, failed(providers.Invalid, "parse error"), is(0.01), worked(), Errored, Errored},
		{"credentials refused", nil, failed(providers.Denied, "status 401"), is(0.01), worked(), Errored, Errored},
		{"429 after all retries", nil, is(0.01), failed(providers.Throttled, "status 429"), worked(), Errored, Errored},
		{"5xx after all retries", nil, failed(providers.Unavailable, "status 503"), is(0.01), worked(), Errored, Errored},
		{"timeout", nil, failed(providers.Unknown, "no answer in 20s"), is(0.01), worked(), Errored, Errored},
		{"number of requests not to be had", nil, is(0.01), is(0.01), [2]metric.Answer{failed(providers.Unavailable, "status 503"), is(3604)}, Errored, Errored},
		{"stable 0, candidate 0", bare, is(0), is(0), worked(), Pass, Pass},
		{"stable 0, candidate above", bare, is(0.001), is(0), worked(), Fail, Fail},
		{"ratio of values below 0", nil, is(-1), is(0.01), worked(), Errored, Errored},
		{"no threshold", func(m *config.Metric) { m.MaxRatio = nil }, is(0.01), is(0.01), worked(), Errored, Errored},
		{"the same query for both sides", func(m *config.Metric) { m.Query = "errors" }, is(0.01), is(0.01), worked(), Errored, Errored},
		{"analysis nobody knows", func(m *config.Metric) { m.Analysis = "guess" }, is(0.01), is(0.01), worked(), Errored, Errored},
	}
}

// weighing is one row of the table of verdicts: results of metrics and of a
// probe, and what they make together.
type weighing struct {
	name    string
	scoring bool
	metrics []MetricResult
	probe   Result // "" for none
	verdict Verdict
	score   float64 // -1 for none
}

func (w weighing) weigh() Record {
	r := Record{Metrics: w.metrics}
	if w.scoring {
		r.Health.Analysis = &config.Analysis{Pass: 95, Marginal: 75}
	}
	if w.probe != "" {
		r.Probes = []ProbeResult{{Name: "home", Result: w.probe, Reason: "…"}}
	}
	r.Score = score(r)
	r.Verdict, r.Reason = verdict(r)
	return r
}

func weighings() []weighing {
	of := func(result Result, weight float64) MetricResult {
		return MetricResult{Result: result, Weight: weight, Reason: string(result)}
	}
	all := func(results ...MetricResult) []MetricResult { return results }
	key := of(Fail, 1)
	key.Critical = true
	pass, fail, thin, bad, skip := of(Pass, 1), of(Fail, 1), of(Inconclusive, 1), of(Errored, 1), of(SkippedHere, 1)
	return []weighing{
		{"all pass", false, all(pass, pass), Pass, Green, -1},
		{"one fails", false, all(pass, fail), Pass, Red, -1},
		{"one fails, others in error and inconclusive", false, all(fail, bad, thin), Pass, Red, -1},
		{"one inconclusive", false, all(pass, thin), Pass, Thin, -1},
		{"one in error, one inconclusive", false, all(pass, bad, thin), Pass, Error, -1},
		{"the probe fails", false, all(pass), Fail, Red, -1},
		{"the probe is in error", false, all(pass), Errored, Error, -1},
		{"all skipped, the probe passes", false, all(skip), Pass, Green, -1},
		{"all skipped, no probe", false, all(skip), "", Ungated, -1},
		{"nothing configured", false, nil, "", Ungated, -1},
		{"a result nobody knows", false, all(of("", 1)), Pass, Error, -1},
		{"all pass", true, all(pass, pass), Pass, Green, 100},
		{"weight 19 of 20 passes", true, all(of(Pass, 19), fail), Pass, Green, 95},
		{"weight 4 of 5 passes", true, all(of(Pass, 4), fail), Pass, Thin, 80},
		{"weight 3 of 4 passes", true, all(of(Pass, 3), fail), Pass, Thin, 75},
		{"weight 2 of 3 passes", true, all(of(Pass, 2), fail), Pass, Red, 200.0 / 3},
		{"a critical one of weight 1 in 20 fails", true, all(of(Pass, 19), key), Pass, Red, 95},
		{"weight 19 of 20 passes, another inconclusive", true, all(of(Pass, 19), fail, thin), Pass, Thin, 95},
		{"all inconclusive", true, all(thin, thin), Pass, Thin, -1},
		{"all in error", true, all(bad, bad), Pass, Error, -1},
		{"all without weight", true, all(of(Pass, 0)), Pass, Thin, -1},
		{"all pass, the probe fails", true, all(pass), Fail, Red, 100},
		{"all skipped, the probe passes", true, all(skip), Pass, Green, -1},
		{"all skipped, no probe", true, all(skip), "", Ungated, -1},
	}
}

// moment is one row of the table of decisions: a bake of 10 minutes, maxBake
// of 15, interval 1 minute, grace 2 minutes, failureLimit 1.
type moment struct {
	name    string
	minute  float64 // of the reading
	verdict Verdict
	last    float64 // minute of the reading before
	stage   state.Stage
	act     Act
	next    float64
}

func (m moment) decide() Outcome {
	h := config.Health{Interval: config.Duration(time.Minute), Grace: config.Duration(2 * time.Minute), FailureLimit: 1}
	c := Clock{InForce: noon(), Now: minute(m.minute), LastRead: minute(m.last), Bake: 10 * time.Minute, MaxBake: 15 * time.Minute}
	return Decide(h, c, m.stage, Record{Verdict: m.verdict, Reason: "…"})
}

func minute(m float64) time.Time { return noon().Add(time.Duration(m * float64(time.Minute))) }

func moments() []moment {
	once := state.Stage{Red: 1}
	since := func(m float64) state.Stage { return state.Stage{FirstError: minute(m)} }
	resumed := state.Stage{Readings: []state.Reading{{At: minute(3)}, {At: minute(12)}}}
	return []moment{
		{"during the bake", 5, Red, 4, state.Stage{}, GoOn, 6},
		{"during the bake, beyond `failureLimit`", 5, Red, 4, once, Refuse, 0},
		{"during the bake", 5, Thin, 4, state.Stage{}, GoOn, 6},
		{"during the bake", 5, Error, 4, state.Stage{}, GoOn, 6},
		{"during the bake, for longer than `grace`", 5, Error, 4, since(1), GoOn, 6},
		{"during the bake", 5, Green, 4, state.Stage{}, GoOn, 6},
		{"during the bake", 5, Ungated, 4, state.Stage{}, GoOn, 6},
		{"last before the end", 9.5, Green, 8.5, state.Stage{}, GoOn, 10},
		{"at the end", 10, Red, 9, state.Stage{}, GoOn, 11},
		{"at the end, beyond `failureLimit`", 10, Red, 9, once, Refuse, 0},
		{"at the end", 10, Thin, 9, state.Stage{}, GoOn, 11},
		{"last before `maxBake`", 14.5, Thin, 13.5, state.Stage{}, GoOn, 15},
		{"at `maxBake`", 15, Thin, 14, state.Stage{}, Refuse, 0},
		{"at the end", 10, Error, 9, state.Stage{}, GoOn, 11},
		{"at the end, in error since minute 3", 10, Error, 9, since(3), GoOn, 11},
		{"past the end, within `grace`", 11.5, Error, 10.5, since(10), GoOn, 12},
		{"past the end, after `grace`", 12, Error, 11, since(10), Refuse, 0},
		{"at the end", 10, Green, 9, state.Stage{}, Finish, 0},
		{"past the end", 13, Green, 12, state.Stage{}, Finish, 0},
		{"past `maxBake`", 20, Green, 19, state.Stage{}, Finish, 0},
		{"at the end", 10, Ungated, 9, state.Stage{}, Finish, 0},
		{"past the end, after a gap of 9 minutes", 12, Green, 3, state.Stage{}, GoOn, 13},
		{"the one more", 13, Green, 12, resumed, Finish, 0},
		{"the one more, late itself", 30, Green, 12, resumed, Finish, 0},
		{"the one more, too soon", 12.5, Green, 12, resumed, GoOn, 14},
		{"weights are not manent's", 10, Void, 9, once, GoOn, 11},
		{"a verdict nobody knows", 12, "", 11, since(10), Refuse, 0},
	}
}

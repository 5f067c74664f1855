package gate

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/metric"
	"github.com/manent/action/runner/config"
)

func ptr[T any](v T) *T { return &v }

func TestThresholds(t *testing.T) {
	two := func(c, s float64) values { return values{c, s, true} }
	one := func(c float64) values { return values{candidate: c} }
	tests := []struct {
		name   string
		metric config.Metric
		values values
		want   Result
		reason string
	}{
		{"max met", config.Metric{Max: ptr(0.5)}, one(0.5), Pass, "value 0.5 <= 0.5"},
		{"max missed by little", config.Metric{Max: ptr(0.5)}, one(0.50000001), Fail, "value 0.50000001 > 0.5"},
		{"max 0", config.Metric{Max: ptr(0.0)}, one(0), Pass, "value 0 <= 0"},
		{"min met", config.Metric{Min: ptr(0.99)}, one(0.99), Pass, "value 0.99 >= 0.99"},
		{"min missed", config.Metric{Min: ptr(0.99)}, one(0.9), Fail, "value 0.9 < 0.99"},
		{"between", config.Metric{Min: ptr(1.0), Max: ptr(2.0)}, one(1.5), Pass, "value 1.5 <= 2, value 1.5 >= 1"},
		{"one of two missed", config.Metric{Min: ptr(1.0), Max: ptr(2.0)}, one(3), Fail, "value 3 > 2"},
		{"max of the candidate in a comparison", config.Metric{Max: ptr(1.0), MaxRatio: ptr(2.0)}, two(3, 2), Fail, "value 3 > 1"},
		{"maxRatio met", config.Metric{MaxRatio: ptr(1.5)}, two(3, 2), Pass, "ratio 1.5 <= 1.5"},
		{"maxRatio missed", config.Metric{MaxRatio: ptr(1.5)}, two(4, 2), Fail, "ratio 2 > 1.5"},
		{"maxRatio, stable 0, candidate 0", config.Metric{MaxRatio: ptr(1.5)}, two(0, 0), Pass, "both are 0"},
		{"maxRatio, stable 0, candidate above", config.Metric{MaxRatio: ptr(1.5)}, two(1e-300, 0), Fail, "ratio +Inf > 1.5"},
		{"maxRatio, candidate below 0", config.Metric{MaxRatio: ptr(1.5)}, two(-1, 2), Errored, "below 0"},
		{"maxRatio, stable below 0", config.Metric{MaxRatio: ptr(1.5)}, two(4, -2), Errored, "below 0"},
		{"minRatio met", config.Metric{MinRatio: ptr(0.8)}, two(8, 10), Pass, "ratio 0.8 >= 0.8"},
		{"minRatio missed", config.Metric{MinRatio: ptr(0.8)}, two(7, 10), Fail, "ratio 0.7 < 0.8"},
		{"minRatio, candidate below 0", config.Metric{MinRatio: ptr(0.8)}, two(-1, 2), Errored, "below 0"},
		{"minRatio, both below 0", config.Metric{MinRatio: ptr(0.8)}, two(-5, -2), Errored, "below 0"},
		{"minRatio, stable 0, candidate above", config.Metric{MinRatio: ptr(0.8)}, two(1, 0), Pass, "ratio +Inf >= 0.8"},
		{"minRatio, both 0", config.Metric{MinRatio: ptr(0.8)}, two(0, 0), Inconclusive, "a fall cannot be seen"},
		{"minRatio, both 0, but too large", config.Metric{MinRatio: ptr(0.8), Max: ptr(-1.0)}, two(0, 0), Fail, "value 0 > -1"},
		{"maxDelta met", config.Metric{MaxDelta: ptr(0.5)}, two(2.5, 2), Pass, "delta 0.5 <= 0.5"},
		{"maxDelta missed", config.Metric{MaxDelta: ptr(0.5)}, two(3, 2), Fail, "delta 1 > 0.5"},
		{"maxDelta is signed", config.Metric{MaxDelta: ptr(0.5)}, two(1, 100), Pass, "delta -99 <= 0.5"},
		{"maxDelta below 0 asks for a fall", config.Metric{MaxDelta: ptr(-1.0)}, two(2, 2), Fail, "delta 0 > -1"},
		{"maxDelta of values below 0", config.Metric{MaxDelta: ptr(1.0)}, two(-5, -3), Pass, "delta -2 <= 1"},
		{"maxDelta out of range", config.Metric{MaxDelta: ptr(1.0)}, two(-1.7e308, 1.7e308), Inconclusive, "out of range"},
		{"a comparison without stable", config.Metric{MaxRatio: ptr(1.5)}, one(1), Errored, "without compare"},
		{"no threshold", config.Metric{}, two(1, 1), Errored, "no threshold"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if f := thresholds(tt.metric, tt.values); f.result != tt.want || !strings.Contains(f.reason, tt.reason) {
				t.Errorf("%s: %s; want %s: %s", f.result, f.reason, tt.want, tt.reason)
			}
		})
	}
}

func TestFigures(t *testing.T) {
	tests := []struct{ got, want string }{
		{figure(19.0 / 396), "0.04798"},
		{figure(396), "396"},
		{figure(36040.4), "36040"},
		{figure(-1234.5), "-1234"},
		{figure(1e20), "1e+20"},
		{figure(math.NaN()), "NaN"},
		{figure(math.Inf(1)), "+Inf"},
		{limit(0.95), "0.95"},
		{limit(300), "300"},
		{limit(0.00001), "1e-05"},
		{beside(1.4999999, 1.5), "1.4999999"},
		{beside(1.5, 1.5), "1.5"},
		{beside(1999.6, 2000), "1999.6"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s, want %s", tt.got, tt.want)
		}
	}
}

// A volume of the candidate at 10 % is compared as if each had all traffic.
func TestPerShare(t *testing.T) {
	m := config.Metric{Name: "orders", Provider: "prometheus", Query: "{track}", Compare: "stable", MinRatio: ptr(0.8), PerShare: true}
	h := config.Health{Metrics: []config.Metric{m}}
	r := Judge(h, subject(false), Answers{"orders/candidate": is(100), "orders/stable": is(900)}, nil)
	if got := r.Metrics[0]; got.Result != Pass || got.Reason != "metric orders: candidate 1000, stable 1000: ratio 1 >= 0.8" {
		t.Errorf("%s: %s", got.Result, got.Reason)
	}
	if r = Judge(h, subject(false), Answers{"orders/candidate": is(50), "orders/stable": is(900)}, nil); r.Metrics[0].Result != Fail {
		t.Errorf("half of the volume: %s", r.Metrics[0].Reason)
	}
	if r = Judge(h, subject(false), Answers{"orders/candidate": is(1.7e308), "orders/stable": is(900)}, nil); r.Metrics[0].Result != Inconclusive {
		t.Errorf("out of range: %s", r.Metrics[0].Reason)
	}
}

func TestMessages(t *testing.T) {
	m := errorRatio()
	answers := Answers{"errors/candidate": is(0.048), "errors/stable": is(0), "errors/samples/candidate": is(396), "errors/samples/stable": is(3604)}
	r := Judge(config.Health{Metrics: []config.Metric{m}}, subject(false), answers, nil)
	const want = "metric errors: candidate 0.048, stable 0: ratio +Inf > 1.5 (396 and 3604 requests)"
	if r.Metrics[0].Reason != want || r.Reason != want || r.Metrics[0].Rule != "maxRatio 1.5" || r.Version != "1.1.0" {
		t.Errorf("%q, rule %q, reading %q", r.Metrics[0].Reason, r.Metrics[0].Rule, r.Reason)
	}
	answers["errors/stable"] = metric.Answer{Err: &providers.Fault{Provider: "prometheus", Op: "query", Err: fmt.Errorf("status 401"), Hint: "check the token"}}
	r = Judge(config.Health{Metrics: []config.Metric{m}}, subject(false), answers, nil)
	if got := r.Reason; got != `metric errors: stable: prometheus: query: status 401 (hint: check the token) (query errors{track="a"})` {
		t.Error(got)
	}
}

func TestAbsoluteMetricWithRequests(t *testing.T) {
	m := config.Metric{Name: "p99", Provider: "prometheus", Query: "q", Max: ptr(0.5), SamplesQuery: "n", MinSamples: ptr(10.0)}
	tests := []struct {
		name     string
		value    metric.Answer
		requests float64
		want     Result
	}{
		{"enough", is(0.4), 10, Pass},
		{"too slow", is(0.6), 10, Fail},
		{"too few", is(0.4), 9, Inconclusive},
		{"none", is(0), 0, Inconclusive},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Judge(config.Health{Metrics: []config.Metric{m}}, subject(true), Answers{"p99/candidate": tt.value, "p99/samples/candidate": is(tt.requests)}, nil)
			if r.Metrics[0].Result != tt.want || r.Metrics[0].Stable != nil {
				t.Errorf("%s: %s", r.Metrics[0].Result, r.Metrics[0].Reason)
			}
		})
	}
	m.SamplesQuery = ""
	if r := Judge(config.Health{Metrics: []config.Metric{m}}, subject(true), Answers{"p99/candidate": is(0.4)}, nil); r.Verdict != Error {
		t.Errorf("minSamples without samplesQuery: %s", r.Verdict)
	}
}

func TestSkippedAndUngated(t *testing.T) {
	h := config.Health{Metrics: []config.Metric{errorRatio()}}
	for _, tt := range []struct {
		name  string
		share float64
		first bool
	}{{"at 100 %", 100, false}, {"first release", 100, true}, {"at 0 %", 0, false}} {
		t.Run(tt.name, func(t *testing.T) {
			s := subject(true)
			s.Share, s.First = tt.share, tt.first
			r := Judge(h, s, nil, nil)
			if r.Metrics[0].Result != SkippedHere || r.Verdict != Ungated || !strings.Contains(r.Metrics[0].Reason, "skipped") {
				t.Errorf("%s, %s: %s", r.Metrics[0].Result, r.Verdict, r.Metrics[0].Reason)
			}
		})
	}
}

func TestMissingIsNeverAPass(t *testing.T) {
	h := config.Health{
		Metrics: []config.Metric{errorRatio()},
		Probes:  []config.Probe{{Name: "home"}},
		Alarms:  []config.Alarm{{Name: "p99", Provider: "cloudwatch", Alarm: "shop"}},
	}
	r := Judge(h, subject(true), nil, nil)
	if r.Verdict != Error || r.Metrics[0].Result != Errored || r.Probes[0].Result != Errored || r.Alarms[0].Result != Errored {
		t.Errorf("%+v", r)
	}
}

func TestAlarms(t *testing.T) {
	h := config.Health{Alarms: []config.Alarm{{Name: "p99", Provider: "cloudwatch", Alarm: "shop"}}}
	point := func(v float64) metric.Answer { return metric.Answer{Points: []metric.Point{{Value: v}}} }
	partial := point(0)
	partial.Partial = true
	tests := []struct {
		name   string
		answer metric.Answer
		want   Result
	}{
		{"quiet", point(0), Pass},
		{"firing", point(1), Fail},
		{"too little data", metric.Answer{Err: metric.ErrNoData}, Inconclusive},
		{"no point", metric.Answer{}, Inconclusive},
		{"NaN", point(math.NaN()), Errored},
		{"neither", point(0.5), Errored},
		{"partial", partial, Errored},
		{"refused", failed(providers.Denied, "status 403"), Errored},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Judge(h, subject(false), Answers{AlarmID("cloudwatch", "shop"): tt.answer}, nil)
			if r.Alarms[0].Result != tt.want {
				t.Errorf("%s: %s", r.Alarms[0].Result, r.Alarms[0].Reason)
			}
			if want := map[Result]Verdict{Pass: Green, Fail: Red, Inconclusive: Thin, Errored: Error}[tt.want]; r.Verdict != want {
				t.Errorf("reading %s, want %s", r.Verdict, want)
			}
		})
	}
}

// Under scoring, absolute metrics are critical unless said otherwise.
func TestCriticalByDefault(t *testing.T) {
	absolute := config.Metric{Name: "p99", Provider: "prometheus", Query: "q", Max: ptr(0.5), Weight: 1}
	healthy := errorRatio()
	healthy.Weight = 99
	answers := Answers{
		"p99/candidate": is(0.6), "errors/candidate": is(0), "errors/stable": is(0),
		"errors/samples/candidate": is(396), "errors/samples/stable": is(3604),
	}
	h := config.Health{Analysis: &config.Analysis{Pass: 95, Marginal: 75}, Metrics: []config.Metric{absolute, healthy}}
	if r := Judge(h, subject(false), answers, nil); r.Verdict != Red || *r.Score != 99 || !r.Metrics[0].Critical || r.Metrics[1].Critical {
		t.Errorf("%s, score %v: %s", r.Verdict, *r.Score, r.Reason)
	}
	h.Metrics[0].Critical = ptr(false)
	if r := Judge(h, subject(false), answers, nil); r.Verdict != Green || *r.Score != 99 || !strings.Contains(r.Reason, "value 0.6 > 0.5") {
		t.Errorf("%s, score %v: %s", r.Verdict, *r.Score, r.Reason)
	}
}

// What other tools let pass, and why each is a row of its own.
func TestWhereOthersFailOpen(t *testing.T) {
	nan := math.NaN()
	h := func(change func(*config.Metric)) config.Health {
		m := errorRatio()
		change(&m)
		return config.Health{Metrics: []config.Metric{m}, Analysis: nil}
	}
	all := func(v metric.Answer) Answers {
		return Answers{"errors/candidate": v, "errors/stable": v, "errors/samples/candidate": is(396), "errors/samples/stable": is(3604)}
	}
	scoring := h(func(*config.Metric) {})
	scoring.Analysis = &config.Analysis{Pass: 95, Marginal: 75}
	absolute := func(m *config.Metric) { m.Compare, m.MaxRatio, m.Max, m.Min = "", nil, ptr(1.0), ptr(0.0) }
	failing := func(m *config.Metric) { m.Compare, m.MaxRatio, m.Max = "", nil, ptr(1.0) }
	tests := []struct {
		name    string
		health  config.Health
		answers Answers
	}{
		{"argo: only a failure condition, NaN does not meet it", h(failing), all(is(nan))},
		{"argo: no condition at all is a success", h(func(m *config.Metric) { m.MaxRatio = nil }), all(is(0))},
		{"argo: a run ended before any measurement is a success", h(func(*config.Metric) {}), nil},
		{"argo, flagger: null in a point list read as 0", h(func(*config.Metric) {}), all(metric.Answer{Err: metric.ErrNoData})},
		{"flagger: NaN is neither below min nor above max", h(absolute), all(is(nan))},
		{"flagger: the last of several series wins", h(func(*config.Metric) {}), all(metric.Answer{Err: metric.ErrSeveral, Points: is(0).Points})},
		{"flagger: old rates go on after traffic stopped", h(func(*config.Metric) {}), all(was(0, 1))},
		{"argo, flagger: the status of a CloudWatch result is not looked at", h(func(*config.Metric) {}), all(metric.Answer{Points: is(0).Points, Partial: true})},
		{"kayenta: all metrics in error score 100", scoring, all(failed(providers.Unavailable, "status 503"))},
		{"kayenta: a group without a countable metric scores 100", scoring, all(metric.Answer{Err: metric.ErrNoData})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Judge(tt.health, subject(true), tt.answers, nil)
			if r.Verdict != Thin && r.Verdict != Error || r.Score != nil {
				t.Errorf("%s, score %v: %s", r.Verdict, r.Score, r.Reason)
			}
			c := Clock{InForce: noon(), Now: minute(10)}
			if o := Decide(tt.health, c, stageAt(10), r); o.Act != Refuse {
				t.Errorf("at the only reading: %s", o.Act)
			}
		})
	}
}

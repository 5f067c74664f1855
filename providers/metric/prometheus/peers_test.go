//go:build peers

package prometheus

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/promql"
	"github.com/manent/action/providers/metric"
	"github.com/manent/action/providers/metric/metrictest"
	"github.com/manent/action/providers/metric/prometheus/prometheustest"
	"github.com/manent/action/state"
)

// TestConformanceReal runs the suite against the real server. What a server
// does that fails is the fake's part.
func TestConformanceReal(t *testing.T) {
	metrictest.Run(t, metrictest.Suite{
		Setup: setupReal,
		Without: map[metrictest.Feature]string{
			metrictest.Partial:  "a server with its own storage has nothing to warn of",
			metrictest.Failures: "the real server does not fail on demand",
		},
	})
}

func setupReal(t *testing.T, scene metrictest.Scene) metrictest.Subject {
	sys := realSystem(t, samplesOf(scene))
	text := func(track state.Slot) string { return fmt.Sprintf(`last_over_time(m{slot="%s"}[30s])`, track) }
	return metrictest.Subject{System: sys, Text: text, Bad: `sum(rate(x[5m])`}
}

func samplesOf(scene metrictest.Scene) string {
	var b strings.Builder
	b.WriteString("# TYPE m gauge\n")
	for track, all := range scene.Series {
		for _, s := range all {
			labels := fmt.Sprintf("slot=%q", track)
			for k, v := range s.Labels {
				labels += fmt.Sprintf(",%s=%q", k, v)
			}
			for _, p := range s.Points {
				fmt.Fprintf(&b, "m{%s} %v %d\n", labels, p.Value, p.At.Unix())
			}
		}
	}
	if b.String() == "# TYPE m gauge\n" {
		return ""
	}
	return b.String() + "# EOF\n"
}

func realSystem(t *testing.T, samples string) metric.System {
	t.Helper()
	sys, err := New(providers.Env{}, Settings{URL: prometheustest.Start(t, samples), Timeout: 15 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return sys
}

// counters is two slots' traffic: b answers one request in five with 500.
func counters() string {
	var b strings.Builder
	b.WriteString("# TYPE http_requests counter\n")
	for _, s := range []struct{ slot, code, rate string }{{"a", "200", "8"}, {"b", "200", "4"}, {"b", "500", "1"}} {
		for i := 0; i <= 40; i++ {
			var per int
			_, _ = fmt.Sscan(s.rate, &per)
			fmt.Fprintf(&b, "http_requests_total{slot=%q,code=%q} %d %d\n", s.slot, s.code, i*15*per, metrictest.Start().Unix()+int64(i*15))
		}
	}
	return b.String() + "# EOF\n"
}

func TestRealQueries(t *testing.T) {
	sys := realSystem(t, counters())
	share := func(slot string) string {
		return fmt.Sprintf(`sum(rate(http_requests_total{slot="%[1]s",code=~"5.."}[1m])) / sum(rate(http_requests_total{slot="%[1]s"}[1m]))`, slot)
	}
	tests := []struct {
		name, text string
		step       time.Duration
		want       float64
		points     int
		err        error
		kind       providers.Kind
	}{
		{"ratio", share("b"), 0, 0.2, 1, nil, 0},
		{"ratio over time", share("b"), 15 * time.Second, 0.2, 40, nil, 0},
		{"no 5xx series yet is no data", share("a"), 0, 0, 0, metric.ErrNoData, 0},
		{"nothing divided by nothing", `sum(rate(http_requests_total{slot="a"}[1m]) * 0) / sum(rate(http_requests_total{slot="a"}[1m]) * 0)`, 0, math.NaN(), 1, nil, 0},
		{"something divided by nothing", `sum(rate(http_requests_total{slot="a"}[1m])) / 0`, 0, math.Inf(1), 1, nil, 0},
		{"scalar", `1 + 1`, 0, 2, 1, nil, 0},
		{"scalar over time", `1 + 1`, time.Minute, 2, 11, nil, 0},
		{"text", `"x"`, 0, 0, 0, nil, providers.Invalid},
		{"raw samples", `http_requests_total{slot="a"}[1m]`, 0, 0, 0, nil, providers.Invalid},
		{"raw samples over time", `http_requests_total{slot="a"}[1m]`, time.Minute, 0, 0, nil, providers.Invalid},
		{"two series", `rate(http_requests_total{slot="b"}[1m])`, 0, 0, 0, metric.ErrSeveral, providers.Invalid},
		{"many to many", `http_requests_total / on(slot) http_requests_total`, 0, 0, 0, nil, providers.Invalid},
		{"unknown function", `rat(x[1m])`, 0, 0, 0, nil, providers.Invalid},
		{"stale", `http_requests_total{slot="a"} offset -10m`, 0, 0, 0, metric.ErrNoData, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := ask(t, sys, query(tt.text, tt.step))
			if tt.err != nil || tt.kind != 0 {
				if a.Err == nil || (tt.err != nil && !errors.Is(a.Err, tt.err)) || providers.KindOf(a.Err) != tt.kind || len(a.Points) != 0 {
					t.Errorf("points %v, error %v of kind %v", a.Points, a.Err, providers.KindOf(a.Err))
				}
				return
			}
			if a.Err != nil || a.Partial || len(a.Points) != tt.points {
				t.Fatalf("%d points, partial %v, error %v, want %d", len(a.Points), a.Partial, a.Err, tt.points)
			}
			for _, p := range a.Points {
				if p.Value != tt.want && math.Abs(p.Value-tt.want) > 1e-12 && !(math.IsNaN(p.Value) && math.IsNaN(tt.want)) {
					t.Errorf("%v at %v, want %v", p.Value, p.At, tt.want)
				}
			}
		})
	}
}

// TestRealEscape: every byte of a label value finds its series, and none
// escapes from its quotes.
func TestRealEscape(t *testing.T) {
	var ascii strings.Builder
	for c := byte(1); c < 0x7f; c++ {
		ascii.WriteByte(c)
	}
	values := []string{"1.2.0-rc1", `"} or vector(1) #`, "größe 🚀", ascii.String()}
	var b strings.Builder
	b.WriteString("# TYPE m gauge\n")
	for i, v := range values {
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(v)
		fmt.Fprintf(&b, "m{v=\"%s\"} %d %d\n", quoted, i+10, metrictest.End().Unix())
	}
	sys := realSystem(t, b.String()+"# EOF\n")
	for i, v := range values {
		for _, form := range []string{`sum(m{v="%s"})`, `sum(m{v='%s'})`} {
			a := ask(t, sys, query(fmt.Sprintf(form, promql.Escape(v)), 0))
			if a.Err != nil || a.Points[0].Value != float64(i+10) {
				t.Errorf("%s with %q: points %v, error %v", form, v, a.Points, a.Err)
			}
		}
		for _, form := range []string{"sum(m{v=`%s`})", `sum(m) + %s`} {
			a := ask(t, sys, query(fmt.Sprintf(form, promql.Escape(values[1])), 0))
			if a.Err == nil {
				t.Errorf("%s: points %v, want none", form, a.Points)
			}
		}
	}
}

// TestFakeRefusesAsReal sends the same wrong requests to both.
func TestFakeRefusesAsReal(t *testing.T) {
	server := prometheustest.Start(t, "")
	fake := prometheustest.NewFake(t)
	good := map[string]string{"query": "x", "start": "1000", "end": "2000", "step": "10"}
	tests := []struct {
		path   string
		change map[string]string
	}{
		{"/api/v1/query", map[string]string{"query": "x", "time": "soon"}},
		{"/api/v1/query", map[string]string{"query": "", "time": "1000"}},
		{"/api/v1/query", map[string]string{"query": "sum(x", "time": "1000"}},
		{"/api/v1/query", map[string]string{"query": "x", "time": "1000"}},
		{"/api/v1/query_range", map[string]string{}},
		{"/api/v1/query_range", map[string]string{"end": "999"}},
		{"/api/v1/query_range", map[string]string{"end": "then"}},
		{"/api/v1/query_range", map[string]string{"start": ""}},
		{"/api/v1/query_range", map[string]string{"step": "0"}},
		{"/api/v1/query_range", map[string]string{"step": "-1"}},
		{"/api/v1/query_range", map[string]string{"step": "often"}},
		{"/api/v1/query_range", map[string]string{"end": "12000", "step": "1"}},
		{"/api/v1/query_range", map[string]string{"end": "12001", "step": "1"}},
		{"/api/v1/query_range", map[string]string{"query": "(x"}},
		{"/api/v1/nothing", map[string]string{}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.path, tt.change), func(t *testing.T) {
			form := url.Values{}
			if tt.path != "/api/v1/query" {
				for k, v := range good {
					form.Set(k, v)
				}
			}
			for k, v := range tt.change {
				form.Set(k, v)
			}
			wantStatus, want := post(t, server+tt.path, form)
			gotStatus, got := post(t, fake.URL+tt.path, form)
			if gotStatus != wantStatus || got != want {
				t.Errorf("fake: %d %q, real: %d %q", gotStatus, got, wantStatus, want)
			}
		})
	}
}

func post(t *testing.T, address string, form url.Values) (status int, errorType string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var body struct{ ErrorType string }
	if resp.StatusCode != http.StatusNotFound {
		if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
			t.Fatal(err)
		}
	}
	return resp.StatusCode, body.ErrorType
}

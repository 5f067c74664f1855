package prometheus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
	"github.com/manent/action/providers/metric"
	"github.com/manent/action/providers/metric/metrictest"
	"github.com/manent/action/providers/metric/prometheus/prometheustest"
	"github.com/manent/action/state"
)

const token = "pr0m-t0ken"

func TestConformance(t *testing.T) {
	metrictest.Run(t, metrictest.Suite{Setup: setup})
}

func setup(t *testing.T, scene metrictest.Scene) metrictest.Subject {
	fake := prometheustest.NewFake(t)
	fake.Require("Bearer " + token)
	text := func(track state.Slot) string {
		return fmt.Sprintf(`sum(rate(http_requests_total{slot="%s"}[1m]))`, track)
	}
	for track, all := range scene.Series {
		var series []prometheustest.Series
		for _, s := range all {
			series = append(series, prometheustest.Series(s))
		}
		fake.Set(text(track), series...)
	}
	if scene.Partial {
		fake.Warn("No StoreAPIs matched for this query")
	}
	sys := system(t, fake, nil)
	if scene.Failure != nil {
		fake.Wrap(scene.Failure.Handler)
		sys.http.Timeout, sys.http.Deadline = 150*time.Millisecond, time.Second
	}
	return metrictest.Subject{System: sys, Text: text, Bad: `sum(rate(x[5m])`, Secret: token}
}

// system is made as the configuration makes it, but for the waits between
// attempts.
func system(t *testing.T, fake *prometheustest.Fake, settings map[string]any) *System {
	t.Helper()
	env := providers.Env{Dir: t.TempDir(), Secret: func(_ context.Context, name string) (providers.Secret, error) {
		if name == "missing" {
			return providers.Secret{}, &providers.Fault{Provider: "env", Kind: providers.NotFound, Err: errors.New("not set")}
		}
		return providers.NewSecret(token), nil
	}}
	all := map[string]any{"url": fake.URL}
	if settings["username"] == nil {
		all["token_secret"] = "tok"
	}
	for k, v := range settings {
		all[k] = v
	}
	built, err := Spec().Build(env, all)
	if err != nil {
		t.Fatal(err)
	}
	sys := built.(*System)
	sys.http.Backoff = time.Millisecond
	return sys
}

func ask(t *testing.T, sys metric.System, q metric.Query) metric.Answer {
	t.Helper()
	answers, err := sys.Query(t.Context(), []metric.Query{q})
	if err != nil {
		t.Fatal(err)
	}
	return answers[0]
}

func query(text string, step time.Duration) metric.Query {
	return metric.Query{ID: "q", Text: text, From: metrictest.Start(), To: metrictest.End(), Step: step}
}

func TestRequests(t *testing.T) {
	fake := prometheustest.NewFake(t)
	sys := system(t, fake, map[string]any{"url": fake.URL + "/", "headers": map[string]any{"X-Scope-OrgID": "shop"}})
	value := query(`up`, 0)
	value.To = value.To.Add(250 * time.Millisecond)
	series := query(`rate(x[5m])`, 15*time.Second)
	series.From = series.From.Add(time.Second)
	for _, q := range []metric.Query{value, series} {
		ask(t, sys, q)
	}
	got := fake.Requests()
	want := []map[string]string{
		{"query": "up", "time": "1796040600.25"},
		{"query": "rate(x[5m])", "start": "1796040015", "end": "1796040600", "step": "15"},
	}
	if len(got) != len(want) {
		t.Fatalf("%d requests, want %d", len(got), len(want))
	}
	for i, r := range got {
		if fmt.Sprint(r.Form) != fmt.Sprint(want[i]) {
			t.Errorf("form %v, want %v", r.Form, want[i])
		}
		if r.Header.Get("X-Scope-OrgID") != "shop" || r.Header.Get("Authorization") != "Bearer "+token {
			t.Errorf("headers %v, want tenant and token", r.Header)
		}
	}
}

func TestBasicAuth(t *testing.T) {
	fake := prometheustest.NewFake(t)
	fake.Require("Basic bWU6cHIwbS10MGtlbg==") // me:pr0m-t0ken
	fake.Set("x", prometheustest.Series{Points: []metric.Point{{At: metrictest.End(), Value: 1}}})
	sys := system(t, fake, map[string]any{"username": "me", "password_secret": "pw"})
	if a := ask(t, sys, query("x", 0)); a.Err != nil || a.Points[0].Value != 1 {
		t.Errorf("answer %v, error %v", a.Points, a.Err)
	}
}

func TestMissingSecret(t *testing.T) {
	fake := prometheustest.NewFake(t)
	sys := system(t, fake, map[string]any{"token_secret": "missing"})
	answers, err := sys.Query(t.Context(), []metric.Query{query("x", 0)})
	if providers.KindOf(err) != providers.NotFound || answers != nil || len(fake.Requests()) != 0 {
		t.Errorf("answers %v, error %v, %d requests; want none sent without credentials", answers, err, len(fake.Requests()))
	}
}

func TestSettings(t *testing.T) {
	tests := map[string]map[string]any{
		"setting \"url\" is missing":       {},
		"plain http to another machine":    {"url": "http://prometheus.example"},
		"carries credentials":              {"url": "https://me:pw@prometheus.example"},
		"without a query":                  {"url": "https://prometheus.example/?x=1"},
		"expected token_secret":            {"url": "https://p.example", "headers": map[string]any{"authorization": "x"}},
		"one way to authenticate":          {"url": "https://p.example", "token_secret": "a", "username": "b", "password_secret": "c"},
		"expected both or none":            {"url": "https://p.example", "username": "b"},
		"inside the workspace":             {"url": "https://p.example", "ca_file": "../ca.pem"},
		"timeout: 100ms, expected 1s":      {"url": "https://p.example", "timeout": "100ms"},
		"unknown setting \"tokn_secret\"":  {"url": "https://p.example", "tokn_secret": "x"},
		"\"soon\", expected a duration":    {"url": "https://p.example", "timeout": "soon"},
		"timeout: 1h0m0s, expected 1s to":  {"url": "https://p.example", "timeout": "1h"},
		"\"ftp://p.example\", expected ht": {"url": "ftp://p.example"},
	}
	for want, settings := range tests {
		t.Run(want, func(t *testing.T) {
			sys, err := Spec().Build(providers.Env{}, settings)
			if sys != nil || providers.KindOf(err) != providers.Invalid || !strings.Contains(err.Error(), want) {
				t.Errorf("system %v, error %v, want %q in it", sys, err, want)
			}
		})
	}
}

func TestCAFileIsOfTheWorkspace(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	sys, err := New(providers.Env{Dir: dir}, Settings{URL: "https://127.0.0.1:1", CAFile: "ca.pem", Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if a := ask(t, sys, query("x", 0)); providers.KindOf(a.Err) != providers.Invalid || !strings.Contains(a.Err.Error(), "no PEM certificate") {
		t.Errorf("error %v, want the file read and refused", a.Err)
	}
}

// TestResults: what a server may put into a successful answer.
func TestResults(t *testing.T) {
	wrap := func(kind, result string) string {
		return `{"status":"success","data":{"resultType":"` + kind + `","result":` + result + `}}`
	}
	const at = "1796040600" // the end of the window
	tests := []struct {
		name, body string
		step       time.Duration
		want       float64
		kind       providers.Kind
		text       string // in the error; "" for an answer
	}{
		{"scalar", wrap("scalar", `[`+at+`,"0.5"]`), 0, 0.5, 0, ""},
		{"string", wrap("string", `[`+at+`,"x"]`), 0, 0, providers.Invalid, "result is text"},
		{"range of raw samples", wrap("matrix", `[{"metric":{},"values":[[`+at+`,"1"]]}]`), 0, 0, providers.Invalid, "raw samples"},
		{"histogram", wrap("vector", `[{"metric":{},"histogram":[`+at+`,{"count":"1","sum":"2","buckets":[]}]}]`), 0, 0, providers.Invalid, "native histogram"},
		{"histogram series", wrap("matrix", `[{"metric":{},"histograms":[[`+at+`,{"count":"1","sum":"2","buckets":[]}]]}]`), time.Minute, 0, providers.Invalid, "native histogram"},
		{"null value", wrap("vector", `[{"metric":{},"value":[`+at+`,null]}]`), 0, 0, providers.Unknown, "without a value"},
		{"missing half", wrap("vector", `[{"metric":{},"value":[`+at+`]}]`), 0, 0, providers.Unknown, "without a value"},
		{"missing value", wrap("vector", `[{"metric":{}}]`), 0, 0, providers.Unknown, "without a value"},
		{"null sample", wrap("vector", `[null]`), 0, 0, providers.Unknown, "without a value"},
		{"number for text", wrap("vector", `[{"metric":{},"value":[`+at+`,1]}]`), 0, 0, providers.Unknown, "without a value"},
		{"vector of another form", wrap("vector", `{"a":1}`), 0, 0, providers.Unknown, "unknown form"},
		{"null in a series", wrap("matrix", `[{"metric":{},"values":[[`+at+`,null]]}]`), time.Minute, 0, providers.Unknown, "SamplePair"},
		{"null series", wrap("matrix", `[null]`), time.Minute, 0, providers.Unknown, "null"},
		{"null scalar", wrap("scalar", `[`+at+`,null]`), 0, 0, providers.Unknown, "ParseFloat"},
		{"unknown type", wrap("tensor", `[]`), 0, 0, providers.Unknown, "tensor"},
		{"no data member", `{"status":"success"}`, 0, 0, providers.Unknown, "no result"},
		{"another window", wrap("matrix", `[{"metric":{},"values":[[1796030000,"1"]]}]`), time.Minute, 0, providers.Unknown, "expected rising times"},
		{"backwards", wrap("matrix", `[{"metric":{},"values":[[1796040600,"1"],[1796040540,"1"]]}]`), time.Minute, 0, providers.Unknown, "expected rising times"},
		{"vector of a second later", wrap("vector", `[{"metric":{},"value":[1796040601,"1"]}]`), 0, 1, 0, ""},
		{"vector of the future", wrap("vector", `[{"metric":{},"value":[1796040601.5,"1"]}]`), 0, 0, providers.Unknown, "value at 2026"},
		{"vector of a sample back", wrap("vector", `[{"metric":{},"value":[1796040300,"1"]}]`), 0, 1, 0, ""},
		{"vector of the past", wrap("vector", `[{"metric":{},"value":[1796040298,"1"]}]`), 0, 0, providers.Unknown, "at most 5m0s before"},
		{"scalar of the past", wrap("scalar", `[1796030000,"1"]`), 0, 0, providers.Unknown, "at most 5m0s before"},
		{"scalar of the future", wrap("scalar", `[1796050000,"1"]`), 0, 0, providers.Unknown, "at most 5m0s before"},
		{"error with 200", `{"status":"error","errorType":"timeout","error":"too slow"}`, 0, 0, providers.Unavailable, "too slow"},
		{"internal with 200", `{"status":"error","errorType":"internal","error":"disk"}`, 0, 0, providers.Unavailable, "disk"},
		{"execution with 200", `{"status":"error","errorType":"execution","error":"many-to-many"}`, 0, 0, providers.Invalid, "many-to-many"},
		{"not found with 200", `{"status":"error","errorType":"not_found","error":"no tenant"}`, 0, 0, providers.NotFound, "no tenant"},
		{"unknown error", `{"status":"error","errorType":"odd","error":"?"}`, 0, 0, providers.Unknown, "?"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fake := prometheustest.NewFake(t)
			fake.SetRaw("q", tt.body)
			a := ask(t, system(t, fake, nil), query("q", tt.step))
			if tt.text == "" {
				if a.Err != nil || len(a.Points) != 1 || a.Points[0].Value != tt.want {
					t.Errorf("points %v, error %v, want %v", a.Points, a.Err, tt.want)
				}
				return
			}
			if a.Err == nil || providers.KindOf(a.Err) != tt.kind || !strings.Contains(a.Err.Error(), tt.text) || len(a.Points) != 0 {
				t.Errorf("points %v, error %v of kind %v, want %v with %q", a.Points, a.Err, providers.KindOf(a.Err), tt.kind, tt.text)
			}
		})
	}
}

func TestSeveralNamesThem(t *testing.T) {
	fake := prometheustest.NewFake(t)
	var series []prometheustest.Series
	for _, pod := range []string{"p1", "p2", "p3", "p4"} {
		series = append(series, prometheustest.Series{Labels: map[string]string{"pod": pod}, Points: []metric.Point{{At: metrictest.End(), Value: 1}}})
	}
	fake.Set("q", series...)
	a := ask(t, system(t, fake, nil), query("q", 0))
	want := `prometheus: query "q": several series: 4, {pod="p1"}, {pod="p2"}, {pod="p3"}, …`
	if a.Err == nil || a.Err.Error() != want || !strings.Contains(providers.HintOf(a.Err), "sum(") {
		t.Errorf("error %v, hint %q, want %s", a.Err, providers.HintOf(a.Err), want)
	}
}

func TestWarnings(t *testing.T) {
	full := prometheustest.Series{Points: []metric.Point{{At: metrictest.End(), Value: 1}}}
	tests := []struct {
		name     string
		series   []prometheustest.Series
		warnings []string
		partial  bool
		failed   bool
	}{
		{"a store did not answer", []prometheustest.Series{full}, []string{"receive series from store-1: deadline"}, true, false},
		{"only information", []prometheustest.Series{full}, []string{"PromQL info: metric might not be a counter"}, false, false},
		{"empty and partial", nil, []string{"store-1 is gone, asked with " + token}, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fake := prometheustest.NewFake(t)
			fake.Set("q", tt.series...)
			fake.Warn(tt.warnings...)
			a := ask(t, system(t, fake, nil), query("q", 0))
			if a.Partial != tt.partial || (len(a.Warnings) > 0) != tt.partial || (a.Err != nil) != tt.failed {
				t.Errorf("partial %v, warnings %q, error %v", a.Partial, a.Warnings, a.Err)
			}
			if errors.Is(a.Err, metric.ErrNoData) {
				t.Error("an empty partial answer counts as no data")
			}
			if strings.Contains(fmt.Sprintf("%+v", a), token) {
				t.Errorf("the token is in %+v", a)
			}
		})
	}
}

func TestTooManySteps(t *testing.T) {
	fake := prometheustest.NewFake(t)
	sys := system(t, fake, nil)
	q := query("q", time.Second)
	q.From = q.To.Add(-11_001 * time.Second)
	if a := ask(t, sys, q); providers.KindOf(a.Err) != providers.Invalid || len(fake.Requests()) != 0 {
		t.Errorf("error %v after %d requests, want it refused unsent", a.Err, len(fake.Requests()))
	}
	q.From = q.From.Add(time.Second)
	if a := ask(t, sys, q); !errors.Is(a.Err, metric.ErrNoData) || len(fake.Requests()) != 1 {
		t.Errorf("error %v, want 11,000 steps asked", a.Err)
	}
}

// TestRetriesAreBounded: a server that never recovers is asked three times.
func TestRetriesAreBounded(t *testing.T) {
	fake := prometheustest.NewFake(t)
	failure := &metrictest.Failure{Status: http.StatusServiceUnavailable}
	asked := 0
	fake.Wrap(func(next http.Handler) http.Handler {
		asked++
		return failure.Handler(next)
	})
	a := ask(t, system(t, fake, nil), query("q", 0))
	if providers.KindOf(a.Err) != providers.Unavailable || asked != httpx.DefaultRetries+1 {
		t.Errorf("error %v after %d requests, want %d", a.Err, asked, httpx.DefaultRetries+1)
	}
}

// TestForbiddenIsAskedOnce: the library would repeat a refused POST as GET.
func TestForbiddenIsAskedOnce(t *testing.T) {
	fake := prometheustest.NewFake(t)
	asked := 0
	fake.Wrap(func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.WriteHeader(http.StatusForbidden)
		})
	})
	a := ask(t, system(t, fake, nil), query("q", 0))
	if providers.KindOf(a.Err) != providers.Denied || asked != 1 || providers.HintOf(a.Err) == "" {
		t.Errorf("error %v, hint %q, after %d requests", a.Err, providers.HintOf(a.Err), asked)
	}
}

// TestOnlyOKIsAnAnswer: another success comes of something in between.
func TestOnlyOKIsAnAnswer(t *testing.T) {
	for _, status := range []int{http.StatusCreated, http.StatusNonAuthoritativeInfo, http.StatusPartialContent} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			fake := prometheustest.NewFake(t)
			fake.Wrap(func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(status)
					_, _ = fmt.Fprint(w, `{"status":"success","data":{"resultType":"scalar","result":[1796040600,"1"]}}`)
				})
			})
			a := ask(t, system(t, fake, nil), query("q", 0))
			if providers.KindOf(a.Err) != providers.Unknown || a.Err == nil || len(a.Points) != 0 || !strings.Contains(a.Err.Error(), fmt.Sprint(status)) {
				t.Errorf("points %v, error %v, want status %d refused", a.Points, a.Err, status)
			}
		})
	}
}

// TestReadOnlyProxy: a proxy that lets only GET through is answered with GET.
func TestReadOnlyProxy(t *testing.T) {
	fake := prometheustest.NewFake(t)
	fake.Wrap(func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"scalar","result":[1796040600,"%s"]}}`, r.URL.Query().Get("query"))
		})
	})
	if a := ask(t, system(t, fake, nil), query("42", 0)); a.Err != nil || a.Points[0].Value != 42 {
		t.Errorf("points %v, error %v", a.Points, a.Err)
	}
}

// TestOneBudget: a server that hangs is not asked all of many queries one
// after the other; a call takes as long as one query.
func TestOneBudget(t *testing.T) {
	fake := prometheustest.NewFake(t)
	failure := &metrictest.Failure{Hang: true}
	fake.Wrap(failure.Handler)
	sys := system(t, fake, nil)
	sys.http.Timeout, sys.http.Deadline = 200*time.Millisecond, 300*time.Millisecond
	queries := make([]metric.Query, 60)
	for i := range queries {
		queries[i] = query("q", 0)
	}
	answers, err := sys.Query(t.Context(), queries)
	if err != nil {
		t.Fatal(err)
	}
	if asked := failure.Met(); asked > len(queries)/2 {
		t.Errorf("%d requests for %d queries, want the first few alone", asked, len(queries))
	}
	for i, a := range answers {
		if providers.KindOf(a.Err) != providers.Unknown || providers.Lost(a.Err) || !strings.Contains(a.Err.Error(), "no answer within") {
			t.Errorf("answer %d: %v, want no answer, and not as the caller's own deadline", i, a.Err)
		}
	}
}

func TestNotFoundHint(t *testing.T) {
	fake := prometheustest.NewFake(t)
	a := ask(t, system(t, fake, map[string]any{"url": fake.URL + "/prefix"}), query("q", 0))
	if providers.KindOf(a.Err) != providers.NotFound || !strings.Contains(providers.HintOf(a.Err), "prefix") {
		t.Errorf("error %v, hint %q", a.Err, providers.HintOf(a.Err))
	}
}

// Package prometheustest gives tests a Prometheus: a fake with the HTTP API,
// and the real program with samples of a test's choice. It must not know what
// is asked.
package prometheustest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/manent/action/providers/metric"
)

// Series is one series the fake holds behind a query.
type Series struct {
	Labels map[string]string
	Points []metric.Point // instants at which the query has a value
}

// Fake is a server with /api/v1/query and /api/v1/query_range. A query is
// known by its exact text; an unknown one has an empty result, as in a real
// server. What the real one refuses it refuses with the same status and
// errorType (a test with the real one compares them), and it reports as test
// errors what manent is not to send.
type Fake struct {
	URL string

	t        *testing.T
	mu       sync.Mutex
	series   map[string][]Series
	raw      map[string]string
	warnings []string
	auth     string
	wrap     func(http.Handler) http.Handler
	requests []Request
}

// Request is one request as the fake understood it.
type Request struct {
	Method, Path string
	Header       http.Header
	Form         map[string]string
}

// NewFake starts a fake that ends with the test.
func NewFake(t *testing.T) *Fake {
	t.Helper()
	f := &Fake{t: t, series: map[string][]Series{}, raw: map[string]string{}}
	srv := httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(srv.Close)
	f.URL = srv.URL
	return f
}

// Set puts series behind a query.
func (f *Fake) Set(query string, series ...Series) {
	f.locked(func() { f.series[query] = series })
}

// SetRaw answers a query with a body, word for word.
func (f *Fake) SetRaw(query, body string) { f.locked(func() { f.raw[query] = body }) }

// Warn adds warnings to every answer.
func (f *Fake) Warn(warnings ...string) { f.locked(func() { f.warnings = warnings }) }

// Require refuses requests without this Authorization header, as a server
// with basic_auth_users or a proxy in front of it does.
func (f *Fake) Require(authorization string) { f.locked(func() { f.auth = authorization }) }

// Wrap puts a handler around the fake, to make it fail.
func (f *Fake) Wrap(wrap func(http.Handler) http.Handler) { f.locked(func() { f.wrap = wrap }) }

// Requests returns what was asked so far.
func (f *Fake) Requests() []Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Request(nil), f.requests...)
}

func (f *Fake) locked(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *Fake) serve(w http.ResponseWriter, r *http.Request) {
	var next http.Handler = http.HandlerFunc(f.api)
	f.locked(func() {
		if f.wrap != nil {
			next = f.wrap(next)
		}
	})
	next.ServeHTTP(w, r)
}

func (f *Fake) api(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		f.t.Errorf("fake prometheus: form of %s: %v", r.URL.Path, err)
	}
	req := Request{Method: r.Method, Path: r.URL.Path, Header: r.Header, Form: map[string]string{}}
	for k := range r.PostForm {
		req.Form[k] = r.PostForm.Get(k)
	}
	var auth string
	f.locked(func() { f.requests = append(f.requests, req); auth = f.auth })
	if auth != "" && r.Header.Get("Authorization") != auth {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	switch r.URL.Path {
	case "/api/v1/query":
		f.expect(req, "query", "time")
		f.query(w, req.Form)
	case "/api/v1/query_range":
		f.expect(req, "query", "start", "end", "step")
		f.queryRange(w, req.Form)
	default:
		http.NotFound(w, r)
	}
}

// expect reports a request that is not as manent should make it.
func (f *Fake) expect(r Request, fields ...string) {
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		f.t.Errorf("fake prometheus: %s with %q, want a posted form", r.Method, r.Header.Get("Content-Type"))
	}
	for _, name := range fields {
		if _, ok := r.Form[name]; !ok {
			f.t.Errorf("fake prometheus: %s without %s", r.Path, name)
		}
	}
	if len(r.Form) != len(fields) {
		f.t.Errorf("fake prometheus: %s with fields %v, want %v alone", r.Path, r.Form, fields)
	}
}

func (f *Fake) query(w http.ResponseWriter, form map[string]string) {
	at, ok := instant(w, form, "time")
	if !ok || !checkQuery(w, form["query"]) || f.verbatim(w, form["query"]) {
		return
	}
	result := []map[string]any{}
	for _, s := range f.found(form["query"]) {
		for _, p := range s.Points {
			if p.At.Equal(at) {
				result = append(result, map[string]any{"metric": labels(s.Labels), "value": pair(p)})
			}
		}
	}
	f.success(w, "vector", result)
}

func (f *Fake) queryRange(w http.ResponseWriter, form map[string]string) {
	start, ok1 := instant(w, form, "start")
	end, ok2 := instant(w, form, "end")
	if !ok1 || !ok2 {
		return
	}
	step, ok := checkRange(w, form, start, end)
	if !ok || !checkQuery(w, form["query"]) || f.verbatim(w, form["query"]) {
		return
	}
	result := []map[string]any{}
	for _, s := range f.found(form["query"]) {
		var values []any
		for _, p := range s.Points {
			if !p.At.Before(start) && !p.At.After(end) && p.At.Sub(start)%step == 0 {
				values = append(values, pair(p))
			}
		}
		if len(values) > 0 {
			result = append(result, map[string]any{"metric": labels(s.Labels), "values": values})
		}
	}
	f.success(w, "matrix", result)
}

func (f *Fake) found(query string) (out []Series) {
	f.locked(func() { out = f.series[query] })
	return out
}

func (f *Fake) verbatim(w http.ResponseWriter, query string) bool {
	var body string
	var ok bool
	f.locked(func() { body, ok = f.raw[query] })
	if ok {
		_, _ = fmt.Fprint(w, body)
	}
	return ok
}

func (f *Fake) success(w http.ResponseWriter, kind string, result any) {
	answer := map[string]any{"status": "success", "data": map[string]any{"resultType": kind, "result": result}}
	f.locked(func() {
		if f.warnings != nil {
			answer["warnings"] = f.warnings
		}
	})
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		f.t.Errorf("fake prometheus: %v", err)
	}
}

func labels(l map[string]string) map[string]string {
	if l == nil {
		return map[string]string{}
	}
	return l
}

func pair(p metric.Point) []any {
	return []any{float64(p.At.UnixMilli()) / 1000, strconv.FormatFloat(p.Value, 'f', -1, 64)}
}

// refuse writes the error envelope.
func refuse(w http.ResponseWriter, text string) {
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]string{"status": "error", "errorType": "bad_data", "error": text})
}

func instant(w http.ResponseWriter, form map[string]string, field string) (time.Time, bool) {
	seconds, err := strconv.ParseFloat(form[field], 64)
	if err != nil {
		refuse(w, fmt.Sprintf("invalid parameter %q: cannot parse %q to a valid timestamp", field, form[field]))
		return time.Time{}, false
	}
	return time.UnixMilli(int64(seconds*1000 + 0.5)).UTC(), true
}

func checkRange(w http.ResponseWriter, form map[string]string, start, end time.Time) (time.Duration, bool) {
	if end.Before(start) {
		refuse(w, `invalid parameter "end": end timestamp must not be before start time`)
		return 0, false
	}
	seconds, err := strconv.ParseFloat(form["step"], 64)
	step := time.Duration(seconds * float64(time.Second))
	switch {
	case err != nil:
		refuse(w, fmt.Sprintf("invalid parameter \"step\": cannot parse %q to a valid duration", form["step"]))
	case step <= 0:
		refuse(w, `invalid parameter "step": zero or negative query resolution step widths are not accepted. Try a positive integer`)
	case end.Sub(start)/step > 11000:
		refuse(w, "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)")
	default:
		return step, true
	}
	return 0, false
}

// checkQuery knows as much of the grammar as tests break.
func checkQuery(w http.ResponseWriter, query string) bool {
	if strings.TrimSpace(query) == "" {
		refuse(w, `invalid parameter "query": 1:1: parse error: no expression found in input`)
		return false
	}
	if strings.Count(query, "(") != strings.Count(query, ")") {
		refuse(w, `invalid parameter "query": 1:1: parse error: unclosed left parenthesis`)
		return false
	}
	return true
}

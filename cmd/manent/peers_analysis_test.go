//go:build peers

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/manent/action/providers/api/host/hosttest"
	"github.com/manent/action/providers/metric/prometheus/prometheustest"
	"github.com/manent/action/state"
)

// Nothing here is left to chance, and little to the speed of the machine: a
// release fails every so-many-th request, the proxy splits exactly, so that
// for a number of requests there is one number of errors, give or take one.

// byCounts compares what the proxy has counted of either slot, for 300
// requests of the candidate or more.
const byCounts = `
rollout:
  traffic: {steps: [25, 50, 100], bake: 4s, maxBake: 1m, finalBake: 500ms, scaleDownDelay: 1s}
  providers:
    prometheus: {url: "$PROMETHEUS"}
  health:
    interval: 1s
    grace: 20s
    falseAlarm: 1%
    analysis: {pass: 95, marginal: 75}
    metrics:
      - name: errors
        query: sum($COUNTER{track="{track}",code=~"5.."})
        samplesQuery: sum($COUNTER{track="{track}"})
        compare: stable
        analysis: sequential
        empty: zero
        minSamples: 300
        step: 500ms
`

// newAnalysisShop is a shop behind manent's proxy, with a real Prometheus
// that reads the proxy's own counters and its state in a repository.
func newAnalysisShop(t *testing.T) *shop {
	s := newShop(t)
	s.env = append(s.env, "GORACE=atexit_sleep_ms=0")
	s.repository()
	s.proxy()
	s.vars["COUNTER"] = "manent_proxy_requests_total"
	s.scrape(s.vars["ADMIN"])
	return s
}

// scrape runs a real Prometheus that reads what is at these addresses, and
// waits until it has.
func (s *shop) scrape(urls ...string) {
	s.t.Helper()
	targets := make([]string, len(urls))
	for i, url := range urls {
		targets[i] = strings.TrimPrefix(url, "http://")
	}
	s.vars["PROMETHEUS"] = prometheustest.Scrape(s.t, 250*time.Millisecond, targets...)
	eventually(s.t, func() error {
		text, err := s.ask("sum(up)", time.Now())
		if want := fmt.Sprintf(`"%d"`, len(urls)); err == nil && !strings.Contains(string(text), want) {
			return fmt.Errorf("Prometheus has not read %q: %s", urls, text)
		}
		return err
	})
}

// byCalls drives a rollout to its end with one process for each call, none of
// which waits, and returns how the last one ended and how many there were.
func (s *shop) byCalls() (code, calls int) {
	s.t.Helper()
	for range 400 {
		calls++
		run := s.start("run", "--version", "2.0", "--no-wait")
		if code = run.wait(); code != 2 {
			return code, calls
		}
		pause(s.t.Context(), 200*time.Millisecond)
	}
	s.t.Fatal("the rollout has no end")
	return 0, 0
}

// Evidence of counters goes over many processes: a version as good as the
// stable completes, and each event since the share was in force is counted
// once, by what Prometheus itself says of the counters.
func TestPeersAnalysisCounts(t *testing.T) {
	t.Parallel()
	s := newAnalysisShop(t)
	s.configure(head + byCounts + throughProxy)
	s.a.every.Store(100)
	s.b.every.Store(100)
	visitors := s.crowd(200)
	hosttest.Until(t, "doctor has an answer of Prometheus", func() bool {
		return strings.Contains(s.exits(0, "doctor"), "prometheus answers with ")
	})
	code, calls := s.byCalls()
	visitors.stop()
	doc, _ := s.status()
	if code != 0 || doc.Rollout.Status != state.Completed {
		t.Fatalf("ended with %d as %s after %d calls: %+v", code, doc.Rollout.Status, calls, doc.Rollout.Failure)
	}
	for _, stage := range doc.Rollout.Stages[:2] {
		if stage.Score == nil || *stage.Score != 100 || stage.Status != state.StagePassed || stage.Count < 2 {
			t.Errorf("stage %s is %s with score %v after %d readings, expected passed with 100 after two or more", stage.Name, stage.Status, stage.Score, stage.Count)
		}
		const step, requests = 500 * time.Millisecond, `sum(manent_proxy_requests_total{track="b"})`
		seen, first := s.carried(stage), stage.InForce.Add(step-1).Truncate(step)
		for len(s.value(requests, first)) == 0 { // the slot's first requests: the counter begins with them
			first = first.Add(step)
		}
		bad := s.grew(`sum(manent_proxy_requests_total{track="b",code="500"}) or vector(0)`, first, seen.Until)
		all := s.grew(requests, first, seen.Until)
		if seen.Sums.Bad != bad || seen.Sums.All != all || all < 300 || seen.Resets > 0 {
			t.Errorf("stage %s has counted %+v of the candidate, Prometheus %v bad of %v", stage.Name, seen, bad, all)
		}
		if last := stage.Readings[len(stage.Readings)-1]; !strings.Contains(last.Reason, "1 passed") {
			t.Errorf("stage %s passed with %q", stage.Name, last.Reason)
		}
	}
	s.exits(0, "judge", "--replay", "--stage", "50%")
}

// grew is what a counter grew by between two times.
func (s *shop) grew(query string, from, to time.Time) float64 {
	s.t.Helper()
	before, after := s.value(query, from), s.value(query, to)
	if len(before) != 1 || len(after) != 1 {
		s.t.Fatalf("%s is %v at %v and %v at %v", query, before, from, after, to)
	}
	return after[0] - before[0]
}

// value is what Prometheus has for a query at a time: one number, or none.
func (s *shop) value(query string, at time.Time) []float64 {
	s.t.Helper()
	text, err := s.ask(query, at)
	if err != nil {
		s.t.Fatal(err)
	}
	var answer struct {
		Status string
		Data   struct {
			Result []struct{ Value [2]json.RawMessage }
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Status != "success" {
		s.t.Fatalf("%v: %s", err, text)
	}
	var values []float64
	for _, r := range answer.Data.Result {
		v, err := strconv.ParseFloat(strings.Trim(string(r.Value[1]), `"`), 64)
		if err != nil {
			s.t.Fatalf("%v: %s", err, text)
		}
		values = append(values, v)
	}
	return values
}

// ask returns Prometheus' answer for an instant.
func (s *shop) ask(query string, at time.Time) ([]byte, error) {
	form := url.Values{"query": {query}, "time": {strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64)}}
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.vars["PROMETHEUS"]+"/api/v1/query?"+form.Encode(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	return io.ReadAll(answer.Body)
}

// A candidate with 5 % errors beside 0.5 % is returned, and the message has
// the counts of both. With 14 of 300 or more, beside 6 of 900 or less, the
// evidence is above 700, and 100 is enough.
func TestPeersAnalysisCountsReturn(t *testing.T) {
	t.Parallel()
	s := newAnalysisShop(t)
	s.configure(head + byCounts + throughProxy)
	s.a.every.Store(200)
	s.b.every.Store(20)
	visitors := s.crowd(200)
	code, calls := s.byCalls()
	visitors.stop()
	doc, _ := s.status()
	if code != 1 || doc.Rollout.Status != state.Returned {
		t.Fatalf("ended with %d as %s after %d calls", code, doc.Rollout.Status, calls)
	}
	var candidateBad, candidateAll, stableBad, stableAll int
	var ratio, evidence float64
	reason := doc.Rollout.Failure.Reason
	_, message, _ := strings.Cut(reason, "metric errors: ")
	if _, err := fmt.Sscanf(message, "candidate %d of %d bad, stable %d of %d: ratio %g, evidence %g", &candidateBad, &candidateAll, &stableBad, &stableAll, &ratio, &evidence); err != nil {
		t.Fatalf("failed for %q: %v", reason, err)
	}
	if candidateBad < 4 || ratio < 5 || evidence < 100 || candidateAll > int(s.b.served.Load()) || candidateBad > int(s.b.failed.Load()) {
		t.Errorf("failed for %q, slot b served %d with %d errors", reason, s.b.served.Load(), s.b.failed.Load())
	}
	if stage := doc.Rollout.Stages[0]; stage.Score == nil || *stage.Score != 0 || stage.Status != state.StageFailed {
		t.Errorf("stage %s is %s with score %v, expected failed with 0", stage.Name, stage.Status, stage.Score)
	}
	s.a.every.Store(0)
	s.servesOnly("a")
	s.exits(1, "judge", "--replay")
}

// The candidate's process is restarted in the middle, so that its counters
// begin anew and that of its errors is gone: the gate says so, counts nothing
// of it, and the version completes.
func TestPeersAnalysisRestart(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.env = append(s.env, "GORACE=atexit_sleep_ms=0")
	s.repository()
	a, b := instrument(t, s.a), instrument(t, s.b)
	s.proxy()
	s.vars["COUNTER"] = "app_requests_total"
	s.scrape(a.url, b.url)
	s.configure(head + byCounts + throughProxy)
	s.a.every.Store(100)
	s.b.every.Store(100)
	visitors := s.crowd(200)
	run := s.start("run", "--version", "2.0")
	run.prints("stage 25%: reading 3 is ")
	s.b.every.Store(0) // no error after the restart either
	b.restart()
	failed := float64(s.b.failed.Load())
	if code := run.wait(); code != 0 {
		t.Fatalf("ended with %d\n%s\n%s", code, &run.out, &run.err)
	}
	visitors.stop()
	doc, _ := s.status()
	first, second := s.carried(doc.Rollout.Stages[0]), s.carried(doc.Rollout.Stages[1])
	if first.Resets < 1 || second.Resets > 0 || first.Sums.Bad > failed || second.Sums.Bad > 0 {
		t.Errorf("counted %+v and %+v, expected a block of the first stage left out and no more than %v bad", first, second, failed)
	}
	if out := run.out.String(); !strings.Contains(out, "blocks of time left out because a counter was reset: ") {
		t.Errorf("nobody said that a counter was reset:\n%s", out)
	}
	s.exits(0, "judge", "--replay", "--stage", "50%")
}

// instrumented is a release with a Prometheus client in its process, as
// services have: a series exists from its first event on.
type instrumented struct {
	url     string
	slot    string
	process atomic.Pointer[process]
}

type process struct {
	metrics  http.Handler
	requests *prometheus.CounterVec
}

func instrument(t *testing.T, v *release) *instrumented {
	i := &instrumented{slot: v.slot}
	i.restart()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := i.process.Load()
		if r.URL.Path == "/metrics" {
			now.metrics.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		v.ServeHTTP(answer, r)
		now.requests.WithLabelValues(v.slot, strconv.Itoa(answer.Code)).Inc()
		w.Header().Set("X-Slot", v.slot)
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(server.Close)
	i.url, v.url = server.URL, server.URL
	return i
}

// restart makes the release another process: it has counted nothing.
func (i *instrumented) restart() {
	registry := prometheus.NewRegistry()
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "app_requests_total", Help: "Requests."}, []string{"track", "code"})
	registry.MustRegister(requests)
	i.process.Store(&process{promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), requests})
}

// carried is what a stage carries over of its metric errors.
type carried struct {
	Until          time.Time
	Blocks, Resets int
	Sums           struct {
		Bad float64 `json:"candidate_bad"`
		All float64 `json:"candidate_all"`
	}
}

func (s *shop) carried(stage state.Stage) carried {
	s.t.Helper()
	var memory map[string]carried
	if err := json.Unmarshal(stage.Memory, &memory); err != nil {
		s.t.Fatalf("memory %q of stage %s: %v", stage.Memory, stage.Name, err)
	}
	return memory["errors"]
}

// byRanks compares rates of errors, in windows that are short but real.
const byRanks = `
rollout:
  traffic: {steps: [50, 100], bake: $BAKE, maxBake: 40s, finalBake: 500ms, scaleDownDelay: 1s}
  providers:
    prometheus: {url: "$PROMETHEUS"}
  health:
    interval: 1s
    grace: 20s
    analysis: {pass: 95, marginal: 75}
    $BOUND
    metrics:
      - name: errors
        query: sum(rate(manent_proxy_requests_total{track="{track}",code=~"5.."}[2s])) / sum(rate(manent_proxy_requests_total{track="{track}"}[2s]))
        samplesQuery: sum(rate(manent_proxy_requests_total{track="{track}"}[2s]))
        compare: stable
        analysis: mann-whitney
        empty: zero
        maxRatio: 3
        step: 1s
`

// By ranks, with and without a bound on false alarms. Both releases fail one
// of ten requests, so that their means cannot be apart by the factor of 3 that
// is tolerated, and a false alarm is impossible. A candidate that fails each
// second has more than twice as many in each window that has ten requests of a
// slot (there are 200): all of its points are above the stable's, which is as
// significant as so few points can be.
func TestPeersAnalysisRanks(t *testing.T) {
	t.Parallel()
	for _, rule := range []struct{ name, bake, bound string }{
		{"documented", "9s", ""},
		{"bounded", "16s", "falseAlarm: 20%"}, // a bound of 20 % needs 3 points, minPoints is 5: one each 2 s
	} {
		for _, tt := range []struct {
			name  string
			every int64
			code  int
			score float64
		}{{"healthy", 10, 0, 100}, {"worse", 2, 1, 0}} {
			t.Run(rule.name+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				s := newAnalysisShop(t)
				s.vars["BAKE"], s.vars["BOUND"] = rule.bake, rule.bound
				s.configure(head + byRanks + throughProxy)
				s.a.every.Store(10)
				s.b.every.Store(tt.every)
				visitors := s.crowd(200)
				out := s.exits(tt.code, "run", "--version", "2.0")
				visitors.stop()
				doc, _ := s.status()
				stage := doc.Rollout.Stages[0]
				if stage.Score == nil || *stage.Score != tt.score {
					t.Errorf("stage %s is %s with score %v, expected %v\n%s", stage.Name, stage.Status, stage.Score, tt.score, out)
				}
				if tt.code == 1 {
					s.a.every.Store(0)
					s.servesOnly("a")
					ranks(t, doc.Rollout.Failure.Reason)
				}
				s.exits(tt.code, "judge", "--replay", "--stage", "50%")
			})
		}
	}
}

// ranks demands that a message names both means, their points, ratio and p.
func ranks(t *testing.T, reason string) {
	t.Helper()
	var candidate, stable, ratio, tolerated, p, level float64
	var m, n int
	_, message, _ := strings.Cut(reason, "metric errors: ")
	if _, err := fmt.Sscanf(message, "candidate %g, stable %g (means of %d and %d points): ratio %g > %g, p=%g < %g", &candidate, &stable, &m, &n, &ratio, &tolerated, &p, &level); err != nil {
		t.Fatalf("failed for %q: %v", reason, err)
	}
	if m < 5 || n < 5 || ratio <= 3 || p >= level || candidate < 0.3 || candidate > 0.7 || stable < 0.05 || stable > 0.15 {
		t.Errorf("failed for %q", reason)
	}
}

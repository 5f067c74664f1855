//go:build peers

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/manent/action/providers/metric/prometheus/prometheustest"
	"github.com/manent/action/state"
)

// Nothing here is left to chance: a release fails every so-many-th request,
// the proxy splits exactly, so counts differ from run to run by the moment of
// a scrape only.

// byCounts compares what the proxy has counted of either slot.
const byCounts = `
rollout:
  traffic: {steps: [25, 50, 100], bake: 5s, maxBake: 40s, finalBake: 500ms, scaleDownDelay: 1s}
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
		request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.vars["PROMETHEUS"]+"/api/v1/query?query=sum(up)", nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
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
// stable completes, and no event is counted twice.
func TestPeersAnalysisCounts(t *testing.T) {
	t.Parallel()
	s := newAnalysisShop(t)
	s.configure(head + byCounts + throughProxy)
	s.a.every.Store(100)
	s.b.every.Store(100)
	visitors := s.crowd(200)
	code, calls := s.byCalls()
	visitors.stop()
	doc, _ := s.status()
	if code != 0 || doc.Rollout.Status != state.Completed || calls < 10 {
		t.Fatalf("ended with %d as %s after %d calls: %+v", code, doc.Rollout.Status, calls, doc.Rollout.Failure)
	}
	all := 0.0
	for _, stage := range doc.Rollout.Stages[:2] {
		if stage.Score == nil || *stage.Score != 100 || stage.Status != state.StagePassed {
			t.Errorf("stage %s is %s with score %v, expected passed with 100", stage.Name, stage.Status, stage.Score)
		}
		seen := s.carried(stage)
		all += seen.Sums.All
		// 5 s at 200 requests/s, but for a step at each end
		if expected := 3 * 200 * stage.Share / 100; seen.Sums.All < expected || seen.Blocks < 6 || seen.Resets > 0 {
			t.Errorf("stage %s has counted %+v, expected at least %.0f of the candidate in 6 blocks, none reset", stage.Name, seen, expected)
		}
		if last := stage.Readings[len(stage.Readings)-1]; !strings.Contains(last.Reason, "1 passed") {
			t.Errorf("stage %s passed with %q", stage.Name, last.Reason)
		}
	}
	if served := float64(s.b.served.Load()); all > served {
		t.Errorf("%v events counted of %v that slot b has served", all, served)
	}
	s.exits(0, "judge", "--replay", "--stage", "50%")
}

// A candidate with 5 % errors beside 0.5 % is returned, and the message has
// the counts of both.
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
	if code != 1 || doc.Rollout.Status != state.Returned || calls < 5 {
		t.Fatalf("ended with %d as %s after %d calls", code, doc.Rollout.Status, calls)
	}
	var candidateBad, candidateAll, stableBad, stableAll int
	var ratio, evidence float64
	reason := doc.Rollout.Failure.Reason
	_, message, _ := strings.Cut(reason, "metric errors: ")
	if _, err := fmt.Sscanf(message, "candidate %d of %d bad, stable %d of %d: ratio %g, evidence %g", &candidateBad, &candidateAll, &stableBad, &stableAll, &ratio, &evidence); err != nil {
		t.Fatalf("failed for %q: %v", reason, err)
	}
	if candidateBad < 5 || stableBad < 1 || ratio < 5 || evidence < 100 || candidateAll > int(s.b.served.Load()) || candidateBad > int(s.b.failed.Load()) {
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
	if code := run.wait(); code != 0 {
		t.Fatalf("ended with %d\n%s\n%s", code, &run.out, &run.err)
	}
	visitors.stop()
	doc, _ := s.status()
	first, second := s.carried(doc.Rollout.Stages[0]), s.carried(doc.Rollout.Stages[1])
	if first.Resets != 1 || second.Resets != 0 || first.Blocks < 6 || first.Sums.Bad > 8 {
		t.Errorf("counted %+v and %+v, expected one block of the first stage left out", first, second)
	}
	if out := run.out.String(); !strings.Contains(out, "(1 blocks of time left out: a counter was reset)") {
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
// of 50 requests, so that in the 200 of a window there are 3 to 5 errors of
// each and the means cannot be apart by the factor of 3 that is tolerated: a
// false alarm is impossible. A candidate that fails one in 5 has 39 to 41 of
// them, at least 7 times as many in each window: all of its points are above
// the stable's, which is as significant as so few points can be.
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
		}{{"healthy", 50, 0, 100}, {"worse", 5, 1, 0}} {
			t.Run(rule.name+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				s := newAnalysisShop(t)
				s.vars["BAKE"], s.vars["BOUND"] = rule.bake, rule.bound
				s.configure(head + byRanks + throughProxy)
				s.a.every.Store(50)
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
	if m < 5 || n < 5 || ratio < 6 || p >= level || candidate < 0.15 || candidate > 0.25 || stable < 0.01 || stable > 0.03 {
		t.Errorf("failed for %q", reason)
	}
}

package simulate

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/plan"
)

// loaded is a configuration of the given rollout section, which must be valid.
func loaded(t testing.TB, rollout string) config.Config {
	t.Helper()
	text := `
project: shop
application: web
environment: prod
steps: [{name: copy, at: deploy, run: ./copy.sh}]
traffic: {router: {provider: proxy}}
rollout:
` + rollout
	cfg, problems := config.Parse(config.Source{Name: "prod.yml", Data: []byte(text)}, nil, config.Options{Catalog: testCatalog()})
	for _, p := range problems.Of(config.Error) {
		t.Fatal(p)
	}
	return cfg
}

func run(t testing.TB, cfg config.Config, o Options) Result {
	t.Helper()
	r, err := Run(t.Context(), cfg, testCatalog(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// absolute tolerates 3 % of errors in 5 minutes.
const absolute = `
  traffic: {steps: [10, 50, 100], bake: 6m, finalBake: 5m}
  health:
    metrics:
      - name: errors
        query: 'sum(rate(x{track="{track}",code=~"5.."}[5m])) / sum(rate(x{track="{track}"}[5m]))'
        max: 0.03
        samplesQuery: 'sum(increase(x{track="{track}"}[5m]))'
        minSamples: 300
`

// A threshold that an unchanged release keeps returns none, and takes the
// bakes' time; one far beyond it is returned at the first reading that may
// look.
func TestAbsolutePlan(t *testing.T) {
	cfg := loaded(t, absolute)
	r := run(t, cfg, Options{Rate: 200, StableError: 0.01, CandidateErrors: []float64{0.01, 0.2}, Trials: 100, Seed: 1})
	same, worse := r.Candidates[0], r.Candidates[1]
	if !same.Unchanged || same.Returned != 0 || same.Inconclusive != 0 || same.MedianMinutes != nil {
		t.Errorf("unchanged: %+v", same)
	}
	// 6 minutes at 10 % and at 50 % and 5 at 100 % of 200 requests a second, of which 1 % fail
	if want := 200 * 60 * (0.6 + 3 + 5) * 0.01; math.Abs(same.BadRequests-want) > 0.02*want {
		t.Errorf("%v bad requests, want about %v", same.BadRequests, want)
	}
	if worse.Unchanged || worse.Returned != 1 || worse.ByStage[0] != 1 || *worse.MedianMinutes != 5 {
		t.Errorf("worse: %+v", worse)
	}
	if want := 20 * 300 * 0.2; math.Abs(worse.BadRequests-want) > 0.05*want {
		t.Errorf("%v bad requests, want about %v", worse.BadRequests, want)
	}
	if diff := cmp.Diff([]string{"10%", "50%", "100%"}, r.Stages); diff != "" {
		t.Error(diff)
	}
}

// Too few requests are no verdict: such a return is counted apart.
func TestThinDataAreInconclusive(t *testing.T) {
	cfg := loaded(t, absolute)
	c := run(t, cfg, Options{Rate: 5, StableError: 0.01, CandidateErrors: []float64{0.01}, Trials: 100, Seed: 1}).Candidates[0]
	if c.Inconclusive != 1 || c.Returned != 0 || c.MedianMinutes != nil {
		t.Errorf("%+v, want all inconclusive", c)
	}
}

// A fault from 50 % on is not seen at 10 %.
func TestFaultFromAShareOn(t *testing.T) {
	cfg := loaded(t, absolute)
	c := run(t, cfg, Options{Rate: 200, StableError: 0.01, CandidateErrors: []float64{0.2}, FaultFrom: 50, Trials: 50, Seed: 1}).Candidates[0]
	if diff := cmp.Diff([]float64{0, 1, 0}, c.ByStage); diff != "" || *c.MedianMinutes != 11 {
		t.Errorf("%+v %s", c, diff)
	}
}

// An approval takes one more green reading, which here finds the same data.
func TestApprovalIsGivenAtOnce(t *testing.T) {
	cfg := loaded(t, absolute)
	cfg.Rollout.ApprovalsBetween = []string{"0", "10"}
	var asked []bool
	for _, w := range watches(plan.Build(cfg, testCatalog())) {
		asked = append(asked, w.asked)
	}
	if diff := cmp.Diff([]bool{true, false, false}, asked); diff != "" {
		t.Error(diff)
	}
	r := run(t, cfg, Options{Rate: 200, StableError: 0.01, CandidateErrors: []float64{0.01}, Trials: 20, Seed: 1})
	if c := r.Candidates[0]; c.Returned != 0 || c.Inconclusive != 0 || !slices.Contains(r.Assumed, "approvals are given at once") {
		t.Errorf("%+v", r)
	}
}

// compared is the documented rule in its own example, in a system that
// scrapes: two metrics of errors and durations, one of volume.
const compared = `
  traffic: {steps: [5, 25, 50, 100], bake: 15m}
  health:
    interval: 1m
    analysis: {pass: 95, marginal: 75}
    metrics:
      - name: errors
        compare: stable
        analysis: mann-whitney
        critical: true
        query: 'sum(rate(x{track="{track}",code=~"5.."}[1m])) / sum(rate(x{track="{track}"}[1m]))'
      - name: latency-p99
        compare: stable
        analysis: mann-whitney
        maxRatio: 1.2
        weight: 2
        query: 'histogram_quantile(0.99, sum(rate(x_seconds_bucket{track="{track}"}[1m])) by (le))'
      - name: throughput
        compare: stable
        analysis: mann-whitney
        direction: decrease
        minRatio: 0.8
        perShare: true
        query: 'sum(rate(x{track="{track}"}[1m]))'
`

// The documented rule returns many healthy releases, and most bad ones.
func TestDocumentedRule(t *testing.T) {
	r := run(t, loaded(t, compared), Options{Rate: 200, StableError: 0.01, CandidateErrors: []float64{0.01, 0.05}, Trials: 180 / scale, Seed: 1})
	if c := r.Candidates[0]; c.Returned < 0.4 || c.Inconclusive != 0 {
		t.Errorf("unchanged: %+v, want at least 0.4 returned", c)
	}
	if c := r.Candidates[1]; c.Returned != 1 {
		t.Errorf("fivefold: %+v, want all returned", c)
	}
}

// sequential bounds the false alarms to 1 %.
const sequential = `
  traffic: {steps: [5, 25, 50, 100], bake: 15m}
  health:
    falseAlarm: 1%
    metrics:
      - name: errors
        compare: stable
        analysis: sequential
        query: 'sum(x{track="{track}",code=~"5.."})'
        samplesQuery: 'sum(x{track="{track}"})'
`

func TestSequentialRule(t *testing.T) {
	r := run(t, loaded(t, sequential), Options{Rate: 200, StableError: 0.01, CandidateErrors: []float64{0.01, 0.03}, Trials: 180 / scale, Seed: 1})
	if c := r.Candidates[0]; c.Returned > 0.05 || c.Inconclusive != 0 {
		t.Errorf("unchanged: %+v, want almost none returned", c)
	}
	if c := r.Candidates[1]; c.Returned < 0.9 {
		t.Errorf("threefold: %+v, want almost all returned", c)
	}
}

// The same seed gives the same result whoever counts; another seed another.
func TestDeterministic(t *testing.T) {
	cfg := loaded(t, compared)
	o := Options{Rate: 200, StableError: 0.01, CandidateErrors: []float64{0.02}, FaultMinutes: 0.5, Trials: 30, Seed: 7, Workers: 1}
	one := run(t, cfg, o)
	o.Workers = 4
	if diff := cmp.Diff(one, run(t, cfg, o)); diff != "" {
		t.Error(diff)
	}
	o.Seed = 8
	if cmp.Equal(one.Candidates, run(t, cfg, o).Candidates) {
		t.Error("another seed gives the same figures")
	}
}

func TestRefusedOptions(t *testing.T) {
	good := Options{Rate: 1, StableError: 0.01, CandidateErrors: []float64{0.01}, Trials: 1}
	for name, change := range map[string]func(*Options){
		"no rate":      func(o *Options) { o.Rate = 0 },
		"NaN rate":     func(o *Options) { o.Rate = math.NaN() },
		"all fail":     func(o *Options) { o.StableError = 1 },
		"no candidate": func(o *Options) { o.CandidateErrors = nil },
		"NaN fails":    func(o *Options) { o.CandidateErrors = []float64{math.NaN()} },
		"minutes":      func(o *Options) { o.FaultMinutes = 1.1 },
		"share":        func(o *Options) { o.FaultFrom = 101 },
		"latency":      func(o *Options) { o.CandidateLatency = -1 },
		"scrape":       func(o *Options) { o.Scrape = time.Millisecond },
		"trials":       func(o *Options) { o.Trials = -1 },
		"workers":      func(o *Options) { o.Workers = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			o := good
			change(&o)
			if _, err := Run(t.Context(), loaded(t, absolute), testCatalog(), o); err == nil || !strings.Contains(err.Error(), "expected") {
				t.Errorf("got %v, want a refusal", err)
			}
		})
	}
	waves := loaded(t, absolute)
	waves.Rollout.Strategy = "waves"
	if _, err := Run(t.Context(), waves, testCatalog(), good); err == nil {
		t.Error("strategy waves was simulated")
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, loaded(t, absolute), testCatalog(), Options{Rate: 1, CandidateErrors: []float64{0.5}}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was interrupted", err)
	}
}

// Worked values of the score interval: 0 and 10 of 100, 50 of 100 (by R's
// prop.test without continuity correction).
func TestWilson(t *testing.T) {
	for hits, want := range map[int][2]float64{0: {0, 0.03699350}, 10: {0.05522914, 0.17436566}, 50: {0.40383153, 0.59616847}, 100: {0.96300650, 1}} {
		low, high := wilson(hits, 100)
		if math.Abs(low-want[0]) > 1e-7 || math.Abs(high-want[1]) > 1e-7 {
			t.Errorf("%d of 100: %v to %v, want %v", hits, low, high, want)
		}
	}
}

// BenchmarkRollouts rolls the documented example out 10,000 times; the goal
// is 30 s on two cores.
func BenchmarkRollouts(b *testing.B) {
	for name, rollout := range map[string]string{"mann-whitney": compared, "sequential": sequential} {
		b.Run(name, func(b *testing.B) {
			cfg := loaded(b, rollout)
			for b.Loop() {
				run(b, cfg, Options{Rate: 200, StableError: 0.01, CandidateErrors: []float64{0.01}, Trials: 10_000, Seed: 1})
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/10000-rollouts")
		})
	}
}

package simulate

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/runner/config"
)

// both has a metric of each sort of test.
const both = `
  traffic: {steps: [10, 100], bake: 10m, finalBake: 5m}
  health:
    metrics:
      - name: counted
        compare: stable
        analysis: sequential
        query: 'sum(x{track="{track}",code=~"5.."})'
        samplesQuery: 'sum(x{track="{track}"})'
      - name: ranked
        compare: stable
        analysis: mann-whitney
        step: 1m
        query: 'sum(rate(x{track="{track}",code=~"5.."}[1m])) / sum(rate(x{track="{track}"}[1m]))'
      - name: ratio
        compare: stable
        maxRatio: 1.5
        query: 'sum(rate(x{track="{track}",code=~"5.."}[5m])) / sum(rate(x{track="{track}"}[5m]))'
      - name: delta
        compare: stable
        maxDelta: 0.01
        query: 'sum(rate(x{track="{track}",code=~"5.."}[5m])) / sum(rate(x{track="{track}"}[5m]))'
      - {name: slow, compare: stable, maxRatio: 1.5, query: 'histogram_quantile(0.9, rate(x{track="{track}"}[5m]))'}
      - {name: fewer, compare: stable, analysis: mann-whitney, direction: decrease, step: 1m, query: 'sum(rate(x{code="5xx",track="{track}"}[1m]))'}
      - {name: absolute, max: 0.1, query: 'sum(rate(x{track="{track}",code=~"5.."}[5m])) / sum(rate(x{track="{track}"}[5m]))'}
`

func TestPowerNotes(t *testing.T) {
	r, err := Power(loaded(t, both), testCatalog(), PowerOptions{Rate: 200, StableError: 0.01, CandidateError: 0.03})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Stages) != 1 || r.Stages[0].RequestsCandidate != 12_000 || r.Stages[0].RequestsStable != 108_000 {
		t.Fatalf("%+v, want one stage with 12000 and 108000 requests", r.Stages)
	}
	want := map[string]string{
		"counted": "", "ranked": "looks before", "ratio": "read once", "delta": "no closed form", "slow": "measures latency", "fewer": "decrease",
	}
	for _, m := range r.Stages[0].Metrics {
		note, known := want[m.Name]
		figures := m.Detects80 != nil && m.Detects95 != nil && m.Bake80 != nil && m.Bake95 != nil
		if !known || !strings.Contains(m.Note, note) || figures != (m.Name == "counted" || m.Name == "ranked" || m.Name == "ratio") {
			t.Errorf("%+v, want the note %q", m, note)
		}
		if figures && (*m.Detects80 <= 0.01 || *m.Detects95 < *m.Detects80 || *m.Bake95 < *m.Bake80) {
			t.Errorf("%s sees %v and %v, within %v and %v", m.Name, *m.Detects80, *m.Detects95, *m.Bake80, *m.Bake95)
		}
		delete(want, m.Name)
	}
	if len(want) > 0 {
		t.Errorf("nothing is said of %v", want)
	}
}

// What the closed form says is seen in 80 % is seen so in simulation, about.
func TestPowerAgreesWithSimulation(t *testing.T) {
	for _, name := range few([]string{"ranked", "counted"}) {
		cfg := loaded(t, both)
		h := &cfg.Rollout.Health
		for _, m := range h.Metrics {
			if m.Name == name {
				h.Metrics = append(h.Metrics[:0:0], m)
			}
		}
		p, err := Power(cfg, testCatalog(), PowerOptions{Rate: 100, StableError: 0.01})
		if err != nil {
			t.Fatal(err)
		}
		if name == "ranked" {
			h.Interval = cfg.Rollout.Traffic.Bake // the closed form is of the last look
		}
		rate := *p.Stages[0].Metrics[0].Detects80
		c := run(t, cfg, Options{Rate: 100, StableError: 0.01, CandidateErrors: []float64{rate}, Trials: 300, Seed: 1}).Candidates[0]
		if math.Abs(c.Returned-0.8) > 0.12 {
			t.Errorf("%s: %v of rollouts with %v of errors are returned, want about 0.8", name, c.Returned, rate)
		}
	}
}

func TestPowerRefuses(t *testing.T) {
	for name, o := range map[string]PowerOptions{
		"no rate":     {StableError: 0.01},
		"all fail":    {Rate: 1, StableError: 1},
		"no more":     {Rate: 1, StableError: 0.01, CandidateError: 0.01},
		"odd model":   {Rate: 1, StableError: 0.01, Models: map[string]Kind{"counted": "speed"}},
		"NaN is none": {Rate: math.NaN(), StableError: 0.01},
	} {
		if _, err := Power(loaded(t, both), testCatalog(), o); err == nil {
			t.Errorf("%s was not refused", name)
		}
	}
}

// A ratio over its own range cannot be read before it, and a longer bake adds
// nothing.
func TestPowerOfARatioIsThatOfItsRange(t *testing.T) {
	cfg := loaded(t, both)
	at := func(bake time.Duration) *float64 {
		cfg.Rollout.Traffic.Bake = config.Duration(bake)
		r, err := Power(cfg, testCatalog(), PowerOptions{Rate: 200, StableError: 0.01})
		if err != nil {
			t.Fatal(err)
		}
		return r.Stages[0].Metrics[2].Detects80
	}
	short, whole, long := at(4*time.Minute), at(5*time.Minute), at(time.Hour)
	if short != nil || whole == nil || long == nil || *whole != *long {
		t.Errorf("%v, %v, %v", short, whole, long)
	}
}

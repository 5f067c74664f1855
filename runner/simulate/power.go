package simulate

import (
	"fmt"
	"math"
	"time"

	"github.com/manent/action/analysis"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/plan"
)

// PowerOptions say for which traffic Power answers.
type PowerOptions struct {
	Rate           float64         // requests a second, of both sides together
	StableError    float64         // part of the stable's requests that fail, from 0 to below 1
	CandidateError float64         // part of the candidate's that is to be seen; 0 for none
	Scrape         time.Duration   // between two looks of the metric system at a counter; 0 stands for 15 s
	Models         map[string]Kind // what metrics measure, by name, where their queries do not tell
}

// PowerResult is what each stage of a plan can see.
type PowerResult struct {
	Rate           float64      `json:"rate"`                      // requests a second, both sides together
	StableError    float64      `json:"stable_error"`              // part of the stable's requests that fail
	CandidateError float64      `json:"candidate_error,omitempty"` // part of the candidate's that was asked for
	Stages         []StagePower `json:"stages"`                    // with traffic of both sides
}

// StagePower is one stage.
type StagePower struct {
	Stage             string          `json:"stage"`              // its name
	Share             float64         `json:"share"`              // candidate's, in percent
	Bake              config.Duration `json:"bake"`               // how long it is watched
	RequestsCandidate float64         `json:"requests_candidate"` // expected in that time
	RequestsStable    float64         `json:"requests_stable"`    // expected in that time
	Metrics           []MetricPower   `json:"metrics"`            // those that compare
}

// MetricPower is what one metric sees of a fault that shows in one stage.
type MetricPower struct {
	Name      string           `json:"name"`           // of the metric
	Test      string           `json:"test"`           // in words
	Detects80 *float64         `json:"detects_80"`     // smallest error rate of the candidate returned in 80 % of rollouts; null when none is
	Detects95 *float64         `json:"detects_95"`     // and in 95 %
	Bake80    *config.Duration `json:"bake_80"`        // how long the stage has to be watched to return the one asked for in 80 %; null when no time is enough or none was asked for
	Bake95    *config.Duration `json:"bake_95"`        // and in 95 %
	Note      string           `json:"note,omitempty"` // why there are no figures, or what they leave out
}

// Power answers in closed form what Run counts: approximately, for error rates
// only, and of each stage as if the fault had not shown before it. An error is
// an option that makes no sense or an *UnclearError.
func Power(cfg config.Config, cat config.Catalog, o PowerOptions) (PowerResult, error) {
	options := Options{Rate: o.Rate, StableError: o.StableError, CandidateErrors: []float64{o.CandidateError}, Scrape: o.Scrape}.filled()
	o.Scrape = options.Scrape
	if err := options.check(); err != nil {
		return PowerResult{}, err
	}
	if o.CandidateError != 0 && o.CandidateError <= o.StableError {
		return PowerResult{}, fmt.Errorf("error rate %v of the candidate, expected more than the stable's %v: only more failures can be seen", o.CandidateError, o.StableError)
	}
	if cfg.Rollout.Strategy != "traffic" {
		return PowerResult{}, fmt.Errorf("strategy %s, expected traffic: without shares nothing is compared", cfg.Rollout.Strategy)
	}
	models, _, err := classify(cfg.Rollout.Health, cat, o.Models)
	if err != nil {
		return PowerResult{}, err
	}
	out := PowerResult{Rate: o.Rate, StableError: o.StableError, CandidateError: o.CandidateError, Stages: []StagePower{}}
	p := plan.Build(cfg, cat)
	for _, w := range watches(p) {
		if w.Share < 100 && w.Pass == p.Passes[0].Name { // others are the same
			out.Stages = append(out.Stages, stagePower(cfg, models, o, w))
		}
	}
	return out, nil
}

func stagePower(cfg config.Config, models modelled, o PowerOptions, w watch) StagePower {
	bake := cfg.Rollout.Traffic.Bake
	t := analysis.Traffic{Rate: o.Rate, Share: w.Share, StableError: o.StableError, Time: bake.Std()}
	s := StagePower{Stage: w.Stage, Share: w.Share, Bake: bake, Metrics: []MetricPower{}}
	s.RequestsCandidate, s.RequestsStable = t.Requests()
	for _, m := range cfg.Rollout.Health.Metrics {
		if m.Compare != "" {
			s.Metrics = append(s.Metrics, metricPower(cfg, m, models.of(m), o, t))
		}
	}
	return s
}

func metricPower(cfg config.Config, m config.Metric, model series, o PowerOptions, t analysis.Traffic) MetricPower {
	test, chance, note := testOf(cfg, m, model, o.Scrape)
	out := MetricPower{Name: m.Name, Test: test, Note: note}
	if chance == nil {
		return out
	}
	out.Detects80, out.Detects95 = detects(t, 0.8, chance), detects(t, 0.95, chance)
	if o.CandidateError > 0 {
		interval := cfg.Rollout.Health.Interval.Std()
		out.Bake80, out.Bake95 = bakes(t, o.CandidateError, 0.8, interval, chance), bakes(t, o.CandidateError, 0.95, interval, chance)
	}
	return out
}

func detects(t analysis.Traffic, power float64, chance analysis.Chance) *float64 {
	rate := analysis.SmallestError(t, power, chance)
	if math.IsInf(rate, 0) || math.IsNaN(rate) {
		return nil
	}
	return &rate
}

func bakes(t analysis.Traffic, rate, power float64, interval time.Duration, chance analysis.Chance) *config.Duration {
	d, ok := analysis.TimeToSee(t, rate, power, chance)
	if !ok {
		return nil
	}
	// Looks fall every interval, and at the end of the bake.
	bake := config.Duration(d)
	if rest := d % interval; rest > 0 {
		bake += config.Duration(interval - rest)
	}
	return &bake
}

// testOf is the test that a metric is judged by, in words and as a chance; nil
// with a note where error rates say nothing of it.
func testOf(cfg config.Config, m config.Metric, model series, scrape time.Duration) (test string, chance analysis.Chance, note string) {
	test = m.Analysis
	if test == "" {
		test = "ratio"
	}
	switch {
	case model.kind != ErrorRate && model.kind != Errors:
		return test, nil, fmt.Sprintf("measures %s, not errors", model.kind)
	case m.Direction == "decrease" && m.Analysis != "":
		return test, nil, "direction: decrease does not look for more errors"
	case m.MaxRatio == nil:
		return test, nil, "there is no closed form without maxRatio; manent simulate counts it"
	}
	unseen := model.unseen(scrape)
	switch m.Analysis {
	case "sequential":
		return test, countTest(cfg, m), ""
	case "mann-whitney":
		test, chance = rankTest(cfg, m, model, unseen)
		return test, chance, "looks before the end of the bake add to it"
	}
	return test, ratioTest(m, model, unseen), "read once, over the query's own range"
}

// unseen is the part of a range that its samples do not cover: they lie a
// scrape apart, and the time before the first is only extrapolated.
func (s series) unseen(scrape time.Duration) time.Duration {
	if s.form == exact || s.window <= scrape {
		return 0
	}
	return scrape
}

// countTest is the sequential test. Counters are read on the clock's grid, so
// up to a step is lost at either end of a stage.
func countTest(cfg config.Config, m config.Metric) analysis.Chance {
	s := analysis.SequentialTest{Alpha: cfg.Rollout.Health.MetricAlpha(m), Planned: cfg.CompareStages(), MaxRatio: *m.MaxRatio}
	return func(t analysis.Traffic, rate float64) float64 {
		t.Time = max(0, t.Time-2*m.Step.Std())
		return s.Chance(t, rate)
	}
}

// rankTest is the comparison of the last look of a bake.
func rankTest(cfg config.Config, m config.Metric, model series, unseen time.Duration) (string, analysis.Chance) {
	r := analysis.RankTest{Level: m.Alpha / 2, Window: model.window - unseen, Step: m.Step.Std(), MaxRatio: *m.MaxRatio, MinPoints: m.MinPoints}
	name := "mann-whitney"
	if cfg.Rollout.Health.FalseAlarm != nil {
		alpha := cfg.StageAlpha()
		if m.Direction == "either" {
			alpha /= 2
		}
		r.Bounded, r.Level, r.Step = true, analysis.Level(alpha, 1), max(r.Step, model.window)
		name += " with falseAlarm"
	}
	return name, func(t analysis.Traffic, rate float64) float64 {
		if m.Lookback > 0 {
			t.Time = min(t.Time, model.window+m.Lookback.Std())
		}
		// Points lie on the clock's grid, which a stage hardly ever begins on.
		t.Time = max(0, t.Time-unseen-time.Millisecond)
		return r.Chance(t, rate)
	}
}

// ratioTest is a plain threshold, on the newest value only.
func ratioTest(m config.Metric, model series, unseen time.Duration) analysis.Chance {
	r := analysis.RatioTest{MaxRatio: *m.MaxRatio}
	whole := model.window
	if whole == 0 {
		whole = m.Lookback.Std()
	}
	if m.MinSamples != nil {
		r.MinSamples = *m.MinSamples
	}
	if whole > 0 {
		r.MinSamples *= float64(whole-unseen) / float64(whole)
	}
	return func(t analysis.Traffic, rate float64) float64 {
		switch {
		case whole == 0:
		case t.Time < whole:
			return 0
		default:
			t.Time = whole - unseen
		}
		return r.Chance(t, rate)
	}
}

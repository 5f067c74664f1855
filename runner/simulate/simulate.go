// Package simulate rolls a plan out in virtual time, many times over, against
// a modelled service, and counts what the gate does: its questions, judgement
// and decisions are runner/gate's own. It is pure: no I/O, no clock, and the
// same seed gives the same result however many processors count. It must not
// know a metric system, a router or how results are shown.
//
// The service: requests arrive as a Poisson process and are split by the
// share; each fails with the error rate of its side. Durations are lognormal,
// and means and quantiles of a window have the standard error of the requests
// in it. The metric system: counters of both sides are scraped at their own
// phase, and exist from the start; rate() and increase() extrapolate as
// Prometheus does. Systems whose values stand for one step give what happened
// in it. Probes and alarms pass, approvals are given at once, and the router
// splits exactly.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/gate"
	"github.com/manent/action/runner/plan"
)

// Options say what is modelled.
type Options struct {
	Rate             float64 // requests a second, of both sides together
	StableError      float64 // part of requests that fail, from 0 to 1
	CandidateErrors  []float64
	FaultMinutes     float64       // part of the minutes that have the candidate's error rate, the others have the stable's; 0 stands for all
	FaultFrom        float64       // share in percent from which the candidate has its error rate
	StableLatency    time.Duration // median of the durations; 0 stands for 100 ms
	CandidateLatency time.Duration // 0 stands for the stable's
	Scrape           time.Duration // between two looks of the metric system at a counter; 0 stands for 15 s
	Trials           int           // 0 stands for 10,000
	Seed             uint64
	Workers          int             // 0 stands for one a processor
	Models           map[string]Kind // what metrics measure, by name, where their queries do not tell
}

func (o Options) filled() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.StableLatency, 100*time.Millisecond)
	def(&o.CandidateLatency, o.StableLatency)
	def(&o.Scrape, 15*time.Second)
	if o.FaultMinutes == 0 {
		o.FaultMinutes = 1
	}
	if o.Trials == 0 {
		o.Trials = 10_000
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	return o
}

// check refuses what cannot be modelled. It is written so that NaN fails.
func (o Options) check() error {
	part := func(v float64) bool { return v >= 0 && v < 1 }
	switch {
	case !(o.Rate > 0 && o.Rate <= 1e6):
		return fmt.Errorf("rate %v, expected more than 0 and at most 1000000 requests a second", o.Rate)
	case !part(o.StableError) || slices.ContainsFunc(o.CandidateErrors, func(e float64) bool { return !part(e) }):
		return fmt.Errorf("error rates %v and %v, expected parts from 0 to below 1", o.StableError, o.CandidateErrors)
	case len(o.CandidateErrors) == 0:
		return errors.New("no error rate of the candidate, expected one or more")
	case !(o.FaultMinutes > 0 && o.FaultMinutes <= 1):
		return fmt.Errorf("minutes with a fault: %v, expected a part above 0 and at most 1", o.FaultMinutes)
	case !(o.FaultFrom >= 0 && o.FaultFrom <= 100):
		return fmt.Errorf("share %v from which there is a fault, expected 0 to 100", o.FaultFrom)
	case o.StableLatency < 0 || o.CandidateLatency < 0:
		return fmt.Errorf("latencies %v and %v, expected more than 0", o.StableLatency, o.CandidateLatency)
	case o.Scrape < time.Second || o.Scrape > time.Hour:
		return fmt.Errorf("scrape every %v, expected 1s to 1h", o.Scrape)
	case o.Trials < 1 || o.Trials > 10_000_000:
		return fmt.Errorf("%d trials, expected 1 to 10000000", o.Trials)
	case o.Workers < 1:
		return fmt.Errorf("%d workers, expected 1 or more", o.Workers)
	}
	return nil
}

// Run simulates the plan of a configuration that config.Load has filled. An
// error is an option that makes no sense, an *UnclearError, or the context's.
func Run(ctx context.Context, cfg config.Config, cat config.Catalog, o Options) (Result, error) {
	o = o.filled()
	if err := o.check(); err != nil {
		return Result{}, err
	}
	if cfg.Rollout.Strategy != "traffic" {
		return Result{}, fmt.Errorf("strategy %s, expected traffic: without shares there is no gate to simulate", cfg.Rollout.Strategy)
	}
	s, said, err := newScene(cfg, cat, o)
	if err != nil {
		return Result{}, err
	}
	s.judge = gate.Judge
	return s.run(ctx, said)
}

// run simulates every candidate asked for.
func (s *scene) run(ctx context.Context, said []MetricModel) (Result, error) {
	result := s.result(said)
	for _, e := range s.opts.CandidateErrors {
		cell := *s
		cell.error = e
		fates, err := cell.trials(ctx)
		if err != nil {
			return Result{}, err
		}
		result.Candidates = append(result.Candidates, cell.count(fates))
	}
	return result, nil
}

// newScene prepares what all rollouts share, and says how metrics are modelled.
func newScene(cfg config.Config, cat config.Catalog, o Options) (scene, []MetricModel, error) {
	models, said, err := classify(cfg.Rollout.Health, cat, o.Models)
	if err != nil {
		return scene{}, nil, err
	}
	s := scene{
		cfg: cfg, plan: plan.Build(cfg, cat), models: models, systems: systemsOf(cat), opts: o,
		vars: map[string]string{
			"project": cfg.Project, "application": cfg.Application, "environment": cfg.Environment, "wave": "", "version": "candidate",
		},
	}
	s.gates = watches(s.plan)
	for _, m := range models {
		s.timed = s.timed || m.kind == Latency
	}
	for _, p := range cfg.Rollout.Health.Probes {
		s.probes = append(s.probes, gate.ProbeResult{Name: p.Name, Result: gate.Pass, Reason: "taken as passing"})
	}
	return s, said, nil
}

// trials rolls out as often as asked for, on every worker.
func (s *scene) trials(ctx context.Context) ([]fate, error) {
	fates := make([]fate, s.opts.Trials)
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(s.opts.Workers, len(fates)) {
		all.Go(func() {
			for n := int(next.Add(1)) - 1; n < len(fates) && ctx.Err() == nil; n = int(next.Add(1)) - 1 {
				fates[n] = s.trial(ctx, n)
			}
		})
	}
	all.Wait()
	return fates, ctx.Err()
}

// wilson is the 95 % interval of a part of n, Wilson's score interval.
func wilson(hits, n int) (low, high float64) {
	const z = 1.959963984540054
	total := float64(n)
	p := float64(hits) / total
	middle, scale := p+z*z/(2*total), 1+z*z/total
	half := z * math.Sqrt(p*(1-p)/total+z*z/(4*total*total))
	return max(0, (middle-half)/scale), min(1, (middle+half)/scale)
}

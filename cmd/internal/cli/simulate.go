package cli

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/report"
	"github.com/manent/action/runner/simulate"
)

// simulateFlags are as they were given; options reads them.
type simulateFlags struct {
	rate                      float64
	stable, candidate         string
	faultMinutes              string
	faultFrom                 float64
	stableTime, candidateTime time.Duration
	scrape                    time.Duration
	trials                    int
	seed                      uint64
	models                    []string
}

func (a *app) newSimulate() *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate -c FILE --rate REQUESTS --stable-error PERCENT",
		Short: "roll a plan out ten thousand times in virtual time, and count the returns",
		Long: `Rolls the plan of the file out in virtual time, for each error rate of a
candidate, and prints how often it was returned, in which stage, how soon and at
the cost of how many failed requests. The gate is the one that judges a rollout,
with its interval, failureLimit, maxBake and grace. A candidate that is like the
stable is unchanged: its returns are false alarms. Returns because data stayed
too thin are counted apart. The same --seed gives the same result.

The service and its metric system are modelled. Requests arrive at random and
each fails with the error rate of its side; durations are lognormal, and means
and quantiles scatter as those of so many requests do. Counters are scraped, and
rate() and increase() extrapolate, as Prometheus does it; other systems give
what happened in each step. Queries are not evaluated: what a metric measures is
read from its query, printed, and said with --model where that cannot tell.`,
		Example: "  manent simulate -c envconfig/shop/web/prod.yml --rate 200 --stable-error 1% --candidate-error 1%,3%,5%",
	}
	flags := a.fileFlags(cmd).Flags()
	flags.Float64Var(&f.rate, "rate", 0, "`REQUESTS` a second, of both sides together")
	flags.StringVar(&f.stable, "stable-error", "", "`PERCENT` of the stable's requests that fail, such as 1%")
	flags.StringVar(&f.candidate, "candidate-error", "", "`PERCENTS` of the candidate's, with commas (the stable's, its threefold and fivefold)")
	flags.StringVar(&f.faultMinutes, "fault-minutes", "100%", "`PERCENT` of the minutes in which the candidate has its error rate, and in the others the stable's")
	flags.Float64Var(&f.faultFrom, "fault-from", 0, "`SHARE` in percent from which the candidate has its error rate, and below the stable's")
	flags.DurationVar(&f.stableTime, "stable-latency", 100*time.Millisecond, "median `DURATION` of the stable's requests")
	flags.DurationVar(&f.candidateTime, "candidate-latency", 0, "median `DURATION` of the candidate's (the stable's)")
	flags.DurationVar(&f.scrape, "scrape", 15*time.Second, "`TIME` between two scrapes of a counter")
	flags.IntVar(&f.trials, "trials", 10_000, "`NUMBER` of rollouts of each candidate")
	flags.Uint64Var(&f.seed, "seed", 1, "`NUMBER` that picks the random numbers")
	flags.StringArrayVar(&f.models, "model", nil, "`NAME=KIND`: what a metric measures: errors, error-rate, success-rate, requests or latency; may be repeated")
	return a.verb(cmd, func(ctx context.Context, _ []string) (view, error) { return a.simulate(ctx, f) })
}

func (a *app) simulate(ctx context.Context, f simulateFlags) (view, error) {
	cfg, err := a.load(true, false)
	if err != nil {
		return view{}, err
	}
	options, err := f.options()
	if err != nil {
		return view{}, err
	}
	result, err := simulate.Run(ctx, cfg, a.host.Catalog(), options)
	if err != nil {
		return view{}, misfit(err)
	}
	return view{JSON: result, Text: report.SimulationText(result)}, nil
}

func (f simulateFlags) options() (simulate.Options, error) {
	o := simulate.Options{
		Rate: f.rate, FaultFrom: f.faultFrom, StableLatency: f.stableTime, CandidateLatency: f.candidateTime,
		Scrape: f.scrape, Trials: f.trials, Seed: f.seed,
	}
	for _, d := range []struct {
		flag string
		ok   bool
	}{{"stable-latency", f.stableTime > 0}, {"scrape", f.scrape > 0}, {"trials", f.trials > 0}} {
		if !d.ok {
			return o, usage("leave it out for the default", "--%s is 0 or less, expected more", d.flag)
		}
	}
	if f.rate == 0 {
		return o, usage("give --rate REQUESTS, of both sides together", "requests a second: %v, expected more than 0", f.rate)
	}
	var err error
	if o.StableError, err = stableError(f.stable); err != nil {
		return o, err
	}
	if o.FaultMinutes, err = parts("fault-minutes", f.faultMinutes); err != nil {
		return o, err
	}
	if o.CandidateErrors, err = candidateErrors(f.candidate, o.StableError); err != nil {
		return o, err
	}
	o.Models, err = models(f.models)
	return o, err
}

// models reads NAME=KIND.
func models(given []string) (map[string]simulate.Kind, error) {
	out := map[string]simulate.Kind{}
	for _, m := range given {
		i := strings.LastIndexByte(m, '=')
		if i < 1 {
			return nil, usage("", "--model %s, expected NAME=KIND", m)
		}
		out[m[:i]] = simulate.Kind(m[i+1:])
	}
	return out, nil
}

func stableError(text string) (float64, error) {
	if text == "" {
		return 0, need("--stable-error PERCENT", "it is not said how many of the stable's requests fail")
	}
	return errorRate("stable-error", text)
}

// candidateErrors reads a list; without one it is the stable's error rate, its
// threefold and its fivefold.
func candidateErrors(text string, stable float64) ([]float64, error) {
	var out []float64
	if text == "" {
		out = []float64{stable}
		for _, times := range []float64{3, 5} {
			if rate := math.Round(stable*times*1e9) / 1e9; rate > stable && rate < 1 {
				out = append(out, rate)
			}
		}
		return out, nil
	}
	for _, one := range strings.Split(text, ",") {
		rate, err := errorRate("candidate-error", strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		out = append(out, rate)
	}
	return out, nil
}

// errorRate reads a percentage from 0% to below 100%.
func errorRate(flag, text string) (float64, error) {
	if text == "0" || text == "0%" {
		return 0, nil
	}
	var p config.Percent
	if err := p.UnmarshalText([]byte(text)); err != nil {
		return 0, usage("", "--%s: %v", flag, err)
	}
	return float64(p), nil
}

// parts reads a percentage above 0% and up to 100%.
func parts(flag, text string) (float64, error) {
	if text == "100%" {
		return 1, nil
	}
	if text == "0" || text == "0%" {
		return 0, usage("give the candidate the stable's error rate", "--%s: %s, expected more than 0%%", flag, text)
	}
	return errorRate(flag, text)
}

// misfit makes a usage error of options and metrics that cannot be modelled; a
// signal stays one.
func misfit(err error) error {
	if unclear, ok := errors.AsType[*simulate.UnclearError](err); ok {
		return usage(unclear.Hint, "%v", err)
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	return usage("", "%v", err)
}

package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/manent/action/runner/report"
	"github.com/manent/action/runner/simulate"
)

type powerFlags struct {
	rate              float64
	stable, candidate string
	scrape            time.Duration
	models            []string
}

func (a *app) newPower() *cobra.Command {
	var f powerFlags
	cmd := &cobra.Command{
		Use:   "power -c FILE --rate REQUESTS --stable-error PERCENT",
		Short: "say what error rate each stage of a plan can see, and how long to bake",
		Long: `Says for each stage and each metric that compares how many requests both sides
have, which error rate of a candidate is returned with a probability of 80 % and
of 95 %, and how long the stage has to be watched to return the one asked for.
It is a closed form, good enough to choose bakes and shares by; manent simulate
counts rollouts. – stands for never: no error rate, or no bake of up to 90 days.`,
		Example: "  manent power -c envconfig/shop/web/prod.yml --rate 200 --stable-error 1% --candidate-error 3%",
	}
	flags := a.fileFlags(cmd).Flags()
	flags.Float64Var(&f.rate, "rate", 0, "`REQUESTS` a second, of both sides together")
	flags.StringVar(&f.stable, "stable-error", "", "`PERCENT` of the stable's requests that fail, such as 1%")
	flags.StringVar(&f.candidate, "candidate-error", "", "`PERCENT` of the candidate's that is to be seen")
	flags.DurationVar(&f.scrape, "scrape", 15*time.Second, "`TIME` between two scrapes of a counter")
	flags.StringArrayVar(&f.models, "model", nil, "`NAME=KIND`: what a metric measures: errors, error-rate, success-rate, requests or latency; may be repeated")
	return a.verb(cmd, func(context.Context, []string) (view, error) { return a.power(f) })
}

func (a *app) power(f powerFlags) (view, error) {
	cfg, err := a.load(true, false)
	if err != nil {
		return view{}, err
	}
	o := simulate.PowerOptions{Rate: f.rate, Scrape: f.scrape}
	switch {
	case f.rate == 0:
		return view{}, usage("give --rate REQUESTS, of both sides together", "requests a second: %v, expected more than 0", f.rate)
	case f.scrape <= 0:
		return view{}, usage("leave it out for the default", "--scrape is 0 or less, expected more")
	}
	if o.StableError, err = stableError(f.stable); err != nil {
		return view{}, err
	}
	if f.candidate != "" {
		if o.CandidateError, err = errorRate("candidate-error", f.candidate); err != nil {
			return view{}, err
		}
		if o.CandidateError <= o.StableError {
			return view{}, usage("name one above the stable's", "--candidate-error %s is not above --stable-error %s: only more failures can be seen", f.candidate, f.stable)
		}
	}
	if o.Models, err = models(f.models); err != nil {
		return view{}, err
	}
	result, err := simulate.Power(cfg, a.host.Catalog(), o)
	if err != nil {
		return view{}, misfit(err)
	}
	return view{JSON: result, Text: report.PowerText(result)}, nil
}

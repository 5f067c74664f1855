package simulate

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// oneStage has one comparing stage, long enough for every case.
const oneStage = `
  traffic: {steps: [%g, 100], bake: %s}
  health:
    interval: 1m
    falseAlarm: %g%%
    metrics:
      - {name: errors, compare: stable, ` + counters + `}
`

// delay is one row: how long a fault goes unseen at a share of 1,000 requests
// a minute of which the stable fails 1 %.
type delay struct {
	alpha, error float64 // of the candidate
}

func delays() []delay { return []delay{{.05, .05}, {.01, .05}, {.05, .02}, {.01, .02}} }

// bound is the information bound in minutes: ln(1/alpha) ÷ the expected gain
// of the log-likelihood ratio a minute, of Poisson counts with known rates.
func (d delay) bound() float64 {
	candidate, stable := 100*d.error, 900*0.01
	all := candidate + stable
	gain := candidate*math.Log(candidate/all/0.1) + stable*math.Log(stable/all/0.9)
	return -math.Log(d.alpha) / gain
}

func (d delay) measure(t testing.TB, n int) Candidate {
	t.Helper()
	cfg := loaded(t, fmt.Sprintf(oneStage, 10.0, "2h", 100*d.alpha))
	return run(t, cfg, Options{Rate: 1000.0 / 60, StableError: 0.01, CandidateErrors: []float64{d.error}, Trials: n, Seed: 1}).Candidates[0]
}

// BenchmarkDelay prints how long the sequential test takes, and with -tables
// writes that into docs/analysis.md.
func BenchmarkDelay(b *testing.B) {
	var out strings.Builder
	out.WriteString("\n| alpha | stable → candidate | bound, minutes | median, minutes | returned |\n|---|---|---|---|---|\n")
	for _, d := range delays() {
		c := d.measure(b, *trials)
		fmt.Fprintf(&out, "| %g %% | 1 %% → %g %% | %.1f | %g | %.1f %% |\n", 100*d.alpha, 100*d.error, d.bound(), *c.MedianMinutes, 100*c.Returned)
	}
	c := bursts(b, *trials)
	fmt.Fprintf(&out, "\nErrors of 20 %% in a tenth of the minutes, stable clean, 25 %% of 1,000 requests a minute: %.1f %% returned within 40 minutes.\n", 100*c.Returned)
	for _, l := range lates() {
		late, begun := l.measure(b, *trials/10)
		fmt.Fprintf(&out, "\n%s from 50 %% on, after 5 and 25 %% of 3 hours each: median %g minutes there, %g of a test begun there (%d rollouts).\n", l.name, late, begun, *trials/10)
	}
	show(b, out.String())
	if *tables {
		write(b, "delay", out.String())
	}
}

// bursts are errors of 20 % in a tenth of the minutes while the stable has none.
func bursts(t testing.TB, n int) Candidate {
	t.Helper()
	cfg := loaded(t, fmt.Sprintf(oneStage, 25.0, "40m", 5.0))
	return run(t, cfg, Options{
		Rate: 1000.0 / 60, CandidateErrors: []float64{0.2}, FaultMinutes: 0.1, Trials: n, Seed: 1,
	}).Candidates[0]
}

// late is a fault that shows only at half of the traffic.
type late struct {
	name                string
	rate, stable, error float64
}

func lates() []late {
	return []late{
		{"At 2 requests/s 1 % → 3 %", 2, .01, .03},
		{"At 20 requests/s 0.1 % → 0.3 %", 20, .001, .003},
	}
}

// measure returns the median minutes at 50 % in a plan of three stages, and
// where 50 % is the only stage. The stages before take 15 minutes each.
func (l late) measure(t testing.TB, n int) (after, begun float64) {
	t.Helper()
	steps := func(list, bake string) float64 {
		text := strings.Replace(fmt.Sprintf(oneStage, 50.0, bake, 5.0), "steps: [50, 100]", "steps: ["+list+"]", 1)
		o := Options{Rate: l.rate, StableError: l.stable, CandidateErrors: []float64{l.error}, FaultFrom: 50, Trials: n, Seed: 1}
		c := run(t, loaded(t, text), o).Candidates[0]
		if c.Returned < 0.9 {
			t.Errorf("%s: %.3f returned, want nearly all", l.name, c.Returned)
		}
		return *c.MedianMinutes
	}
	const bake = 180
	return steps("5, 25, 50, 100", "3h") - 2*bake, steps("50, 100", "3h")
}

// The sequential test is within 1.5 times the information bound and one look.
func TestDelay(t *testing.T) {
	for _, d := range few(delays()) {
		t.Run(fmt.Sprintf("alpha %g, 0.01 to %g", d.alpha, d.error), func(t *testing.T) {
			t.Parallel()
			c := d.measure(t, 300/scale)
			t.Logf("median %g minutes, bound %.2f", *c.MedianMinutes, d.bound())
			if limit := 1.5*d.bound() + 1; *c.MedianMinutes > limit || c.Returned < 0.99 {
				t.Errorf("median %g minutes of %.3f returned, want at most %.2f of all", *c.MedianMinutes, c.Returned, limit)
			}
		})
	}
	t.Run("bursts", func(t *testing.T) {
		t.Parallel()
		if c := bursts(t, 500/scale); c.ReturnedInterval[1] < 0.97 {
			t.Errorf("at most %.3f are returned, want 0.97", c.ReturnedInterval[1])
		}
	})
	all := lates()
	for _, l := range all[:len(all)/scale] { // hours of readings each: under the race detector none
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			after, begun := l.measure(t, 100/scale)
			t.Logf("median %g minutes, %g of a test begun there", after, begun)
			if after > 1.5*begun {
				t.Errorf("median %g minutes, want at most 1.5 times the %g of a test begun there", after, begun)
			}
		})
	}
}

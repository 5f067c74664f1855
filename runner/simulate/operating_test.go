package simulate

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/manent/action/analysis"
	"github.com/manent/action/analysis/kayentatest"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/gate"
)

var (
	trials = flag.Int("trials", 10_000, "rollouts of each cell of the operating characteristics")
	tables = flag.Bool("tables", false, "write the operating characteristics into docs/analysis.md")
)

// Rules that are compared: three stages of 15 minutes, a look each minute.
const (
	threeStages = `
  traffic: {steps: [5, 25, 50, 100], bake: 15m}
  health:
    interval: 1m
    %s
    metrics:
      - {name: errors, compare: stable, %s}
`
	bounded     = "falseAlarm: 1%"
	documented  = "grace: 2m" // the default: nothing else is set
	overlapping = `analysis: mann-whitney, query: 'sum(rate(x{track="{track}",code=~"5.."}[1m])) / sum(rate(x{track="{track}"}[1m]))'`
	independent = `analysis: mann-whitney, provider: accesslog, query: error_rate`
	counters    = `analysis: sequential, empty: zero, query: 'sum(x{track="{track}",code=~"5.."})', samplesQuery: 'sum(x{track="{track}"})'`
)

// rule is one row of the tables.
type rule struct {
	name  string
	cfg   string
	judge judge
}

func rules() []rule {
	of := func(health, metric string) string { return fmt.Sprintf(threeStages, health, metric) }
	own := gate.Judge
	return []rule{
		{"`mann-whitney`, documented, `rate[1m]` at 15 s", of(documented, overlapping), own},
		{"`mann-whitney`, documented, independent points", of(documented, independent), own},
		{"Kayenta's rule, `rate[1m]` at 15 s", of(documented, overlapping), kayenta},
		{"Kayenta's rule, independent points", of(documented, independent), kayenta},
		{"`mann-whitney`, `falseAlarm: 1%`, `rate[1m]` at 15 s", of(bounded, overlapping), own},
		{"`mann-whitney`, `falseAlarm: 1%`, independent points", of(bounded, independent), own},
		{"`sequential`, `falseAlarm: 1%`", of(bounded, counters), own},
	}
}

// promised reports whether something is promised of the rule, for good or bad;
// the others are shown.
func (r rule) promised() bool {
	return strings.Contains(r.name, "falseAlarm") || strings.Contains(r.name, "documented, `rate")
}

func loads() []float64    { return []float64{2, 20, 200, 2000} }
func failures() []float64 { return []float64{0.001, 0.01} }

// cell is what came of an unchanged candidate and of one with three times the
// stable's errors.
type cell struct{ same, worse Candidate }

// operate rolls every rule out at one error rate.
func operate(t testing.TB, r rule, rate, fails float64, n int) cell {
	t.Helper()
	o := Options{Rate: rate, StableError: fails, CandidateErrors: []float64{fails, 3 * fails}, Trials: n, Seed: 1}
	s, said, err := newScene(loaded(t, r.cfg), testCatalog(), o.filled())
	if err != nil {
		t.Fatal(err)
	}
	s.judge = r.judge
	got, err := s.run(t.Context(), said)
	if err != nil {
		t.Fatal(err)
	}
	return cell{got.Candidates[0], got.Candidates[1]}
}

// kayenta judges a reading by Kayenta's rule on the same points: High is red,
// and whatever else is none.
func kayenta(h config.Health, s gate.Subject, answers gate.Answers, probes []gate.ProbeResult) gate.Record {
	r := gate.Judge(h, s, answers, probes)
	m := r.Metrics[0]
	if m.Result == gate.Pass || m.Result == gate.Fail {
		r.Verdict = gate.Green
		if kayentatest.Judge(values(m.Candidate), values(m.Stable), analysis.Increase) == kayentatest.High {
			r.Verdict = gate.Red
		}
	}
	return r
}

func values(s *gate.Side) []float64 {
	all := make([]float64, len(s.Points))
	for i, p := range s.Points {
		all[i] = p.Value
	}
	return all
}

// BenchmarkOperating prints the operating characteristics as the tables of
// docs/analysis.md, and with -tables writes them there.
func BenchmarkOperating(b *testing.B) {
	var out strings.Builder
	for _, fails := range failures() {
		fmt.Fprintf(&out, "\nStable fails %g %% of its requests; %d rollouts a cell, %d of Kayenta's rule.\n\n| rule |", 100*fails, *trials, *trials/10)
		for _, rate := range loads() {
			fmt.Fprintf(&out, " %g/s same | threefold |", rate)
		}
		out.WriteString("\n|---|" + strings.Repeat("---|---|", len(loads())) + "\n")
		for _, r := range rules() {
			fmt.Fprintf(&out, "| %s |", r.name)
			n := *trials
			if strings.Contains(r.name, "Kayenta") {
				n /= 10 // its root finder is slow, and nothing is promised of it
			}
			for _, rate := range loads() {
				c := operate(b, r, rate, fails, n)
				fmt.Fprintf(&out, " %s | %s |", share(c.same), share(c.worse))
			}
			out.WriteString("\n")
		}
	}
	show(b, out.String())
	if *tables {
		write(b, "operating", out.String())
	}
}

// share is what was returned, and for thin data in brackets.
func share(c Candidate) string {
	text := fmt.Sprintf("%.2f %%", 100*c.Returned)
	if c.Inconclusive > 0 {
		text += fmt.Sprintf(" (%.1f %%)", 100*c.Inconclusive)
	}
	return text
}

// show prints a text whole; b.Log shows ten lines of it.
func show(t testing.TB, text string) {
	t.Helper()
	if _, err := os.Stdout.WriteString(text + "\n"); err != nil {
		t.Fatal(err)
	}
}

// write puts a text between the two marks of its name in docs/analysis.md.
func write(t testing.TB, name, text string) {
	t.Helper()
	file := filepath.Join("..", "..", "docs", "analysis.md")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no part %q", file, name)
	}
	if err := os.WriteFile(file, []byte(before+begin+strings.TrimLeft(text, "\n")+end+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The bound holds and faults are found, in a few hundred rollouts of each cell
// at the corners; BenchmarkOperating has the whole table.
func TestOperatingCharacteristics(t *testing.T) {
	const n = 120 / scale
	for _, r := range rules() {
		if !r.promised() {
			continue
		}
		for _, rate := range few([]float64{2000, 20}) {
			for _, fails := range few(failures()) {
				t.Run(fmt.Sprintf("%s %g/s %g", r.name, rate, fails), func(t *testing.T) {
					t.Parallel()
					c := operate(t, r, rate, fails, n)
					t.Logf("same %s, threefold %s", share(c.same), share(c.worse))
					checkCell(t, r, rate, c)
				})
			}
		}
	}
}

func checkCell(t *testing.T, r rule, rate float64, c cell) {
	t.Helper()
	doubtful := strings.Contains(r.name, "documented")
	if low := c.same.ReturnedInterval[0]; !doubtful && low > 0.01 {
		t.Errorf("at least %.3f of unchanged releases are returned, want at most 0.01", low)
	}
	finds := rate >= 200 || strings.Contains(r.name, "sequential")
	if high := c.worse.ReturnedInterval[1]; finds && high < 0.8 {
		t.Errorf("at most %.3f of threefold errors are returned, want 0.8", high)
	}
	if high := c.same.ReturnedInterval[1]; doubtful && strings.Contains(r.name, "rate") && high < 0.4 {
		t.Errorf("at most %.3f of unchanged releases are returned: the model is too kind to the documented rule", high)
	}
}

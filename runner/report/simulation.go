package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/manent/action/runner/simulate"
)

// SimulationText shows what came of simulated rollouts, how metrics were
// modelled, and what it means in one sentence.
func SimulationText(r simulate.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d rollouts of each candidate at %s requests/s; the stable fails %s of its requests; seed %d\n", r.Trials, number(r.Rate), part(r.StableError), r.Seed)
	if r.FaultMinutes < 1 {
		fmt.Fprintf(&b, "a candidate has its error rate in %s of the minutes, and the stable's in the others\n", part(r.FaultMinutes))
	}
	if r.FaultFrom > 0 {
		fmt.Fprintf(&b, "a candidate has its error rate from a share of %s on, and the stable's below\n", percent(r.FaultFrom))
	}
	b.WriteString("\n")
	rows := [][]string{{"candidate fails", "returned", "95 % interval", "inconclusive", "returned at " + strings.Join(r.Stages, ", "), "median", "failed requests"}}
	for _, c := range r.Candidates {
		rows = append(rows, simulated(c))
	}
	table(&b, rows)
	b.WriteString("\n")
	for _, m := range r.Metrics {
		fmt.Fprintf(&b, "metric %s is taken as %s%s\n", m.Name, m.Query, counted(m))
	}
	fmt.Fprintf(&b, "assumed: %s\n\n%s\n", strings.Join(r.Assumed, "; "), simulationMeans(r))
	return trim(b.String())
}

func counted(m simulate.MetricModel) string {
	if m.Samples == "" {
		return ""
	}
	return ", its samples as " + m.Samples
}

func simulated(c simulate.Candidate) []string {
	name := part(c.Error)
	if c.Unchanged {
		name += " (unchanged)"
	}
	var stages []string
	for _, p := range c.ByStage {
		stages = append(stages, part(p))
	}
	median := "–"
	if c.MedianMinutes != nil {
		median = strconv.FormatFloat(*c.MedianMinutes, 'f', 1, 64) + " min"
	}
	return []string{
		name, part(c.Returned), part(c.ReturnedInterval[0]) + " – " + part(c.ReturnedInterval[1]), part(c.Inconclusive),
		strings.Join(stages, ", "), median, strconv.FormatFloat(c.BadRequests, 'f', 0, 64),
	}
}

// simulationMeans is the result in one sentence.
func simulationMeans(r simulate.Result) string {
	var says []string
	for _, c := range r.Candidates {
		who := "a candidate that fails " + part(c.Error) + " of its requests"
		if c.Unchanged {
			who = "a candidate that is like the stable"
		}
		text := fmt.Sprintf("%s is returned in %s of rollouts", who, part(c.Returned))
		if c.MedianMinutes != nil && !c.Unchanged {
			text += fmt.Sprintf(", half of them within %.0f min", *c.MedianMinutes)
		}
		if c.Inconclusive > 0 {
			text += fmt.Sprintf(", and in %s because data stay too thin", part(c.Inconclusive))
		}
		says = append(says, text)
	}
	return strings.Join(says, "; ")
}

// part writes a part of 1 as a percentage in three digits.
func part(p float64) string {
	digits := 3
	if p >= 0.9995 && p < 1 {
		digits = 4 // not quite all
	}
	return strconv.FormatFloat(p*100, 'g', digits, 64) + " %"
}

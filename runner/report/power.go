package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/simulate"
)

// PowerText shows what each stage of a plan can see.
func PowerText(r simulate.PowerResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s requests/s; the stable fails %s of its requests\n\n", number(r.Rate), part(r.StableError))
	head := []string{"stage", "watched", "candidate's requests", "stable's", "metric", "sees in 80 %", "in 95 %"}
	if r.CandidateError > 0 {
		head = append(head, "bake for "+part(r.CandidateError)+" in 80 %", "in 95 %")
	}
	rows := [][]string{head}
	for _, s := range r.Stages {
		rows = append(rows, stagePower(s, r.CandidateError > 0)...)
	}
	table(&b, rows)
	for _, note := range powerNotes(r) {
		fmt.Fprintf(&b, "\n%s", note)
	}
	b.WriteString("\nA stage is taken alone: a fault that showed before has been looked for before. `manent simulate` counts whole rollouts.\n")
	return trim(b.String())
}

func stagePower(s simulate.StagePower, asked bool) [][]string {
	cells := []string{s.Stage, s.Bake.String(), whole(s.RequestsCandidate), whole(s.RequestsStable)}
	if len(s.Metrics) == 0 {
		return [][]string{append(cells, "none compares", "–", "–")}
	}
	var rows [][]string
	for _, m := range s.Metrics {
		row := append(cells[:4:4], m.Name+" ("+m.Test+")", seen(m.Detects80), seen(m.Detects95))
		if asked {
			row = append(row, baked(m.Bake80), baked(m.Bake95))
		}
		rows = append(rows, row)
		cells = []string{"", "", "", ""}
	}
	return rows
}

func whole(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }

func seen(rate *float64) string {
	if rate == nil {
		return "–"
	}
	return part(*rate)
}

func baked(d *config.Duration) string {
	if d == nil {
		return "–"
	}
	return d.String()
}

// powerNotes are what is to be said of a metric, once each.
func powerNotes(r simulate.PowerResult) []string {
	var out []string
	for _, s := range r.Stages[:min(1, len(r.Stages))] {
		for _, m := range s.Metrics {
			if m.Note != "" {
				out = append(out, "metric "+m.Name+": "+m.Note)
			}
		}
	}
	return append(out, powerMeans(r)...)
}

// powerMeans is the first figure in words.
func powerMeans(r simulate.PowerResult) []string {
	for _, s := range r.Stages {
		for _, m := range s.Metrics {
			if m.Detects80 != nil {
				return []string{fmt.Sprintf("At %s, %s of errors is the least that metric %s returns in 4 of 5 rollouts.", s.Stage, part(*m.Detects80), m.Name)}
			}
		}
	}
	return []string{"No metric sees a rise of errors at this rate of requests in the time that it is watched."}
}

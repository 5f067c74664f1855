// Package report turns the rollout document and the plan into what a person
// reads and what a program reads: tables, events, differences. It is pure: no
// I/O, no clock; the time of looking comes in. It must not know the engine,
// where the document is stored or how text reaches a terminal.
package report

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/manent/action/state"
)

// stamp shows an instant the same way everywhere.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format(time.RFC3339)
}

// percent shows a share, as 25 % or 2.5 %.
func percent(share float64) string { return number(share) + " %" }

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func dash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// owner names a pipeline run in words.
func owner(r state.RunRef) string {
	parts := make([]string, 0, 4)
	for _, p := range []string{r.Platform, r.Repository} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if r.Run != "" {
		parts = append(parts, "run "+r.Run)
	}
	if r.Attempt > 1 {
		parts = append(parts, "attempt "+strconv.Itoa(r.Attempt))
	}
	if r.Actor != "" {
		parts = append(parts, "by "+r.Actor)
	}
	return dash(strings.Join(parts, " "))
}

// table aligns rows; the first is the heading. Cells hold no tabs.
func table(b *strings.Builder, rows [][]string) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush()
}

// trim takes the blanks off the ends of lines that a table leaves.
func trim(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

// oneLine keeps a message of several lines from breaking a table.
func oneLine(text string) string {
	return strings.Join(strings.Fields(text), " ")
}

package report

import (
	"fmt"
	"strings"

	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/plan"
)

// PlanText shows every step of a plan in order, then what to know before.
func PlanText(p plan.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "strategy %s: %d steps in %s\n\n", p.Strategy, len(p.Steps), passes(len(p.Passes)))
	rows := [][]string{{"step", "stage", "share", "wait", "longest", "by", "undone by"}}
	for _, s := range p.Steps {
		rows = append(rows, []string{
			s.Name, dash(s.Stage), percent(s.Share), span(s.Wait), span(s.Longest), by(s), dash(s.Undo),
		})
	}
	table(&b, rows)
	if len(p.Warnings) > 0 {
		b.WriteString("\n")
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	return trim(b.String())
}

func passes(n int) string {
	if n == 1 {
		return "1 pass"
	}
	return fmt.Sprintf("%d passes", n)
}

func span(d config.Duration) string {
	if d == 0 {
		return "–"
	}
	return d.String()
}

// by says who or what decides or acts, where it is not manent itself.
func by(s plan.Step) string {
	switch {
	case s.Approval:
		return "a person"
	case s.Kind == plan.Gate && s.Ungated:
		return "nobody: ungated"
	case s.Kind == plan.Gate:
		return "the gate"
	case s.Command != "":
		return s.Command
	}
	return "–"
}

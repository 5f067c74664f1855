package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Severity says what a problem stops.
type Severity string

// The severities.
const (
	Error   Severity = "error"        // the configuration is wrong
	Absent  Severity = "not in build" // it is right, but this build cannot do it; plan still works
	Warning Severity = "warning"      // it works, probably not as meant
)

// Position is a place in a file; lines and columns count from 1.
type Position struct {
	File string
	Line int
	Col  int
}

// Problem is one thing that is wrong with a configuration. It never holds the
// value of something that may be a secret.
type Problem struct {
	File     string   `json:"file"`
	Line     int      `json:"line"` // from 1; 0 when the file could not be read
	Col      int      `json:"col"`
	Path     string   `json:"path,omitempty"` // rollout.traffic.steps[2]
	Message  string   `json:"message"`        // what was found and what was expected
	Hint     string   `json:"hint,omitempty"` // what to do
	Severity Severity `json:"severity"`
}

// String is file:line:col: path: message, without the hint.
func (p Problem) String() string {
	place := p.File
	if p.Line > 0 {
		place = fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
	}
	parts := make([]string, 0, 4)
	for _, part := range []string{place, p.Path} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if p.Severity == Warning {
		parts = append(parts, "warning")
	}
	return strings.Join(append(parts, p.Message), ": ")
}

// Problems are all problems of a configuration, in the order of their places.
type Problems []Problem

// Of returns those of the given severities.
func (all Problems) Of(severities ...Severity) Problems {
	var out Problems
	for _, p := range all {
		if slices.Contains(severities, p.Severity) {
			out = append(out, p)
		}
	}
	return out
}

// Err is one error that names every problem but the warnings, each with its
// hint on a line of its own; nil when there is none.
func (all Problems) Err() error {
	var lines []string
	for _, p := range all.Of(Error, Absent) {
		lines = append(lines, p.String())
		if p.Hint != "" {
			lines = append(lines, "  hint: "+p.Hint)
		}
	}
	if lines == nil {
		return nil
	}
	return errors.New(strings.Join(lines, "\n"))
}

// sorted orders them by place, each once.
func (all Problems) sorted() Problems {
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(all)
}

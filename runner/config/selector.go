package config

import (
	"fmt"
	"regexp"
	"strings"
)

var labelWord = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$`)

// Selector is a wave's select: every term has to hold.
type Selector []Term

// Term is label=value or label!=value. A missing label is unlike any value.
type Term struct {
	Label string
	Value string
	Not   bool
}

// ParseSelector reads terms joined by commas.
func ParseSelector(text string) (Selector, error) {
	var s Selector
	for part := range strings.SplitSeq(text, ",") {
		label, value, ok := strings.Cut(part, "=")
		label, not := strings.CutSuffix(label, "!")
		t := Term{Label: strings.TrimSpace(label), Value: strings.TrimSpace(value), Not: not}
		if !ok || !labelWord.MatchString(t.Label) || !labelWord.MatchString(t.Value) {
			return nil, fmt.Errorf("%q, expected label=value or label!=value", strings.TrimSpace(part))
		}
		s = append(s, t)
	}
	return s, nil
}

// Match reports whether the labels fulfil every term.
func (s Selector) Match(labels map[string]string) bool {
	for _, t := range s {
		value, has := labels[t.Label]
		if (has && value == t.Value) == t.Not {
			return false
		}
	}
	return true
}

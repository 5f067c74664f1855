package gate

import (
	"fmt"
	"regexp"
	"time"

	"github.com/manent/action/providers/metric"
	"github.com/manent/action/runner/config"
)

// values gives what a placeholder stands for, and whether the gate itself
// wrote it, in the language of the system already.
func (s Subject) values(stable bool, side *Side, t metric.Traits) func(string) (value string, own, ok bool) {
	return func(name string) (string, bool, bool) {
		switch name {
		case "track":
			if track := s.Tracks[s.slot(stable)]; track != "" {
				return track, false, true
			}
			return string(s.slot(stable)), false, true
		case "start":
			return side.From.Format(time.RFC3339Nano), true, true
		case "end":
			return side.To.Format(time.RFC3339Nano), true, true
		case "step":
			if t.Step != nil {
				return t.Step(stepOf(side)), true, true
			}
			return config.Duration(stepOf(side)).String(), true, true
		}
		value, ok := s.Vars[name] // wave may be empty
		return value, false, ok
	}
}

// stepOf is the step of a series; of one value, the whole window.
func stepOf(side *Side) time.Duration {
	if side.Step > 0 {
		return side.Step
	}
	return side.To.Sub(side.From)
}

var braces = regexp.MustCompile(`\{[a-z]+\}`)

// expand replaces the placeholders of a query in one pass, so that no value is
// looked into again. Other words in braces belong to the query's language; a
// placeholder of ours without a value is an error.
func expand(query string, values func(string) (string, bool, bool), escape func(string) string) (string, error) {
	var problem error
	text := braces.ReplaceAllStringFunc(query, func(word string) string {
		value, own, ok := values(word[1 : len(word)-1])
		switch {
		case !ok && ours(word):
			problem = fmt.Errorf("placeholder %s has no value here", word)
		case !ok:
			return word
		case own:
			return value
		case escape == nil && !plain.MatchString(value):
			problem = fmt.Errorf("%s is %q, which this metric system cannot escape", word, value)
		case escape == nil:
			return value
		default:
			return escape(value)
		}
		return ""
	})
	return text, problem
}

var plain = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)

func ours(word string) bool {
	switch word {
	case "{project}", "{application}", "{environment}", "{wave}", "{version}", "{host}", "{port}":
		return true
	}
	return false
}

package accesslog

import (
	"fmt"
	"strings"
	"time"

	"github.com/manent/action/providers/api/accesslog"
)

// reading is what was met in each log.
type reading struct{ logs []extent }

type extent struct {
	path string
	accesslog.Extent
}

// covers reports whether every log has requests before and after a time, so
// that their absence in it is a fact.
func (r reading) covers(from, to time.Time) bool {
	for _, x := range r.logs {
		if x.First.IsZero() || x.First.After(from) || x.Last.Before(to) {
			return false
		}
	}
	return len(r.logs) > 0
}

// judge says what is wrong with the logs, and whether data are missing. A log
// without a request before the window may have been moved away within it: its
// beginning may be late by a tenth of the window, and by no more than MaxSilence.
func (r reading) judge(w window, s Settings) (warnings []string, partial bool) {
	if len(r.logs) == 0 {
		return []string{"no log matches " + strings.Join(s.Files, ", ")}, true
	}
	say := func(missing bool, x extent, format string, args ...any) {
		warnings = append(warnings, x.path+" "+fmt.Sprintf(format, args...))
		partial = partial || missing
	}
	for _, x := range r.logs {
		switch {
		case x.First.IsZero():
			say(true, x, "has no readable requests")
		case x.First.Add(-min(s.MaxSilence, w.to.Sub(w.from)/10)).After(w.from):
			say(true, x, "begins at %s, after the window does (%s)", clock(x.First), clock(w.from))
		}
		if !x.Last.IsZero() && x.Last.Add(s.MaxSilence).Before(w.to) {
			say(true, x, "ends at %s, before the window does (%s)", clock(x.Last), clock(w.to))
		}
		if x.Malformed > 0 {
			much := float64(x.Malformed)*100 > s.MaxMalformed*float64(x.Lines)
			say(much, x, "has %d unreadable lines of %d, one because: %v", x.Malformed, x.Lines, x.Problem)
		}
		if x.Cut {
			say(true, x, "is too long to be read back to the beginning of the window")
		}
	}
	return warnings, partial
}

// where says how far the logs reach, for an answer without data.
func (r reading) where() string {
	if len(r.logs) == 0 {
		return ", and no log"
	}
	var parts []string
	for _, x := range r.logs {
		if x.First.IsZero() {
			parts = append(parts, x.path+" has none at all")
		} else {
			parts = append(parts, fmt.Sprintf("%s has some from %s to %s", x.path, clock(x.First), clock(x.Last)))
		}
	}
	return "; " + strings.Join(parts, "; ")
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// Package promql reads as much of PromQL as it takes to say how far back a
// query looks. It must not know who asks, nor send anything.
package promql

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// Window returns the longest time that a value of the query looks back over:
// the range of rate(x[5m]), and for a subquery its range and the one inside,
// 35m for max_over_time(rate(x[5m])[30m:1m]). An offset moves that time and
// does not make it longer. It is 0 when the query has no range, is not well
// formed, or has a range that cannot be read ([$__range]).
func Window(query string) time.Duration {
	s := scanner{rest: query, open: []time.Duration{0}}
	for s.rest != "" {
		if !s.next() {
			return 0
		}
	}
	if len(s.open) != 1 {
		return 0
	}
	return s.open[0]
}

// scanner reads as much of PromQL as it takes to tell a range from a bracket
// in a string or a comment.
type scanner struct {
	rest string
	open []time.Duration // longest range inside each open parenthesis, outermost first
	last time.Duration   // longest range in the parenthesis that just ended
}

// next reads one token; false means that the query is not well formed.
func (s *scanner) next() bool {
	c := s.rest[0]
	switch {
	case c == '#':
		s.skip(strings.IndexByte(s.rest, '\n') + 1)
		return true
	case strings.IndexByte(" \t\r\n", c) >= 0:
		s.skip(1)
		return true
	case c == '"' || c == '\'' || c == '`':
		return s.text()
	case c == '{':
		return s.selector()
	case c == '[':
		return s.span()
	}
	return s.mark(c)
}

// skip moves on by n bytes; 0 stands for the whole rest.
func (s *scanner) skip(n int) {
	if n == 0 {
		n = len(s.rest)
	}
	s.rest = s.rest[n:]
}

// mark reads a parenthesis, or one byte of anything else: a word, a number, an
// operator. Only a parenthesis may be followed by the range of a subquery that
// covers what is in it.
func (s *scanner) mark(c byte) bool {
	s.skip(1)
	s.last = 0
	switch c {
	case '(':
		s.open = append(s.open, 0)
	case ')':
		if len(s.open) == 1 {
			return false
		}
		s.last = s.open[len(s.open)-1]
		s.open = s.open[:len(s.open)-1]
		s.saw(s.last)
	case ']', '}':
		return false
	}
	return true
}

func (s *scanner) saw(d time.Duration) {
	top := len(s.open) - 1
	s.open[top] = max(s.open[top], d)
}

// text reads a string. Only backquotes know no escapes.
func (s *scanner) text() bool {
	quote := s.rest[0]
	for i := 1; i < len(s.rest); i++ {
		switch {
		case s.rest[i] == quote:
			s.skip(i + 1)
			return true
		case s.rest[i] == '\\' && quote != '`':
			i++
		}
	}
	return false
}

// selector reads {…}.
func (s *scanner) selector() bool {
	s.last = 0
	s.skip(1)
	for s.rest != "" {
		switch c := s.rest[0]; c {
		case '}':
			s.skip(1)
			return true
		case '"', '\'', '`':
			if !s.text() {
				return false
			}
		case '#':
			s.skip(strings.IndexByte(s.rest, '\n') + 1)
		default:
			s.skip(1)
		}
	}
	return false
}

// span reads [range] or [range:resolution].
func (s *scanner) span() bool {
	end := strings.IndexByte(s.rest, ']')
	if end < 0 {
		return false
	}
	length, _, subquery := strings.Cut(s.rest[1:end], ":")
	d, ok := duration(strings.TrimSpace(length))
	if subquery {
		d += s.last
	}
	s.skip(end + 1)
	s.last = 0
	s.saw(d)
	return ok && d > 0
}

// duration reads 5m or 1h30m, and since Prometheus 3 also seconds as a number.
func duration(text string) (time.Duration, bool) {
	if d, err := model.ParseDuration(text); err == nil {
		return time.Duration(d), d > 0
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds > 0 && seconds < 1e9) {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}

// Escape makes a value safe inside a quoted string of PromQL, whatever the
// quotes; outside of one it makes the query wrong rather than different. The
// value stays itself under = and !=. Under =~ and !~ its regular expression
// characters, the dot of a version among them, keep their meaning.
func Escape(value string) string {
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		c := value[i]
		switch {
		case c == '\\':
			b.WriteString(`\\`)
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("_.:-", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}

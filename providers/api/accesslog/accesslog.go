// Package accesslog reads the access logs of HTTP servers: nginx in any
// log_format, and JSON with one object a line. It follows a log from its end
// back through rotated files and gives one Entry for each request.
//
// It must not know what a track means, and judges nothing. Text from a log is
// a client's text: it comes back as data only, never in an error.
package accesslog

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Entry is one request.
type Entry struct {
	At     time.Time     // when the server logged it
	Status int           // 0 to 999 as logged; 0 when the client left without an answer
	Track  string        // what served it, as logged; "" when that field is missing
	Took   time.Duration // how long it took
	Timed  bool          // Took was logged
}

// Parser reads one line without its newline. An error says what is wrong
// without the line's own text.
type Parser func(line []byte) (Entry, error)

// Fields names the fields of a line: JSON keys, or nginx variables with or
// without the dollar. Time is the time of day of the request, as seconds with
// a fraction ($msec), RFC 3339 ($time_iso8601) or nginx's $time_local.
type Fields struct {
	Time     string
	Status   string
	Track    string
	Duration string        // "" when the log has none
	Unit     time.Duration // of Duration: time.Second for nginx
}

// Proxy are the fields of the log that manent's own proxy writes.
func Proxy() Fields {
	return Fields{Time: "time", Status: "status", Track: "slot", Duration: "duration", Unit: time.Second}
}

// Abandoned reports whether the client left before it was answered: nginx logs
// 499 or 000 then, manent's own proxy 499.
func (e Entry) Abandoned() bool { return e.Status == 0 || e.Status == 499 }

// What may be wrong with a line.
var (
	errJSON     = errors.New("not a JSON object")
	errForm     = errors.New("does not match the format")
	errTime     = errors.New("time is missing or not readable")
	errStatus   = errors.New("status is missing or not a number of three digits")
	errTrack    = errors.New("track is not text")
	errDuration = errors.New("duration is not a number from 0 up")
)

// role is what a field is used for.
type role uint8

const (
	unused role = iota
	roleTime
	roleStatus
	roleTrack
	roleDuration
)

// set reads one field into an entry.
func (e *Entry) set(r role, value []byte, unit time.Duration) error {
	var ok bool
	switch r {
	case roleTime:
		e.At, ok = parseTime(value)
		return unless(ok, errTime)
	case roleStatus:
		e.Status, ok = parseStatus(value)
		return unless(ok, errStatus)
	case roleTrack:
		e.Track = string(value)
	case roleDuration:
		if len(value) == 0 || string(value) == "-" {
			return nil // the server did not time it
		}
		e.Took, ok = parseSpan(value, unit)
		e.Timed = ok
		return unless(ok, errDuration)
	}
	return nil
}

func unless(ok bool, err error) error {
	if ok {
		return nil
	}
	return err
}

// parseTime tells the three forms apart by their marks. Seconds of 12 digits
// are refused: they are milliseconds, or wrong.
func parseTime(text []byte) (time.Time, bool) {
	var t time.Time
	var err error
	switch {
	case bytes.IndexByte(text, 'T') >= 0:
		t, err = time.Parse(time.RFC3339Nano, string(text))
	case bytes.IndexByte(text, '/') >= 0:
		t, err = time.Parse("02/Jan/2006:15:04:05 -0700", string(text))
	default:
		ns, ok := decimal(text)
		return time.Unix(0, ns), ok && ns > 0
	}
	return t, err == nil && t.Unix() > 0
}

// parseStatus reads up to three digits. One outside of HTTP's 100 to 599 is what
// a broken server sent (nginx passes 999 on), and no broken line.
func parseStatus(text []byte) (int, bool) {
	n := 0
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, len(text) > 0 && len(text) <= 3
}

// parseSpan reads a number of units, up to a year.
func parseSpan(text []byte, unit time.Duration) (time.Duration, bool) {
	const most = 366 * 24 * time.Hour
	if n, ok := decimal(text); ok && unit == time.Second {
		return time.Duration(n), n <= int64(most)
	}
	if len(text) == 0 || text[0] < '0' || text[0] > '9' || bytes.ContainsAny(text, "xX_") {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(text), 64) // also 5e-07, as JSON has small numbers
	scaled := v * float64(unit)
	if err != nil || !(scaled <= float64(most)) {
		return 0, false
	}
	return time.Duration(math.Round(scaled)), true
}

// decimal reads digits with an optional fraction into billionths, exactly;
// digits beyond the ninth of the fraction are dropped.
func decimal(text []byte) (int64, bool) {
	whole, fraction, dotted := bytes.Cut(text, []byte("."))
	if len(whole) == 0 || len(whole) > 10 || (dotted && len(fraction) == 0) {
		return 0, false
	}
	n, ok := digits(0, whole)
	if !ok {
		return 0, false
	}
	if len(fraction) > 9 {
		if _, ok := digits(0, fraction[9:min(len(fraction), 27)]); !ok || len(fraction) > 27 {
			return 0, false
		}
		fraction = fraction[:9]
	}
	if n > math.MaxInt64/int64(time.Second)-1 {
		return 0, false
	}
	n, ok = digits(n, fraction)
	for range 9 - len(fraction) {
		n *= 10
	}
	return n, ok
}

func digits(n int64, text []byte) (int64, bool) {
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// roles maps the names of the fields to what they are used for.
func (f Fields) roles() map[string]role {
	m := map[string]role{bare(f.Duration): roleDuration, bare(f.Track): roleTrack, bare(f.Status): roleStatus, bare(f.Time): roleTime}
	delete(m, "")
	return m
}

// bare is a variable's name without dollar and braces.
func bare(name string) string {
	name = strings.TrimPrefix(name, "$")
	return strings.TrimSuffix(strings.TrimPrefix(name, "{"), "}")
}

package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/gate"
)

// What a file of figures may have at most. A rollout has a few hundred points
// a side; a file of millions is something else.
const (
	mostFigures = 32 << 20 // bytes
	mostLine    = 4 << 10  // bytes
)

// judgeSeries compares two files of figures.
func (a *app) judgeSeries(f judgeFlags) (view, error) {
	if f.candidate == "" || f.stable == "" {
		return view{}, need("--candidate FILE --stable FILE", "one side is missing: a series is judged beside another")
	}
	candidate, stable, err := a.bothSeries(f.candidate, f.stable)
	if err != nil {
		return view{}, err
	}
	rule := f.rule(f.metric.Name)
	got := gate.JudgeSeries(rule, candidate, stable, f.methodOf())
	return a.judged(config.Health{Metrics: []config.Metric{rule}}, []gate.MetricResult{got})
}

// bothSeries reads one number a line of each side; a gap is NaN. It refuses a
// comparison of a file with itself, which always passes: under another name,
// through a link, or with what is left of it on stdin.
func (a *app) bothSeries(candidate, stable string) (one, other []float64, err error) {
	r, name, err := a.input(candidate)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = r.Close() }()
	against, called, err := a.input(stable)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = against.Close() }()
	if candidate == stable || sameFile(r, against) {
		return nil, nil, usage("name another file", "--candidate and --stable are the same, %s: it would be compared with itself", candidate)
	}
	if one, err = readSeries(r, name, mostFigures); err != nil {
		return nil, nil, err
	}
	other, err = readSeries(against, called, mostFigures)
	return one, other, err
}

// sameFile reports whether two inputs are one file. Stdin in a test is none.
func sameFile(one, other io.Reader) bool {
	type file interface{ Stat() (os.FileInfo, error) }
	a, ok := one.(file)
	b, too := other.(file)
	if !ok || !too {
		return false
	}
	info, err := a.Stat()
	against, bad := b.Stat()
	return err == nil && bad == nil && os.SameFile(info, against)
}

// keptOpen is stdin, which is not ours to close.
type keptOpen struct{ *os.File }

// Close implements io.Closer.
func (keptOpen) Close() error { return nil }

// input opens a regular file, or stdin for "-". It looks before it opens: to
// open a named pipe that nobody writes to waits for ever.
func (a *app) input(file string) (io.ReadCloser, string, error) {
	if own, ok := a.stdin.(*os.File); ok && file == "-" {
		return keptOpen{own}, "stdin", nil
	} else if file == "-" {
		return io.NopCloser(a.stdin), "stdin", nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, "", unopened(file, err)
	}
	if what, hint := irregular(info.Mode()); what != "" {
		return nil, "", usage(hint, "%s is %s, expected a file", file, what)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, "", unopened(file, err)
	}
	return f, file, nil
}

func unopened(file string, err error) error {
	return usage("", "%s cannot be opened: %v", file, errors.Unwrap(err))
}

// irregular says what is no regular file, "" of one that is.
func irregular(mode os.FileMode) (what, hint string) {
	const stream = "use - for a stream, and send it to stdin"
	switch {
	case mode.IsRegular():
		return "", ""
	case mode.IsDir():
		return "a directory", ""
	case mode&os.ModeNamedPipe != 0:
		return "a pipe", stream
	case mode&os.ModeSocket != 0:
		return "a socket", stream
	case mode&os.ModeDevice != 0:
		return "a device", stream
	}
	return "no regular file", stream
}

// readSeries is series of at most so many bytes.
func readSeries(r io.Reader, name string, most int) ([]float64, error) {
	var out []float64
	lines, left := bufio.NewScanner(io.LimitReader(r, int64(most)+1)), most
	lines.Buffer(make([]byte, 0, mostLine), mostLine)
	for lines.Scan() {
		if left -= len(lines.Bytes()) + 1; left < 0 {
			break
		}
		v, err := parseFigure(mark(lines.Text(), len(out)))
		if err != nil {
			return nil, usage("one number a line, a blank line or NaN for a gap", "%s:%d: %v", name, len(out)+1, err)
		}
		out = append(out, v)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, usage("one number a line", "%s:%d: longer than 4 KiB, which is no number", name, len(out)+1)
	case err != nil:
		return nil, unreadable(name, err)
	case left < 0:
		return nil, tooLarge(name, most)
	}
	return out, nil
}

// mark takes off what some programs put in front of a text to say that it is
// UTF-8.
func mark(text string, line int) string {
	if line > 0 {
		return text
	}
	return strings.TrimPrefix(text, "\ufeff")
}

// parseFigure reads a number, or NaN for a gap.
func parseFigure(text string) (float64, error) {
	text = strings.TrimSpace(text)
	if text == "" || strings.EqualFold(text, "nan") {
		return math.NaN(), nil
	}
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && math.IsInf(v, 0):
		return 0, fmt.Errorf("%.40q is infinite, expected a number or nothing", text)
	case err != nil, strings.ContainsAny(text, "xX_pP"):
		return 0, fmt.Errorf("%.40q is no number", text)
	}
	return v, nil
}

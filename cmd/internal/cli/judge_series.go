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
	if err := distinct(f.candidate, f.stable); err != nil {
		return view{}, err
	}
	candidate, err := a.series(f.candidate)
	if err != nil {
		return view{}, err
	}
	stable, err := a.series(f.stable)
	if err != nil {
		return view{}, err
	}
	rule := f.rule(f.metric.Name)
	got := gate.JudgeSeries(rule, candidate, stable, f.methodOf())
	return a.judged(config.Health{Metrics: []config.Metric{rule}}, []gate.MetricResult{got})
}

// distinct refuses a comparison of a file with itself, which always passes.
func distinct(candidate, stable string) error {
	same := candidate == stable
	one, err := os.Stat(candidate)
	if other, bad := os.Stat(stable); err == nil && bad == nil {
		same = same || os.SameFile(one, other)
	}
	if same {
		return usage("name another file", "--candidate and --stable are the same, %s: it would be compared with itself", candidate)
	}
	return nil
}

// series reads one number a line; a gap is NaN.
func (a *app) series(file string) ([]float64, error) {
	r, name, err := a.input(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return readSeries(r, name, mostFigures)
}

// input opens a file, or stdin for "-".
func (a *app) input(file string) (io.ReadCloser, string, error) {
	if file == "-" {
		return io.NopCloser(a.stdin), "stdin", nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, "", usage("", "%s cannot be opened: %v", file, errors.Unwrap(err))
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		_ = f.Close()
		return nil, "", usage("", "%s is a directory, expected a file", file)
	}
	return f, file, nil
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

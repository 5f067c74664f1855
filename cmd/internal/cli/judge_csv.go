package cli

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/gate"
)

// judgeCSV judges every metric of a table of points.
func (a *app) judgeCSV(f judgeFlags) (view, error) {
	r, name, err := a.input(f.csv)
	if err != nil {
		return view{}, err
	}
	defer func() { _ = r.Close() }()
	t, err := readTable(r, name, mostFigures)
	if err != nil {
		return view{}, err
	}
	health := config.Health{}
	if a.file == "" {
		for _, metric := range slices.Sorted(maps.Keys(t)) {
			health.Metrics = append(health.Metrics, f.rule(metric))
		}
	} else if health, err = a.configured(t, name); err != nil {
		return view{}, err
	}
	var got []gate.MetricResult
	for _, m := range health.Metrics {
		got = append(got, t.judge(m, f, name))
	}
	return a.judged(health, got)
}

// configured is health of the configuration. A metric that only the table has
// is a mistake in one of the two.
func (a *app) configured(t table, name string) (config.Health, error) {
	cfg, err := a.load(true, false)
	if err != nil {
		return config.Health{}, err
	}
	health := cfg.Rollout.Health
	var names []string
	for _, m := range health.Metrics {
		names = append(names, m.Name)
	}
	for _, metric := range slices.Sorted(maps.Keys(t)) {
		if slices.Contains(names, metric) {
			continue
		}
		hint := "it has " + strings.Join(names, ", ")
		if near := config.Nearest(metric, names); near != "" {
			hint = "did you mean " + near + "?"
		}
		return health, usage(hint, "%s: metric %.60q is not one of %s", name, metric, a.file)
	}
	if health.FalseAlarm != nil {
		a.complain("manent: warning: falseAlarm bounds a whole rollout; here each metric is judged once, at its alpha", "")
	}
	return health, nil
}

// table are the points of a file: by metric, then by track.
type table map[string]map[string][]instant

// instant is one value at one time; NaN is a gap.
type instant struct {
	at    time.Time
	value float64
	line  int
}

// judge judges one metric. What the table cannot say is never a pass.
func (t table) judge(m config.Metric, f judgeFlags, name string) gate.MetricResult {
	unknown := func(why string) gate.MetricResult {
		return gate.MetricResult{
			Name: m.Name, Result: gate.Inconclusive, Weight: m.Weight, Critical: m.Critical != nil && *m.Critical,
			Reason: "metric " + m.Name + ": " + why,
		}
	}
	tracks := t[m.Name]
	switch {
	case m.Analysis == "sequential":
		return unknown("analysis sequential is judged from counters of a rollout, not from series")
	case m.Analysis != mannWhitney:
		return unknown("has no analysis: mann-whitney, and its thresholds are for single values")
	case tracks == nil:
		return unknown("is not in " + name)
	}
	return gate.JudgeSeries(m, values(tracks["candidate"]), values(tracks["stable"]), f.methodOf())
}

func values(points []instant) []float64 {
	out := make([]float64, len(points))
	for i, p := range points {
		out[i] = p.value
	}
	return out
}

// columns are those that a table has to have.
func columns() []string { return []string{"metric", "track", "time", "value"} }

// readTable reads a CSV file of at most so many bytes; points come back in the
// order of their times.
func readTable(r io.Reader, name string, most int) (table, error) {
	rows := csv.NewReader(skipMark(&lineLimit{r: r, left: most}))
	rows.ReuseRecord = true
	header, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return nil, usage("begin it with metric,track,time,value", "%s is empty, expected a header", name)
	}
	if err != nil {
		return nil, tableError(name, most, err)
	}
	places, err := placesOf(header)
	if err != nil {
		return nil, usage("begin the file with metric,track,time,value", "%s:1: %v", name, err)
	}
	out := table{}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, tableError(name, most, err)
		}
		line, _ := rows.FieldPos(0)
		if err := out.add(row, places, line); err != nil {
			return nil, usage("metric, track candidate or stable, time RFC 3339 or seconds since 1970, value a number or nothing", "%s:%d: %v", name, line, err)
		}
	}
	return out, out.sort(name)
}

// placesOf finds the columns.
func placesOf(header []string) (map[string]int, error) {
	places := map[string]int{}
	for i, column := range header {
		column = strings.TrimSpace(column)
		if _, twice := places[column]; twice && slices.Contains(columns(), column) {
			return nil, fmt.Errorf("column %s is there twice", column)
		}
		places[column] = i
	}
	for _, want := range columns() {
		if _, ok := places[want]; !ok {
			return nil, fmt.Errorf("no column %s, found %.80q", want, strings.Join(header, ","))
		}
	}
	return places, nil
}

func (t table) add(row []string, places map[string]int, line int) error {
	field := func(column string) string { return strings.TrimSpace(row[places[column]]) }
	metric, track := strings.Clone(field("metric")), strings.Clone(field("track"))
	if metric == "" || len(metric) > 200 || strings.ContainsFunc(metric, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("metric is %.40q, expected a name", metric)
	}
	if track != "candidate" && track != "stable" {
		return fmt.Errorf("track is %.40q, expected candidate or stable", track)
	}
	at, err := parseInstant(field("time"))
	if err != nil {
		return err
	}
	value, err := parseFigure(field("value"))
	if err != nil {
		return fmt.Errorf("value %w", err)
	}
	if t[metric] == nil {
		t[metric] = map[string][]instant{}
	}
	t[metric][track] = append(t[metric][track], instant{at, value, line})
	return nil
}

// parseInstant reads RFC 3339, or seconds since 1970 with an optional fraction.
func parseInstant(text string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 0 && seconds < 1e11) || strings.ContainsAny(text, "xX_pP") {
		return time.Time{}, fmt.Errorf("time is %.40q, expected RFC 3339 or seconds since 1970", text)
	}
	whole, fraction := math.Modf(seconds)
	return time.Unix(int64(whole), int64(math.Round(fraction*1e6))*1000), nil
}

// sort orders the points of each side and refuses two at one time.
func (t table) sort(name string) error {
	for _, metric := range slices.Sorted(maps.Keys(t)) {
		for _, track := range []string{"candidate", "stable"} {
			points := t[metric][track]
			slices.SortStableFunc(points, func(a, b instant) int { return a.at.Compare(b.at) })
			for i := 1; i < len(points); i++ {
				if points[i].at.Equal(points[i-1].at) {
					return usage("one row for each metric, track and time", "%s:%d: %s of %s has a value at that time already, in line %d", name, points[i].line, track, metric, points[i-1].line)
				}
			}
		}
	}
	return nil
}

func tableError(name string, most int, err error) error {
	if bad, ok := errors.AsType[*csv.ParseError](err); ok {
		return usage("one row for each point, with as many fields as the header; quote a field that holds a comma", "%s:%d: %v", name, bad.Line, bad.Err)
	}
	switch {
	case errors.Is(err, errLine):
		return usage("", "%s: %v", name, err)
	case errors.Is(err, errSize):
		return tooLarge(name, most)
	}
	return unreadable(name, err)
}

var (
	errLine = errors.New("a line is longer than 4 KiB, which is no table of points")
	errSize = errors.New("too large")
)

// lineLimit ends a text that is too large, or has a line that is too long.
type lineLimit struct {
	r    io.Reader
	left int
	line int // bytes since the last newline
}

// Read implements io.Reader.
func (l *lineLimit) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	for _, c := range p[:n] {
		if l.line++; c == '\n' {
			l.line = 0
		}
		if l.line > mostLine {
			return 0, errLine
		}
	}
	if l.left -= n; l.left < 0 {
		return 0, errSize
	}
	return n, err
}

// skipMark is a text without the mark of UTF-8 in front.
func skipMark(r io.Reader) io.Reader {
	b := bufio.NewReader(r)
	if head, err := b.Peek(3); err == nil && string(head) == "\ufeff" {
		_, _ = b.Discard(3)
	}
	return b
}

func tooLarge(name string, most int) error {
	return usage("", "%s is larger than %d MiB, which is no series of points", name, most>>20)
}

// unreadable is a file that could be opened and not be read: nobody can say
// what is in it.
func unreadable(name string, err error) error {
	return &runner.UnsureError{Step: "read " + name, Err: err}
}

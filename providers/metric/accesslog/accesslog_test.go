package accesslog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/accesslog"
	"github.com/manent/action/providers/metric"
	"github.com/manent/action/providers/metric/metrictest"
	"github.com/manent/action/state"
)

const canary = `$msec $status $backend $request_time $http_x_user_id`

// style is a format of a log, and how a request looks in it.
type style struct {
	name     string
	settings map[string]any
	line     func(at time.Time, slot state.Slot, status int, took float64) string
	garbage  string
}

func styles() []style {
	backend := map[state.Slot]string{state.SlotA: "stable", state.SlotB: "canary"}
	return []style{
		{"nginx", map[string]any{"format": canary, "track_field": "$backend", "tracks": map[string]any{"stable": "a", "canary": "b"}},
			func(at time.Time, slot state.Slot, status int, took float64) string {
				return fmt.Sprintf("%d.%03d %d %s %v u-1", at.Unix(), at.Nanosecond()/1e6, status, backend[slot], took)
			}, "\x00"},
		{"json", map[string]any{"format": "json", "track_field": "v", "duration_unit": "ms"},
			func(at time.Time, slot state.Slot, status int, took float64) string {
				return fmt.Sprintf(`{"time":"%d.%03d","status":"%d","v":"%s","request_time":%v}`, at.Unix(), at.Nanosecond()/1e6, status, slot, took*1000)
			}, `{"time":`},
		{"proxy", map[string]any{"format": "proxy"},
			func(at time.Time, slot state.Slot, status int, took float64) string {
				return fmt.Sprintf(`{"time":"%s","status":%d,"slot":"%s","duration":%v}`, at.Format("2006-01-02T15:04:05.000Z07:00"), status, slot, took)
			}, `<html>`},
	}
}

func TestConformance(t *testing.T) {
	for _, s := range styles() {
		t.Run(s.name, func(t *testing.T) {
			metrictest.Run(t, metrictest.Suite{
				Setup: func(t *testing.T, scene metrictest.Scene) metrictest.Subject { return s.setup(t, scene) },
				Without: map[metrictest.Feature]string{
					metrictest.NaN:      "a mean of durations is a number",
					metrictest.Several:  "a figure is of one track",
					metrictest.Failures: "there is no server",
				},
			})
		})
	}
}

// setup writes a value as the duration of one request in the middle of the
// step that ends at its time, in a log that also has requests on both sides
// of every window.
func (s style) setup(t *testing.T, scene metrictest.Scene) metrictest.Subject {
	lines := []string{s.line(metrictest.Start().Add(-time.Minute), state.SlotA, 200, 9)}
	for slot, all := range scene.Series {
		for _, series := range all {
			for _, p := range series.Points {
				lines = append(lines, s.line(p.At.Add(-30*time.Second), slot, 200, p.Value))
			}
		}
	}
	if scene.Partial {
		lines = append(lines, s.garbage)
	}
	lines = append(lines, s.line(metrictest.End().Add(time.Minute), state.SlotB, 200, 9))
	return metrictest.Subject{
		System: s.system(t, lines, nil), Text: func(state.Slot) string { return "mean" }, Bad: "p101",
	}
}

func (s style) system(t *testing.T, lines []string, more map[string]any) *System {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "access.log"), lines)
	settings := map[string]any{"files": "access.log"}
	for _, m := range []map[string]any{s.settings, more} {
		for k, v := range m {
			settings[k] = v
		}
	}
	sys, err := Spec().Build(providers.Env{Dir: dir}, settings)
	if err != nil {
		t.Fatal(err)
	}
	return sys.(*System)
}

func write(t *testing.T, path string, lines []string) {
	t.Helper()
	text := strings.Join(lines, "\n")
	if text != "" {
		text += "\n"
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func ask(t *testing.T, sys metric.System, queries ...metric.Query) []metric.Answer {
	t.Helper()
	answers, err := sys.Query(t.Context(), queries)
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

func query(text string, slot state.Slot) metric.Query {
	return metric.Query{ID: text, Text: text, Track: slot, From: metrictest.Start(), To: metrictest.End()}
}

// busy is a log of ten minutes and a little more: a request of a each second,
// of b every tenth, whose every fifth is a 500 and takes 2 s instead of 1 s.
func busy(s style) []string {
	var lines []string
	for i := -30; i < 630; i++ {
		at := metrictest.Start().Add(time.Duration(i)*time.Second + 500*time.Millisecond)
		lines = append(lines, s.line(at, state.SlotA, 200, 0.5))
		if i%10 == 0 {
			status, took := 200, 1.0
			if i%50 == 0 {
				status, took = 500, 2
			}
			lines = append(lines, s.line(at, state.SlotB, status, took))
		}
		if i%100 == 3 {
			lines = append(lines, s.line(at, state.SlotA, 404, 0.5))
		}
	}
	return lines
}

func TestFigures(t *testing.T) {
	tests := []struct {
		text string
		a, b float64
	}{
		{"requests", 606, 60}, {"errors", 0, 12}, {"client_errors", 6, 0}, {" error_rate ", 0, 0.2},
		{"mean", 0.5, 1.2}, {"p50", 0.5, 1}, {"p80", 0.5, 1}, {"p81", 0.5, 1}, {"p82", 0.5, 2}, {"p95", 0.5, 2}, {"p99.9", 0.5, 2}, {"p1", 0.5, 1}, {"p0.1", 0.5, 1},
	}
	for _, s := range styles() {
		t.Run(s.name, func(t *testing.T) {
			sys := s.system(t, busy(s), nil)
			for _, tt := range tests {
				for i, a := range ask(t, sys, query(tt.text, state.SlotA), query(tt.text, state.SlotB)) {
					want := []float64{tt.a, tt.b}[i]
					if a.Err != nil || a.Partial || len(a.Warnings) > 0 || len(a.Points) != 1 || a.Points[0].Value != want {
						t.Errorf("%s: %v, error %v, warnings %q, want %v", tt.text, a.Points, a.Err, a.Warnings, want)
					}
				}
			}
		})
	}
}

func TestRefusedFigures(t *testing.T) {
	s := styles()[0]
	untimed := map[string]any{"format": `$msec $status $backend`}
	tests := []struct {
		text  string
		slot  state.Slot
		more  map[string]any
		steps time.Duration
		want  string
	}{
		{"", "a", nil, 0, "not a figure"}, {"p", "a", nil, 0, "not a figure"}, {"p0", "a", nil, 0, "not a figure"}, {"p100", "a", nil, 0, "not a figure"},
		{"p99.99", "a", nil, 0, "not a figure"}, {"p9.", "a", nil, 0, "not a figure"}, {"p-1", "a", nil, 0, "not a figure"}, {"p+1", "a", nil, 0, "not a figure"},
		{"pmax", "a", nil, 0, "not a figure"}, {"Requests", "a", nil, 0, "not a figure"},
		{"requests", "", nil, 0, `track "", expected a or b`},
		{"requests", "a", nil, 50 * time.Millisecond, "expected at most 11000"},
		{"requests", "a", nil, 11 * time.Minute, "expected one that holds a"}, {"requests", "a", nil, 431 * time.Second, "holds a whole step"},
		{"p95", "a", untimed, 0, "no durations"}, {"mean", "a", untimed, 0, "no durations"},
	}
	for _, tt := range tests {
		t.Run(tt.text+tt.want, func(t *testing.T) {
			q := query(tt.text, tt.slot)
			q.Step = tt.steps
			a := ask(t, s.system(t, nil, tt.more), q)[0]
			if providers.KindOf(a.Err) != providers.Invalid || !strings.Contains(a.Err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", a.Err, tt.want)
			}
		})
	}
}

// TestSeries: b has requests at the first second of minutes 1 and 3 and at
// the last of minute 5; the log, of which a is the rest, ends with minute 7.
func TestSeries(t *testing.T) {
	s := styles()[0]
	at := func(minute, second int) time.Time {
		return metrictest.Start().Add(time.Duration(minute)*time.Minute + time.Duration(second)*time.Second)
	}
	var lines []string
	for m := -1; m < 7; m++ {
		lines = append(lines, s.line(at(m, 30), state.SlotA, 200, 1))
	}
	lines = append(lines, s.line(at(1, 0), state.SlotB, 500, 1), s.line(at(3, 0), state.SlotB, 200, 1), s.line(at(5, 59), state.SlotB, 200, 3))
	sys := s.system(t, lines, nil)
	tests := []struct {
		text string
		slot state.Slot
		want string // value at the end of each minute from 1 to 10, - for a gap
	}{
		{"requests", "a", "1 1 1 1 1 1 1 - - -"},
		{"requests", "b", "0 1 0 1 0 1 - - - -"},
		{"errors", "b", "0 1 0 0 0 0 - - - -"},
		{"error_rate", "b", "- 1 - 0 - 0 - - - -"},
		{"mean", "b", "- 1 - 1 - 3 - - - -"},
		{"p95", "b", "- 1 - 1 - 3 - - - -"},
	}
	for _, tt := range tests {
		t.Run(tt.text+string(tt.slot), func(t *testing.T) {
			q := query(tt.text, tt.slot)
			q.Step = time.Minute
			a := ask(t, sys, q)[0]
			got := slices.Repeat([]string{"-"}, 10)
			for _, p := range a.Points {
				got[int(p.At.Sub(metrictest.Start())/time.Minute)-1] = fmt.Sprint(p.Value)
			}
			// The log is silent for three minutes at the end: not a fact, and told.
			if text := strings.Join(got, " "); a.Err != nil || text != tt.want || !a.Partial {
				t.Errorf("%s, error %v, partial %v, want %s", text, a.Err, a.Partial, tt.want)
			}
		})
	}
}

// TestReach: what a log says nothing about is neither 0 nor healthy.
func TestReach(t *testing.T) {
	s := styles()[0]
	at := func(minute int, slot state.Slot) string {
		return s.line(metrictest.Start().Add(time.Duration(minute)*time.Minute), slot, 200, 1)
	}
	ends := []string{at(-1, "a"), at(11, "a")}
	tests := []struct {
		name     string
		lines    []string
		text     string // asked of b
		want     float64
		noData   string // in the error; "" for a value
		partial  bool
		warnings string
	}{
		{"both serve", append(ends, at(1, "a"), at(2, "b")), "requests", 1, "", false, ""},
		{"b silent, its requests", append(ends, at(1, "a")), "requests", 0, "", false, ""},
		{"b silent, its errors", append(ends, at(1, "a")), "errors", 0, "no requests of slot b, 1 of slot a", false, ""},
		{"b silent, its client errors", append(ends, at(1, "a")), "client_errors", 0, "no requests of slot b", false, ""},
		{"b silent, its rate", append(ends, at(1, "a")), "error_rate", 0, "no requests of slot b", false, ""},
		{"b silent, its p95", append(ends, at(1, "a")), "p95", 0, "no requests of slot b", false, ""},
		{"b silent in a log that ends within", []string{at(-1, "a"), at(5, "a")}, "requests", 0, "", true, "ends at"},
		{"nobody serves", ends, "requests", 0, "no requests of either slot", false, ""},
		{"log ended before", []string{at(-9, "a"), at(-8, "b")}, "requests", 0, "has some from 2026-11-30T11:51:00Z to 2026-11-30T11:52:00Z", true, "ends at 2026-11-30T11:52:00Z, before the window does"},
		{"log begins after", []string{at(20, "a")}, "requests", 0, "no requests of either slot", true, "begins at 2026-11-30T12:20:00Z, after"},
		{"empty log", nil, "requests", 0, "has none at all", true, "has no readable requests"},
		{"begins within", []string{at(5, "a"), at(6, "b"), at(11, "a")}, "requests", 1, "", true, "begins at 2026-11-30T12:05:00Z, after the window does"},
		{"begins soon enough", []string{at(1, "a"), at(6, "b"), at(11, "a")}, "requests", 1, "", false, ""},
		{"ends within", []string{at(-1, "a"), at(1, "b"), at(5, "a")}, "error_rate", 0, "", true, "ends at 2026-11-30T12:05:00Z, before the window does"},
		{"only unknown tracks", append(ends, strings.Replace(at(5, "b"), "canary", "-", 1)), "requests", 0, "no requests of either slot", false, `1 requests of tracks that are no slot: "-" (1)`},
		{"other formats", append(ends, at(5, "b"), "a b c", "GET /secret?token=x"), "requests", 1, "", true, "has 2 unreadable lines of 3, one because: time is missing or not readable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := ask(t, s.system(t, tt.lines, nil), query(tt.text, state.SlotB))[0]
			switch {
			case tt.noData != "":
				if !errors.Is(a.Err, metric.ErrNoData) || !strings.Contains(a.Err.Error(), tt.noData) || len(a.Points) != 0 {
					t.Errorf("points %v, error %v, want no data and %q", a.Points, a.Err, tt.noData)
				}
			case a.Err != nil || len(a.Points) != 1 || a.Points[0].Value != tt.want:
				t.Errorf("points %v, error %v, want %v", a.Points, a.Err, tt.want)
			}
			said := strings.Join(a.Warnings, "\n")
			if a.Partial != tt.partial || !strings.Contains(said, tt.warnings) || (tt.warnings == "") != (said == "") {
				t.Errorf("partial %v, warnings %q, want %v and %q", a.Partial, a.Warnings, tt.partial, tt.warnings)
			}
			if strings.Contains(said, "secret") {
				t.Errorf("text of the log is in %q", said)
			}
		})
	}
}

func TestFewMalformedAreTolerated(t *testing.T) {
	s := styles()[1]
	lines := append(busy(s), s.garbage)
	slices.Sort(lines) // puts the broken line first
	lines[0], lines[300] = lines[300], lines[0]
	for limit, partial := range map[any]bool{nil: false, "0": true, "0.1": true, "0.2": false} {
		more := map[string]any{}
		if limit != nil {
			more["max_malformed"] = limit
		}
		a := ask(t, s.system(t, lines, more), query("requests", state.SlotA))[0]
		if a.Err != nil || a.Partial != partial || len(a.Warnings) != 1 {
			t.Errorf("limit %v: error %v, partial %v, warnings %q", limit, a.Err, a.Partial, a.Warnings)
		}
	}
}

// TestWindowsApart: queries of one call with windows of their own.
func TestWindowsApart(t *testing.T) {
	s := styles()[0]
	early, late, whole := query("requests", "a"), query("requests", "a"), query("requests", "a")
	early.To = early.From.Add(2 * time.Minute)
	late.From = late.To.Add(-time.Minute)
	late.Step = 30 * time.Second
	var got []float64
	for _, a := range ask(t, s.system(t, busy(s), nil), early, late, whole) {
		for _, p := range a.Points {
			got = append(got, p.Value)
		}
	}
	if want := []float64{122, 30, 30, 606}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestUnknownTracksAreBounded(t *testing.T) {
	s := styles()[0]
	lines := busy(s)
	for i := range 20 {
		lines = append(lines, strings.Replace(s.line(metrictest.Start().Add(time.Minute), "b", 200, 1), "canary", fmt.Sprintf("x%02d%s", i, strings.Repeat("y", 200)), 1))
	}
	a := ask(t, s.system(t, lines, nil), query("requests", state.SlotB))[0]
	if a.Err != nil || !a.Partial || len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], `"others" (15)`) || len(a.Warnings[0]) > 500 {
		t.Errorf("error %v, warnings %q", a.Err, a.Warnings)
	}
}

// TestOneReading: all queries of a call are answered from one pass.
func TestOneReading(t *testing.T) {
	s := styles()[2]
	lines := busy(s)
	sys := s.system(t, lines, nil)
	parse, parsed := sys.parse, 0
	sys.parse = func(line []byte) (accesslog.Entry, error) {
		parsed++
		return parse(line)
	}
	var queries []metric.Query
	for _, text := range []string{"requests", "errors", "p95", "mean"} {
		for _, slot := range []state.Slot{"a", "b"} {
			q := query(text, slot)
			series := q
			series.Step = time.Minute
			late := q
			late.From = late.To.Add(-time.Minute)
			queries = append(queries, q, series, late)
		}
	}
	for i, a := range ask(t, sys, queries...) {
		if a.Err != nil {
			t.Errorf("query %d: %v", i, a.Err)
		}
	}
	if parsed != len(lines) {
		t.Errorf("%d lines parsed of %d", parsed, len(lines))
	}
	if a := ask(t, sys, metric.Query{Text: "nonsense", From: metrictest.Start(), To: metrictest.End()}); a[0].Err == nil || parsed != len(lines) {
		t.Errorf("error %v, %d lines parsed for a refused query", a[0].Err, parsed-len(lines))
	}
}

// TestSeveralLogs: each host's log counts, and one that is dead is told.
func TestSeveralLogs(t *testing.T) {
	s := styles()[0]
	sys := s.system(t, busy(s), map[string]any{"files": []any{"*.log", "more/gone.log"}})
	write(t, filepath.Join(sys.dir, "host2.log"), busy(s))
	a := ask(t, sys, query("requests", state.SlotB))[0]
	if a.Err != nil || a.Points[0].Value != 120 || !a.Partial || !strings.Contains(a.Warnings[0], "gone.log has no readable requests") {
		t.Errorf("points %v, error %v, warnings %q", a.Points, a.Err, a.Warnings)
	}
	sys = s.system(t, nil, map[string]any{"files": "*.txt"})
	if a := ask(t, sys, query("requests", state.SlotB))[0]; !errors.Is(a.Err, metric.ErrNoData) || !a.Partial {
		t.Errorf("no log at all: points %v, error %v", a.Points, a.Err)
	}
}

func TestUnreadableLog(t *testing.T) {
	s := styles()[0]
	sys := s.system(t, busy(s), map[string]any{"files": "access.log,d.log"})
	if err := os.Mkdir(filepath.Join(sys.dir, "d.log"), 0o700); err != nil {
		t.Fatal(err)
	}
	answers, err := sys.Query(t.Context(), []metric.Query{query("requests", state.SlotA)})
	if answers != nil || err == nil || providers.KindOf(err) != providers.Unknown || !strings.Contains(err.Error(), "d.log is a directory") {
		t.Errorf("answers %v, error %v", answers, err)
	}
	for cause, want := range map[error]providers.Kind{fs.ErrPermission: providers.Denied, fs.ErrNotExist: providers.NotFound, fs.ErrClosed: providers.Unknown} {
		if got := kind(fmt.Errorf("open x: %w", cause)); got != want {
			t.Errorf("%v is %v, want %v", cause, got, want)
		}
	}
}

func TestSettings(t *testing.T) {
	with := func(more map[string]any) map[string]any {
		all := map[string]any{"files": "x", "format": canary, "track_field": "backend"}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
	tests := map[string]map[string]any{
		`setting "files" is missing`:        {"format": "json"},
		`files is empty`:                    with(map[string]any{"files": ""}),
		`track_field is missing`:            {"files": "x", "format": canary},
		`has its own fields`:                {"files": "x", "format": "proxy", "track_field": "v"},
		`no variables, expected nginx's`:    with(map[string]any{"format": "jsonn"}),
		`log format has no $backends`:       with(map[string]any{"track_field": "$backends"}),
		`log format has no $msec`:           with(map[string]any{"format": "$status $backend"}),
		`slot "c", expected a or b`:         with(map[string]any{"tracks": map[string]any{"x": "c"}}),
		`1 of the slots a and b`:            with(map[string]any{"tracks": map[string]any{"x": "a", "y": "a"}}),
		`max_silence: -1s`:                  with(map[string]any{"max_silence": "-1s"}),
		`max_malformed: 101`:                with(map[string]any{"max_malformed": 101}),
		`max_malformed: NaN`:                with(map[string]any{"max_malformed": "NaN"}),
		`expected one of s, ms, us, ns`:     with(map[string]any{"duration_unit": "min"}),
		`$request, which a client fills`:    with(map[string]any{"format": "$request $msec $status $backend"}),
		`unknown setting "trak_field", exp`: with(map[string]any{"trak_field": "x"}),
	}
	for want, settings := range tests {
		t.Run(want, func(t *testing.T) {
			sys, err := Spec().Build(providers.Env{}, settings)
			if sys != nil || providers.KindOf(err) != providers.Invalid || !strings.Contains(err.Error(), want) {
				t.Errorf("system %v, error %v, want %q in it", sys, err, want)
			}
		})
	}
}

// TestDefaultTime: the format's own variable of the time is found.
func TestDefaultTime(t *testing.T) {
	for format, line := range map[string]string{
		`[$time_local] $status $v`:       `[30/Nov/2026:13:05:00 +0100] 200 a`,
		`$time_iso8601 $status $v`:       `2026-11-30T12:05:00+00:00 200 a`,
		`$status $v $msec`:               `200 a 1796040300.000`,
		`$time_iso8601 $status $v $msec`: `nonsense 200 a 1796040300.000`,
	} {
		s := style{settings: map[string]any{"format": format, "track_field": "v"}}
		a := ask(t, s.system(t, []string{line}, nil), query("requests", state.SlotA))[0]
		if a.Err != nil || a.Points[0].Value != 1 {
			t.Errorf("%s: points %v, error %v", format, a.Points, a.Err)
		}
	}
}

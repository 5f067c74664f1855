package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/manent/action/cmd/internal/wire"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/gate"
)

func TestReadSeries(t *testing.T) {
	nan := math.NaN()
	for _, tc := range []struct {
		name, text string
		want       []float64
		says       string // of an error
	}{
		{"numbers", "1\n2.5\n-3e-2\n+4\n.5\n", []float64{1, 2.5, -0.03, 4, 0.5}, ""},
		{"no last newline", "1\n2", []float64{1, 2}, ""},
		{"of Windows", "\ufeff1\r\n\r\n2\r\n", []float64{1, nan, 2}, ""},
		{"gaps", "\nNaN\n nan \n\t\n", []float64{nan, nan, nan, nan}, ""},
		{"nothing", "", nil, ""},
		{"spaces", " 1 \n2\t\n", []float64{1, 2}, ""},
		{"too small to tell from 0", "1e-400\n", []float64{0}, ""},
		{"a word", "1\nx\n", nil, `f:2: "x" is no number`},
		{"a mark in the middle", "1\n\ufeff2\n", nil, "f:2: "},
		{"infinite", "Inf\n", nil, `f:1: "Inf" is infinite`},
		{"minus infinite", "1\n-infinity\n", nil, "f:2: "},
		{"out of range", "1e999\n", nil, `f:1: "1e999" is infinite`},
		{"two a line", "1 2\n", nil, "f:1: "},
		{"hexadecimal", "0x10\n", nil, "f:1: "},
		{"digits apart", "1_000\n", nil, "f:1: "},
		{"signed NaN", "-NaN\n", nil, "f:1: "},
		{"NA is no gap", "NA\n", nil, "f:1: "},
		{"binary", "\x00\x01\n", nil, "f:1: "},
		{"a long line", "1\n" + strings.Repeat("1", 5000), nil, "f:2: longer than 4 KiB"},
		{"a long text", strings.Repeat("1\n", 1<<19+1), nil, "f is larger than 1 MiB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := readSeries(strings.NewReader(tc.text), "f", 1<<20)
			if (err != nil) != (tc.says != "") || err != nil && (!strings.Contains(err.Error(), tc.says) || endingOfError(err).Code != exitUsage) {
				t.Fatalf("got error %v, expected a usage error with %q", err, tc.says)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever a file holds: no panic, no infinite figure, an error without figures.
func FuzzReadSeries(f *testing.F) {
	for _, seed := range []string{"1\n2\n", "\ufeffNaN\r\n", "1e999", "0x1p4", "\x00", strings.Repeat("9", 5000)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := readSeries(strings.NewReader(text), "f", 1<<20)
		if err != nil && got != nil {
			t.Fatalf("got %v with %v", got, err)
		}
		if slices.ContainsFunc(got, func(v float64) bool { return math.IsInf(v, 0) }) {
			t.Fatalf("%q gives %v", text, got)
		}
	})
}

func FuzzReadTable(f *testing.F) {
	f.Add("metric,track,time,value\nerrors,stable,1,2\n")
	f.Add("\ufeffvalue,time,track,metric,x\n1,2026-11-30T10:00:00Z,candidate,\"a\"\"b\",\n")
	f.Add("metric,track,time,value\nerrors,stable,1e11,\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := readTable(strings.NewReader(text), "f", 1<<20)
		if err != nil {
			if code := endingOfError(err).Code; code != exitUsage && code != exitUnsure {
				t.Fatalf("%q ends with %d: %v", text, code, err)
			}
			return
		}
		for metric, tracks := range got {
			for track, points := range tracks {
				if metric == "" || track != "candidate" && track != "stable" {
					t.Fatalf("%q has %q of %q", text, track, metric)
				}
				if !slices.IsSortedFunc(points, func(a, b instant) int { return a.at.Compare(b.at) }) {
					t.Fatalf("%q: %s of %s is not sorted", text, track, metric)
				}
			}
		}
	})
}

func TestParseInstant(t *testing.T) {
	want := time.Date(2026, 11, 30, 10, 0, 0, 250e6, time.UTC)
	for _, text := range []string{"2026-11-30T10:00:00.25Z", "2026-11-30T12:00:00.25+02:00", "1796032800.25", "1.79603280025e9"} {
		if got, err := parseInstant(text); err != nil || !got.Equal(want) {
			t.Errorf("%s: got %v, %v, expected %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "now", "-1", "NaN", "Inf", "1796032800250", "2026-11-30", "2026-11-30 10:00:00", "0x10"} {
		if got, err := parseInstant(text); err == nil {
			t.Errorf("%q: got %v, expected an error", text, got)
		}
	}
}

// A table that a reader has to hold whole is bounded.
func TestTableIsBounded(t *testing.T) {
	row := "errors,stable,1,1\n"
	_, err := readTable(strings.NewReader("metric,track,time,value\n"+strings.Repeat(row, 1<<20/len(row))), "f", 1<<20)
	if err == nil || err.Error() != "f is larger than 1 MiB, which is no series of points" {
		t.Errorf("got %v", err)
	}
	_, err = readTable(strings.NewReader("metric,track,time,value\n\""+strings.Repeat("a", 5000)), "f", 1<<20)
	if err == nil || !strings.Contains(err.Error(), "longer than 4 KiB") {
		t.Errorf("got %v", err)
	}
	_, err = readTable(strings.NewReader("metric,track,time,value\nerr\x1b[2Jors,stable,1,1\n"), "f", 1<<20)
	if err == nil || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("got %v, expected an error that does not clear the screen", err)
	}
}

// Each verdict has one exit code, and only green is a pass.
func TestVerdictsOfJudge(t *testing.T) {
	for verdict, want := range map[gate.Verdict]struct {
		word string
		code int
	}{
		gate.Green: {"pass", 0}, gate.Red: {"fail", exitFailed},
		gate.Thin: {"inconclusive", exitNotYet}, gate.Ungated: {"inconclusive", exitNotYet}, gate.Void: {"inconclusive", exitNotYet},
		gate.Error: {"error", exitUnsure}, "surprise": {"error", exitUnsure}, "": {"error", exitUnsure},
	} {
		got := endingOf(*verdictOutcome(verdict, "because"))
		if verdictWord(verdict) != want.word || got.Code != want.code {
			t.Errorf("%q is %q and ends with %d, expected %q and %d", verdict, verdictWord(verdict), got.Code, want.word, want.code)
		}
		if want.code != 0 && !strings.HasSuffix(got.Message, "because") {
			t.Errorf("%q: message %q has no reason", verdict, got.Message)
		}
	}
}

// A replay ends as its last reading that evaluated something, and one that
// differs anywhere is an error.
func TestReplayed(t *testing.T) {
	at := func(n int) time.Time { return time.Date(2026, 11, 30, 10, n, 0, 0, time.UTC) }
	void := stored{"25% reading 1", gate.Record{Stage: "25%", N: 1, At: at(1), Verdict: gate.Void, Reason: "drift"}}
	ungated := stored{"25% reading 2", gate.Record{Stage: "25%", N: 2, At: at(2), Verdict: gate.Ungated}}
	green := stored{"25% reading 3", gate.Record{Stage: "25%", N: 3, At: at(3), Verdict: gate.Green}} // holds nothing that is
	unseen := stored{"25% reading 4", gate.Record{
		Stage: "25%", N: 4, At: at(4), Verdict: gate.Error, Share: 25,
		Health:  config.Health{Metrics: []config.Metric{{Name: "errors"}}},
		Metrics: []gate.MetricResult{{Name: "errors", Result: gate.Errored}},
	}}
	passed := unseen
	passed.Metrics = []gate.MetricResult{{Name: "errors", Result: gate.Pass}}
	for _, tc := range []struct {
		name     string
		readings []stored
		code     int
		verdict  string
	}{
		{"void", []stored{void}, exitNotYet, "inconclusive"},
		{"ungated", []stored{void, ungated}, exitNotYet, "inconclusive"},
		{"could not be seen", []stored{void, unseen}, exitUnsure, "error"},
		{"the last that evaluated something counts", []stored{unseen, ungated}, exitUnsure, "error"},
		{"green over nothing", []stored{green}, exitUnsure, "error"},
		{"one before the last differs", []stored{green, ungated}, exitUnsure, "error"},
		{"a metric differs", []stored{passed}, exitUnsure, "error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := replayed(tc.readings)
			doc := v.JSON.(judgeJSON)
			if got := endingOf(*v.Outcome); got.Code != tc.code || doc.Verdict != tc.verdict || len(doc.Readings) != len(tc.readings) {
				t.Errorf("got %d %q, %s with %d readings, expected %d and %s", got.Code, got.Message, doc.Verdict, len(doc.Readings), tc.code, tc.verdict)
			}
		})
	}
}

// A reading of a file is from anybody: what none can hold is refused before it
// is computed with.
func TestImplausibleReadings(t *testing.T) {
	begin := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	side := func(window, step time.Duration) *gate.Side {
		return &gate.Side{State: gate.NoData, From: begin, To: begin.Add(window), Step: step}
	}
	seen := func(from, to time.Time, step time.Duration) *gate.Side {
		s := side(time.Hour, time.Second)
		s.Seen = &gate.Window{From: from, To: to, Step: step}
		return s
	}
	const days = 24 * time.Hour
	ever := &gate.Side{State: gate.NoData, From: time.Time{}.Add(time.Second), To: time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC), Step: time.Millisecond}
	for _, tc := range []struct {
		name string
		rec  gate.Record
		says string // of an error
	}{
		{"usual", gate.Record{Metrics: []gate.MetricResult{{Candidate: side(time.Hour, time.Second), Stable: seen(begin, begin.Add(time.Hour), 0)}}}, ""},
		{"not asked", gate.Record{Metrics: []gate.MetricResult{{Candidate: side(-time.Hour, 0)}}}, ""},
		{"400 days", gate.Record{Metrics: []gate.MetricResult{{Candidate: side(400*days, time.Second)}}}, ""},
		{"longer", gate.Record{Metrics: []gate.MetricResult{{Name: "errors", Candidate: side(400*days+1, time.Second)}}}, `no reading: metric "errors": the window from 2026-11-30T10:00:00Z to 2028-01-04T10:00:00Z is longer than 400 days`},
		{"since ever", gate.Record{Metrics: []gate.MetricResult{{Candidate: ever}}}, "longer than 400 days"},
		{"of the stable", gate.Record{Metrics: []gate.MetricResult{{Stable: ever}}}, "longer than 400 days"},
		{"of the samples", gate.Record{Metrics: []gate.MetricResult{{Samples: &gate.Samples{Candidate: ever}}}}, "longer than 400 days"},
		{"of the stable's samples", gate.Record{Metrics: []gate.MetricResult{{Samples: &gate.Samples{Stable: ever}}}}, "longer than 400 days"},
		{"evaluated since ever", gate.Record{Metrics: []gate.MetricResult{{Candidate: seen(time.Time{}, begin, time.Second)}}}, "longer than 400 days"},
		{"evaluated for ever", gate.Record{Metrics: []gate.MetricResult{{Candidate: seen(begin, ever.To, time.Second)}}}, "longer than 400 days"},
		{"step below 0", gate.Record{Metrics: []gate.MetricResult{{Candidate: side(time.Hour, -1)}}}, "step is -1ns, expected 0 or more"},
		{"evaluated step below 0", gate.Record{Metrics: []gate.MetricResult{{Candidate: seen(begin, begin, -time.Second)}}}, "step is -1s, expected 0 or more"},
		{"1,000 metrics", gate.Record{Metrics: make([]gate.MetricResult, 1000), Health: config.Health{Metrics: make([]config.Metric, 1000)}}, ""},
		{"more results", gate.Record{Metrics: make([]gate.MetricResult, 1001)}, "it has 1001 metrics, expected at most 1000"},
		{"more rules", gate.Record{Health: config.Health{Metrics: make([]config.Metric, 1001)}}, "it has 1001 metrics, expected at most 1000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.rec.At, tc.rec.Verdict = begin, gate.Green
			data, err := json.Marshal(tc.rec)
			if err != nil {
				t.Fatal(err)
			}
			_, err = recordOf(data)
			if (err != nil) != (tc.says != "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, expected %q", err, tc.says)
			}
		})
	}
}

// A message holds few of many reasons and says how many it leaves out.
func TestMessagesOfManyMetrics(t *testing.T) {
	reasons := func(n int) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf("metric m%d: worse; much", i+1)
		}
		return strings.Join(parts, "; ")
	}
	for n, want := range map[int]string{
		1: reasons(1), 5: reasons(5), 6: reasons(5) + ", and 1 more", 1000: reasons(5) + ", and 995 more",
	} {
		if got := verdictOutcome(gate.Red, reasons(n)).Message; got != want {
			t.Errorf("%d reasons: got %q, expected %q", n, got, want)
		}
	}
	many := gate.Record{Verdict: gate.Red, Metrics: slices.Repeat([]gate.MetricResult{{Name: "m", Result: gate.Fail}}, 9)}
	if got, want := differing(many), "red, m fail, m fail, m fail, m fail, and 5 more"; got != want {
		t.Errorf("got %q, expected %q", got, want)
	}
}

// What is wrong with a log beyond the limit keeps it from being judged; up to
// it, it is said.
func TestDoubts(t *testing.T) {
	track := func(requests, abandoned int) gate.Track {
		return gate.Track{Requests: requests, Abandoned: abandoned}
	}
	for _, tc := range []struct {
		name     string
		seen     wire.LogCount
		warnings int
		doubted  bool
	}{
		{"nothing", wire.LogCount{}, 0, false},
		{"fine", wire.LogCount{Lines: 200, Requests: 200, Candidate: track(100, 0), Stable: track(100, 0)}, 0, false},
		{"1 % unreadable", wire.LogCount{Lines: 200, Malformed: 2}, 1, false},
		{"more than 1 %", wire.LogCount{Lines: 199, Malformed: 2}, 0, true},
		{"1 % of others", wire.LogCount{Requests: 200, Strays: 2}, 1, false},
		{"more than 1 % of others", wire.LogCount{Requests: 199, Strays: 2}, 0, true},
		{"1 % without a track", wire.LogCount{Requests: 200, Untracked: track(1, 1)}, 1, false},
		{"more than 1 % without a track", wire.LogCount{Requests: 199, Untracked: track(1, 1)}, 0, true},
		{"none has a track", wire.LogCount{Requests: 9, Untracked: track(9, 0)}, 0, true},
		{"others, and without a track", wire.LogCount{Requests: 9, Strays: 4, Untracked: track(5, 0)}, 1, true},
		{"half abandoned", wire.LogCount{Candidate: track(9, 9)}, 0, false},
		{"more than half", wire.LogCount{Candidate: track(9, 10)}, 0, true},
		{"more than half of the stable", wire.LogCount{Stable: track(0, 1)}, 0, true},
		{"too long", wire.LogCount{Lines: 9, Cut: true}, 0, true},
		{"large, and no line", wire.LogCount{Size: 1 << 20}, 0, true},
		{"small, the first line unfinished", wire.LogCount{Size: 50}, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			warnings, much := (&logFlags{maxMalformed: 1}).doubts(tc.seen)
			if len(warnings) != tc.warnings || (much != nil) != tc.doubted {
				t.Errorf("got %q and %v, expected %d warnings, doubted %v", warnings, much, tc.warnings, tc.doubted)
			}
		})
	}
}

// Every flag of judge belongs to a way to judge, so that none is left unheeded.
func TestEveryFlagOfJudgeBelongsToAWay(t *testing.T) {
	cmd, _, err := testApp(t).root().Find([]string{"judge"})
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, w := range judgeWays() {
		known = append(known, slices.Concat(w.choose, w.also)...)
	}
	for _, name := range known {
		if cmd.Flags().Lookup(name) == nil {
			t.Errorf("there is no flag --%s", name)
		}
	}
	for _, line := range strings.Split(cmd.LocalFlags().FlagUsages(), "\n") {
		_, rest, ok := strings.Cut(line, "--")
		name := strings.Fields(rest + " .")[0]
		if ok && !slices.Contains(known, name) {
			t.Errorf("--%s belongs to no way to judge", name)
		}
	}
}

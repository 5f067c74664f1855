package gate

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/analysis"
	"github.com/manent/action/providers/metric"
	"github.com/manent/action/runner/config"
)

// sequentialReading judges counters at the end of a stage of ten minutes.
func sequentialReading(course Course, bad, stable metric.Answer, all [2]metric.Answer) MetricResult {
	m := errorRatio()
	counts(&m)
	s := subject(true)
	s.Course = course
	return Judge(config.Health{Metrics: []config.Metric{m}}, s, Answers{
		"errors/candidate": bad, "errors/stable": stable, "errors/samples/candidate": all[0], "errors/samples/stable": all[1],
	}, nil).Metrics[0]
}

// still stops growing after two steps.
func still(steps ...float64) metric.Answer {
	return growing(100, append(steps, make([]float64, 8)...)...)
}

// busy grows by so much each minute for ten minutes.
func busy(by float64) metric.Answer {
	return growing(1000, by, by, by, by, by, by, by, by, by, by)
}

// What looks like a pass, and is none: nobody saw the end of the stage, or the
// stage itself.
func TestCountersThatSayNothing(t *testing.T) {
	quiet := busy(0)
	fell := each(1000, 1100, 0, 100, 0, 100, 0, 100, 0, 100, 200)
	earlier, err := json.Marshal(memory{"errors": {Of: ofErrors(), Until: noon(), Blocks: 10, Sums: sums(10, 1000, 90, 9000)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		course Course
		all    [2]metric.Answer
		want   string
	}{
		{"the candidate fell silent", Course{}, [2]metric.Answer{still(100, 100), busy(900)}, "the candidate has had no event since 12:02:00Z"},
		{"the stable fell silent", Course{}, [2]metric.Answer{busy(100), still(900, 900)}, "the stable has had no event since 12:02:00Z"},
		{"half of the time is left out", Course{}, [2]metric.Answer{fell, busy(900)}, "of the time are left out"},
		{"one request, much traffic in the stage before", Course{Stages: 2, Earlier: []json.RawMessage{earlier}}, [2]metric.Answer{growing(7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1), busy(900)}, "too few events"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := sequentialReading(tt.course, quiet, quiet, tt.all)
			if got.Result != Inconclusive || !strings.Contains(got.Reason, tt.want) {
				t.Errorf("%s: %s, expected inconclusive with %q", got.Result, got.Reason, tt.want)
			}
		})
	}
}

func sums(candidateBad, candidateAll, stableBad, stableAll float64) analysis.Sums {
	return analysis.Sums{}.Add(analysis.Counts{CandidateBad: candidateBad, CandidateAll: candidateAll, StableBad: stableBad, StableAll: stableAll}, 1)
}

func ofErrors() string {
	m := errorRatio()
	counts(&m)
	return subjectOf(m)
}

// A memory is a document from outside: what cannot be true is an error, and
// stays one.
func TestForgedMemory(t *testing.T) {
	good := counted{Of: ofErrors(), Until: minute(5), Blocks: 5, Sums: sums(5, 500, 45, 4500), CandidateGrew: minute(5), StableGrew: minute(5)}
	encode := func(c counted) string {
		data, err := json.Marshal(memory{"errors": c})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	changed := func(change func(*counted)) string {
		c := good
		change(&c)
		return encode(c)
	}
	for name, text := range map[string]string{
		"counted in the future":      changed(func(c *counted) { c.Until = minute(60) }),
		"grown after it was read":    changed(func(c *counted) { c.StableGrew = minute(9) }),
		"more bad than all":          changed(func(c *counted) { c.Sums.CandidateBad = 501 }),
		"less than nothing":          changed(func(c *counted) { c.Sums.StableAll = -1 }),
		"gains that forgive":         changed(func(c *counted) { c.Sums.Gains[0] = -1e300 }),
		"negative evidence":          changed(func(c *counted) { c.Peak = -1 }),
		"fewer gains":                strings.Replace(encode(good), `"gains":[`, `"gains":[0,`, 1),
		"not an object":              `[]`,
		"a fall of less than none":   changed(func(c *counted) { c.CandidateFell = -1 }),
		"time left out, less than 0": changed(func(c *counted) { c.Lost = -time.Second }),
	} {
		t.Run(name, func(t *testing.T) {
			got := sequentialReading(Course{Memory: json.RawMessage(text)}, busy(1), busy(9), [2]metric.Answer{busy(100), busy(900)})
			if got.Result != Errored || !strings.Contains(got.Reason, "memory") {
				t.Errorf("%s: %s, expected an error of the memory", got.Result, got.Reason)
			}
		})
	}
	got := sequentialReading(Course{Memory: json.RawMessage(encode(good))}, busy(1), busy(9), [2]metric.Answer{busy(100), busy(900)})
	if got.Result != Pass || got.Statistics.Counts.CandidateAll != 1000 {
		t.Errorf("%s: %s, expected a pass of 1000 requests", got.Result, got.Reason)
	}
}

// Sums of another query or ratio say nothing of this one: counting begins anew.
func TestMemoryOfAnotherQuestion(t *testing.T) {
	other := counted{Of: "another", Until: minute(5), Blocks: 5, Sums: sums(5, 500, 45, 4500), Peak: 100}
	data, err := json.Marshal(memory{"errors": other})
	if err != nil {
		t.Fatal(err)
	}
	got := sequentialReading(Course{Memory: data, Earlier: []json.RawMessage{data}}, busy(1), busy(9), [2]metric.Answer{busy(100), busy(900)})
	if got.Result != Pass || got.Statistics.Counts.CandidateAll != 1000 {
		t.Errorf("%s: %s, expected a pass of the 1000 requests since the share was in force", got.Result, got.Reason)
	}
}

// The order and the place of points are the system's to keep and the gate's to
// check.
func TestPointsOutOfOrder(t *testing.T) {
	steady := each(.01, .012, .009, .011, .01, .013, .008, .01, .012, .009)
	twice := steady
	twice.Points = append(append([]metric.Point{}, steady.Points...), steady.Points[9])
	late := from(9, .01, .01, .01, .01, .01, .01)
	finer := steady
	finer.From, finer.To, finer.Step = minute(1), minute(10), 15*time.Second
	for name, answer := range map[string]metric.Answer{"a time twice": twice, "after the window": late, "a finer step than asked for": finer} {
		r := situation{change: ranks, candidate: answer, stable: steady}.judge(true)
		if got := r.Metrics[0]; got.Result != Errored {
			t.Errorf("%s: %s, %s, expected an error", name, got.Result, got.Reason)
		}
	}
	future := situation{candidate: was(0.01, 60), stable: is(0.01), requests: worked()}.judge(true)
	if got := future.Metrics[0]; got.Result != Errored {
		t.Errorf("a value of the future: %s, %s, expected an error", got.Result, got.Reason)
	}
}

// A stored reading decides nothing about memory.
func TestReadingOfAges(t *testing.T) {
	r := situation{change: func(m *config.Metric) { ranks(m); m.Empty, m.SamplesQuery = "zero", "n" }, candidate: metric.Answer{Err: metric.ErrNoData}, stable: is(0.01), requests: worked()}.judge(true)
	side := r.Metrics[0].Candidate
	side.From, side.To, side.Step = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC), time.Millisecond
	if got := Replay(r); got.Verdict == Green {
		t.Errorf("%s: %s", got.Verdict, got.Reason)
	}
}

// Nothing that passed is never green, whatever the score may be.
func TestNothingPassedIsNotGreen(t *testing.T) {
	r := Record{Health: config.Health{Analysis: &config.Analysis{}}, Metrics: []MetricResult{{Name: "errors", Result: Fail, Weight: 1}}}
	r.Score = score(r)
	if verdict, why := verdict(r); verdict == Green || verdict == Ungated {
		t.Errorf("%s: %s", verdict, why)
	}
}

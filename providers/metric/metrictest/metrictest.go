// Package metrictest is the conformance suite of metric systems: every
// implementation passes it against a stand-in of its system. It must not know
// any system; a test says through Setup how a scene is put into one.
package metrictest

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/manent/action/providers/metric"
	"github.com/manent/action/state"
)

// Series is one series that the system holds.
type Series struct {
	Labels map[string]string
	Points []metric.Point // at ends of steps; a step without one is a gap
}

// Scene is what a stand-in holds and how it behaves.
type Scene struct {
	Series  map[state.Slot][]Series // by track; a track without any is unknown to the system
	Partial bool                    // the system says with its answers that data are missing
	Failure *Failure                // what every request meets instead of an answer
}

// Subject is a fresh system in front of a scene.
type Subject struct {
	System metric.System
	Text   func(track state.Slot) string // a query for the series of that track
	Bad    string                        // a query that the system refuses as wrong
	Secret string                        // the credential it was given, "" for none
}

// Feature is something that not every system can show.
type Feature string

// The features.
const (
	NaN      Feature = "NaN and infinite values"
	Several  Feature = "several series"
	Partial  Feature = "answers marked as partial"
	Failures Feature = "failures of a server"
)

// Suite is how to test one system.
type Suite struct {
	// Setup puts a scene behind a fresh system. It is called anew for each
	// subtest.
	Setup func(t *testing.T, scene Scene) Subject
	// Without holds what the system cannot show, each with the reason.
	Without map[Feature]string
}

// The scene's clock: every window lies within one hour after Start.
const (
	minutes = 10
	step    = time.Minute
)

// Start is the beginning of every window the suite asks for, but for one that
// is off the grid.
func Start() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

// End is the end of every window.
func End() time.Time { return Start().Add(minutes * step) }

// Run runs the suite.
func Run(t *testing.T, s Suite) {
	t.Helper()
	t.Run("one value", s.oneValue)
	t.Run("zero is a value", s.zero)
	t.Run("a series keeps its gaps", s.series)
	t.Run("no data is not zero", s.noData)
	t.Run("one track silent", s.silentTrack)
	t.Run("order and identity", s.order)
	t.Run("window as evaluated", s.window)
	t.Run("impossible windows", s.badWindow)
	t.Run("a refused query spoils no other", s.refused)
	t.Run("no queries", s.nothing)
	t.Run("cancelled before", s.cancelled)
	s.with(t, NaN, "NaN and infinity pass", s.special)
	s.with(t, Several, "several series", s.several)
	s.with(t, Partial, "partial answers are flagged", s.partial)
	s.with(t, Failures, "failures", s.failures)
	s.with(t, Failures, "recovers within one reading", s.recovers)
	s.with(t, Failures, "cancelled during", s.cancelledDuring)
}

func (s Suite) with(t *testing.T, f Feature, name string, test func(*testing.T)) {
	t.Helper()
	reason, lacks := s.Without[f]
	if lacks && reason == "" {
		t.Errorf("suite left %q out without a reason", f)
	}
	if !lacks {
		t.Run(name, test)
	}
}

// one is a scene with a single value at the end of the window.
func one(track state.Slot, v float64) Scene {
	return Scene{Series: map[state.Slot][]Series{track: {{Points: []metric.Point{{At: End(), Value: v}}}}}}
}

// instant asks for one value, ranged for a series.
func instant(sub Subject, id string, track state.Slot) metric.Query {
	return metric.Query{ID: id, Text: sub.Text(track), Track: track, From: Start(), To: End()}
}

func ranged(sub Subject, id string, track state.Slot) metric.Query {
	q := instant(sub, id, track)
	q.Step = step
	return q
}

// ask expects one answer for each query, under its identity.
func ask(t *testing.T, sub Subject, queries ...metric.Query) []metric.Answer {
	t.Helper()
	answers, err := sub.System.Query(t.Context(), queries)
	if err != nil {
		t.Fatalf("call failed: %v", err)
	}
	if len(answers) != len(queries) {
		t.Fatalf("%d answers to %d queries", len(answers), len(queries))
	}
	if !slices.EqualFunc(answers, queries, func(a metric.Answer, q metric.Query) bool { return a.ID == q.ID }) {
		t.Fatalf("answers %+v not in the order of the queries %+v", answers, queries)
	}
	return answers
}

// expect compares an answer that must be there and whole.
func expect(t *testing.T, a metric.Answer, want ...metric.Point) {
	t.Helper()
	if a.Err != nil || a.Partial {
		t.Fatalf("%s: error %v, partial %v, want a whole answer", a.ID, a.Err, a.Partial)
	}
	if a.Resolved == "" {
		t.Errorf("%s: the query as sent is missing", a.ID)
	}
	if !slices.EqualFunc(a.Points, want, same) {
		t.Fatalf("%s: %v, want %v", a.ID, a.Points, want)
	}
}

func same(a, b metric.Point) bool {
	return a.At.Equal(b.At) && (a.Value == b.Value || (math.IsNaN(a.Value) && math.IsNaN(b.Value)))
}

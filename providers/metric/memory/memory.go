// Package memory is a metric system whose answers a test decides. It stands
// in for a real one wherever rollouts are tested; it must not know a language
// of queries, and no configuration can name it.
package memory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/metric"
)

var _ metric.System = (*System)(nil)

const name = "memory"

// System answers from functions. Set the fields before the first call; it may
// then be used from several goroutines.
type System struct {
	// Answer gives the answer to one query; Value, Points, NoData and Select
	// make one. What it leaves empty of ID, Resolved, From, To and Step is
	// filled from the query.
	Answer func(metric.Query) metric.Answer

	// Before is called with the number of the call, from 1, and may fail the
	// whole call, block, or panic. It may be nil.
	Before func(ctx context.Context, call int, queries []metric.Query) error

	mu    sync.Mutex
	calls [][]metric.Query
}

// New returns a system that answers with answer.
func New(answer func(metric.Query) metric.Answer) *System { return &System{Answer: answer} }

// Calls returns the queries of all calls so far, in order.
func (s *System) Calls() [][]metric.Query {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Query implements metric.System.
func (s *System) Query(ctx context.Context, queries []metric.Query) ([]metric.Answer, error) {
	s.mu.Lock()
	s.calls = append(s.calls, slices.Clone(queries))
	call := len(s.calls)
	s.mu.Unlock()
	if s.Before != nil {
		if err := s.Before(ctx, call, queries); err != nil {
			return nil, err
		}
	}
	answers := make([]metric.Answer, 0, len(queries))
	for _, q := range queries {
		if err := ctx.Err(); err != nil {
			return nil, &providers.Fault{Provider: name, Op: "query", Err: err}
		}
		answers = append(answers, s.one(q))
	}
	return answers, nil
}

func (s *System) one(q metric.Query) metric.Answer {
	from, to, err := metric.Align(q)
	if err != nil {
		return metric.Answer{ID: q.ID, Err: refuse(q, err)}
	}
	a := s.Answer(q)
	a.ID = q.ID
	if a.Resolved == "" {
		a.Resolved = q.Text
	}
	if a.From.IsZero() && a.To.IsZero() {
		a.From, a.To, a.Step = from, to, q.Step
	}
	return a
}

func refuse(q metric.Query, err error) error {
	return &providers.Fault{Provider: name, Op: fmt.Sprintf("query %q", q.Text), Kind: providers.Invalid, Err: err}
}

// Value is the answer of one value at the end of the window.
func Value(q metric.Query, v float64) metric.Answer {
	return metric.Answer{Points: []metric.Point{{At: q.To, Value: v}}}
}

// Points is a series on the grid of the query: of(n, at) for the nth instant
// of the window from 0; false leaves a gap.
func Points(q metric.Query, of func(n int, at time.Time) (float64, bool)) metric.Answer {
	from, to, err := metric.Align(q)
	if err != nil || q.Step == 0 {
		return Refused(q, "expected a series")
	}
	var points []metric.Point
	for n, at := 0, from; !at.After(to); n, at = n+1, at.Add(q.Step) {
		if v, ok := of(n, at); ok {
			points = append(points, metric.Point{At: at, Value: v})
		}
	}
	if len(points) == 0 {
		return NoData()
	}
	return metric.Answer{Points: points}
}

// NoData is the answer of a system that has nothing.
func NoData() metric.Answer { return metric.Answer{Err: metric.ErrNoData} }

// Refused is the answer to a query that is wrong.
func Refused(q metric.Query, why string) metric.Answer {
	return metric.Answer{Err: refuse(q, errors.New(why))}
}

// Failed is the answer of a system that failed in a given way.
func Failed(kind providers.Kind, why string) metric.Answer {
	return metric.Answer{Err: &providers.Fault{Provider: name, Op: "query", Kind: kind, Err: errors.New(why)}}
}

// Series is one stored series.
type Series struct {
	Labels map[string]string
	Points []metric.Point // oldest first
}

// Select answers a query from stored series as a real system would: the point
// at the end of the window for one value, those on the grid for a series.
func Select(q metric.Query, stored ...Series) metric.Answer {
	var found []metric.Point
	var labels []string
	for _, s := range stored {
		if points := within(q, s.Points); len(points) > 0 {
			found, labels = points, append(labels, text(s.Labels))
		}
	}
	switch len(labels) {
	case 0:
		return NoData()
	case 1:
		return metric.Answer{Points: found}
	}
	return metric.Answer{Err: refuse(q, fmt.Errorf("%w: %s", metric.ErrSeveral, strings.Join(labels, ", ")))}
}

func within(q metric.Query, points []metric.Point) []metric.Point {
	from, to, err := metric.Align(q)
	if err != nil {
		return nil
	}
	var out []metric.Point
	for _, p := range points {
		if q.Step == 0 && p.At.Equal(to) {
			return []metric.Point{p}
		}
		if q.Step != 0 && !p.At.Before(from) && !p.At.After(to) && p.At.Sub(from)%q.Step == 0 {
			out = append(out, p)
		}
	}
	return out
}

func text(labels map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, fmt.Sprintf("%s=%q", k, labels[k]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

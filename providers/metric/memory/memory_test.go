package memory

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/metric"
	"github.com/manent/action/providers/metric/metrictest"
	"github.com/manent/action/state"
)

func TestConformance(t *testing.T) {
	metrictest.Run(t, metrictest.Suite{
		Setup:   setup,
		Without: map[metrictest.Feature]string{metrictest.Failures: "there is no server in between"},
	})
}

func setup(_ *testing.T, scene metrictest.Scene) metrictest.Subject {
	const bad = "bad("
	s := New(func(q metric.Query) metric.Answer {
		if q.Text == bad {
			return Refused(q, "unclosed parenthesis")
		}
		var stored []Series
		for _, series := range scene.Series[q.Track] {
			stored = append(stored, Series(series))
		}
		a := Select(q, stored...)
		if scene.Partial {
			a.Partial, a.Warnings = true, []string{"one store did not answer"}
		}
		return a
	})
	return metrictest.Subject{System: s, Text: func(track state.Slot) string { return "q " + string(track) }, Bad: bad}
}

func TestFaultHook(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := New(func(q metric.Query) metric.Answer { return Value(q, 1) })
	s.Before = func(ctx context.Context, call int, _ []metric.Query) error {
		if call == 1 {
			return Failed(providers.Throttled, "slow down").Err
		}
		cancel()
		<-ctx.Done()
		return nil
	}
	queries := []metric.Query{{From: time.Unix(0, 0), To: time.Unix(60, 0)}}
	if answers, err := s.Query(ctx, queries); providers.KindOf(err) != providers.Throttled || answers != nil {
		t.Errorf("answers %v, error %v, want the hook's fault", answers, err)
	}
	if answers, err := s.Query(ctx, queries); !errors.Is(err, context.Canceled) || answers != nil {
		t.Errorf("answers %v, error %v, want %v", answers, err, context.Canceled)
	}
}

func TestPoints(t *testing.T) {
	at := time.Unix(600, 0)
	q := metric.Query{ID: "q", From: at.Add(-time.Minute), To: at, Step: 15 * time.Second}
	a := Points(q, func(n int, _ time.Time) (float64, bool) { return float64(n), n != 1 })
	if len(a.Points) != 4 || a.Points[0].Value != 0 || a.Points[1].Value != 2 || !a.Points[3].At.Equal(at) {
		t.Errorf("points %v, want instants 0, 2, 3 and 4 up to %v", a.Points, at)
	}
	if a := Points(q, func(int, time.Time) (float64, bool) { return 1, false }); !errors.Is(a.Err, metric.ErrNoData) {
		t.Errorf("error %v, want %v", a.Err, metric.ErrNoData)
	}
	q.Step = 0
	if a := Points(q, nil); providers.KindOf(a.Err) != providers.Invalid {
		t.Errorf("error %v, want a refusal of a series for one value", a.Err)
	}
}

func TestSelectIsOnTheGrid(t *testing.T) {
	at := func(s int64) metric.Point { return metric.Point{At: time.Unix(s, 0), Value: float64(s)} }
	q := metric.Query{From: time.Unix(0, 0), To: time.Unix(60, 0), Step: 15 * time.Second}
	a := Select(q, Series{Points: []metric.Point{at(-15), at(0), at(7), at(15), at(60), at(75)}})
	if len(a.Points) != 3 || a.Points[0] != at(0) || a.Points[1] != at(15) || a.Points[2] != at(60) {
		t.Errorf("points %v, want those at 0, 15 and 60 s", a.Points)
	}
}

func TestCallsAreKept(t *testing.T) {
	s := New(func(q metric.Query) metric.Answer { return Value(q, 1) })
	s.Before = func(_ context.Context, call int, _ []metric.Query) error {
		if call == 2 {
			return errors.New("down")
		}
		return nil
	}
	q := metric.Query{ID: "x", From: time.Unix(0, 0), To: time.Unix(60, 0)}
	for call := 1; call <= 2; call++ {
		if _, err := s.Query(t.Context(), []metric.Query{q}); (err != nil) != (call == 2) {
			t.Errorf("call %d: error %v", call, err)
		}
	}
	if calls := s.Calls(); len(calls) != 2 || calls[1][0].ID != "x" {
		t.Errorf("calls %v, want both with their query", calls)
	}
}

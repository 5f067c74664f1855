package metrictest

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/metric"
	"github.com/manent/action/state"
)

func (s Suite) oneValue(t *testing.T) {
	sub := s.Setup(t, one(state.SlotA, 0.25))
	expect(t, ask(t, sub, instant(sub, "q", state.SlotA))[0], metric.Point{At: End(), Value: 0.25})
}

func (s Suite) zero(t *testing.T) {
	sub := s.Setup(t, one(state.SlotA, 0))
	answers := ask(t, sub, instant(sub, "one", state.SlotA), ranged(sub, "series", state.SlotA))
	for _, a := range answers {
		expect(t, a, metric.Point{At: End(), Value: 0})
	}
}

func (s Suite) series(t *testing.T) {
	var points []metric.Point
	for i := 1; i <= minutes; i++ {
		if i == 4 || i == 5 || i == 8 {
			continue
		}
		points = append(points, metric.Point{At: Start().Add(time.Duration(i) * step), Value: float64(i) / 8})
	}
	sub := s.Setup(t, Scene{Series: map[state.Slot][]Series{state.SlotB: {{Points: points}}}})
	expect(t, ask(t, sub, ranged(sub, "q", state.SlotB))[0], points...)
}

func (s Suite) noData(t *testing.T) {
	sub := s.Setup(t, Scene{})
	answers := ask(t, sub, instant(sub, "one", state.SlotA), ranged(sub, "series", state.SlotA))
	for _, a := range answers {
		expectNoData(t, a)
	}
}

func (s Suite) silentTrack(t *testing.T) {
	sub := s.Setup(t, one(state.SlotA, 0.5))
	answers := ask(t, sub, instant(sub, "b", state.SlotB), instant(sub, "a", state.SlotA))
	expectNoData(t, answers[0])
	expect(t, answers[1], metric.Point{At: End(), Value: 0.5})
}

func (s Suite) order(t *testing.T) {
	scene := one(state.SlotA, 1)
	scene.Series[state.SlotB] = one(state.SlotB, 2).Series[state.SlotB]
	sub := s.Setup(t, scene)
	var queries []metric.Query
	for _, id := range []string{"m1", "m2", "m3", "m4", "m5"} {
		queries = append(queries, instant(sub, id+"/b", state.SlotB), instant(sub, id+"/a", state.SlotA))
	}
	for i, a := range ask(t, sub, queries...) {
		expect(t, a, metric.Point{At: End(), Value: float64(2 - i%2)})
	}
}

// window: what is said to have been evaluated lies within what was asked,
// and every point within that.
func (s Suite) window(t *testing.T) {
	sub := s.Setup(t, one(state.SlotA, 1))
	series, single := ranged(sub, "series", state.SlotA), instant(sub, "one", state.SlotA)
	series.From, series.To = Start().Add(7*time.Second), End().Add(11*time.Second)
	answers := ask(t, sub, series, single)
	a := answers[0]
	expect(t, a, metric.Point{At: End(), Value: 1})
	if a.Step < step || a.From.Before(series.From) || a.To.After(series.To) || !a.From.Before(a.To) {
		t.Errorf("evaluated %v to %v by %v, asked %v to %v by %v", a.From, a.To, a.Step, series.From, series.To, series.Step)
	}
	if a.Points[0].At.Before(a.From) || a.Points[0].At.After(a.To) {
		t.Errorf("point at %v outside %v to %v", a.Points[0].At, a.From, a.To)
	}
	a = answers[1]
	if a.Step != 0 || !a.To.Equal(single.To) || a.From.After(a.To) || a.From.IsZero() {
		t.Errorf("one value: evaluated %v to %v by %v, want one that ends at %v", a.From, a.To, a.Step, single.To)
	}
}

func (s Suite) badWindow(t *testing.T) {
	sub := s.Setup(t, one(state.SlotA, 1))
	backwards, fine := instant(sub, "backwards", state.SlotA), instant(sub, "fine", state.SlotA)
	backwards.From, backwards.To = End(), Start()
	narrow := ranged(sub, "narrow", state.SlotA)
	narrow.From, narrow.To = Start().Add(time.Second), Start().Add(2*time.Second)
	answers := ask(t, sub, backwards, fine, narrow)
	for _, a := range []metric.Answer{answers[0], answers[2]} {
		if a.Err == nil || providers.KindOf(a.Err) != providers.Invalid || len(a.Points) != 0 {
			t.Errorf("%s: error %v, points %v, want invalid and none", a.ID, a.Err, a.Points)
		}
	}
	expect(t, answers[1], metric.Point{At: End(), Value: 1})
}

func (s Suite) partial(t *testing.T) {
	scene := one(state.SlotA, 1)
	scene.Partial = true
	sub := s.Setup(t, scene)
	a := ask(t, sub, instant(sub, "q", state.SlotA))[0]
	if a.Err == nil && (!a.Partial || len(a.Warnings) == 0) {
		t.Errorf("partial %v, warnings %q, want the answer marked and the reason told", a.Partial, a.Warnings)
	}
	if a.Err != nil && (providers.KindOf(a.Err) == providers.Invalid || len(a.Points) != 0) {
		t.Errorf("error %v with points %v, want a marked answer or none", a.Err, a.Points)
	}
}

func (s Suite) refused(t *testing.T) {
	sub := s.Setup(t, one(state.SlotA, 3))
	bad := instant(sub, "bad", state.SlotA)
	bad.Text = sub.Bad
	answers := ask(t, sub, instant(sub, "first", state.SlotA), bad, instant(sub, "last", state.SlotA))
	expect(t, answers[0], metric.Point{At: End(), Value: 3})
	expect(t, answers[2], metric.Point{At: End(), Value: 3})
	a := answers[1]
	if a.Err == nil || providers.KindOf(a.Err) != providers.Invalid || len(a.Points) != 0 {
		t.Fatalf("error %v of kind %v, points %v, want invalid and none", a.Err, providers.KindOf(a.Err), a.Points)
	}
	if !strings.Contains(a.Err.Error(), sub.Bad) {
		t.Errorf("error %q, want the query %q in it", a.Err, sub.Bad)
	}
}

func (s Suite) nothing(t *testing.T) {
	sub := s.Setup(t, Scene{})
	if answers := ask(t, sub); len(answers) != 0 {
		t.Errorf("answers %v to no queries", answers)
	}
}

func (s Suite) cancelled(t *testing.T) {
	sub := s.Setup(t, one(state.SlotA, 1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answers, err := sub.System.Query(ctx, []metric.Query{instant(sub, "q", state.SlotA)})
	expectFailed(t, sub, answers, err, func(err error) bool { return errors.Is(err, context.Canceled) }, "cancelled")
}

func (s Suite) special(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		sub := s.Setup(t, one(state.SlotA, v))
		answers := ask(t, sub, instant(sub, "one", state.SlotA), ranged(sub, "series", state.SlotA))
		for _, a := range answers {
			expect(t, a, metric.Point{At: End(), Value: v})
		}
	}
}

func (s Suite) several(t *testing.T) {
	points := []metric.Point{{At: End(), Value: 1}}
	sub := s.Setup(t, Scene{Series: map[state.Slot][]Series{state.SlotA: {
		{Labels: map[string]string{"pod": "shop-1"}, Points: points},
		{Labels: map[string]string{"pod": "shop-2"}, Points: points},
	}}})
	answers := ask(t, sub, instant(sub, "one", state.SlotA), ranged(sub, "series", state.SlotA))
	for _, a := range answers {
		if !errors.Is(a.Err, metric.ErrSeveral) || len(a.Points) != 0 {
			t.Errorf("%s: error %v, points %v, want %q and none", a.ID, a.Err, a.Points, metric.ErrSeveral)
		} else if !strings.Contains(a.Err.Error(), "shop-1") || !strings.Contains(a.Err.Error(), "shop-2") {
			t.Errorf("%s: error %q, want the labels of the series in it", a.ID, a.Err)
		}
	}
}

func expectNoData(t *testing.T, a metric.Answer) {
	t.Helper()
	if !errors.Is(a.Err, metric.ErrNoData) || len(a.Points) != 0 {
		t.Errorf("%s: error %v, points %v, want %q and none", a.ID, a.Err, a.Points, metric.ErrNoData)
	}
}

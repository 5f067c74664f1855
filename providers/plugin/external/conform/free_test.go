//go:build unix

package conform

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers/api/external/externaltest"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// TestNoTrafficToASlotWithoutCapacity: whatever of it failed, the weights are
// never touched, and what was deployed is retired all the same.
func TestNoTrafficToASlotWithoutCapacity(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*externaltest.World)
		failed string
	}{
		"deploy":     {func(w *externaltest.World) { w.Moods["deploy"] = "error invalid" }, "deploy again ends in the same place"},
		"deploy two": {func(w *externaltest.World) { w.Fickle = true }, "deploy again ends in the same place"},
		"scale":      {func(w *externaltest.World) { w.Moods["scale"] = "error unavailable" }, "scale may be repeated"},
		"ready":      {func(w *externaltest.World) { w.Moods["ready"] = externaltest.NotYet }, "ready after a deployment"},
		"no server":  {func(w *externaltest.World) { w.Empty = true }, "its servers are up"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := externaltest.New(1)
			tc.change(&w)
			results, after := run(t, w, settings(w), Options{Exercise: true, Patience: 20 * time.Millisecond})
			if results[tc.failed].Err == nil || after.Writes != 0 || slices.Contains(after.Log, "write") || slices.Contains(after.Log, "target") {
				t.Errorf("%s: %v, requests %v", tc.failed, results[tc.failed].Err, after.Log)
			}
			const why = "slot b may have no capacity: "
			if left := results["zero and hundred"].LeftOut; !strings.HasPrefix(left, why) || !strings.Contains(left, tc.failed) {
				t.Errorf("left out: %q, expected %q", left, why)
			}
			if back := results["the weights are as they were"]; back.Err != nil || results["retire may be repeated"].Err != nil || !slices.Contains(after.Log, "retire") {
				t.Errorf("afterwards: %v, requests %v", back.Err, after.Log)
			}
		})
	}
}

// TestNothingIsTakenFromASlotWithTraffic: what cannot be moved away is left
// alone, and put back as soon as it can.
func TestNothingIsTakenFromASlotWithTraffic(t *testing.T) {
	w := externaltest.New(1)
	w.Moods["write"], w.After = "error unavailable", 2
	results, after := run(t, w, settings(w), Options{Exercise: true, Patience: 100 * time.Millisecond})
	if err := results["retire may be repeated"].Err; err == nil || !strings.Contains(err.Error(), "nothing was retired") || slices.Contains(after.Log, "retire") {
		t.Errorf("error %v, requests %v", err, after.Log)
	}
	if left := results["a deployment after a retirement has capacity"].LeftOut; !strings.Contains(left, "may not be retired") {
		t.Errorf("left out: %q", left)
	}
	if err := results["the weights are as they were"].Err; err == nil || !strings.Contains(err.Error(), "not put back within") || after.Parts[0].Weights["b"] == 0 {
		t.Errorf("error %v, weights %v", err, after.Parts[0].Weights)
	}
}

// TestWhatIsFree: never what serves by the records, nor what nobody knows.
func TestWhatIsFree(t *testing.T) {
	part := func(a, b float64) router.Part {
		return router.Part{PartWeights: state.PartWeights{ID: "p"}, Shares: map[state.Slot]float64{state.SlotA: a, state.SlotB: b}}
	}
	pending, unfit, broken := part(100, 0), part(0, 0), part(0, 0)
	pending.Pending, unfit.Unfit, broken.Err = true, errors.New("senseless"), errors.New("gone")
	reading := func(parts ...router.Part) *router.Reading { return &router.Reading{Parts: parts} }
	for name, tc := range map[string]struct {
		seen    *router.Reading // nil without a router
		serving state.Slot
		free    state.Slot
		says    string
	}{
		"b":                   {reading(part(100, 0)), "", state.SlotB, ""},
		"b by the records":    {reading(part(100, 0)), state.SlotA, state.SlotB, ""},
		"a":                   {reading(part(0, 100)), state.SlotB, state.SlotA, ""},
		"no traffic":          {reading(part(0, 0)), "", state.SlotB, ""},
		"no traffic, b is up": {reading(part(0, 0)), state.SlotB, state.SlotA, ""},
		"moved by somebody":   {reading(part(0, 100)), state.SlotA, "", "slot a serves by the records"},
		"both":                {reading(part(99, 1)), state.SlotA, "", "a 99 %, b 1 %"},
		"either":              {reading(part(100, 0), part(0, 100)), state.SlotA, "", "a 100 %, b 100 %"},
		"pending":             {reading(part(100, 0), pending), state.SlotA, "", "not in force yet"},
		"unfit":               {reading(part(100, 0), unfit), state.SlotA, "", "senseless"},
		"unreadable":          {reading(part(100, 0), broken), state.SlotA, "", "gone"},
		"testers":             {&router.Reading{Parts: []router.Part{part(100, 0)}, Testers: true}, "", "", "testers are sent"},
		"no router":           {nil, state.SlotB, state.SlotA, ""},
		"nothing is known":    {nil, "", "", "there is no router"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{Context: t.Context(), free: state.SlotB, opts: Options{Exercise: true, Serving: tc.serving}}
			if tc.seen != nil {
				b.opts.Read = func(context.Context, state.Slots) (router.Reading, error) { return *tc.seen, nil }
			}
			_, err := b.begin()
			if tc.says == "" && (err != nil || b.free != tc.free || b.opts.Slots.Candidate != tc.free) || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("free is %s, error %v", b.free, err)
			}
		})
	}
}

// flaky is a router of two parts that at first does not answer, and whose
// second part never does.
type flaky struct {
	router.Router
	failures int
	weights  map[string]float64
	writes   [][]state.PartWeights
}

func (f *flaky) Read(context.Context, state.Slots) (router.Reading, error) {
	if f.failures--; f.failures >= 0 {
		return router.Reading{}, errors.New("not now")
	}
	one := router.Part{PartWeights: state.PartWeights{ID: "one", Weights: f.weights}}
	two := router.Part{PartWeights: state.PartWeights{ID: "two"}, Err: errors.New("two is gone")}
	return router.Reading{Parts: []router.Part{one, two}}, nil
}

func (f *flaky) Write(_ context.Context, _ state.Slots, want []state.PartWeights, _ router.Reading) (state.Receipt, error) {
	f.writes, f.weights = append(f.writes, want), want[0].Weights
	return nil, nil
}

func (f *flaky) Settled(context.Context, []state.PartWeights, state.Receipt) (bool, error) {
	return true, nil
}

// TestPutBack: once the router answers again, each part that can be read goes
// back, once, and what does not is named.
func TestPutBack(t *testing.T) {
	f := &flaky{failures: 3, weights: map[string]float64{"a": 0, "b": 100}}
	b := &bench{Context: t.Context(), bundle: plugin.Bundle{Router: f}, opts: Options{Poll: time.Millisecond, Patience: 50 * time.Millisecond}}
	was := map[string]float64{"a": 100, "b": 0}
	start := router.Reading{Parts: []router.Part{{PartWeights: state.PartWeights{ID: "one", Weights: was}}, {PartWeights: state.PartWeights{ID: "two", Weights: was}}}}
	b.end(start, func(r Result) {
		if r.Name != "the weights are as they were" || r.Err == nil || !strings.Contains(r.Err.Error(), "two is gone") {
			t.Errorf("%s: %v", r.Name, r.Err)
		}
	})
	if !router.Same(f.weights, was) || len(f.writes) != 1 || len(f.writes[0]) != 1 {
		t.Errorf("weights %v, writes %v", f.weights, f.writes)
	}
}

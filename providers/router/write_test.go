package router

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/state"
)

// scripted is a part with given outcomes; calls has what was asked of it.
type scripted struct {
	id             string
	compare, write error
	*calls
}

// calls are compares in any order, then writes in theirs.
type calls struct {
	mu   sync.Mutex
	said []string
}

func (c *calls) say(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said = append(c.said, text); strings.HasPrefix(text, "compare") {
		slices.Sort(c.said)
	}
}

func (s scripted) ID() string { return s.id }

func (s scripted) Compare(context.Context) error {
	s.say("compare " + s.id)
	return s.compare
}

func (s scripted) Write(context.Context) (string, error) {
	s.say("write " + s.id)
	return "receipt " + s.id, s.write
}

func TestWriteParts(t *testing.T) {
	down := &providers.Fault{Kind: providers.Unavailable, Err: errors.New("down")}
	conflict := Drifted("x", nil, nil)
	for name, tt := range map[string]struct {
		jobs    []scripted
		calls   string
		receipt state.Receipt
		err     string
	}{
		"all":             {[]scripted{{id: "x"}, {id: "y"}}, "compare x, compare y, write x, write y", state.Receipt{"x": "receipt x", "y": "receipt y"}, ""},
		"one is down":     {[]scripted{{id: "x", compare: down}, {id: "y"}}, "compare x, compare y, write y", state.Receipt{"y": "receipt y"}, "down"},
		"a conflict":      {[]scripted{{id: "x"}, {id: "y", compare: conflict}}, "compare x, compare y", nil, "part x has weights"},
		"one part":        {[]scripted{{id: "x", compare: conflict}}, "write x", state.Receipt{"x": "receipt x"}, ""},
		"one write fails": {[]scripted{{id: "x", write: down}, {id: "y"}}, "compare x, compare y, write x, write y", state.Receipt{"x": "receipt x", "y": "receipt y"}, "down"},
	} {
		t.Run(name, func(t *testing.T) {
			var calls calls
			var jobs []Job
			for _, j := range tt.jobs {
				j.calls = &calls
				jobs = append(jobs, j)
			}
			receipt, err := WriteParts(t.Context(), jobs)
			if diff := cmp.Diff(tt.receipt, receipt); diff != "" || strings.Join(calls.said, ", ") != tt.calls {
				t.Errorf("calls %q, receipt (-want +got):\n%s", calls.said, diff)
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

func TestExpected(t *testing.T) {
	before, want := map[string]float64{"a": 100, "b": 0}, map[string]float64{"a": 75, "b": 25}
	seen := &Part{PartWeights: state.PartWeights{Weights: before}}
	for name, tt := range map[string]struct {
		has    map[string]float64
		expect *Part
		kind   providers.Kind
		text   string
	}{
		"as seen":              {before, seen, 0, ""},
		"as wanted":            {want, nil, 0, ""},
		"between":              {map[string]float64{"a": 75, "b": 0}, seen, 0, ""},
		"something else":       {map[string]float64{"a": 60, "b": 40}, seen, providers.Conflict, "part x has weights "},
		"not seen":             {before, nil, providers.Conflict, "part x has weights "},
		"could not be read":    {before, &Part{Err: errors.New("down")}, providers.Unavailable, "nothing to compare with"},
		"wanted, though it is": {want, &Part{Err: errors.New("down")}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := Expected("x", tt.has, want, tt.expect)
			if tt.text == "" && err != nil || tt.text != "" && (err == nil || providers.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.text)) {
				t.Errorf("%v, want %q", err, tt.text)
			}
		})
	}
}

func TestWhole(t *testing.T) {
	members := []Member{{Name: "web1"}, {Name: "web2"}}
	got, err := Whole(map[string]float64{"web1": 256, "web2": 0, "gone": 0}, members, 256)
	if diff := cmp.Diff(map[string]int{"web1": 256, "web2": 0, "gone": 0}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, w := range []float64{257, 1.5, -1, math.NaN(), math.Inf(1)} {
		if _, err := Whole(map[string]float64{"web1": w}, members, 256); providers.KindOf(err) != providers.Invalid {
			t.Errorf("weight %v: %v", w, err)
		}
	}
	if _, err := Whole(map[string]float64{"gone": 1}, members, 256); providers.KindOf(err) != providers.Invalid || !strings.Contains(err.Error(), "no target's") {
		t.Errorf("a server of no target: %v", err)
	}
}

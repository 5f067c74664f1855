package router

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/state"
)

func TestPlanMembers(t *testing.T) {
	members := []Member{{Name: "a1", Slot: "a"}, {Name: "a2", Slot: "a"}, {Name: "b1", Slot: "b"}, {Name: "b2", Slot: "b"}}
	part := func(id string, a, b int) Part {
		return Part{PartWeights: state.PartWeights{ID: id}, Units: map[state.Slot]int{"a": a, "b": b}}
	}
	broken := Part{PartWeights: state.PartWeights{ID: "x"}, Err: errors.New("down")}
	unfit := part("x", 2, 2)
	unfit.Unfit = &providers.Fault{Kind: providers.Invalid, Err: errors.New("no weights here"), Hint: "change it"}
	short := part("x", 2, 1)
	short.Weights, short.Unfit = map[string]float64{"a1": 1, "a2": 0, "b2": 5}, unfit.Unfit
	gone := part("x", 0, 1)
	gone.Weights = map[string]float64{"b1": 50}
	with := func(b int, w map[string]float64) Part {
		p := part("x", 2, b)
		p.Weights = w
		return p
	}
	many := part("x", 2, 1)
	many.Servers = map[state.Slot]int{"a": 2, "b": 8}
	weights := func(a, b float64) map[string]float64 { return map[string]float64{"a1": a, "a2": a, "b1": b, "b2": b} }
	for name, tt := range map[string]struct {
		parts []Part
		share float64
		want  []map[string]float64
		got   float64
		text  string
	}{
		"all up":                {[]Part{part("x", 2, 2)}, 25, []map[string]float64{weights(99, 33)}, 25, ""},
		"by each part":          {[]Part{part("x", 2, 2), part("y", 1, 2)}, 25, []map[string]float64{weights(99, 33), weights(96, 16)}, 25, ""},
		"more than members":     {[]Part{part("x", 4, 2)}, 25, []map[string]float64{weights(99, 66)}, 25, ""},
		"some of ours down":     {[]Part{part("x", 2, 1)}, 25, []map[string]float64{weights(99, 33)}, 25, ""},
		"some of many down":     {[]Part{many}, 25, []map[string]float64{weights(96, 8)}, 25, ""},
		"taken out":             {[]Part{with(2, map[string]float64{"a1": 100, "a2": 0, "b1": 0, "b2": 0})}, 25, nil, 0, "plan on x: slot a serves, and of its servers a2 has weight 0, a1 has 100"},
		"cut off, and unlike":   {[]Part{with(2, map[string]float64{"a1": 99, "a2": 0, "b1": 0, "b2": 0})}, 25, nil, 0, "a2 has weight 0, a1 has 99"},
		"one is spared":         {[]Part{with(2, map[string]float64{"a1": 100, "a2": 50, "b1": 0, "b2": 0})}, 25, nil, 0, "a2 has weight 50, a1 has 100"},
		"one is not there":      {[]Part{with(2, map[string]float64{"a1": 100, "b1": 0, "b2": 0})}, 25, []map[string]float64{weights(99, 33)}, 25, ""},
		"nothing serves":        {[]Part{with(2, weights(0, 0))}, 25, []map[string]float64{weights(99, 33)}, 25, ""},
		"a return, taken out":   {[]Part{with(2, map[string]float64{"a1": 100, "a2": 0, "b1": 0, "b2": 0})}, 0, []map[string]float64{weights(100, 0)}, 0, ""},
		"not read":              {[]Part{broken}, 25, []map[string]float64{weights(99, 33)}, 25, ""},
		"not up yet":            {[]Part{part("x", 2, 0)}, 25, []map[string]float64{weights(99, 33)}, 25, ""},
		"stable is down":        {[]Part{part("x", 0, 2)}, 25, nil, 0, "plan on x: plan share 25 %: slot a has no server up"},
		"unfit":                 {[]Part{unfit}, 25, nil, 0, "plan on x: no weights here"},
		"a return":              {[]Part{part("x", 0, 2), broken, unfit}, 0, []map[string]float64{weights(100, 0), weights(100, 0), weights(100, 0)}, 0, ""},
		"a return without b1":   {[]Part{short}, 0, []map[string]float64{{"a1": 100, "a2": 100, "b2": 0}}, 0, ""},
		"a return onto nothing": {[]Part{gone}, 0, []map[string]float64{weights(100, 0)}, 0, ""},
		"furthest of the rest":  {[]Part{part("x", 2, 2), part("y", 1, 7)}, 0.4, []map[string]float64{weights(249, 1), weights(256, 1)}, 100.0 * 7 / (7 + 256), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, achieved, err := PlanMembers(members, state.SlotB, tt.share, 3, Units{1, 256}, Reading{Parts: tt.parts})
			if tt.text != "" {
				if providers.KindOf(err) != providers.Invalid || !strings.Contains(err.Error(), tt.text) || providers.HintOf(err) == "" {
					t.Errorf("error %v, hint %q, want %q", err, providers.HintOf(err), tt.text)
				}
				return
			}
			if err != nil || math.Abs(achieved-tt.got) > 1e-9 {
				t.Errorf("%v, achieved %v, want %v", err, achieved, tt.got)
			}
			for i, p := range got {
				if diff := cmp.Diff(tt.want[i], p.Weights); diff != "" || p.ID != tt.parts[i].ID {
					t.Errorf("part %s (-want +got):\n%s", p.ID, diff)
				}
			}
		})
	}
}

// What a person has approved is no reason against a share, everything else is.
func TestPlanOverAHand(t *testing.T) {
	members := []Member{{Name: "a1", Slot: "a"}, {Name: "a2", Slot: "a"}, {Name: "b1", Slot: "b"}}
	weights := map[string]float64{"a1": 100, "a2": 0, "b1": 0}
	hand := Named("x", "read", TakenOut("a", []string{"a2 is disabled"}))
	other := &providers.Fault{Kind: providers.Invalid, Err: errors.New("balance first ignores weights")}
	for _, tt := range []struct {
		unfit    error
		approved bool
		text     string
	}{
		{nil, false, "a2 has weight 0"}, {hand, false, "a2 is disabled"}, {nil, true, ""}, {hand, true, ""}, {other, true, "balance first"},
	} {
		part := Part{PartWeights: state.PartWeights{ID: "x", Weights: weights}, Unfit: tt.unfit}
		_, _, err := PlanMembers(members, "b", 25, 5, Units{1, 256}, Reading{Parts: []Part{part}, Approved: tt.approved})
		if (err == nil) != (tt.text == "") || err != nil && !strings.Contains(err.Error(), tt.text) {
			t.Errorf("unfit %v, approved %v: %v, want %q", tt.unfit, tt.approved, err, tt.text)
		}
	}
}

// A slot that nothing has been deployed into is planned for before a rollout,
// whichever of both is down.
func TestPlanForWholeSlots(t *testing.T) {
	members := []Member{{Name: "a1", Slot: "a"}, {Name: "b1", Slot: "b"}}
	weights := map[string]float64{"a1": 100, "b1": 0}
	for _, p := range []Part{
		{Units: map[state.Slot]int{"a": 1, "b": 0}},
		{Units: map[state.Slot]int{"a": 0, "b": 0}},
		{Units: map[state.Slot]int{"a": 0, "b": 0}, Servers: map[state.Slot]int{"a": 3, "b": 3}},
	} {
		p.Weights = weights
		if _, got, err := PlanMembers(members, "b", 50, 0.5, Units{1, 256}, Reading{Parts: []Part{p}}.Whole()); err != nil || got != 50 {
			t.Errorf("%v: %v %%, %v", p.Units, got, err)
		}
	}
}

func TestBetween(t *testing.T) {
	from, to := map[string]float64{"x": 1, "y": 0}, map[string]float64{"x": 3, "y": 5}
	for name, tt := range map[string]struct {
		seen map[string]float64
		want bool
	}{
		"before":    {map[string]float64{"x": 1, "y": 0}, true},
		"halfway":   {map[string]float64{"x": 3, "y": 0}, true},
		"after":     {map[string]float64{"x": 3, "y": 5}, true},
		"neither":   {map[string]float64{"x": 2, "y": 0}, false},
		"one more":  {map[string]float64{"x": 1, "y": 0, "z": 1}, false},
		"one less":  {map[string]float64{"y": 5}, false},
		"zero unit": {map[string]float64{"x": 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Between(tt.seen, from, to); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// Whatever manent has written, in slots of any size, with servers that come and
// go, promoted or returned: the next rollout is not refused for it, and no
// server that comes up gives the candidate more than was asked for.
func TestPlanAfterPlan(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 10))
	for n := range 500 {
		var members []Member
		sizes := map[state.Slot]int{"a": 1 + random.IntN(4), "b": 1 + random.IntN(4)}
		for slot, size := range sizes {
			for i := range size {
				members = append(members, Member{Name: fmt.Sprint(slot, i), Slot: slot})
			}
		}
		weights := map[string]float64{}
		for _, m := range members {
			weights[m.Name] = map[state.Slot]float64{"a": float64(1 + n%120)}[m.Slot]
		}
		serving := state.SlotA
		for range 3 {
			last := []float64{0, 100}[random.IntN(2)]
			for _, share := range []float64{1 + 98*random.Float64(), 1 + 98*random.Float64(), last} {
				up := map[state.Slot]int{"a": 1 + random.IntN(sizes["a"]), "b": 1 + random.IntN(sizes["b"])}
				seen := Reading{Parts: []Part{{PartWeights: state.PartWeights{Weights: weights}, Units: up}}}
				want, got, err := PlanMembers(members, serving.Other(), share, 100, Units{1, 256}, seen)
				if err != nil {
					t.Fatalf("round %d: from %v with %v up to %v %%: %v", n, weights, up, share, err)
				}
				weights = want[0].Weights
				theirs, ours := weights[fmt.Sprint(serving, 0)]*float64(up[serving]), weights[fmt.Sprint(serving.Other(), 0)]
				for alive := up[serving.Other()]; alive <= sizes[serving.Other()]; alive++ {
					if then := 100 * ours * float64(alive) / (ours*float64(alive) + theirs); then > got+1e-9 {
						t.Fatalf("round %d: %v with %d servers up gives %v %%, planned %v %%", n, weights, alive, then, got)
					}
				}
			}
			if last == 100 {
				serving = serving.Other()
			}
		}
	}
}

// TestPercentOnAnUnfitPart: nothing is raised on it, and a return is planned.
func TestPercentOnAnUnfitPart(t *testing.T) {
	why := &providers.Fault{Kind: providers.Invalid, Err: errors.New("somebody's edit")}
	seen := Reading{Parts: []Part{{PartWeights: state.PartWeights{ID: "x"}, Unfit: why}}}
	if _, _, err := Percent(state.SlotB, 5, 1, 0.5, seen); !errors.Is(err, why) || providers.KindOf(err) != providers.Invalid {
		t.Errorf("a share: %v, want Invalid with the reason", err)
	}
	if parts, _, err := Percent(state.SlotB, 0, 1, 0.5, seen); err != nil || parts[0].Weights["a"] != 100 {
		t.Errorf("a return: %v, %v", parts, err)
	}
}

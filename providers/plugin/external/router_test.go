//go:build unix

package external

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/external"
	"github.com/manent/action/providers/api/external/externaltest"
	"github.com/manent/action/providers/api/process"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/state"
)

// mood sets how requests go: the n-th and all after it, or all with 0.
func (p place) mood(requests []string, mood string, n int) (heal func()) {
	set := func(mood string, n int) {
		p.change(func(w *externaltest.World) {
			w.After, w.Count = n, 0
			for _, r := range requests {
				w.Moods[r] = mood
			}
		})
	}
	set(mood, n)
	return func() { set("", 0) }
}

// harness is a fresh world of some parts behind a router.
func (p place) harness(other map[string]any) routertest.Harness {
	open := func() router.Router { return p.open(other).Router }
	bundle := p.open(other)
	requests := func(on routertest.Calls) []string {
		return map[routertest.Calls][]string{routertest.Reads: {"read", "settled"}, routertest.Writes: {"write"}, routertest.All: {"read", "settled", "write"}}[on]
	}
	write := []string{"write"}
	return routertest.Harness{
		Router: bundle.Router, Again: open, Traits: bundle.RouterTraits, Secret: secret, Patience: time.Minute,
		Slots: state.Slots{A: state.Release{Version: "v1"}, B: state.Release{Version: "v2"}, Candidate: state.SlotB},
		Foreign: func(i int) {
			p.change(func(w *externaltest.World) { w.Parts[i].Put(map[string]float64{"a": 93, "b": 7}) })
		},
		Writes: func() int { return p.world().Writes },
		Touch: func() {
			p.change(func(w *externaltest.World) {
				for _, part := range w.Parts {
					part.Revision += 10
				}
			})
		},
		Hold: func() func() {
			p.change(func(w *externaltest.World) { w.Hold = true })
			return func() {
				p.change(func(w *externaltest.World) {
					w.Hold = false
					for _, part := range w.Parts {
						part.Live = maps.Clone(part.Weights)
					}
				})
			}
		},
		Unowned: func() string {
			var out []string
			for _, part := range p.world().Parts {
				out = append(out, part.Unowned)
			}
			return strings.Join(out, ",")
		},
		Down: func(i int) func() {
			p.change(func(w *externaltest.World) { w.Parts[i].Down = true })
			return func() { p.change(func(w *externaltest.World) { w.Parts[i].Down = false }) }
		},
		Status: func(code int, on routertest.Calls) {
			kinds := map[int]string{401: "denied", 403: "denied", 404: "not found", 409: "conflict", 429: "throttled", 500: "unavailable", 503: "unavailable"}
			if code == 0 {
				p.mood(requests(on), "", 0)
				return
			}
			p.mood(requests(on), "error "+kinds[code], 0)
		},
		Hang:    func(on routertest.Calls) func() { return p.mood(requests(on), externaltest.Hangs, 0) },
		Shorten: func(on routertest.Calls) func() { return p.mood(requests(on), externaltest.Half, 0) },
		Cut:     func(n int) func() { return p.mood(write, externaltest.Dies, n) },
		Mute:    func(n int) func() { return p.mood(write, externaltest.Mute, n) },
		Late: func(n int) (heal, land func()) {
			return p.mood(write, externaltest.LateMood, n), func() {
				if err := externaltest.Land(p.dir); err != nil {
					p.Error(err)
				}
			}
		},
	}
}

func TestRouterConformance(t *testing.T) {
	worlds := map[string]struct {
		parts int
		loose bool
	}{"conditional": {1, false}, "two parts": {2, false}, "manent compares": {1, true}}
	for name, tc := range worlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			routertest.Run(t, func(t *testing.T) routertest.Harness {
				w := externaltest.New(tc.parts)
				w.Loose = tc.loose
				p := newPlace(t, w)
				h := p.harness(map[string]any{"conditional": !tc.loose})
				cut := h.Cut
				h.Cut = func(n int) func() {
					if n == 2 { // a program gets all parts in one request
						return p.mood([]string{"write"}, externaltest.Between, 0)
					}
					return cut(n)
				}
				return h
			})
		})
	}
}

// TestRouterThatPlans: its weights are no percentages, and the program says
// what it can reach.
func TestRouterThatPlans(t *testing.T) {
	w := externaltest.New(2)
	w.Plans = true
	p := newPlace(t, w)
	r := p.open(map[string]any{"plans": true, "unit": "weight", "pinned_for": "5m"}).Router
	seen, err := r.Read(t.Context(), state.Slots{})
	if err != nil {
		t.Fatal(err)
	}
	planner, _ := r.(router.Planner)
	got, share, err := planner.Plan(state.SlotB, 31, 1.5, seen)
	if err != nil || share != 30 || len(got) != 2 || !router.Same(got[1].Weights, map[string]float64{"a": 7, "b": 3}) {
		t.Errorf("plan %v, share %v, error %v", got, share, err)
	}
	if _, _, err := planner.Plan(state.SlotB, 1, 0.5, seen); providers.KindOf(err) != providers.Invalid || !strings.Contains(fmt.Sprint(err), "the smallest share is 10 %") {
		t.Errorf("error %v, expected the program's refusal", err)
	}
	if sticky, _ := r.(router.Sticky); sticky.PinnedFor() != 5*time.Minute {
		t.Errorf("pinned for %v", sticky.PinnedFor())
	}
}

// TestReadingsThatMakeNoSense are no readings.
func TestReadingsThatMakeNoSense(t *testing.T) {
	cases := map[string]struct{ result, says string }{
		"no parts":            {`{"parts":[]}`, "there are no parts"},
		"parts are no list":   {`{"parts":{}}`, "expected a list"},
		"all parts in error":  {`{"parts":[{"id":"p","error":{"kind":"unknown","message":"gone"}}]}`, "gone"},
		"all parts senseless": {`{"parts":[{"id":"p"},{"weights":{"a":1}}]}`, "part p"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bundle := newPlace(t, externaltest.New(1)).open(map[string]any{"command": script(tc.result), "conditional": false, "step": 1, "testers": "header"})
			got, err := bundle.Router.Read(t.Context(), state.Slots{})
			if err == nil || providers.KindOf(err) != providers.Unknown || len(got.Parts) != 0 || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("reading %+v, error %v, expected unknown that says %q", got, err, tc.says)
			}
		})
	}
}

// TestGarbageHidesNoOtherPart: a return goes on with the parts that make
// sense, and with those whose weights do; nothing is raised on the latter.
func TestGarbageHidesNoOtherPart(t *testing.T) {
	const fine = `{"id":"fine","weights":{"a":50,"b":50},"shares":{"a":50,"b":50}}`
	const odd = `{"id":"odd","weights":{"a":50,"b":50},"shares":{"a":50,"b":1}}`
	const third = `{"id":"third","weights":{"a":50,"b":50,"c":1},"shares":{"a":50,"b":50}}`
	result := `{"parts":[{"id":"broken","weights":{"a":NaN,"b":1},"shares":{"a":50,"b":50}},` + odd + "," + third + "," + fine + "]}"
	r := newPlace(t, externaltest.New(1)).open(map[string]any{"command": script(result), "conditional": false, "step": 1, "testers": "header"}).Router
	seen, err := r.Read(t.Context(), state.Slots{})
	if err != nil || len(seen.Parts) != 4 {
		t.Fatalf("reading %+v, error %v", seen, err)
	}
	if p := seen.Parts[0]; p.Err == nil || providers.KindOf(p.Err) != providers.Unknown || len(p.Weights) != 0 {
		t.Errorf("part without weights: %+v", p)
	}
	for _, p := range seen.Parts[1:3] {
		if p.Unfit == nil || p.Err != nil || p.Weights["a"] != 50 {
			t.Errorf("part with weights: %+v", p)
		}
	}
	if p := seen.Parts[1]; len(p.Shares) != 0 || !p.Pending {
		t.Errorf("senseless shares are believed: %+v", p)
	}
	if p := seen.Parts[3]; p.Err != nil || p.Unfit != nil || p.Pending || p.Shares[state.SlotB] != 50 {
		t.Errorf("part that is fine: %+v", p)
	}
	seen.Parts = seen.Parts[1:]
	goesBackOnly(t, r, seen)
}

// goesBackOnly: no share is planned, and a return is, and each part written.
func goesBackOnly(t *testing.T, r router.Router, seen router.Reading) {
	t.Helper()
	planner, _ := r.(router.Planner)
	if _, _, err := planner.Plan(state.SlotB, 5, 0.5, seen); err == nil || !strings.Contains(err.Error(), "100 together") {
		t.Errorf("a share on a senseless part: error %v", err)
	}
	back, got, err := planner.Plan(state.SlotB, 0, 0.5, seen)
	if err != nil || got != 0 || len(back) != len(seen.Parts) {
		t.Fatalf("a return: %v, share %v, error %v", back, got, err)
	}
	for i, to := range back { // the script takes any write
		if _, err := r.Write(t.Context(), state.Slots{}, []state.PartWeights{to}, router.Reading{Parts: seen.Parts[i : i+1]}); err != nil {
			t.Errorf("write of %s: %v", to.ID, err)
		}
	}
}

// TestAReturnIsPlannedForEachPart: what the program has no plan for is
// refused when it is written, and keeps no other part.
func TestAReturnIsPlannedForEachPart(t *testing.T) {
	w := externaltest.New(3)
	w.Plans = true
	w.Odd = "part-2"
	r := newPlace(t, w).open(map[string]any{"plans": true, "unit": "weight", "pinned_for": "5m"}).Router
	seen, err := r.Read(t.Context(), state.Slots{})
	if err != nil || len(seen.Parts) != 3 || seen.Parts[1].Unfit == nil {
		t.Fatalf("reading %+v, error %v", seen, err)
	}
	planner, _ := r.(router.Planner)
	back, got, err := planner.Plan(state.SlotB, 0, 0.5, seen)
	if err != nil || got != 0 || len(back) != 2 || back[0].ID != "part-1" || back[1].ID != "part-3" {
		t.Fatalf("plan %v, share %v, error %v", back, got, err)
	}
	_, err = r.Write(t.Context(), state.Slots{}, []state.PartWeights{{ID: "part-2"}}, seen)
	if err == nil || !strings.Contains(err.Error(), "no plan for part part-2") {
		t.Errorf("error %v", err)
	}
}

// TestAPlanIsBounded: it has no context, so that what the settings allow is not
// what a program may take.
func TestAPlanIsBounded(t *testing.T) {
	w := externaltest.New(1)
	w.Plans, w.Moods["plan"] = true, externaltest.Hangs
	r := newPlace(t, w).open(map[string]any{"plans": true, "unit": "weight", "pinned_for": "5m", "timeout": "1h"}).Router.(targeter)
	seen, err := r.Read(t.Context(), state.Slots{})
	if err != nil {
		t.Fatal(err)
	}
	if r.planTime+process.Grace >= 20*time.Second {
		t.Errorf("a plan may take %v, and %v to be killed; the engine gives 20 s", r.planTime, process.Grace)
	}
	r.planTime = 50 * time.Millisecond
	for _, share := range []float64{50, 0} {
		if _, _, err := r.Plan(state.SlotB, share, 0.5, seen); err == nil || providers.KindOf(err) != providers.Unknown {
			t.Errorf("plan for %v %%: error %v", share, err)
		}
	}
}

// TestWhatAPlanGivesIsRounded: at the ends by what programs round, in between
// not at all.
func TestWhatAPlanGivesIsRounded(t *testing.T) {
	for _, tc := range []struct{ share, says, gives float64 }{
		{0, 0.1, 0}, {0, -1e-14, 0}, {0, 0.3, -1}, {100, 99.9, 100}, {100, 100.00000000000001, 100}, {100, 99.7, -1}, {100, 100.3, -1},
		{99.9, 100.00000000000001, 100}, {0.1, 0.1, 0.1}, {0.1, 0, -1}, {99.9, 99.9, 99.9},
	} {
		p := &Program{Settings: Settings{Plans: true}, Program: &api.Program{Client: api.New(api.Options{Provider: name})}}
		r := &Router{program: p}
		seen := router.Reading{Parts: []router.Part{{PartWeights: state.PartWeights{ID: "p"}}}}
		parts := []api.PartWeights{{ID: "p", Weights: api.Weights{"x": 1}}}
		_, got, err := r.planned(api.PlanResult{Weights: parts, Share: tc.says}, tc.share, 0.5, seen)
		if fine := tc.gives >= 0; (err == nil) != fine || fine && got != tc.gives {
			t.Errorf("%v %% for %v %%: taken for %v %%, error %v", tc.says, tc.share, got, err)
		}
	}
}

// script is a program that describes itself, and answers all else with one
// text for result.
func script(result string) []any {
	const text = `read -r q; id=${q#*\"id\":\"}; id=${id%%\"*}
[ "$MANENT_REQUEST" != describe ] || set -- '{"name":"script","protocols":[1],"capabilities":["deploy","slots","scale","traffic_router"],"traits":{"unit":"percent","step":1,"testers":"header","conditional":'"$CONDITIONAL"'}}'
[ "$MANENT_REQUEST$2" != write ] || set -- '{}' # it takes any
printf '{"protocol":1,"id":"%s","%s":%s}' "$id" "${2-result}" "$1"`
	return []any{"sh", "-c", "CONDITIONAL=false\n" + text, "script", result}
}

// TestConflictsAreProven: a program that says conflict has to say what it
// found, and that has to be something else than what was expected or wanted.
func TestConflictsAreProven(t *testing.T) {
	cases := map[string]struct {
		drift string
		kind  providers.Kind
	}{
		"somebody else's": {`,"drift":{"part":"p","seen":{"a":93,"b":7}}`, providers.Conflict},
		"no drift":        {"", providers.Unknown},
		"as expected":     {`,"drift":{"part":"p","seen":{"a":100,"b":0}}`, providers.Unknown},
		"as wanted":       {`,"drift":{"part":"p","seen":{"a":75,"b":25}}`, providers.Unknown},
		"another part":    {`,"drift":{"part":"q","seen":{"a":93,"b":7}}`, providers.Unknown},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := script(`{"kind":"conflict","message":"changed"` + tc.drift + "}")
			command[2] = strings.Replace(fmt.Sprint(command[2]), "CONDITIONAL=false", "CONDITIONAL=true; set -- \"$1\" error", 1)
			command[2] = strings.Replace(fmt.Sprint(command[2]), "|| set -- '", "|| set -- x; [ \"$1\" != x ] || set -- '", 1)
			bundle := newPlace(t, externaltest.New(1)).open(map[string]any{"command": command, "step": 1})
			expect := router.Reading{Parts: []router.Part{{PartWeights: state.PartWeights{ID: "p", Weights: map[string]float64{"a": 100, "b": 0}}}}}
			want := []state.PartWeights{{ID: "p", Weights: map[string]float64{"a": 75, "b": 25}}}
			_, err := bundle.Router.Write(t.Context(), state.Slots{}, want, expect)
			if err == nil || providers.KindOf(err) != tc.kind {
				t.Errorf("kind %v, error %v, expected %v", providers.KindOf(err), err, tc.kind)
			}
			if drifted, ok := errors.AsType[*router.ErrDrifted](err); ok != (tc.kind == providers.Conflict) || ok && drifted.Seen["b"] != 7 {
				t.Errorf("error %v", err)
			}
		})
	}
}

//go:build unix

package conform

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/external/externaltest"
	"github.com/manent/action/providers/plugin/external"
	"github.com/manent/action/state"
)

// program is the plugin of externaltest, compiled once.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "manent-external-")
	if err == nil {
		program, err = externaltest.Build(context.Background(), dir)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func settings(w externaltest.World) external.Settings {
	return external.Settings{
		Command: []string{program}, Capabilities: []string{"deploy", "slots", "scale", "traffic_router"}, SecretsIn: "environment",
		Timeout: 2 * time.Minute, DeployTime: 2 * time.Minute, Unit: "percent", Step: 0.01, Conditional: !w.Loose, Testers: "header",
	}
}

// run runs the cases on a world and returns how each ended.
func run(t *testing.T, w externaltest.World, s external.Settings, opts Options) (map[string]Result, externaltest.World) {
	t.Helper()
	dir := t.TempDir()
	if err := externaltest.Put(dir, w); err != nil {
		t.Fatal(err)
	}
	p, err := external.Open(providers.Env{Dir: dir, Getenv: os.Getenv}, s)
	if err != nil {
		t.Fatal(err)
	}
	opts.Poll = 5 * time.Millisecond
	out := map[string]Result{}
	Run(t.Context(), p, opts, func(r Result) {
		if _, twice := out[r.Name]; twice {
			t.Errorf("case %q was reported twice", r.Name)
		}
		out[r.Name] = r
	})
	after, err := externaltest.Get(dir)
	if err != nil {
		t.Fatal(err)
	}
	return out, after
}

func TestGoodPrograms(t *testing.T) {
	loose, plans := externaltest.New(2), externaltest.New(2)
	loose.Loose, plans.Plans = true, true
	weights := settings(plans)
	weights.Plans, weights.Unit, weights.PinnedFor = true, "weight", 5*time.Minute
	worlds := map[string]struct {
		world    externaltest.World
		settings external.Settings
		shares   [2]float64
	}{
		"conditional":     {externaltest.New(1), settings(externaltest.World{}), [2]float64{}},
		"manent compares": {loose, settings(loose), [2]float64{}},
		"it plans":        {plans, weights, [2]float64{20, 50}},
	}
	for name, tc := range worlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results, after := run(t, tc.world, tc.settings, Options{Exercise: true, Shares: tc.shares})
			for _, r := range results {
				if r.Err != nil || r.LeftOut != "" {
					t.Errorf("%s: error %v, left out %q", r.Name, r.Err, r.LeftOut)
				}
			}
			if len(results) < 20 {
				t.Errorf("%d cases were run", len(results))
			}
			if p := after.Parts[0]; p.Weights["a"] < 1 || p.Weights["b"] != 0 || after.Testers || after.Versions["b"] != "" || after.Writes == 0 {
				t.Errorf("left behind: %+v, weights %v", after, p.Weights)
			}
		})
	}
}

// TestWithoutExerciseNothingChanges: what deploys, scales or moves traffic is
// named and left out.
func TestWithoutExerciseNothingChanges(t *testing.T) {
	results, after := run(t, externaltest.New(1), settings(externaltest.World{}), Options{})
	for _, c := range Cases() {
		r, reported := results[c.Name]
		if c.trait == nil && !reported || r.Err != nil || (r.LeftOut != "") != (c.Stage.Exercises() && reported) {
			t.Errorf("%s: reported %v, error %v, left out %q", c.Name, reported, r.Err, r.LeftOut)
		}
	}
	for _, changing := range []string{"write", "deploy", "scale", "retire", "target"} {
		if slices.Contains(after.Log, changing) {
			t.Errorf("requests %v, expected no %s", after.Log, changing)
		}
	}
}

// TestOnlyAFreeSlotIsExercised: with traffic on both, nothing is touched.
func TestOnlyAFreeSlotIsExercised(t *testing.T) {
	w := externaltest.New(1)
	w.Parts[0].Put(map[string]float64{"a": 60, "b": 40})
	results, after := run(t, w, settings(w), Options{Exercise: true})
	if err := results["a slot is free"].Err; err == nil || !strings.Contains(err.Error(), "both slots have traffic: a 60 %, b 40 %") {
		t.Errorf("error %v", err)
	}
	if after.Writes != 0 || len(after.Versions) != 0 || results["write then read"].LeftOut != "no slot is free" {
		t.Errorf("it was touched: %+v", after)
	}
	w.Parts[0].Put(map[string]float64{"a": 0, "b": 100})
	_, after = run(t, w, settings(w), Options{Exercise: true, Slots: state.Slots{Candidate: state.SlotB}})
	if after.Parts[0].Weights["b"] != 100 || after.Versions["b"] != "" || after.Writes == 0 {
		t.Errorf("slot b serves and was exercised: %+v", after)
	}
}

// TestBadPrograms: each mistake fails the case that is about it.
func TestBadPrograms(t *testing.T) {
	description := func(conditional bool) any {
		return map[string]any{
			"name": "bad", "protocols": []int{1}, "capabilities": []string{"deploy", "slots", "scale", "traffic_router"},
			"traits": map[string]any{"unit": "percent", "step": 0.01, "testers": "header", "conditional": conditional},
		}
	}
	cases := map[string]struct {
		change func(*externaltest.World)
		fails  map[string]string // case, what it says
	}{
		"other traits": {func(w *externaltest.World) { w.Describe = description(false) }, map[string]string{
			"describes itself as the settings say": "conditional is true, it says false",
		}},
		"does not compare": {func(w *externaltest.World) { w.Loose, w.Describe = true, description(true) }, map[string]string{
			"foreign change is a conflict": "it said yes",
			"two writers, one wins":        "0 of two",
		}},
		"careless": {func(w *externaltest.World) { w.Careless = true }, map[string]string{
			"refuses another protocol":                    "it said yes",
			"refuses a request that it does not know":     "it said yes",
			"what is no request is no success":            "was answered with a result",
			"weights that are not there are not in force": "settled says yes",
			"unknown part is refused":                     "it said yes",
			"write twice is one change":                   "written again",
			"as wanted already is no write":               "written again",
			"what serves is ready":                        "nothing was deployed; no return would end",
			"testers on and off twice":                    "after they were set",
			"what is retired is not ready":                "although the slot is retired",
		}},
		"deploy brings nothing": {func(w *externaltest.World) { w.Idle = true }, map[string]string{
			"a deployment after a retirement has capacity": "there is capacity for 0 %",
		}},
		"half of an answer": {func(w *externaltest.World) { w.Moods["read"] = externaltest.Half }, map[string]string{
			"reading is complete and changes nothing": "ends in the middle", "a slot is free": "ends in the middle",
		}},
		"never ready, and stays": {func(w *externaltest.World) {
			w.Moods["ready"], w.Moods["retire"] = externaltest.NotYet, "error unavailable"
		}, map[string]string{"ready after a deployment": "1 of 3 is up", "retire may be repeated": "refused by the test"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := externaltest.New(1)
			tc.change(&w)
			results, _ := run(t, w, settings(externaltest.World{}), Options{Exercise: true, Patience: 200 * time.Millisecond})
			for fails, says := range tc.fails {
				if err := results[fails].Err; err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%s: %v, expected it to say %q", fails, err, says)
				}
			}
		})
	}
}

// TestAnEndInTheMiddle: after a signal the weights are put back, though the
// context has ended; when the lease was lost, somebody else may be at work, and
// nothing more is written.
func TestAnEndInTheMiddle(t *testing.T) {
	for name, cause := range map[string]error{"a signal": nil, "a lost lease": errors.New("the lease was lost")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, w := t.TempDir(), externaltest.New(1)
			if err := externaltest.Put(dir, w); err != nil {
				t.Fatal(err)
			}
			p, err := external.Open(providers.Env{Dir: dir, Getenv: os.Getenv}, settings(w))
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancelCause(t.Context())
			back := false
			Run(ctx, p, Options{Exercise: true, Poll: 5 * time.Millisecond, Restoring: time.Minute}, func(r Result) {
				if r.Name == "write then read" {
					stop(cause)
				}
				if r.Name == "the weights are as they were" {
					back = r.Err == nil
				}
			})
			after, err := externaltest.Get(dir)
			if signal := cause == nil; err != nil || back != signal || (after.Parts[0].Weights["a"] == 100) != signal {
				t.Errorf("put back %v, weights %v, error %v", back, after.Parts[0].Weights, err)
			}
		})
	}
}

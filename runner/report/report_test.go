package report

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/plan"
	"github.com/manent/action/state"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares a text with testdata/<name>.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func at(minute int) time.Time {
	return time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC).Add(time.Duration(minute) * time.Minute)
}

func scored(v float64) *float64 { return &v }

// rolling is a document in the middle of a rollout.
func rolling() *state.Document {
	return &state.Document{
		Schema: 1, Key: "shop/web/prod", Seq: 12,
		Passes: []state.Pass{{
			Serving: "a", Share: 25, Testers: true,
			Slots: state.Slots{A: state.Release{Version: "1.9"}, B: state.Release{Version: "2.0"}, Candidate: "b"},
		}},
		Rollout: &state.Rollout{
			ID: "20261130-100000-abcdef", Version: "2.0", Attempt: 2, Status: state.Running, Started: at(0),
			Owner: state.RunRef{Platform: "local", Repository: "example.com/shop", Run: "17", Attempt: 2, Actor: "alice", URL: "https://ci.example.com/17"},
			Stages: []state.Stage{
				{Name: "1%", Share: 1, Achieved: 1, Status: state.StageUngated, InForce: at(2), Count: 1, Readings: []state.Reading{{N: 1, At: at(3), Verdict: "ungated"}}},
				{Name: "25%", Share: 25, Achieved: 25.39, Status: state.StageBaking, InForce: at(4), Count: 3, Red: 1, Score: scored(92.5), Readings: []state.Reading{
					{N: 1, At: at(5), Verdict: "red", Score: scored(40), Reason: "metric errors: candidate 0.2,\n stable 0"},
					{N: 2, At: at(6), Verdict: "thin", Reason: "metric errors: 3 requests, 100 needed"},
					{N: 3, At: at(7), Verdict: "green", Score: scored(92.5)},
				}},
				{Name: "100%", Share: 100, Status: state.StagePending},
			},
			Steps: []state.Step{
				{Name: "config", State: state.Done, Tries: 1, Began: at(0), Ended: at(1), Message: "router, plugin and metric systems answer"},
				{Name: "traffic@25", State: state.Done, Tries: 3, Began: at(3), Ended: at(4), Message: "share 25 % in force"},
				{Name: "gate@traffic@25", State: state.Started, Tries: 1, Began: at(4), Message: "next reading at 10:08"},
			},
			Decisions: []state.Decision{{Verb: "approve", Pause: "approval@0.1", Who: "bob", From: "https://ci.example.com/18", At: at(2), Reason: "looks good", Applied: true}},
		},
		History: []state.Past{
			{ID: "r1", Version: "1.9", Status: state.Completed, Attempt: 1, Owner: state.RunRef{Platform: "local"}, Started: at(-90), Ended: at(-60), Replaced: "1.8"},
			{ID: "r0", Version: "1.8", Status: state.Returned, Attempt: 1, Started: at(-200), Ended: at(-180), Reason: "gate@traffic@5: metric errors"},
		},
		Lease: &state.Lease{ID: "n", Owner: state.RunRef{Platform: "local", Run: "17"}, Host: "runner-1/0a1b2c3d", PID: 4711, Step: "gate@traffic@25", Since: at(7)},
	}
}

// documents are the situations a person looks at.
func documents() map[string]*state.Document {
	drifted := rolling()
	drifted.Lease = nil
	drifted.Rollout.Status = state.Drifted
	drifted.Rollout.Pause = &state.Pause{
		ID: "gate@traffic@25.3", Kind: state.PauseDrift, Step: "gate@traffic@25", Since: at(8), Reason: "part lb1 has a 50, b 50", Seen: "0f3a",
		Weights: []state.PartWeights{{ID: "lb1", Weights: map[string]float64{"b": 50, "a": 50}}},
	}
	returning := rolling()
	returning.Rollout.Status = state.Returning
	returning.Rollout.Failure = &state.Failure{Step: "gate@traffic@25", Reason: "metric errors: candidate 0.2, stable 0", Remedy: "look at the readings", At: at(8)}
	returning.Rollout.Return = &state.Return{Reason: "metric errors: candidate 0.2, stable 0", Since: at(8), Passes: []string{""}, Tries: 2, Pending: []string{"part lb1: connection refused"}}
	done := rolling()
	done.Lease = nil
	done.Rollout.Status, done.Rollout.Ended = state.Completed, at(30)
	done.Passes[0].Serving, done.Passes[0].Promoted, done.Passes[0].Share, done.Passes[0].Testers = "b", true, 100, false
	done.Passes[0].Retirement = &state.Retirement{Slot: "a", Version: "1.9", Due: at(60), Reason: "due at 11:00"}
	first := rolling()
	first.History, first.Lease = nil, nil
	first.Rollout.First, first.Rollout.Status, first.Rollout.Ended = true, state.Stopped, at(9)
	first.Passes[0] = state.Pass{Share: 100, Slots: state.Slots{A: state.Release{Version: "2.0"}, Candidate: "a"}}
	return map[string]*state.Document{
		"nothing":   {Key: "shop/web/prod"},
		"rolling":   rolling(),
		"drifted":   drifted,
		"returning": returning,
		"completed": done,
		"first":     first,
		"waves": {Key: "shop/web/prod", Passes: []state.Pass{
			{Name: "eu", Serving: "a", Slots: state.Slots{A: state.Release{Version: "1.9"}}, Drained: []string{"10.0.1.10"}},
			{Name: "rest", Serving: "b"},
		}},
	}
}

func TestStatus(t *testing.T) {
	for name, doc := range documents() {
		t.Run(name, func(t *testing.T) {
			next := Next{Do: "wait", Step: "gate@traffic@25", Until: at(8), Reason: "next reading", Commands: Commands(doc, "wait")}
			golden(t, "status-"+name+".txt", StatusLine(doc)+"\n\n"+StatusText(Status{Document: doc, Next: next}))
		})
	}
}

func TestActivity(t *testing.T) {
	for name, doc := range documents() {
		t.Run(name, func(t *testing.T) {
			golden(t, "activity-"+name+".txt", ActivityText(Activity(doc)))
		})
	}
}

// The document's own fields stay where they are, and next stands beside them:
// programs read rollout.stages[].score.
func TestStatusJSON(t *testing.T) {
	data, err := json.Marshal(Status{Document: rolling(), Next: Next{Do: "wait"}})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Key     string
		Rollout struct{ Stages []struct{ Score *float64 } }
		Next    struct{ Do string }
	}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Key != "shop/web/prod" || len(got.Rollout.Stages) != 3 || *got.Rollout.Stages[1].Score != 92.5 || got.Next.Do != "wait" {
		t.Errorf("got %+v", got)
	}
}

func TestCommands(t *testing.T) {
	retired := documents()["completed"]
	retired.Passes[0].Retired = true
	for name, tc := range map[string]struct {
		doc  *state.Document
		do   string
		want []string
	}{
		"nothing":            {documents()["nothing"], "nothing", nil},
		"on the way":         {rolling(), "step", []string{"manent run --version 2.0", "manent revert --version 2.0"}},
		"a question":         {documents()["drifted"], "ask", []string{"manent approve --version 2.0 --pause gate@traffic@25.3 --seen 0f3a", "manent reject --version 2.0 --pause gate@traffic@25.3 --seen 0f3a"}},
		"complete":           {documents()["completed"], "nothing", []string{"manent revert --version 2.0"}},
		"no way back":        {retired, "nothing", nil},
		"ended with failure": {documents()["first"], "nothing", []string{"manent retry --version 2.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Commands(tc.doc, tc.do)); diff != "" {
				t.Errorf("commands (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	const file = `
project: shop
application: web
environment: prod
steps:
  - {name: fetch, run: ./fetch.sh}
  - {name: copy, at: deploy, run: ./copy.sh}
rollout:
  traffic: {steps: [2.5, 25, 100], bake: 10m, maxBake: 1h, testers: {header: "x-canary: always"}}
  approvalsBetween: ["25"]
  approvalTimeout: 24h
  health:
    probes: [{name: home, url: "https://web.example.com/"}]
traffic:
  router: {provider: proxy, settings: {admin: "http://127.0.0.1:9901"}}
`
	cat := config.Known()
	cfg, problems := config.Parse(config.Source{Name: "prod.yml", Data: []byte(file)}, nil, config.Options{Catalog: cat})
	if bad := problems.Of(config.Error); len(bad) > 0 {
		t.Fatal(bad.Err())
	}
	golden(t, "plan.txt", PlanText(plan.Warned(cfg, cat)))
}

// No line of any table ends in blanks, which would make every golden file and
// every copied text fragile.
func TestNoTrailingBlanks(t *testing.T) {
	for name, doc := range documents() {
		for _, text := range []string{StatusText(Status{Document: doc}), ActivityText(Activity(doc))} {
			for i, line := range strings.Split(text, "\n") {
				if strings.TrimRight(line, " \t") != line {
					t.Errorf("%s: line %d ends in blanks: %q", name, i+1, line)
				}
			}
		}
	}
}

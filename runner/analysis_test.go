package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/metric"
	metricmem "github.com/manent/action/providers/metric/memory"
	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/gate"
	"github.com/manent/action/state"
)

func TestAnalysisScoresAndPasses(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	longer(s)
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.Complete)
	stages := s.doc().Rollout.Stages
	for _, stage := range stages[:2] {
		if stage.Score == nil || *stage.Score != 100 || stage.Status != state.StagePassed {
			t.Errorf("stage %s: %s, score %v, want passed with 100", stage.Name, stage.Status, stage.Score)
		}
		if len(stage.Memory) == 0 || len(stage.Memory) > 1000 {
			t.Errorf("stage %s carries over %d bytes, want some and at most 1000", stage.Name, len(stage.Memory))
		}
	}
	s.holds(t)
}

// longer bakes a stage for ten minutes.
func longer(s *sim) {
	analysed(s)
	s.cfg.Rollout.Traffic.Bake, s.cfg.Rollout.Traffic.MaxBake = config.Duration(10*time.Minute), config.Duration(15*time.Minute)
}

// A fault that shows only under load is found by both, and the message has
// both sides.
func TestAnalysisReturnsWhatIsWorse(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	longer(s)
	s.broken = func(share float64) bool { return share >= 50 }
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.Failure)
	shares(t, s, "a 100, b 0")
	reason := s.doc().Rollout.Failure.Reason
	for _, want := range []string{"metric count: candidate ", " bad, stable ", ": ratio 19.", ", evidence 1e+"} {
		if !strings.Contains(reason, want) {
			t.Errorf("reason %q lacks %q", reason, want)
		}
	}
}

// Evidence goes over calls: each reading is another process, asks only for
// what the last one has not counted, and a retry begins with nothing.
func TestEvidenceGoesOverCalls(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	longer(s)
	s.broken = func(share float64) bool { return share >= 50 }
	var asked []metric.Query
	for range 200 {
		e := s.process()
		e.World.Metrics["memory"] = metricmem.New(func(q metric.Query) metric.Answer {
			if strings.HasPrefix(q.Text, "bad") && q.Step > 0 {
				asked = append(asked, q)
			}
			return s.answer(q)
		})
		out, err := e.Run(context.Background(), runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{NoWait: true})
		if err != nil {
			t.Fatal(err)
		}
		if out.Result == runner.Failure {
			break
		}
		_ = s.sleepAlive(30e9)
	}
	checkWindows(t, asked)
	first := s.doc().Rollout
	if first.Status != state.Returned {
		t.Fatalf("the rollout is %s, want returned", first.Status)
	}
	is(t, retry(t, s, "v2"), runner.Failure)
	if said := strings.Join(s.says, "\n"); !strings.Contains(said, "attempt 2 begins without evidence: it may be a false alarm with the same chance as the one before, 20 %") {
		t.Errorf("nobody said that the bound is spent anew:\n%s", said)
	}
	again := s.doc().Rollout
	if again.Attempt != 2 || counted(t, again.Stages[0]) != counted(t, first.Stages[0]) {
		t.Errorf("attempt %d counted %v events at the first share, want attempt 2 and %v", again.Attempt, counted(t, again.Stages[0]), counted(t, first.Stages[0]))
	}
}

// checkWindows: within a stage a side's windows join without a gap.
func checkWindows(t *testing.T, asked []metric.Query) {
	t.Helper()
	joined := 0
	for i, q := range asked[2:] {
		before := asked[i]
		if before.Text != q.Text {
			continue
		}
		_, end, err := metric.Align(before)
		if err == nil && q.From.Equal(end) {
			joined++
		}
	}
	if joined < 8 {
		t.Errorf("%d of %d windows begin where the one before has ended", joined, len(asked))
	}
}

func retry(t *testing.T, s *sim, version string) runner.Outcome {
	t.Helper()
	out, err := s.process().Run(context.Background(), runner.Request{Version: version, Config: s.cfg, Retry: true}, runner.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// counted is the number of the candidate's events that a stage has seen.
func counted(t *testing.T, stage state.Stage) float64 {
	t.Helper()
	var memory map[string]struct {
		Sums struct {
			All float64 `json:"candidate_all"`
		} `json:"sums"`
	}
	if err := json.Unmarshal(stage.Memory, &memory); err != nil {
		t.Fatalf("memory %s: %v", stage.Memory, err)
	}
	return memory["count"].Sums.All
}

// Every stored reading gives the same verdict offline.
func TestAnalysedReadingsReplay(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	longer(s)
	s.broken = func(share float64) bool { return share >= 50 }
	is(t, run(t, s, "v2", runner.RunOptions{}), runner.Failure)
	n := 0
	for _, stage := range s.doc().Rollout.Stages {
		for _, reading := range stage.Readings {
			if reading.Object == "" {
				continue
			}
			data, err := s.store.Object(context.Background(), key, reading.Object)
			if err != nil {
				t.Fatal(err)
			}
			var rec gate.Record
			if err := json.Unmarshal(data, &rec); err != nil {
				t.Fatal(err)
			}
			if again := gate.Replay(rec); again.Verdict != rec.Verdict || again.Reason != rec.Reason || string(again.Memory) != string(rec.Memory) {
				t.Errorf("%s: %s %s, stored as %s %s", reading.Object, again.Verdict, again.Reason, rec.Verdict, rec.Reason)
			}
			n++
		}
	}
	if n < 10 {
		t.Errorf("%d readings, want 10 or more", n)
	}
}

// bounds refuses what metric systems refuse: more steps than they answer with.
func (s *sim) bounds(q metric.Query) metric.Answer {
	if first, last, err := metric.Align(q); q.Step > 0 && (err != nil || last.Sub(first)/q.Step > 11_000) {
		return metric.Answer{ID: q.ID, Err: &providers.Fault{Provider: "memory", Kind: providers.Invalid, Err: fmt.Errorf("%v steps of %v", last.Sub(first)/q.Step, q.Step)}}
	}
	return s.answer(q)
}

// An approval that is given after weeks opens the way on one fresh reading,
// whether somebody watched meanwhile or not; and not for a version that has
// become worse since.
func TestApprovalAfterWeeksOfAnalysis(t *testing.T) {
	for _, tt := range []struct {
		name    string
		watched bool
		broken  bool
		want    runner.Result
	}{
		{"nobody watched", false, false, runner.Complete},
		{"watched now and then", true, false, runner.Complete},
		{"worse since", false, true, runner.Failure},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSim(t, routertest.MemoryOptions{})
			longer(s)
			s.cfg.Rollout.ApprovalsBetween, s.cfg.Rollout.ApprovalTimeout = []string{"50"}, config.Duration(30*24*time.Hour)
			engine := func() *runner.Engine {
				e := s.process()
				e.World.Metrics["memory"] = metricmem.New(s.bounds)
				return e
			}
			again := func() runner.Outcome {
				out, err := engine().Run(context.Background(), runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			is(t, again(), runner.Approval)
			every := 24 * time.Hour
			if stride > 1 { // under the race detector
				every *= 5
			}
			for range 20 * 24 * time.Hour / every {
				s.clock = s.clock.Add(every)
				if tt.watched {
					if _, err := engine().Resume(context.Background()); err != nil {
						t.Fatal(err)
					}
				}
			}
			s.broken = func(float64) bool { return tt.broken }
			decide(t, s, runner.Word{Verb: "approve", Version: "v2", Pause: s.doc().Rollout.Pause.ID})
			is(t, again(), tt.want)
			s.holds(t)
		})
	}
}

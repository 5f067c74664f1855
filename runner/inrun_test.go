package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/runner"
	"github.com/manent/action/state"
)

// asked is a rollout that waits for approval@5, which a job of the same run
// answers or not.
func asked(t *testing.T, inRun bool) *sim {
	t.Helper()
	s := newSim(t, routertest.MemoryOptions{})
	s.cfg.Rollout.ApprovalsBetween = []string{"5"}
	is(t, run(t, s, "v2", runner.RunOptions{Until: "approval@5", InRun: inRun}), runner.Reached)
	return s
}

// TestAnsweredInItsRun: a yes to an approval that a run has stopped in front of
// is taken from that run only; a no is taken from everywhere.
func TestAnsweredInItsRun(t *testing.T) {
	for _, row := range []struct {
		name      string
		inRun     bool
		verb      string
		elsewhere bool
		refused   bool
	}{
		{"yes of its run", true, "approve", false, false},
		{"yes from elsewhere", true, "approve", true, true},
		{"yes from elsewhere, no job answers", false, "approve", true, false},
		{"no from elsewhere", true, "reject", true, false},
		{"all back, from elsewhere", true, "revert", true, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := asked(t, row.inRun)
			pause := s.doc().Rollout.Pause.ID
			if got := runner.InRun(s.doc().Rollout); got != row.inRun {
				t.Errorf("answered in its run is %t, expected %t", got, row.inRun)
			}
			e := s.process()
			if row.elsewhere {
				e.World.Process.Owner.Run = "900"
			}
			err := e.Decide(context.Background(), runner.Word{Verb: row.verb, Version: "v2", Pause: pause, Who: "ada"})
			wrong, refused := errors.AsType[*runner.UsageError](err)
			if refused != row.refused || !refused && err != nil || refused && !strings.Contains(wrong.Reason, "a yes from elsewhere is not taken") {
				t.Errorf("error %v, expected refused %t", err, row.refused)
			}
			if n := len(s.doc().Rollout.Decisions); n != map[bool]int{true: 0, false: 1}[row.refused] {
				t.Errorf("%d decisions are recorded", n)
			}
		})
	}
}

// TestReviewCounts: a review takes the place of a yes that nobody has acted on
// and stands beside one that was acted on; it does not undo a no, and opens
// nothing that has ended.
func TestReviewCounts(t *testing.T) {
	word := func(verb, pause, who string) runner.Word {
		return runner.Word{Verb: verb, Version: "v2", Pause: pause, Who: who, Review: who == "bob"}
	}
	for _, row := range []struct {
		name  string
		first string // verb of ada's decision
		acted bool   // on it, before the review
		taken bool
	}{
		{"a yes", "approve", false, true},
		{"a yes that was acted on", "approve", true, true},
		{"a no", "reject", false, false},
		{"a no that was acted on", "reject", true, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := asked(t, false)
			pause := s.doc().Rollout.Pause.ID
			decide(t, s, word(row.first, pause, "ada"))
			if row.acted {
				run(t, s, "v2", runner.RunOptions{Until: "traffic@50"})
				pause = "approval@5"
			}
			err := s.process().Decide(context.Background(), word("approve", pause, "bob"))
			if (err == nil) != row.taken {
				t.Fatalf("error %v, expected that it is taken: %t", err, row.taken)
			}
			out := run(t, s, "v2", runner.RunOptions{})
			r := s.doc().Rollout
			if want := map[bool]state.Status{true: state.Completed, false: state.Returned}[row.taken]; r.Status != want {
				t.Fatalf("rollout is %s (%+v), expected %s", r.Status, out, want)
			}
			if by := runner.Given("approval@5", r); row.taken && by != "bob" || !row.taken && by != "" {
				t.Errorf("approved by %q", by)
			}
		})
	}
}

//go:build peers

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/manent/action/state"
)

// The replaced version is scaled down by a workflow of its own: not while the
// next rollout is at work, which has its slot, but while the next run waits in
// the group.
func actRetire(t *testing.T, kit *actKit) {
	h := kit.hub(t, with(t, "steps:\n", `plugin: {name: exec, settings: {deploy: "true", scale: "true", retire: 'echo $MANENT_SLOT >>$DIR/retired'}}
steps:
`))
	visitors := h.crowd(40)
	promoted := map[string]any{"prepare": "success", "stage-50": "success", "stage-100": "success", "return": "skipped"}
	h.dispatch(rolloutFile, "ada", ofVersion("2.0")).play().ended(promoted)
	next := h.dispatch(rolloutFile, "ada", ofVersion("3.0")).play("stage-100")
	h.retires("")
	next.play().ended(promoted)

	next = h.dispatch(rolloutFile, "ada", ofVersion("4.0")) // no runner has taken its first job yet
	h.retires("b\n")
	next.play("stage-50").ended(map[string]any{"prepare": "success"})
	h.retires("b\n")
	visitors.stop().unbroken(t)
	h.ends(state.Running, "a")
}

// retires runs the workflow that scales down when that is due, and demands
// what was scaled down by then.
func (h *gitHub) retires(want string) {
	h.t.Helper()
	doc, err := h.document()
	if err != nil {
		h.t.Fatal(err)
	}
	if due := doc.Passes[0].Retirement; due != nil {
		pause(h.t.Context(), time.Until(due.Due)) // what is waited for is this moment itself
	}
	h.scheduled().play().ended(map[string]any{"web-prod": "success"})
	got, err := os.ReadFile(filepath.Join(h.dir, "retired"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) || string(got) != want {
		h.t.Errorf("scaled down: %q, %v; expected %q", got, err, want)
	}
}

// In mode dispatch the first job begins the rollout, the schedule drives it
// through all its stages, and a person decides by workflow.
func actDispatch(t *testing.T, kit *actKit) {
	h := kit.hub(t, with(t, "rollout:\n", approve+"  wait: resume\n"), "--mode", "dispatch")
	visitors := h.crowd(40)
	h.dispatch(rolloutFile, "ada", ofVersion("2.0")).play().ended(map[string]any{"start": "success", "return": "skipped"})
	h.drive(func(r *state.Rollout) bool { return r.Pause != nil })
	h.drive(func(r *state.Rollout) bool { return true }) // nor does it wait for the person
	h.decide("approve").ended(map[string]any{"web-prod": "success"})
	h.drive(func(r *state.Rollout) bool { return r.Status.Terminal() })
	visitors.stop().unbroken(t)
	h.ends(state.Completed, "b")
	h.shown("success")
	if d := h.rollout().Decisions; len(d) != 1 || d[0].Verb != "approve" || d[0].Who != "linus" {
		t.Errorf("decisions %+v, expected the one of the workflow", d)
	}
}

// No job of that mode sleeps: they end although the stage has an hour to go.
// Cancelled by then, the run is returned by its return job.
func actAsleep(t *testing.T, kit *actKit) {
	h := kit.hub(t, with(t, "rollout:\n", "rollout:\n  wait: resume\n", baked, "bake: 1h"), "--mode", "dispatch")
	visitors := h.crowd(40)
	r := h.dispatch(rolloutFile, "ada", ofVersion("2.0"))
	r.end("start", r.begin("start"), "cancelled") // as its last act
	h.drive(func(r *state.Rollout) bool { return true })
	if stage := h.rollout().Stages[0]; stage.InForce.IsZero() || stage.Status != state.StageBaking || h.weights() != "50 50" {
		t.Errorf("stage %+v, expected it in its bake", stage)
	}
	r.play().ended(map[string]any{"start": "cancelled", "return": 1})
	visitors.stop().unbroken(t)
	h.ends(state.Returned, "a")
}

// drive lets the schedule come until the rollout is so.
func (h *gitHub) drive(until func(*state.Rollout) bool) {
	h.t.Helper()
	eventually(h.t, func() error {
		h.scheduled().play().ended(map[string]any{"web-prod": "success"})
		if r := h.rollout(); !until(r) {
			return fmt.Errorf("version %s is %s", r.Version, r.Status)
		}
		return nil
	})
}

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/manent/action/runner"
	"github.com/manent/action/state"
)

// self is the value of --owner that means the pipeline run of this process.
const self = "self"

// which names the rollout that a verb acts on: it never touches another one.
type which struct {
	version string
	rollout string
	owner   string
	attempt int
}

func (w *which) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&w.version, "version", "", "`VERSION` of the rollout")
	f.StringVar(&w.rollout, "rollout", "", "`ID` of the rollout")
	f.StringVar(&w.owner, "owner", "", "pipeline `RUN` that the rollout belongs to, self for this one")
	f.IntVar(&w.attempt, "attempt", 0, "`NUMBER` of the attempt that is meant (the current one)")
}

// find returns the current rollout if it is the one that is named.
func (w which) find(d *state.Document, me state.RunRef) (*state.Rollout, error) {
	r := d.Rollout
	if w.version == "" && w.rollout == "" && w.owner == "" {
		return nil, need("--version VERSION", "no rollout is named")
	}
	if r == nil {
		return nil, usage("start one with `manent run --version V`", "%s has no rollout", d.Key)
	}
	other := func(what, wanted, found string) error {
		return &runner.HeldError{
			Reason: fmt.Sprintf("%s %s is not the current one of %s, %s is (%s), begun by %s", what, wanted, d.Key, found, r.Status, whose(r.Owner)),
			Hint:   "`manent status` shows it",
		}
	}
	switch {
	case w.rollout != "" && w.rollout != r.ID:
		return nil, other("rollout", w.rollout, r.ID)
	case w.version != "" && w.version != r.Version:
		return nil, other("version", w.version, r.Version)
	case w.owner == self && !r.Owner.Same(me):
		return nil, other("run", me.Run, r.Owner.Run)
	case w.owner != "" && w.owner != self && w.owner != r.Owner.Run:
		return nil, other("run", w.owner, r.Owner.Run)
	case w.attempt != 0 && w.attempt != r.Attempt:
		return nil, other("attempt", fmt.Sprint(w.attempt), fmt.Sprint(r.Attempt))
	}
	return r, nil
}

// whose names a run for a person: by its page, if it has one.
func whose(run state.RunRef) string {
	if run.URL != "" {
		return run.URL
	}
	return strings.TrimSpace(run.Platform + " run " + run.Run)
}

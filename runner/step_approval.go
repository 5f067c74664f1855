package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/manent/action/runner/gate"
	"github.com/manent/action/runner/plan"
	"github.com/manent/action/state"
)

// stepApproval asks a person and, once approved, opens the way only after one
// fresh green reading of the stage: what was healthy when the question was
// asked need not be healthy now.
func stepApproval(ctx context.Context, c *call) (result, error) {
	rec := c.record()
	who := rec.Receipt["approved"]
	if who == "" {
		until := c.now.Add(c.cfg.Rollout.ApprovalTimeout.Std())
		if rec.Receipt == nil {
			rec.Receipt = state.Receipt{}
		}
		rec.Receipt["until"] = until.Format(time.RFC3339)
		if c.e.inRun == c.step.Name {
			rec.Receipt[inRun] = "run"
		}
		return result{
			state: isPaused, message: fmt.Sprintf("approval %s is asked for, until %s", c.step.Name, until.Format(time.RFC3339)),
			pause: &state.Pause{Kind: state.PauseApproval, Until: until},
		}, nil
	}
	if !c.watched() {
		return done("approved by %s", who), nil
	}
	return c.fresh(ctx, who)
}

// watched reports whether the stage has traffic of the candidate to judge.
func (c *call) watched() bool {
	stage := c.doc.Rollout.Stage(plan.StageName(c.step.Pass, c.step.Share))
	return stage != nil && !stage.InForce.IsZero() && stage.Status != state.StageUngated
}

// fresh takes readings from the approval on, as patiently as the stage was.
func (c *call) fresh(ctx context.Context, who string) (result, error) {
	given, err := time.Parse(time.RFC3339Nano, c.record().Receipt["given"])
	if err != nil {
		return result{}, fmt.Errorf("time of the approval: %w", err)
	}
	out, rec, res, err := c.reading(ctx, c.clock(c.stage()).Approved(given))
	if err != nil || res.state != "" {
		return res, err
	}
	switch {
	case gate.Opens(rec):
		return done("approved by %s, fresh reading %s", who, rec.Verdict), nil
	case out.Act == gate.Refuse:
		return failed(fmt.Sprintf("approved by %s, but no fresh reading is green: %s", who, out.Reason), ""), nil
	}
	return pending(out.Next, "approved by %s, waiting for a green reading: %s", who, rec.Reason), nil
}

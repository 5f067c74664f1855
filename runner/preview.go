package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/manent/action/providers/router"
	"github.com/manent/action/runner/plan"
)

// preview says what a call would do, from reading everything and writing
// nothing.
func (s *session) preview(ctx context.Context, act Action, now time.Time) (Outcome, error) {
	switch act.Do {
	case DoNothing:
		return terminal(s.doc.Rollout), nil
	case DoWait:
		return Outcome{Result: NotYet, Step: act.Step.Name, Until: act.Until, Message: "would wait: " + act.Reason}, nil
	case DoAsk:
		return asking(s.doc.Rollout), nil
	}
	step := s.stepOf(act)
	out := Outcome{Result: NotYet, Step: step.Name, Until: now, Message: "would do: " + kindOf(step.Kind).Does}
	if act.Do == DoComplete {
		out.Message = "would read the router and complete the rollout"
	}
	if step.Kind != plan.Traffic {
		return out, nil
	}
	c := &call{session: s, step: step, pass: s.doc.Pass(step.Pass), now: now}
	seen, err := c.read(ctx)
	if err != nil {
		return Outcome{}, &UnsureError{Step: step.Name, Err: err}
	}
	if reason := drift(seen, c.pass.Weights, nil); reason != "" {
		out.Message = "would pause: drift: " + reason
		return out, nil
	}
	to, got, err := c.planShare(step.Share, seen)
	if err != nil {
		return Outcome{}, &UnsureError{Step: step.Name, Err: err}
	}
	out.Message = fmt.Sprintf("would set share %s: %s to %s", router.PercentText(got), router.TextOf(seen.Weights()), router.TextOf(to))
	return out, nil
}

package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/runner/plan"
	"github.com/manent/action/state"
)

// RetireStep is the name of the delayed scale-down.
const RetireStep = "manent.traffic-retire"

// stepRetire scales a slot down if every condition holds; otherwise it touches
// nothing and says why.
func stepRetire(ctx context.Context, c *call) (result, error) {
	if reason, err := c.mayRetire(ctx); err != nil {
		return orFailed(err)
	} else if reason != "" {
		return pending(time.Time{}, "%s", reason), nil
	}
	gone := c.pass.Retirement
	if err := c.session.intend(ctx, c.step.Name); err != nil {
		return result{}, err
	}
	one, cancel := limit(ctx)
	defer cancel()
	if err := c.bundle().Scaler.Retire(one, plugin.Call{
		Slot: gone.Slot, Release: c.pass.Slots.Get(gone.Slot), StepID: gone.Rollout + "." + RetireStep + "." + string(gone.Slot), Output: c.e.World.Say,
	}); providers.IsConflict(err) {
		return pending(time.Time{}, "scale down slot %s: %v", gone.Slot, err), nil // something still reaches it, and stays
	} else if err != nil {
		return result{}, fmt.Errorf("scale down slot %s: %w", gone.Slot, err)
	}
	c.pass.Retirement = nil
	c.pass.Retired = c.pass.Promoted && gone.Slot != c.pass.Slots.Candidate
	c.dirty = true
	if gone.Version == "" {
		return done("what was in slot %s is scaled down", gone.Slot), nil // adopted, and nobody knows its version
	}
	return done("version %s in slot %s is scaled down", gone.Version, gone.Slot), nil
}

// mayRetire returns why the slot must stay, "" when it may go.
func (c *call) mayRetire(ctx context.Context) (string, error) {
	ret, p := c.pass.Retirement, c.pass
	held := p.Slots.Get(ret.Slot)
	switch {
	case c.doc.Active():
		return fmt.Sprintf("rollout %s is active", c.doc.Rollout.ID), nil
	case c.now.Before(ret.Due):
		return "due at " + ret.Due.Format(time.RFC3339), nil
	case held.Version != ret.Version || held.Ref[state.RefRollout] != ret.Ref[state.RefRollout]:
		return fmt.Sprintf("slot %s holds version %s, not %s any more", ret.Slot, held.Version, ret.Version), nil
	case p.Serving == ret.Slot:
		return fmt.Sprintf("slot %s serves", ret.Slot), nil
	case c.bundle().Scaler == nil:
		return "the plugin cannot scale a slot down", nil
	}
	seen, err := c.read(ctx)
	if err != nil {
		return "", err
	}
	if gone := leftOut(seen, p.Weights); gone != "" {
		return gone, nil
	}
	if seen.Testers {
		return "the testers' entry is still in place", nil
	}
	for _, part := range seen.Parts {
		if part.Shares[ret.Slot] > 0 || part.Pending {
			return fmt.Sprintf("part %s still gives slot %s %s", part.ID, ret.Slot, router.PercentText(part.Shares[ret.Slot])), nil
		}
		if part.Shares[p.Serving] <= 0 {
			return fmt.Sprintf("part %s gives the serving slot %s nothing", part.ID, p.Serving), nil
		}
	}
	return c.stillPinned(), nil
}

// stillPinned: clients that a cookie binds to the slot may still come.
func (c *call) stillPinned() string {
	s, ok := c.router().(router.Sticky)
	if !ok || c.doc.Rollout == nil {
		return ""
	}
	if until := c.doc.Rollout.Ended.Add(s.PinnedFor()); c.now.Before(until) {
		return "clients may be pinned to it until " + until.Format(time.RFC3339)
	}
	return ""
}

// Retire scales down what is due in every pass. It returns one line per
// retirement: what was done, or why not.
func (e *Engine) Retire(ctx context.Context) ([]Outcome, error) {
	s, err := e.open(ctx)
	if err != nil {
		return nil, err
	}
	var out []Outcome
	for i := range s.doc.Passes {
		pass := &s.doc.Passes[i]
		if pass.Retirement == nil {
			continue
		}
		c := &call{session: s, pass: pass, now: e.World.Now().UTC(),
			step: plan.Step{Name: RetireStep, Kind: plan.Retire, Pass: pass.Name}}
		res, err := stepRetire(ctx, c)
		if err != nil {
			return out, c.unsure(ctx, err)
		}
		if res.state == isPending && pass.Retirement.Reason != res.message {
			pass.Retirement.Reason = res.message
		}
		if err := s.save(ctx, RetireStep+": "+res.message); err != nil {
			return out, err
		}
		out = append(out, Outcome{Result: retireResult(res), Step: RetireStep, Message: res.message})
	}
	return out, nil
}

func retireResult(res result) Result {
	switch res.state {
	case isDone:
		return Progress
	case isFailed:
		return Unsure
	}
	return NotYet
}

package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// stepTraffic sets one share: drift check, intent, capacity, weights, in force
// at the data plane, read back. Entered again it continues from what it finds.
func stepTraffic(ctx context.Context, c *call) (result, error) {
	seen, err := c.read(ctx)
	if err != nil {
		return result{}, err
	}
	rec := c.doc.Rollout.Step(c.step.Name)
	var unfinished *state.Intent
	if rec != nil && rec.State == state.Started {
		unfinished = rec.Intent
	}
	if res, paused := c.checkDrift(seen, unfinished); paused {
		return res, nil
	}
	if unfinished == nil && !c.named(seen) && !c.doc.Rollout.First { // of a first release nobody's weights are in force
		if res, err := c.inForce(ctx, seen, ReadyLimit, false); err != nil || res.state != "" {
			return res, err
		}
	}
	intent, err := c.intentFor(seen, unfinished)
	if _, byHand := errors.AsType[*router.Hand](err); byHand {
		return drifted(err.Error(), seen), nil
	}
	if err != nil {
		return orFailed(err)
	}
	if err := c.intend(ctx, intent); err != nil {
		return result{}, err
	}
	if res, ok, err := c.capacity(ctx, c.step.Share); !ok {
		return res, err
	}
	return c.setShare(ctx, seen, intent)
}

// intentFor plans the write; an unfinished one keeps what it was to write.
func (c *call) intentFor(seen router.Reading, unfinished *state.Intent) (*state.Intent, error) {
	if unfinished != nil {
		return unfinished, nil
	}
	seen.Approved = c.named(seen)
	to, achieved, err := c.planShare(c.step.Share, seen)
	if err != nil {
		return nil, err
	}
	return &state.Intent{From: seen.Weights(), To: to, Share: achieved}, nil
}

// named reports whether a person, asked about these very weights at this step,
// wants them overwritten, or whether they are what a write of the last
// rollout's left, which was cut off.
func (c *call) named(seen router.Reading) bool {
	if rec := c.doc.Rollout.Step(c.step.Name); rec != nil && rec.Receipt[namedWeights] == digest(seen.Weights()) {
		return true
	}
	half := c.pass.Half
	return half != nil && seen.Between(half.From, half.To)
}

// setShare writes the intent's weights and proves them.
func (c *call) setShare(ctx context.Context, seen router.Reading, intent *state.Intent) (result, error) {
	if ctx.Err() != nil {
		return result{}, ctx.Err()
	}
	if err := c.beat(ctx); err != nil {
		return result{}, err
	}
	if c.calledBack() {
		return pending(c.e.World.Now().UTC(), "a decision came before the weights were written"), nil
	}
	one, cancel := limit(ctx)
	receipt, err := c.router().Write(one, c.pass.Slots, intent.To, seen)
	cancel()
	c.keepReceipt(receipt)
	if providers.IsConflict(err) {
		return c.conflict(ctx, intent, err)
	}
	if err != nil {
		return orFailed(fmt.Errorf("write weights: %w", err))
	}
	ok, err := c.settled(ctx, intent.To)
	if err != nil {
		return orFailed(fmt.Errorf("see weights in force: %w", err))
	}
	if !ok {
		return c.notYet("share %s is written, not yet in force", router.PercentText(intent.Share)), nil
	}
	return c.proven(ctx, intent)
}

// calledBack reports whether a person has asked for the return meanwhile, as a
// renewal of the lease brings it.
func (c *call) calledBack() bool {
	return slices.ContainsFunc(c.doc.Rollout.Decisions, func(d state.Decision) bool {
		return !d.Applied && d.Attempt == c.doc.Rollout.Attempt && (d.Verb == "revert" || d.Verb == "reject")
	})
}

// conflict looks at what the router holds after it refused a write: weights
// that are ours mean try again, others are drift.
func (c *call) conflict(ctx context.Context, intent *state.Intent, err error) (result, error) {
	seen, readErr := c.read(ctx)
	if readErr != nil {
		return result{}, readErr
	}
	if reason := drift(seen, nil, intent); reason != "" {
		return drifted(reason, seen), nil
	}
	return result{}, fmt.Errorf("write weights: the router refused them and shows what was expected: %w", err)
}

// proven reads the router once more and records the share.
func (c *call) proven(ctx context.Context, intent *state.Intent) (result, error) {
	seen, err := c.read(ctx)
	if err != nil {
		return result{}, err
	}
	if !router.SameParts(seen.Weights(), intent.To) {
		return drifted(drift(seen, intent.To, nil), seen), nil
	}
	c.pass.Weights, c.pass.Share, c.pass.Half = intent.To, intent.Share, nil
	stage := c.stage()
	stage.Status, stage.Achieved, stage.InForce = state.StageBaking, intent.Share, c.e.World.Now().UTC()
	return done("share %s in force: read %s, wrote %s, read back at the router", router.PercentText(intent.Share),
		router.TextOf(intent.From), router.TextOf(intent.To)), nil
}

// capacity makes the candidate ready for a share before it gets it. ok is false when
// the step has to end here.
func (c *call) capacity(ctx context.Context, share float64) (result, bool, error) {
	b, slot := c.bundle(), c.candidate()
	target := c.callFor(slot)
	if b.Scaler != nil && target.Gradual {
		one, cancel := limit(ctx)
		err := b.Scaler.Scale(one, target, share)
		cancel()
		if err != nil {
			res, err := orFailed(fmt.Errorf("scale slot %s for %s: %w", slot, router.PercentText(share), err))
			return res, false, err
		}
	}
	var reason string
	ok, err := c.poll(ctx, func(ctx context.Context) (bool, error) {
		var yes bool
		var err error
		yes, reason, err = c.ready(ctx, b.Ready, target, share)
		return yes, err
	})
	if err != nil {
		res, err := orFailed(fmt.Errorf("see slot %s ready for %s: %w", slot, router.PercentText(share), err))
		return res, false, err
	}
	if !ok {
		return c.notYet("slot %s is not ready for %s: %s", slot, router.PercentText(share), reason), false, nil
	}
	return result{}, true, nil
}

// ready asks the plugin, if it can tell, and the router, if it knows: a slot
// without a server that is up gets no traffic.
func (c *call) ready(ctx context.Context, plug plugin.Ready, target plugin.Call, share float64) (bool, string, error) {
	if plug != nil {
		if yes, reason, err := plug.Ready(ctx, target, share); err != nil || !yes {
			return false, reason, err
		}
	}
	if share == 0 {
		return true, "", nil
	}
	seen, err := c.read(ctx)
	if err != nil {
		return false, "", err
	}
	for _, p := range seen.Parts {
		if !hasCapacity(p, target.Slot) {
			return false, fmt.Sprintf("part %s of the router sees no server of it up", p.ID), nil
		}
	}
	return true, "", nil
}

// notYet says to come back, until the step has taken ReadyLimit: then it has
// failed.
func (c *call) notYet(format string, args ...any) result {
	why := fmt.Sprintf(format, args...)
	if took := c.e.World.Now().Sub(c.record().Began); took >= ReadyLimit {
		return failed(fmt.Sprintf("%s, after %s", why, took.Round(time.Second)), "look at the candidate; start again with `manent retry`")
	}
	return pending(c.later(), "%s", why)
}

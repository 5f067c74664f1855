package runner

import (
	"context"
	"fmt"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// stepTraffic sets one share: drift check, intent, capacity, weights, in force
// at the data plane, read back. Entered again it continues from what it finds.
func stepTraffic(ctx context.Context, c *call) (result, error) {
	seen, err := c.read(ctx)
	if err != nil {
		return orFailed(err)
	}
	rec := c.doc.Rollout.Step(c.step.Name)
	var unfinished *state.Intent
	if rec != nil && rec.State == state.Started {
		unfinished = rec.Intent
	}
	if res, paused := c.checkDrift(seen, unfinished); paused {
		return res, nil
	}
	intent, err := c.intentFor(seen, unfinished)
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
	to, achieved, err := c.planShare(c.step.Share, seen)
	if err != nil {
		return nil, err
	}
	return &state.Intent{From: seen.Weights(), To: to, Share: achieved}, nil
}

// setShare writes the intent's weights and proves them.
func (c *call) setShare(ctx context.Context, seen router.Reading, intent *state.Intent) (result, error) {
	if ctx.Err() != nil {
		return result{}, ctx.Err()
	}
	one, cancel := limit(ctx)
	receipt, err := c.router().Write(one, c.pass.Slots, intent.To, seen)
	cancel()
	if receipt != nil {
		c.record().Receipt = receipt
	}
	if providers.IsConflict(err) {
		return c.conflict(ctx, intent, err)
	}
	if err != nil {
		return orFailed(fmt.Errorf("write weights: %w", err))
	}
	ok, err := c.settled(ctx, intent.To, receipt)
	if err != nil {
		return orFailed(fmt.Errorf("see weights in force: %w", err))
	}
	if !ok {
		return pending(c.later(), "share %s is written, not yet in force", shareOf(intent.Share)), nil
	}
	return c.proven(ctx, intent)
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
	c.pass.Weights, c.pass.Share = intent.To, intent.Share
	stage := c.stage()
	stage.Status, stage.Achieved, stage.InForce = state.StageBaking, intent.Share, c.e.World.Now().UTC()
	return done("share %s in force: read %v, wrote %v, read back at the router", shareOf(intent.Share),
		weightsIn(intent.From), weightsIn(intent.To)), nil
}

// weightsIn shows weights shortly: without part names when there is one part.
func weightsIn(parts []state.PartWeights) any {
	if len(parts) == 1 {
		return parts[0].Weights
	}
	all := map[string]map[string]float64{}
	for _, p := range parts {
		all[p.ID] = p.Weights
	}
	return all
}

// capacity makes the candidate ready for a share before it gets it. ok is false when
// the step has to end here.
func (c *call) capacity(ctx context.Context, share float64) (result, bool, error) {
	b, slot := c.bundle(), c.candidate()
	target := c.callFor(slot)
	if b.Scaler != nil && c.cfg.Rollout.Traffic.Replicas == "proportional" {
		one, cancel := limit(ctx)
		err := b.Scaler.Scale(one, target, share)
		cancel()
		if err != nil {
			res, err := orFailed(fmt.Errorf("scale slot %s for %s: %w", slot, shareOf(share), err))
			return res, false, err
		}
	}
	if b.Ready == nil {
		return result{}, true, nil
	}
	var reason string
	ok, err := c.poll(ctx, func(ctx context.Context) (bool, error) {
		yes, why, err := b.Ready.Ready(ctx, target, share)
		reason = why
		return yes, err
	})
	if err != nil {
		res, err := orFailed(fmt.Errorf("see slot %s ready for %s: %w", slot, shareOf(share), err))
		return res, false, err
	}
	if !ok {
		return pending(c.later(), "slot %s is not ready for %s: %s", slot, shareOf(share), reason), false, nil
	}
	return result{}, true, nil
}

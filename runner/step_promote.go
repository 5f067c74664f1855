package runner

import (
	"context"
	"fmt"

	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// stepPromote makes the candidate the serving version: the weights are read
// again and must be the ones written at 100 %, the router promotes if it has
// to, the testers' entry goes away.
func stepPromote(ctx context.Context, c *call) (result, error) {
	seen, err := c.read(ctx)
	if err != nil {
		return result{}, err
	}
	rec := c.doc.Rollout.Step(c.step.Name)
	entered := rec != nil && rec.Tries > 0
	_, promotes := c.router().(router.Promoter)
	if res, paused := c.checkDrift(seen, nil); paused && (!entered || !promotes) {
		return res, nil
	}
	if !promotes && seen.Share(c.candidate().Other()) > 0 {
		return result{}, fmt.Errorf("the router still gives slot %s %s, expected 0 before promote", c.candidate().Other(), router.PercentText(seen.Share(c.candidate().Other())))
	}
	if err := c.intend(ctx, nil); err != nil {
		return result{}, err
	}
	if err := c.promote(ctx); err != nil {
		return orFailed(err)
	}
	if c.pass.Testers {
		if _, err := c.target(ctx, false); err != nil {
			return orFailed(err)
		}
		c.pass.Testers = false
	}
	c.pass.Serving, c.pass.Promoted = c.candidate(), true
	return done("version %s in slot %s is the serving version", c.doc.Rollout.Version, c.candidate()), nil
}

func (c *call) promote(ctx context.Context) error {
	p, ok := c.router().(router.Promoter)
	if !ok {
		return nil
	}
	if err := c.beat(ctx); err != nil {
		return err
	}
	ctx, cancel := limit(ctx)
	defer cancel()
	slots, seen, receipt, err := p.Promote(ctx, c.pass.Slots, c.record().Receipt)
	c.keepReceipt(receipt)
	if err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	c.pass.Slots, c.pass.Weights = slots, seen.Weights()
	return nil
}

// complete proves that the new version serves, everywhere, and ends the
// rollout. The replaced version stays ready for scaleDownDelay.
func complete(ctx context.Context, c *call) (result, error) {
	for i := range c.doc.Passes {
		pass := &c.doc.Passes[i]
		if !ours(pass, c.doc.Rollout.ID) {
			continue
		}
		one := &call{session: c.session, step: c.step, pass: pass, now: c.now}
		one.step.Pass = pass.Name
		if res, err := one.serves(ctx); err != nil || res.state != "" {
			return res, err
		}
	}
	r := c.doc.Rollout
	end(r, state.Completed, c.e.World.Now().UTC())
	for i := range c.doc.Passes {
		pass := &c.doc.Passes[i]
		if ours(pass, r.ID) && !r.First {
			c.retireLater(pass, pass.Slots.Candidate.Other(), r.Ended.Add(c.cfg.Rollout.Traffic.ScaleDownDelay.Std()))
		}
	}
	c.dirty = true
	return done("version %s serves with all traffic, read at the router", r.Version), nil
}

// serves reads one pass's router: all traffic at the candidate.
func (c *call) serves(ctx context.Context) (result, error) {
	seen, err := c.read(ctx)
	if err != nil {
		return result{}, err
	}
	if res, paused := c.checkDrift(seen, nil); paused {
		return res, nil
	}
	other := c.candidate().Other()
	if share := seen.Share(other); share > 0 {
		return result{}, fmt.Errorf("the router gives slot %s %s, expected 0: version %s does not serve alone", other, router.PercentText(share), c.doc.Rollout.Version)
	}
	ok, err := c.settledWith(ctx, c.pass.Weights, nil)
	if err != nil {
		return orFailed(fmt.Errorf("see weights in force: %w", err))
	}
	if !ok {
		return c.notYet("the weights are written but not in force at the data plane"), nil
	}
	return result{}, nil
}

package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/manent/action/providers/router"
	"github.com/manent/action/runner/plan"
	"github.com/manent/action/state"
)

// stepRevert brings one pass back: capacity of stable, all weight to stable,
// read back, testers off, promotion undone, the candidate's scale-down set. It
// never compares with stored weights: it reads, overwrites ours, keeps foreign
// entries, does each part it can reach and stays until every part confirms.
func stepRevert(ctx context.Context, c *call) (result, error) {
	c.begun(nil)
	if err := c.intendBack(ctx, c.step.Name); err != nil {
		return result{}, err
	}
	c.doc.Rollout.Return.Tries++
	if reason, err := c.stableReady(ctx); err != nil || reason != "" {
		return c.stay(result{message: reason}, err)
	}
	slots := c.pass.Slots
	back, err := c.bringBack(ctx)
	if wait := min(c.pass.Unsettled.Sub(c.e.World.Now()), CallLimit); err == nil && wait > 0 { // whatever the clock was that wrote it
		back, err = c.bringBackAgain(ctx, slots, wait)
	}
	if err != nil {
		return c.stay(result{}, err)
	}
	c.comeBack(back)
	return done("all traffic is at slot %s: %v, read back at the router", c.stable(), weightsIn(back)), nil
}

func (c *call) stable() state.Slot { return c.candidate().Other() }

// bringBack undoes the promotion, sets and proves the weights, and takes the
// testers' entry away.
func (c *call) bringBack(ctx context.Context) ([]state.PartWeights, error) {
	if err := c.unpromote(ctx); err != nil {
		return nil, err
	}
	back, err := c.allBack(ctx)
	if err != nil {
		return nil, err
	}
	return back, c.testersOff(ctx)
}

// bringBackAgain does it once more, from the slots as they were, when the
// longest call whose answer was lost is over: it may have landed late.
func (c *call) bringBackAgain(ctx context.Context, slots state.Slots, wait time.Duration) ([]state.PartWeights, error) {
	if err := c.e.World.Sleep(ctx, wait); err != nil {
		return nil, err
	}
	c.pass.Slots = slots
	c.record().Receipt = nil
	return c.bringBack(ctx)
}

// stableReady restores stable's capacity before its weight. A scaler that does
// not answer keeps nobody on a bad version: whether stable is ready decides.
func (c *call) stableReady(ctx context.Context) (reason string, err error) {
	b, stable := c.bundle(), c.callFor(c.stable())
	if b.Scaler != nil {
		one, cancel := limit(ctx)
		if err := b.Scaler.Scale(one, stable, 100); err != nil {
			c.e.World.Say(fmt.Sprintf("scale up slot %s: %v", c.stable(), err))
		}
		cancel()
	}
	if b.Ready == nil {
		return "", nil
	}
	ok, err := c.poll(ctx, func(ctx context.Context) (bool, error) {
		yes, why, err := b.Ready.Ready(ctx, stable, 100)
		reason = why
		return yes, err
	})
	if err == nil && ok {
		return "", nil
	}
	return fmt.Sprintf("slot %s is not ready: %s", c.stable(), reason), err
}

// stay keeps the rollout returning: traffic may still reach the candidate.
func (c *call) stay(res result, err error) (result, error) {
	why := res.message
	if err != nil {
		if errors.Is(err, errStale) || errors.Is(err, context.Canceled) {
			return result{}, err
		}
		why = err.Error()
	}
	c.doc.Rollout.Return.Pending = []string{why}
	return pending(c.later(), "return unfinished, traffic may still reach the candidate: %s", why), nil
}

// allBack writes stable's weights part by part, so that one that cannot be
// reached keeps no other one, and proves them.
func (c *call) allBack(ctx context.Context) ([]state.PartWeights, error) {
	seen, err := c.readParts(ctx)
	if err != nil {
		return nil, err
	}
	want, _, err := c.planShare(0, reachable(seen))
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, p := range seen.Parts {
		if p.Err != nil {
			failed = append(failed, fmt.Errorf("part %s: %w", p.ID, p.Err))
			continue
		}
		to, _ := router.Find(want, p.ID)
		if err := c.partBack(ctx, p, state.PartWeights{ID: p.ID, Weights: to}); err != nil {
			failed = append(failed, fmt.Errorf("part %s: %w", p.ID, err))
		}
	}
	if len(failed) > 0 {
		return nil, errors.Join(failed...)
	}
	return c.confirm(ctx, want)
}

// reachable is a reading without the parts that cannot be read.
func reachable(seen router.Reading) router.Reading {
	seen.Parts = slices.DeleteFunc(slices.Clone(seen.Parts), func(p router.Part) bool { return p.Err != nil })
	return seen
}

// partBack writes one part and sees it in force, also when it holds what is
// wanted already: accepted is not in force. Somebody who writes at the same
// time makes a conflict: the part is read again and written over what is there.
func (c *call) partBack(ctx context.Context, p router.Part, to state.PartWeights) error {
	for tries := 0; ; tries++ {
		one, cancel := limit(ctx)
		receipt, err := c.router().Write(one, c.pass.Slots, []state.PartWeights{to}, router.Reading{Parts: []router.Part{p}})
		cancel()
		if err == nil {
			ok, err := c.settled(ctx, []state.PartWeights{to}, receipt)
			if err == nil && !ok {
				err = errors.New("written, not yet in force")
			}
			return err
		}
		if tries == 3 {
			return err
		}
		seen, readErr := c.readParts(ctx)
		if readErr != nil {
			return errors.Join(err, readErr)
		}
		i := slices.IndexFunc(seen.Parts, func(q router.Part) bool { return q.ID == p.ID })
		if i < 0 || seen.Parts[i].Err != nil {
			return err
		}
		p = seen.Parts[i]
	}
}

// confirm reads the router: every part must show what was wanted.
func (c *call) confirm(ctx context.Context, want []state.PartWeights) ([]state.PartWeights, error) {
	seen, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	if !router.SameParts(seen.Weights(), want) {
		return nil, fmt.Errorf("the router shows %v, expected %v", weightsIn(seen.Weights()), weightsIn(want))
	}
	return want, nil
}

func (c *call) testersOff(ctx context.Context) error {
	if _, ok := c.router().(router.Targeter); !ok || c.cfg.Rollout.Traffic.Testers == nil {
		return nil
	}
	_, err := c.target(ctx, false)
	return err
}

func (c *call) unpromote(ctx context.Context) error {
	p, ok := c.router().(router.Promoter)
	if !ok || !c.pass.Promoted && c.doc.Rollout.Step(plan.Name{Kind: plan.Promote, Pass: c.step.Pass}.String()) == nil {
		return nil
	}
	ctx, cancel := limit(ctx)
	defer cancel()
	rec := c.record()
	slots, _, receipt, err := p.Unpromote(ctx, c.pass.Slots, rec.Receipt)
	if receipt != nil {
		rec.Receipt = receipt
	}
	if err != nil {
		return fmt.Errorf("undo promote: %w", err)
	}
	c.pass.Slots = slots
	return nil
}

// comeBack records the pass as it was before the rollout.
func (c *call) comeBack(back []state.PartWeights) {
	p, r := c.pass, c.doc.Rollout
	p.Weights, p.Share, p.Testers, p.Promoted, p.Unsettled = back, 0, false, false, time.Time{}
	p.Serving = c.stable()
	wait := 30 * time.Second
	if s, ok := c.router().(router.Sticky); ok {
		wait = max(wait, s.PinnedFor())
	}
	c.retireLater(p, c.candidate(), c.e.World.Now().UTC().Add(wait))
	r.Return.Passes = slices.DeleteFunc(r.Return.Passes, func(name string) bool { return name == p.Name })
	r.Return.Pending = nil
	rec := c.record()
	rec.State, rec.Ended = state.Done, c.e.World.Now().UTC()
	rec.Message = fmt.Sprintf("all traffic is at slot %s: %v", p.Serving, weightsIn(back))
	c.forgetIntents()
	if len(r.Return.Passes) == 0 {
		end(r, state.Returned, rec.Ended)
	}
	c.dirty = true
}

// forgetIntents closes the pass's unfinished writes: the return overwrote them.
func (c *call) forgetIntents() {
	for i := range c.doc.Rollout.Steps {
		if s := &c.doc.Rollout.Steps[i]; s.Pass == c.step.Pass && s.State == state.Started {
			s.State, s.Ended = state.Failed, c.e.World.Now().UTC()
		}
	}
}

// retireLater sets a scale-down, for plugins that scale.
func (c *call) retireLater(p *state.Pass, slot state.Slot, due time.Time) {
	if c.e.World.Plugin(p.Name).Scaler == nil {
		return
	}
	old := p.Slots.Get(slot)
	p.Retirement = &state.Retirement{Slot: slot, Version: old.Version, Ref: old.Ref, Rollout: c.doc.Rollout.ID, Due: due}
}

// returned ends a return that had nothing to move: no slot was claimed yet.
func returned(c *call) (result, error) {
	end(c.doc.Rollout, state.Returned, c.e.World.Now().UTC())
	c.dirty = true
	return done("nothing was moved"), nil
}

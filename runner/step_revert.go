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
	if reason, err := c.restore(ctx); err != nil || reason != "" {
		return c.stay(result{message: reason}, err)
	}
	back, err := c.bringBack(ctx)
	if wait := min(c.pass.Unsettled.Sub(c.e.World.Now()), CallLimit); err == nil && wait > 0 { // whatever the clock was that wrote it
		back, err = c.bringBackAgain(ctx, wait)
	}
	if err != nil {
		return c.stay(result{}, err)
	}
	c.comeBack(back)
	return done("all traffic is at slot %s: %s, read back at the router", c.stable(), router.TextOf(back)), nil
}

func (c *call) stable() state.Slot { return c.candidate().Other() }

// bringBack undoes the promotion, sets and proves the weights, and takes the
// testers' entry away.
func (c *call) bringBack(ctx context.Context) ([]state.PartWeights, error) {
	if err := c.unpromote(ctx); err != nil {
		return nil, err
	}
	back, err := c.allBack(ctx)
	if gone(err) || ctx.Err() != nil {
		return nil, err
	}
	return back, errors.Join(err, c.testersOff(ctx)) // testers leave whatever keeps the weights
}

// bringBackAgain does it once more, from the slots as they were, when the
// longest call whose answer was lost is over: it may have landed late.
func (c *call) bringBackAgain(ctx context.Context, wait time.Duration) ([]state.PartWeights, error) {
	c.e.doing("all traffic is back; once more when a call whose answer was lost can no longer land", c.e.World.Now().Add(wait))
	if err := c.e.World.Sleep(ctx, wait); err != nil {
		return nil, err
	}
	if c.pass.Before != nil {
		c.pass.Slots = *c.pass.Before
	}
	c.record().Receipt = nil
	return c.bringBack(ctx)
}

// restore brings stable's capacity back before its weight, and returns why the
// weight has to wait. A scaler that does not answer, a slot of which nobody
// can say whether it is ready, and one that serves and is not wholly ready
// after pollLimit keep nobody on a bad version.
func (c *call) restore(ctx context.Context) (reason string, err error) {
	b, stable := c.bundle(), c.callFor(c.stable())
	if b.Scaler != nil {
		one, cancel := limit(ctx)
		if err := b.Scaler.Scale(one, stable, 100); err != nil {
			c.e.World.Say(fmt.Sprintf("scale up slot %s: %v", c.stable(), err))
		}
		cancel()
	}
	if b.Ready == nil {
		if nothingUp(c.reachableParts(ctx), stable.Slot) {
			return fmt.Sprintf("the router sees no server of slot %s up", stable.Slot), nil
		}
		return "", nil
	}
	var unknown error
	ok, err := c.poll(ctx, func(ctx context.Context) (yes bool, err error) {
		yes, reason, unknown = b.Ready.Ready(ctx, stable, 100)
		if k := providers.KindOf(unknown); k == providers.NotFound || k == providers.Invalid {
			reason, unknown = unknown.Error(), nil // there is nothing that could be ready
		}
		return yes || unknown != nil, nil
	})
	reason = fmt.Sprintf("slot %s is not ready: %s", c.stable(), reason)
	switch {
	case err != nil || ctx.Err() != nil:
		return "", errors.Join(err, ctx.Err())
	case unknown != nil:
		reason = fmt.Sprintf("whether slot %s is ready cannot be told: %v", c.stable(), unknown)
		if nothingUp(c.reachableParts(ctx), stable.Slot) {
			return reason + "; the router sees no server of it up", nil
		}
	case ok:
		return "", nil
	case c.e.World.Now().Sub(c.record().Began) < pollLimit || !c.partlyServes(ctx, stable):
		return reason, nil
	}
	c.e.World.Say(reason + "; its weight is written all the same")
	return "", nil
}

// partlyServes reports whether stable serves some traffic now, or could: a
// slot in which nothing is ready is no way out of a bad version.
func (c *call) partlyServes(ctx context.Context, stable plugin.Call) bool {
	parts := c.reachableParts(ctx)
	serves := slices.ContainsFunc(parts, func(p router.Part) bool {
		return hasCapacity(p, stable.Slot) && (p.Shares[stable.Slot] > 0 || p.Units[stable.Slot] > 0)
	})
	if serves || nothingUp(parts, stable.Slot) {
		return serves
	}
	one, cancel := limit(ctx)
	defer cancel()
	some, _, err := c.bundle().Ready.Ready(one, stable, 1)
	return err == nil && some
}

// nothingUp reports whether the router knows, on every part it can read, that
// no server of the slot is up.
func nothingUp(parts []router.Part, slot state.Slot) bool {
	return len(parts) > 0 && !slices.ContainsFunc(parts, func(p router.Part) bool { return hasCapacity(p, slot) })
}

// reachableParts are those that can be read, none when the router cannot.
func (c *call) reachableParts(ctx context.Context) []router.Part {
	seen, err := c.readParts(ctx)
	if err != nil {
		return nil // what cannot be read cannot be written either
	}
	return reachable(seen).Parts
}

// stay keeps the rollout returning: traffic may still reach the candidate.
func (c *call) stay(res result, err error) (result, error) {
	why := res.message
	if err != nil {
		if gone(err) || errors.Is(err, context.Canceled) {
			return result{}, err
		}
		why = err.Error()
	}
	c.doc.Rollout.Return.Pending = []string{why}
	return pending(c.later(), "return unfinished, traffic may still reach the candidate: %s", why), nil
}

// allBack writes stable's weights part by part, so that one that cannot be
// reached keeps no other one, then sees each in force, also one that held them
// already: accepted is not in force. At last it proves them all.
func (c *call) allBack(ctx context.Context) ([]state.PartWeights, error) {
	seen, err := c.readParts(ctx)
	if err != nil {
		return nil, err
	}
	want, _, err := c.planShare(0, reachable(seen))
	if err != nil {
		return nil, err
	}
	failed, err := c.writeBack(ctx, seen, want)
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, p := range seen.Parts {
		err := failed[p.ID]
		if err == nil {
			to, _ := router.Find(want, p.ID)
			err = c.backInForce(ctx, state.PartWeights{ID: p.ID, Weights: to})
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("part %s: %w", p.ID, err))
		}
	}
	if missing := leftOut(seen, c.pass.Weights); missing != "" && c.cfg.Rollout.Traffic.OnDrift != "ignore" {
		problems = append(problems, errors.New(missing))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return c.confirm(ctx, want)
}

// writeBack writes every part once, then those that did not take it again from
// a new reading: up to four times where somebody writes at the same time (a
// conflict: what is there is written over), else twice. It returns what keeps
// each part, and an error only when this process may not write any more.
func (c *call) writeBack(ctx context.Context, seen router.Reading, want []state.PartWeights) (map[string]error, error) {
	failed := map[string]error{}
	for round := range 4 {
		left := 0
		for _, p := range seen.Parts {
			err, tried := failed[p.ID]
			if tried && (err == nil || round > 1 && !providers.IsConflict(err)) {
				continue
			}
			if err = c.partBack(ctx, p, want); gone(err) {
				return nil, err
			}
			if failed[p.ID] = err; err != nil {
				left++
			}
		}
		if left == 0 || round == 3 {
			break
		}
		again, err := c.readParts(ctx)
		if gone(err) {
			return nil, err
		}
		if err == nil {
			seen = again
		}
	}
	return failed, nil
}

// partBack writes one part.
func (c *call) partBack(ctx context.Context, p router.Part, want []state.PartWeights) error {
	to, planned := router.Find(want, p.ID)
	switch {
	case p.Err != nil:
		return p.Err
	case !planned:
		return errors.New("it could not be read at first")
	}
	if err := c.beat(ctx); err != nil {
		return err
	}
	one, cancel := limit(ctx)
	defer cancel()
	receipt, err := c.router().Write(one, c.pass.Slots, []state.PartWeights{{ID: p.ID, Weights: to}}, router.Reading{Parts: []router.Part{p}})
	c.keepReceipt(receipt)
	return err
}

func (c *call) backInForce(ctx context.Context, to state.PartWeights) error {
	ok, err := c.settled(ctx, []state.PartWeights{to})
	if err == nil && !ok {
		err = errors.New("written, not yet in force")
	}
	return err
}

// reachable is a reading without the parts that cannot be read.
func reachable(seen router.Reading) router.Reading {
	seen.Parts = slices.DeleteFunc(slices.Clone(seen.Parts), func(p router.Part) bool { return p.Err != nil })
	return seen
}

// confirm reads the router: every part must show what was wanted, and nothing
// but stable may get traffic.
func (c *call) confirm(ctx context.Context, want []state.PartWeights) ([]state.PartWeights, error) {
	seen, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	if !router.SameParts(seen.Weights(), want) {
		return nil, fmt.Errorf("the router shows %s, expected %s", router.TextOf(seen.Weights()), router.TextOf(want))
	}
	if found := astray(seen, c.stable()); found != "" {
		return nil, errors.New(found)
	}
	return want, nil
}

// rounding is how far shares that a system adds up from rounded ones may be
// from 100, in points. Weights are compared exactly.
const rounding = 0.2

// astray says what of the traffic does not reach the slot, "" when all does.
func astray(seen router.Reading, slot state.Slot) string {
	for _, p := range seen.Parts {
		if len(p.Foreign) > 0 {
			return fmt.Sprintf("part %s gives traffic to entries that are in no slot, with weights %s", p.ID, router.Text(p.Foreign))
		}
		if share := p.Shares[slot]; share < 100-rounding {
			return fmt.Sprintf("part %s gives slot %s %s of the traffic, expected 100%s", p.ID, slot, router.PercentText(share), changedBy(p))
		}
	}
	return ""
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
	if err := c.beat(ctx); err != nil {
		return err
	}
	if c.pass.Before == nil {
		before := c.pass.Slots
		c.pass.Before, c.dirty = &before, true
	}
	ctx, cancel := limit(ctx)
	defer cancel()
	slots, _, receipt, err := p.Unpromote(ctx, c.pass.Slots, c.record().Receipt)
	c.keepReceipt(receipt)
	if err != nil {
		return fmt.Errorf("undo promote: %w", err)
	}
	c.pass.Slots = slots
	return nil
}

// comeBack records the pass as it was before the rollout.
func (c *call) comeBack(back []state.PartWeights) {
	p, r := c.pass, c.doc.Rollout
	p.Weights, p.Share, p.Testers, p.Promoted, p.Half, p.Before, p.Off, p.Unsettled = back, 0, false, false, nil, nil, time.Time{}, time.Time{}
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
	rec.Message = fmt.Sprintf("all traffic is at slot %s: %s", p.Serving, router.TextOf(back))
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

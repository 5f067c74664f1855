package runner

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// stepPrepare finds out who serves and claims the other slot. The slot is
// never assumed: the router says which one has traffic and ready capacity; an
// empty state over a serving slot is adopted. It changes nothing but the
// document, and cancels the slot's pending retirement in the same write.
func stepPrepare(ctx context.Context, c *call) (result, error) {
	seen, err := c.read(ctx)
	if err != nil {
		return orFailed(err)
	}
	serving, reason := whoServes(seen)
	for looks := 0; serving == "" && reason == "" && looks < firstLooks; looks++ {
		if seen, err = c.lookAgain(ctx); err != nil {
			return orFailed(err)
		}
		serving, reason = whoServes(seen)
	}
	if reason == "" {
		reason = c.down(seen, serving)
	}
	if reason != "" {
		return busy(reason), nil
	}
	adopting := c.pass.Serving == ""
	if res, paused := c.disagree(seen, serving); paused {
		return res, nil
	}
	free := serving.Other()
	if serving == "" {
		free = state.SlotA
	}
	if share := seen.Share(free); serving != "" && share > 0 {
		return busy(fmt.Sprintf("slot %s has %s of the traffic", free, router.PercentText(share))), nil
	}
	if reason, err := c.weighs(free, serving, seen); err != nil {
		return orFailed(err)
	} else if reason != "" {
		return busy(reason), nil
	}
	if seen.Testers {
		return busy(fmt.Sprintf("the testers' entry for slot %s is still in place", free)), nil
	}
	if until := c.pinnedUntil(); c.now.Before(until) {
		return pending(until, "clients may be pinned to slot %s until %s", free, until.Format(time.RFC3339)), nil
	}
	c.claim(free, serving, seen)
	return done("%s", c.claimed(serving, free, adopting)), nil
}

// firstLooks is how often, a second apart, the router is asked again before
// "no slot has ready capacity" is believed: one failed look is a hiccup, and a
// first release gets all traffic at once.
const firstLooks = 4

func (c *call) lookAgain(ctx context.Context) (router.Reading, error) {
	if err := c.e.World.Sleep(ctx, time.Second); err != nil {
		return router.Reading{}, err
	}
	return c.read(ctx)
}

// down says that the slot which is known to serve has traffic and no server
// that is up: a service that is down is no first release.
func (c *call) down(seen router.Reading, serving state.Slot) string {
	known := c.pass.Serving
	if serving != "" || known == "" || seen.Share(known) == 0 {
		return ""
	}
	return fmt.Sprintf("slot %s serves version %s and has the traffic, but the router sees no server of it up", known, c.pass.Slots.Get(known).Version)
}

// whoServes returns the slot that has weight and ready capacity, "" on a first
// release. Both slots with weight are an answer that only a person can settle.
func whoServes(seen router.Reading) (serving state.Slot, busy string) {
	for _, p := range seen.Parts {
		for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
			if p.Shares[slot] <= 0 || !hasCapacity(p, slot) {
				continue
			}
			if serving != "" && serving != slot {
				return "", fmt.Sprintf("both slots have traffic: part %s gives %s to a and %s to b%s", p.ID, router.PercentText(p.Shares[state.SlotA]), router.PercentText(p.Shares[state.SlotB]), changedBy(p))
			}
			serving = slot
		}
		if len(p.Foreign) > 0 {
			return "", fmt.Sprintf("part %s has foreign entries with weight, so that a share of ours is not a share of the traffic: %s%s", p.ID, router.Text(p.Foreign), changedBy(p))
		}
	}
	return serving, ""
}

// hasCapacity: a router that does not know its servers is believed.
func hasCapacity(p router.Part, slot state.Slot) bool {
	up, known := p.Units[slot]
	return !known || up > 0
}

// disagree pauses when router and state name different slots, unless a person
// has already said that the router is right.
func (c *call) disagree(seen router.Reading, serving state.Slot) (result, bool) {
	if c.pass.Serving == "" || c.pass.Serving == serving || serving != "" && c.cfg.Rollout.Traffic.OnDrift == "ignore" {
		return result{}, false
	}
	if rec := c.doc.Rollout.Step(c.step.Name); rec != nil && rec.Receipt["approved"] != "" && router.SameParts(c.pass.Weights, seen.Weights()) {
		return result{}, false
	}
	who := "no slot"
	if serving != "" {
		who = "slot " + string(serving)
	}
	return drifted(fmt.Sprintf("the router has %s serving, the state has slot %s with version %s", who,
		c.pass.Serving, c.pass.Slots.Get(c.pass.Serving).Version)+whoChanged(seen), seen), true
}

// weighs says which unit of the free slot has weight although it gets no
// traffic: its server is down, and would serve as soon as it is up. Which units
// are the slot's is what a plan for share 0 takes the weight of.
func (c *call) weighs(free, serving state.Slot, seen router.Reading) (string, error) {
	if serving == "" {
		return "", nil // a first release may have all weight already
	}
	none, _, err := c.planFor(free, 0, seen)
	if err != nil {
		return "", err
	}
	for _, p := range none {
		has, _ := router.Find(seen.Weights(), p.ID)
		for unit, w := range p.Weights {
			if w == 0 && has[unit] > 0 {
				return fmt.Sprintf("part %s has weight %v for %s of slot %s, which is down: it would serve once it is up", p.ID, has[unit], unit, free), nil
			}
		}
	}
	return "", nil
}

// whoChanged names who changed each part last, as far as systems say.
func whoChanged(seen router.Reading) string {
	out := ""
	for _, p := range seen.Parts {
		if p.By != "" {
			out += fmt.Sprintf("; part %s%s", p.ID, strings.TrimPrefix(changedBy(p), ","))
		}
	}
	return out
}

// busy refuses to use a slot that is not free.
func busy(reason string) result {
	return result{state: isPaused, message: "the free slot is not free: " + reason,
		pause: &state.Pause{Kind: state.PauseBusy}}
}

// pinnedUntil is when the last client that a cookie binds to the free slot is
// free, as far as the last rollout tells.
func (c *call) pinnedUntil() time.Time {
	sticky, ok := c.router().(router.Sticky)
	if !ok || len(c.doc.History) == 0 || sticky.PinnedFor() == 0 {
		return time.Time{}
	}
	return c.doc.History[0].Ended.Add(sticky.PinnedFor())
}

func (c *call) claim(free, serving state.Slot, seen router.Reading) {
	r, p := c.doc.Rollout, c.pass
	r.First = serving == ""
	p.Serving = serving
	p.Slots = p.Slots.With(free, state.Release{Version: r.Version, Ref: state.Ref{state.RefRollout: r.ID}})
	p.Slots.Candidate = free
	p.Share, p.Promoted, p.Testers, p.Retired = 0, false, false, false
	p.Weights = seen.Weights()
	p.Retirement, p.Unsettled = nil, time.Time{}
}

func (c *call) claimed(serving, free state.Slot, adopted bool) string {
	if serving == "" {
		return fmt.Sprintf("no slot serves: first release, slot %s is claimed for version %s", free, c.doc.Rollout.Version)
	}
	stable := c.pass.Slots.Get(serving).Version
	if adopted || stable == "" {
		return fmt.Sprintf("slot %s serves and is adopted as stable, slot %s is claimed for version %s", serving, free, c.doc.Rollout.Version)
	}
	return fmt.Sprintf("slot %s serves version %s, slot %s is claimed for version %s", serving, stable, free, c.doc.Rollout.Version)
}

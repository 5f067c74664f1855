package conform

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/external"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/plugin/external/conform/slots"
	"github.com/manent/action/providers/plugin/external/conform/weights"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// onSlot is a case that is about a slot alone.
func onSlot(run func(slots.Bench) error) func(*bench) error {
	return func(b *bench) error {
		return run(slots.Bench{Context: b, Bundle: b.bundle, Call: b.call(), Share: b.opts.Shares[0], Until: b.until})
	}
}

func describes(b *bench) error { return b.program.Check(b) }

// probed is a case that the protocol itself has.
func probed(probe func(*api.Client, context.Context, time.Duration) error) func(*bench) error {
	return func(b *bench) error { return probe(b.program.Client, b, b.program.Settings.Timeout) }
}

func readIsComplete(b *bench, first router.Reading) error {
	if _, err := b.at(first.Weights()); err != nil {
		return fmt.Errorf("the second time %w", err)
	}
	for _, p := range first.Parts {
		for unit := range p.Weights {
			if !b.program.Settings.Plans && state.Slot(unit).Other() == "" {
				return fmt.Errorf("part %s has a weight %q; a router that does not plan has weights a and b", p.ID, unit)
			}
		}
	}
	return nil
}

// inForce is a case about what settled says.
func inForce(run func(context.Context, router.Router, router.Reading) error) func(*bench) error {
	return reads(func(b *bench, seen router.Reading) error { return run(b, b.bundle.Router, seen) })
}

// testersTwice is over with nothing else changed.
func testersTwice(b *bench, before router.Reading) error {
	return weights.TestersTwice(b, b.bundle.Router, b.opts.Slots, before)
}

// planned is a case about what is planned from a reading.
func planned(run func(router.Planner, state.Slot, float64, router.Reading) error) func(*bench) error {
	return reads(func(b *bench, seen router.Reading) error { return run(b.planner(), b.free, b.opts.Tolerance, seen) })
}

// servingIsReady: a return waits for the slot that it goes back to, also when
// nothing is known of what is there. Without a slot that serves there is none.
func servingIsReady(b *bench, seen router.Reading) error {
	slot := b.free.Other()
	if seen.Share(slot) == 0 {
		return nil
	}
	for _, release := range []state.Release{b.opts.Slots.Get(slot), {}} {
		ok, reason, err := b.bundle.Ready.Ready(b, plugin.Call{Slot: slot, StepID: "conformance/ready", Release: release}, 100)
		if err == nil && !ok {
			err = fmt.Errorf("slot %s serves with version %q and is not ready: %s", slot, release.Version, reason)
		}
		if err != nil {
			return fmt.Errorf("%w; no return would end", err)
		}
	}
	return nil
}

// retireTwice takes nothing from a slot that has traffic, nor writes weights if
// no case has.
func retireTwice(b *bench) error {
	if b.bundle.Router != nil {
		seen, err := b.read()
		if err == nil && seen.Share(b.free) > 0 {
			_, seen, err = b.move(0)
		}
		if err == nil {
			err = weights.Known(seen)
		}
		if err == nil && seen.Share(b.free) > 0 {
			err = fmt.Errorf("slot %s still has %v %% of the traffic", b.free, seen.Share(b.free))
		}
		if err != nil {
			return fmt.Errorf("nothing was retired: %w", err)
		}
	}
	for range 2 {
		if err := b.bundle.Scaler.Retire(b, b.call()); err != nil {
			return err
		}
	}
	return nil
}

// serversUp goes by the router, for a program that says how many there are.
func serversUp(b *bench) error {
	return b.until("no server was up", func() (bool, string, error) {
		seen, err := b.read()
		for _, p := range seen.Parts {
			if up, known := p.Units[b.free]; known && up == 0 {
				return false, fmt.Sprintf("by part %s none of slot %s is", p.ID, b.free), err
			}
		}
		return err == nil, "", err
	})
}

func writeThenRead(b *bench) error {
	for _, share := range b.opts.Shares {
		_, seen, err := b.move(share)
		if err != nil {
			return err
		}
		for _, p := range seen.Parts {
			if got := p.Shares[b.free]; math.Abs(got-share) > b.opts.Tolerance {
				return fmt.Errorf("part %s gives slot %s %v %%, expected %v %%", p.ID, b.free, got, share)
			}
		}
	}
	return nil
}

// writeTwice goes by the revisions, for a program that has them.
func writeTwice(b *bench, start router.Reading) error {
	want, once, err := b.move(b.opts.Shares[0])
	if err != nil {
		return err
	}
	if _, err := b.bundle.Router.Write(b, b.opts.Slots, want, start); err != nil {
		return fmt.Errorf("the same write again, as after a crash: %w", err)
	}
	return b.unchanged(once)
}

func (b *bench) unchanged(before router.Reading) error {
	now, err := b.read()
	if err != nil {
		return err
	}
	if !router.SameParts(now.Weights(), before.Weights()) {
		return fmt.Errorf("weights %v became %v", before.Weights(), now.Weights())
	}
	for i, p := range before.Parts {
		if i < len(now.Parts) && now.Parts[i].Revision != p.Revision {
			return fmt.Errorf("part %s was written again: revision %q became %q", p.ID, p.Revision, now.Parts[i].Revision)
		}
	}
	return nil
}

// asWantedAlready: what is there counts, not what was expected.
func asWantedAlready(b *bench) error {
	want, before, err := b.move(b.opts.Shares[0])
	if err != nil {
		return err
	}
	stale := before
	stale.Parts = make([]router.Part, len(before.Parts))
	for i, p := range before.Parts {
		p.Weights = map[string]float64{}
		for unit, weight := range before.Parts[i].Weights {
			p.Weights[unit] = weight + 1
		}
		stale.Parts[i] = p
	}
	if _, err := b.bundle.Router.Write(b, b.opts.Slots, want, stale); err != nil {
		return err
	}
	return b.unchanged(before)
}

func zeroAndHundred(b *bench) error {
	for _, share := range []float64{100, 0, b.opts.Shares[0], 0} {
		_, seen, err := b.move(share)
		if err != nil {
			return err
		}
		for _, p := range seen.Parts {
			if exact := share == 0 || share == 100; exact && (p.Shares[b.free] != share || p.Shares[b.free.Other()] != 100-share) {
				return fmt.Errorf("part %s has shares %v, expected exactly %v %% on slot %s", p.ID, p.Shares, share, b.free)
			}
		}
	}
	return nil
}

// unknownPart asks the program itself, also when manent compares for it.
func unknownPart(b *bench, seen router.Reading) error {
	params := api.WriteParams{Want: []api.PartWeights{{ID: "there is no such part", Weights: seen.Parts[0].Weights}}, Expect: []api.PartWeights{}}
	_, err := api.Do[api.WriteResult](b, b.program.Client, api.Call{Method: api.Write, Params: params, Timeout: b.program.Settings.Timeout})
	if kind := providers.KindOf(err); err == nil || kind != providers.NotFound && kind != providers.Invalid {
		return unlike(err, "an error of kind not found")
	}
	_, err = b.at(seen.Weights())
	return err
}

// staleWrite is what somebody else's change looks like from here.
func staleWrite(b *bench) error {
	_, old, err := b.move(0)
	if err != nil {
		return err
	}
	there, _, err := b.move(b.opts.Shares[0])
	if err != nil {
		return err
	}
	want, _, err := b.planner().Plan(b.free, b.opts.Shares[1], b.opts.Tolerance, old)
	if err != nil {
		return err
	}
	if _, err := b.bundle.Router.Write(b, b.opts.Slots, want, old); !providers.IsConflict(err) {
		return unlike(err, "a conflict with the weights that were found")
	}
	_, err = b.at(there)
	return err
}

func twoWriters(b *bench) error {
	_, seen, err := b.move(0)
	if err != nil {
		return err
	}
	var wants [][]state.PartWeights
	for _, share := range b.opts.Shares {
		want, _, err := b.planner().Plan(b.free, share, b.opts.Tolerance, seen)
		if err != nil {
			return err
		}
		wants = append(wants, want)
	}
	return weights.Race(b, b.bundle.Router, b.opts.Slots, wants, seen)
}

package conform

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/external"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/plugin/external/conform/slots"
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

func presentInForce(b *bench, seen router.Reading) error {
	ok, err := b.bundle.Router.Settled(b, seen.Weights(), nil)
	if err == nil && !ok {
		err = errors.New("settled says no for the weights that read says; if they were just changed, look again")
	}
	return err
}

func absentNotInForce(b *bench, seen router.Reading) error {
	other := seen.Weights()
	for _, p := range other {
		for unit := range p.Weights {
			p.Weights[unit]++
		}
	}
	ok, err := b.bundle.Router.Settled(b, other, nil)
	if err == nil && ok {
		err = fmt.Errorf("settled says yes for %v, which is not there", other)
	}
	return err
}

func planMonotone(b *bench, seen router.Reading) error {
	last := -1.0
	for _, share := range []float64{0, 0.5, 1, 2.5, 5, 10, 20, 25, 33.3, 50, 75, 90, 99, 100} {
		_, got, err := b.planner().Plan(b.free, share, b.opts.Tolerance, seen)
		switch {
		case providers.KindOf(err) == providers.Invalid && err != nil && share != 0 && share != 100:
			continue
		case err != nil:
			return fmt.Errorf("plan %v %%: %w", share, err)
		case got < last || math.Abs(got-share) > b.opts.Tolerance:
			return fmt.Errorf("plan %v %% gives %v %%, a smaller share %v %%", share, got, last)
		}
		last = got
	}
	return nil
}

func planRefuses(b *bench, seen router.Reading) error {
	if _, _, err := b.planner().Plan(b.free, 0.000123, 0, seen); providers.KindOf(err) != providers.Invalid || err == nil {
		return unlike(err, "that a share of 0.000123 % is refused with kind invalid")
	}
	return nil
}

func readyAnswers(b *bench) error {
	_, _, err := b.bundle.Ready.Ready(b, b.call(), 0)
	if err != nil && !providers.KindOf(err).Definite() {
		return unlike(err, "ready, not yet with a reason, or a definite no")
	}
	return nil
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

func retireTwice(b *bench) error {
	if b.bundle.Router != nil {
		if _, _, err := b.move(0); err != nil {
			return err
		}
	}
	for range 2 {
		if err := b.bundle.Scaler.Retire(b, b.call()); err != nil {
			return err
		}
	}
	return nil
}

func readyInTheEnd(b *bench) error {
	return b.until("the slot was not ready", func() (bool, string, error) {
		return b.bundle.Ready.Ready(b, b.call(), b.opts.Shares[0])
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
	errs := make(chan error, len(b.opts.Shares))
	for _, share := range b.opts.Shares {
		want, _, err := b.planner().Plan(b.free, share, b.opts.Tolerance, seen)
		if err != nil {
			return err
		}
		go func() {
			_, err := b.bundle.Router.Write(b, b.opts.Slots, want, seen)
			errs <- err
		}()
	}
	lost := 0
	for range b.opts.Shares {
		if err := <-errs; providers.IsConflict(err) {
			lost++
		} else if err != nil {
			return err
		}
	}
	if lost == 0 || lost == len(b.opts.Shares) && len(seen.Parts) == 1 {
		return fmt.Errorf("%d of two writers from one reading were refused, expected one", lost)
	}
	return nil
}

func testersTwice(b *bench, before router.Reading) error {
	targeter, _ := b.bundle.Router.(router.Targeter)
	match := router.Match{Header: "x-manent-conformance", Value: "yes", Tag: "conformance"}
	for _, on := range []bool{true, true, false, false} {
		if _, err := targeter.Target(b, b.opts.Slots, b.free, match, on); err != nil {
			return err
		}
		seen, err := b.read()
		if err != nil {
			return err
		}
		if seen.Testers != on {
			return fmt.Errorf("read says testers %v after they were set to %v", seen.Testers, on)
		}
		if !router.SameParts(seen.Weights(), before.Weights()) {
			return fmt.Errorf("testers %v changed the weights to %v", on, seen.Weights())
		}
	}
	return nil
}

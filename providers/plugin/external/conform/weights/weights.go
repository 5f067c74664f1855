// Package weights has what conformance does with a router as a whole: which
// slot it may use, how it puts the weights back, and the cases that are about
// plans and writers. It must not know what is in a slot.
package weights

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// Free finds the free slot: the one without traffic, b rather than a, which is
// not the one that serves by the records ("" for none) either.
func Free(seen router.Reading, serving state.Slot) (state.Slot, error) {
	if err := Known(seen); err != nil {
		return "", err
	}
	for _, slot := range []state.Slot{state.SlotB, state.SlotA} {
		if seen.Share(slot) == 0 && slot != serving {
			return slot, nil
		}
	}
	if other := serving.Other(); other != "" && seen.Share(serving) == 0 {
		return "", fmt.Errorf("slot %s serves by the records, and all traffic is on slot %s: somebody else has moved it", serving, other)
	}
	return "", fmt.Errorf("both slots have traffic: a %v %%, b %v %%", seen.Share(state.SlotA), seen.Share(state.SlotB))
}

// Known refuses a reading that does not say where all traffic goes.
func Known(seen router.Reading) error {
	for _, p := range seen.Parts {
		switch {
		case p.Err != nil:
			return p.Err
		case p.Unfit != nil:
			return p.Unfit
		case p.Pending:
			return fmt.Errorf("the weights of part %s are not in force yet, look again in a moment", p.ID)
		}
	}
	if seen.Testers {
		return errors.New("testers are sent to a slot")
	}
	return nil
}

// Restore writes what is not as it was: whatever else fails, each part that can
// be read goes back. Testers go nowhere any more.
func Restore(ctx context.Context, r router.Router, slots state.Slots, start router.Reading) (state.Receipt, error) {
	seen, err := r.Read(ctx, slots)
	if err != nil {
		return nil, err
	}
	var want []state.PartWeights
	for _, was := range start.Weights() {
		if now, there := router.Find(seen.Weights(), was.ID); there && !router.Same(now, was.Weights) {
			want = append(want, was)
		}
	}
	var receipt state.Receipt
	if len(want) > 0 {
		if receipt, err = r.Write(ctx, slots, want, seen); err != nil {
			return nil, err
		}
	}
	if targeter, ok := r.(router.Targeter); ok && seen.Testers {
		_, err = targeter.Target(ctx, slots, slots.Candidate, testers(), false)
	}
	return receipt, err
}

// PresentInForce asks for what is there.
func PresentInForce(ctx context.Context, r router.Router, seen router.Reading) error {
	ok, err := r.Settled(ctx, seen.Weights(), nil)
	if err == nil && !ok {
		err = errors.New("settled says no for the weights that read says; if they were just changed, look again")
	}
	return err
}

// AbsentNotInForce asks for what is not there.
func AbsentNotInForce(ctx context.Context, r router.Router, seen router.Reading) error {
	other := seen.Weights()
	for _, p := range other {
		for unit := range p.Weights {
			p.Weights[unit]++
		}
	}
	ok, err := r.Settled(ctx, other, nil)
	if err == nil && ok {
		err = fmt.Errorf("settled says yes for %v, which is not there", other)
	}
	return err
}

// PlanMonotone asks for rising shares.
func PlanMonotone(p router.Planner, slot state.Slot, tolerance float64, seen router.Reading) error {
	last := -1.0
	for _, share := range []float64{0, 0.5, 1, 2.5, 5, 10, 20, 25, 33.3, 50, 75, 90, 99, 100} {
		_, got, err := p.Plan(slot, share, tolerance, seen)
		switch {
		case providers.KindOf(err) == providers.Invalid && err != nil && share != 0 && share != 100:
			continue
		case err != nil:
			return fmt.Errorf("plan %v %%: %w", share, err)
		case got < last || math.Abs(got-share) > tolerance:
			return fmt.Errorf("plan %v %% gives %v %%, a smaller share %v %%", share, got, last)
		}
		last = got
	}
	return nil
}

// PlanRefuses asks for a share that none can reach.
func PlanRefuses(p router.Planner, slot state.Slot, _ float64, seen router.Reading) error {
	_, _, err := p.Plan(slot, 0.000123, 0, seen)
	switch {
	case err == nil:
		return errors.New("it said yes, expected that a share of 0.000123 % is refused with kind invalid")
	case providers.KindOf(err) != providers.Invalid:
		return fmt.Errorf("%w, expected that a share of 0.000123 %% is refused with kind invalid", err)
	}
	return nil
}

// Race lets as many write at once as there are wishes, from one reading.
func Race(ctx context.Context, r router.Router, slots state.Slots, wants [][]state.PartWeights, seen router.Reading) error {
	errs := make(chan error, len(wants))
	for _, want := range wants {
		go func() {
			_, err := r.Write(ctx, slots, want, seen)
			errs <- err
		}()
	}
	lost := 0
	var failed error
	for range wants { // all have ended before anything else is written
		if err := <-errs; providers.IsConflict(err) {
			lost++
		} else if err != nil {
			failed = err
		}
	}
	if failed == nil && (lost == 0 || lost == len(wants) && len(seen.Parts) == 1) {
		failed = fmt.Errorf("%d of two writers from one reading were refused, expected one", lost)
	}
	return failed
}

func testers() router.Match {
	return router.Match{Header: "x-manent-conformance", Value: "yes", Tag: "conformance"}
}

// TestersTwice sends testers to the candidate's slot and takes them away, each
// twice; the weights stay.
func TestersTwice(ctx context.Context, r router.Router, slots state.Slots, before router.Reading) error {
	targeter, _ := r.(router.Targeter)
	for _, on := range []bool{true, true, false, false} {
		if _, err := targeter.Target(ctx, slots, slots.Candidate, testers(), on); err != nil {
			return err
		}
		seen, err := r.Read(ctx, slots)
		if err == nil {
			err = seen.Err()
		}
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

package routertest

import (
	"context"
	"errors"
	"maps"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// Promoting is a Memory where the new version has to be made the serving one
// by more than a weight.
type Promoting struct{ *Memory }

var _ router.Promoter = (*Promoting)(nil)

// Promote implements router.Promoter. By default it re-points in two points:
// the candidate becomes the primary slot, then gets all the weight; slots
// stay as they are. With Swaps it is one point: the slots exchange releases
// and weights, so that slot a serves what was the candidate in slot b.
func (p *Promoting) Promote(ctx context.Context, slots state.Slots, receipt state.Receipt) (state.Slots, router.Reading, state.Receipt, error) {
	return p.turn(ctx, OpPromote, slots, receipt)
}

// Unpromote implements router.Promoter.
func (p *Promoting) Unpromote(ctx context.Context, slots state.Slots, receipt state.Receipt) (state.Slots, router.Reading, state.Receipt, error) {
	return p.turn(ctx, OpUnpromote, slots, receipt)
}

func (p *Promoting) turn(ctx context.Context, op Op, slots state.Slots, before state.Receipt) (state.Slots, router.Reading, state.Receipt, error) {
	receipt := state.Receipt{"op": string(op)}
	if slots.Candidate == "" {
		return slots, router.Reading{}, receipt, fault(providers.Invalid, errors.New("no candidate slot"))
	}
	if before["op"] != string(op) || before["done"] == "" { // else the slots are the new ones already
		if err := p.send(ctx, op, slots); err != nil {
			return slots, router.Reading{}, receipt, err
		}
		if p.opts.Swaps {
			slots = state.Slots{A: slots.B, B: slots.A, Candidate: slots.Candidate.Other()}
		}
	}
	receipt["done"] = "yes"
	seen, err := p.Read(ctx, slots)
	return slots, seen, receipt, err
}

func (p *Promoting) send(ctx context.Context, op Op, slots state.Slots) error {
	if p.opts.Swaps {
		version := slots.Get(slots.Candidate).Version
		return p.step(ctx, op, "swap", func() error { p.swap(version, op == OpPromote); return nil })
	}
	to := slots.Candidate
	if op == OpUnpromote {
		to = to.Other()
	}
	if err := p.step(ctx, op, "primary", func() error { p.repoint(to); return nil }); err != nil {
		return err
	}
	return p.step(ctx, op, "weights", func() error { p.all(to); return nil })
}

func (p *Promoting) repoint(to state.Slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.primary != to {
		p.primary = to
		p.recordLocked(0, "promote")
	}
}

func (p *Promoting) all(to state.Slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	want := map[string]float64{string(to): 100, string(to.Other()): 0}
	for i := range p.parts {
		if !router.Same(p.parts[i].weights, want) {
			p.setLocked(i, maps.Clone(want), "promote")
		}
	}
}

// swap exchanges the slots once for a version, and back once.
func (p *Promoting) swap(version string, in bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if (p.swapped == version) == in {
		return
	}
	p.swapped = ""
	if in {
		p.swapped = version
	}
	for i := range p.parts {
		w := p.parts[i].weights
		p.setLocked(i, map[string]float64{"a": w["b"], "b": w["a"]}, "promote")
	}
}

package conform

import (
	"context"
	"errors"
	"fmt"

	"github.com/manent/action/providers/plugin/external/conform/weights"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// begin finds the free slot: the one without traffic, which does not serve by
// the records either.
func (b *bench) begin() (router.Reading, error) {
	b.opts.Slots.Candidate = b.free
	read := b.opts.Read
	if b.bundle.Router != nil {
		read = b.bundle.Router.Read
	}
	if read == nil {
		if b.opts.Exercise && b.opts.Serving == "" {
			return router.Reading{}, errors.New("there is no router, and no rollout that says which slot serves")
		}
		b.take(b.opts.Serving.Other())
		return router.Reading{}, nil
	}
	seen, err := read(b, b.opts.Slots)
	if err != nil {
		return seen, err
	}
	slot, err := weights.Free(seen, b.opts.Serving)
	b.take(slot)
	return seen, err
}

func (b *bench) take(slot state.Slot) {
	if slot != "" {
		b.free, b.opts.Slots.Candidate = slot, slot
	}
}

// end puts the weights back, also after a signal; not when something else has
// ended the context, as somebody else may be at work by then.
func (b *bench) end(start router.Reading, report func(Result)) {
	if b.Err() != nil {
		if !errors.Is(context.Cause(b), context.Canceled) {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context), b.opts.Restoring)
		defer cancel()
		b.Context = ctx
	}
	report(Result{Name: "the weights are as they were", Err: b.until("they were not put back", func() (bool, string, error) {
		receipt, err := weights.Restore(b, b.bundle.Router, b.opts.Slots, start)
		if err == nil {
			_, err = b.settle(start.Weights(), receipt)
		}
		return err == nil, fmt.Sprint(err), nil
	})})
}

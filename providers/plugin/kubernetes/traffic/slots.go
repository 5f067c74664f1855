package traffic

import (
	"context"

	"github.com/manent/action/providers/api/kubernetes/dialect"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/state"
)

// Kept is a scaler that takes nothing from a slot which is in use: the shares
// tell of the rules that manent moves, and there may be others.
type Kept struct {
	plugin.SlotScaler
	Router *Router
}

// Retire implements plugin.SlotScaler.
func (k Kept) Retire(ctx context.Context, call plugin.Call) error {
	if err := k.Router.none(ctx, "retire slot "+string(call.Slot)+": see ", dialect.Route.InUse, call.Slot); err != nil {
		return err
	}
	return k.SlotScaler.Retire(ctx, call)
}

// Free refuses a slot that a version is to be put into while it is in use.
func (r *Router) Free(ctx context.Context, slot state.Slot) error {
	return r.none(ctx, "see slot "+string(slot)+" free on ", dialect.Route.Free, slot)
}

// none looks whether a route refuses a slot.
func (r *Router) none(ctx context.Context, op string, refuses func(dialect.Route, state.Slot) error, slot state.Slot) error {
	if _, err := r.In.Ref(ctx, r.Parts[0]); err != nil { // asked once for all routes, and nobody waits
		return named(op+r.Parts[0], err)
	}
	for i, found := range r.all(ctx, r.Parts, func() {}) {
		if found.err == nil {
			found.err = refuses(found.route, slot)
		}
		if found.err != nil {
			return named(op+r.Parts[i], found.err)
		}
	}
	return nil
}

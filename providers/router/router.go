// Package router is the contract of what splits traffic between the two
// slots. It must not know any system, the plan or the gate; an implementation
// keeps nothing between calls.
package router

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/state"
)

// Router moves traffic between slots a and b.
//
// Every method may be called again after a crash at any instant, by another
// process on another machine. Errors are *providers.Fault.
type Router interface {
	// Read reports the weights as the router itself has them. A part whose
	// weights cannot be known has its Err set and no weights; whatever else
	// fails is in its Unfit and Pending. Read fails only when nothing at all
	// can be said. It writes nothing.
	Read(ctx context.Context, slots state.Slots) (Reading, error)

	// Write sets want on every part of it, on condition that each part is
	// what expect says (weights are compared, not revisions). A part that
	// already is as wanted is left alone, and counts as written. A part of
	// several units that are written one by one may have some as expected and
	// some as wanted (Between). A part that is neither is a Conflict; parts
	// written before it stay written. The receipt, also valid with an error,
	// is handed to Settled.
	Write(ctx context.Context, slots state.Slots, want []state.PartWeights, expect Reading) (state.Receipt, error)

	// Settled reports whether want is in force at the data plane, not just
	// accepted. It does not wait longer than one look.
	Settled(ctx context.Context, want []state.PartWeights, receipt state.Receipt) (bool, error)
}

// Reading is what a router reports.
type Reading struct {
	Parts    []Part // one per instance, rule or listener
	Testers  bool   // the testers' entry is in place
	Approved bool   // a person has named these weights and wants them overwritten, or they are a half of what was written before: no Planner refuses them as somebody's hand. No Read sets it
}

// Part is one independently written part of a router.
type Part struct {
	state.PartWeights
	Shares   map[state.Slot]float64 // effective percent of the traffic of each slot, of all it gets
	Units    map[state.Slot]int     // servers up per slot; 0 = the slot has no ready capacity
	Servers  map[state.Slot]int     // servers per slot, up or not; nil where each member is one
	Revision string                 // the system's own version of the object, "" when it has none
	Pending  bool                   // the weights are not the ones in force, or nobody could see whether they are
	Foreign  map[string]float64     // weight of each entry that takes traffic and is in neither slot
	By       string                 // who changed it last and when, "" when the system does not say
	Err      error                  // the configured weights cannot be known; nothing else
	Unfit    error                  // why no share can be raised on it, though its weights are known; a Planner refuses with it, and a return goes on. With nil Weights: the object can be read and makes no sense, and Write replaces it by its Revision
}

// Planner is implemented by a router whose units are not percent, or that
// cannot reach every share.
type Planner interface {
	// Plan returns the weights for a share (0–100) of slot, and the share
	// these really give. It refuses (Invalid) a share that it cannot reach
	// within tolerance (percentage points), naming the smallest that it can.
	Plan(slot state.Slot, share, tolerance float64, seen Reading) ([]state.PartWeights, float64, error)
}

// Reacher is implemented by a router that knows without asking its system what
// it can reach: it plans for slots that are wholly in service. The refusal is
// that of Planner.
type Reacher interface {
	Reach(slot state.Slot, share, tolerance float64) (float64, error)
}

// Match says which requests are the testers'.
type Match struct {
	Header string // "x-canary"
	Value  string // "always"
	Tag    string // revision tag, for routers that give it an address
}

// Access is how a tester, or a probe, reaches a slot.
type Access struct {
	URL    string            // base URL, "" when a header on the ordinary URL does it
	Header map[string]string // to be sent
}

// Targeter is implemented by a router that can send testers to one slot.
type Targeter interface {
	// Target puts the testers' entry in place (on) or takes it away, and says
	// how to reach the slot. Idempotent.
	Target(ctx context.Context, slots state.Slots, slot state.Slot, match Match, on bool) (Access, error)
}

// Promoter is implemented by a router where the new version has to be made
// the serving one by more than a weight (re-pointed, swapped). Both calls are
// resumable from the receipt.
type Promoter interface {
	Promote(ctx context.Context, slots state.Slots, receipt state.Receipt) (state.Slots, Reading, state.Receipt, error)
	Unpromote(ctx context.Context, slots state.Slots, receipt state.Receipt) (state.Slots, Reading, state.Receipt, error)
}

// Sticky is implemented by a router that pins clients to a slot: a return is
// not instant for them and a retirement waits at least this long.
type Sticky interface {
	PinnedFor() time.Duration
}

// ErrDrifted wraps a Conflict with what was found instead.
type ErrDrifted struct {
	Part string
	Seen map[string]float64
	Want map[string]float64
}

// Error names the part and both sides.
func (e *ErrDrifted) Error() string {
	return fmt.Sprintf("part %s has weights %s, expected %s", e.Part, Text(e.Seen), Text(e.Want))
}

// Same reports whether two sets of weights are equal, unit by unit. A unit
// that only one side knows counts as weight 0 there.
func Same(a, b map[string]float64) bool {
	for unit, w := range a {
		if b[unit] != w {
			return false
		}
	}
	for unit, w := range b {
		if a[unit] != w {
			return false
		}
	}
	return true
}

// Between reports whether each unit is as in from or as in to: what a part
// with several units has while they are written, and after a crash in between.
func Between(seen, from, to map[string]float64) bool {
	for _, units := range []map[string]float64{seen, from, to} {
		for unit := range units {
			if w := seen[unit]; w != from[unit] && w != to[unit] {
				return false
			}
		}
	}
	return true
}

// Between reports whether each part of the reading is between two lists of
// weights, unit by unit: what a write from one to the other left.
func (r Reading) Between(from, to []state.PartWeights) bool {
	for _, p := range r.Parts {
		f, _ := Find(from, p.ID)
		t, _ := Find(to, p.ID)
		if !Between(p.Weights, f, t) {
			return false
		}
	}
	return true
}

// SameParts reports whether both lists have the same parts with the same
// weights, in any order.
func SameParts(a, b []state.PartWeights) bool {
	if len(a) != len(b) {
		return false
	}
	for _, p := range a {
		q, ok := Find(b, p.ID)
		if !ok || !Same(p.Weights, q) {
			return false
		}
	}
	return true
}

// Find returns the weights of the part with this id.
func Find(parts []state.PartWeights, id string) (map[string]float64, bool) {
	for _, p := range parts {
		if p.ID == id {
			return p.Weights, true
		}
	}
	return nil, false
}

// Weights returns the weights of a reading's parts, without those that could
// not be read.
func (r Reading) Weights() []state.PartWeights {
	out := make([]state.PartWeights, 0, len(r.Parts))
	for _, p := range r.Parts {
		if p.Err == nil {
			out = append(out, state.PartWeights{ID: p.ID, Weights: maps.Clone(p.Weights)})
		}
	}
	return out
}

// Whole is a reading as if every server of both slots were up: what can be
// planned for before a slot has been deployed into.
func (r Reading) Whole() Reading {
	r.Parts = slices.Clone(r.Parts)
	for i, p := range r.Parts {
		r.Parts[i].Units = nil
		if len(p.Servers) == 2 {
			r.Parts[i].Units = maps.Clone(p.Servers)
		}
	}
	return r
}

// Share returns the largest effective share of a slot over all parts that
// could be read, 0 when none could.
func (r Reading) Share(slot state.Slot) float64 {
	var most float64
	for _, p := range r.Parts {
		if p.Err == nil {
			most = math.Max(most, p.Shares[slot])
		}
	}
	return most
}

// Err returns the first error of a part.
func (r Reading) Err() error {
	for _, p := range r.Parts {
		if p.Err != nil {
			return p.Err
		}
	}
	return nil
}

// Percent is the plan of a router whose units are percent of each slot, named
// "a" and "b", alike on every part of the reading. Share is rounded to
// multiples of step. It refuses any share on a part that is Unfit.
func Percent(slot state.Slot, share, step, tolerance float64, seen Reading) ([]state.PartWeights, float64, error) {
	if err := seen.Unfit(); err != nil && share > 0 {
		return nil, 0, &providers.Fault{Op: fmt.Sprintf("plan share %v %%", share), Kind: providers.KindOf(err), Err: err, Hint: providers.HintOf(err)}
	}
	got := math.Round(share/step) * step
	got = math.Round(got*1e6) / 1e6
	if math.Abs(got-share) > tolerance || (share > 0 && got == 0) {
		return nil, 0, &providers.Fault{
			Op: fmt.Sprintf("plan share %v %%", share), Kind: providers.Invalid,
			Err:  fmt.Errorf("the nearest reachable share is %v %%, tolerance is %v points", got, tolerance),
			Hint: fmt.Sprintf("use a multiple of %v, at least %v", step, step),
		}
	}
	parts := make([]state.PartWeights, 0, len(seen.Parts))
	for _, p := range seen.Parts {
		rest := math.Round((100-got)*1e6) / 1e6
		parts = append(parts, state.PartWeights{ID: p.ID, Weights: map[string]float64{
			string(slot): got, string(slot.Other()): rest,
		}})
	}
	return parts, got, nil
}

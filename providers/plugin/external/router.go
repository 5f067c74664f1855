package external

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/external"
	"github.com/manent/action/providers/api/process"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

var (
	_ router.Router   = (*Router)(nil)
	_ router.Planner  = (*Router)(nil)
	_ router.Sticky   = (*Router)(nil)
	_ router.Targeter = targeter{}
)

// Router is the router that a program is.
type Router struct {
	program  *Program
	planTime time.Duration
}

// planTime is the longest wait for a plan. With the time in which a process is
// killed that is less than the engine gives to a call, 20 s.
const planTime = 20*time.Second - process.Grace - time.Second

// targeter is one that can send testers to a slot.
type targeter struct{ *Router }

func (p *Program) router() router.Router {
	r := &Router{program: p, planTime: planTime}
	if p.Settings.Testers != "" {
		return targeter{r}
	}
	return r
}

func slotsOf(s state.Slots) api.SlotState {
	release := func(r state.Release) api.Release { return api.Release{Version: r.Version, Ref: r.Ref} }
	return api.SlotState{A: release(s.A), B: release(s.B), Candidate: string(s.Candidate)}
}

// Read implements router.Router. A part that makes no sense is its own error,
// or Unfit when its weights do, and hides no other.
func (r *Router) Read(ctx context.Context, slots state.Slots) (router.Reading, error) {
	if err := r.program.Check(ctx); err != nil {
		return router.Reading{}, err
	}
	parts, testers, err := r.program.Read(ctx, r.program.Call(api.Read, api.ReadParams{Slots: slotsOf(slots)}))
	if err != nil {
		return router.Reading{}, err
	}
	if len(parts) == 0 {
		return router.Reading{}, r.program.Doubt(api.Read, errors.New("there are no parts"))
	}
	out, bad := router.Reading{Testers: testers}, 0
	for _, p := range parts {
		part := r.part(p)
		if part.Err != nil {
			bad++
		}
		out.Parts = append(out.Parts, part)
	}
	if bad == len(out.Parts) {
		return router.Reading{}, out.Err()
	}
	return out, nil
}

// part is what a reading says of one.
func (r *Router) part(p api.Seen) router.Part {
	out := router.Part{
		PartWeights: state.PartWeights{ID: p.ID, Weights: p.Weights}, Shares: map[state.Slot]float64{}, Revision: p.Revision,
		Pending: p.Pending, Foreign: p.Foreign, By: p.By, Err: r.inPart(p.ID, p.Err), Unfit: r.inPart(p.ID, p.Unfit),
	}
	for slot, share := range p.Shares {
		out.Shares[state.Slot(slot)] = share
	}
	for slot, up := range p.Units {
		if out.Units == nil {
			out.Units = map[state.Slot]int{}
		}
		out.Units[state.Slot(slot)] = up
	}
	for unit := range p.Weights {
		if !r.program.Settings.Plans && state.Slot(unit).Other() == "" && out.Unfit == nil && out.Err == nil {
			out.Unfit = r.inPart(p.ID, fmt.Errorf("it has a weight of %q, expected those of a and b", unit))
		}
	}
	return out
}

// inPart leaves the program's own word as it is.
func (r *Router) inPart(id string, err error) error {
	if _, own := errors.AsType[*providers.Fault](err); own || err == nil {
		return err
	}
	return r.program.Doubt(api.Read, fmt.Errorf("part %s: %w", id, err))
}

// Write implements router.Router. A program that does not compare gets only
// the parts that have to be changed, after manent has compared them.
func (r *Router) Write(ctx context.Context, slots state.Slots, want []state.PartWeights, expect router.Reading) (state.Receipt, error) {
	for _, p := range want {
		if len(p.Weights) == 0 {
			return nil, r.program.Doubt(api.Plan, fmt.Errorf("there is no plan for part %s", p.ID))
		}
	}
	expected := expect.Weights()
	if !r.program.Settings.Conditional {
		changed, err := r.compare(ctx, slots, want, expected)
		if err != nil || len(changed) == 0 {
			return nil, err
		}
		want = changed
	}
	got, err := ask[api.WriteResult](ctx, r.program, api.Write, api.WriteParams{
		Slots: slotsOf(slots), Want: weightsOf(want), Expect: weightsOf(expected),
	})
	if providers.IsConflict(err) {
		return nil, r.conflict(err, want, expected)
	}
	return got.Receipt, err
}

func weightsOf(parts []state.PartWeights) []api.PartWeights {
	out := make([]api.PartWeights, len(parts))
	for i, p := range parts {
		out[i] = api.PartWeights{ID: p.ID, Weights: p.Weights}
	}
	return out
}

// compare returns the parts that are not yet as wanted, and refuses those
// that are not as expected either.
func (r *Router) compare(ctx context.Context, slots state.Slots, want, expected []state.PartWeights) ([]state.PartWeights, error) {
	seen, err := r.Read(ctx, slots)
	if err != nil {
		return nil, err
	}
	var changed []state.PartWeights
	for _, w := range want {
		i := indexOf(seen.Parts, w.ID)
		if i < 0 {
			return nil, &providers.Fault{Provider: name, Op: "write weights", Kind: providers.NotFound, Err: fmt.Errorf("there is no part %q", w.ID)}
		}
		part := seen.Parts[i]
		from, _ := router.Find(expected, w.ID)
		switch {
		case part.Err != nil:
			return nil, part.Err
		case router.Same(part.Weights, w.Weights):
		case router.Between(part.Weights, from, w.Weights):
			changed = append(changed, w)
		default:
			return nil, drifted(w.ID, part.Weights, from)
		}
	}
	return changed, nil
}

func indexOf(parts []router.Part, id string) int {
	for i, p := range parts {
		if p.ID == id {
			return i
		}
	}
	return -1
}

func drifted(part string, seen, from map[string]float64) error {
	return &providers.Fault{
		Provider: name, Op: "write weights of " + part, Kind: providers.Conflict,
		Err:  &router.ErrDrifted{Part: part, Seen: seen, Want: from},
		Hint: "somebody else moved the weights; find out who before going on",
	}
}

// conflict believes a program only if it says what it has found, and that is
// neither what was expected nor what was wanted.
func (r *Router) conflict(err error, want, expected []state.PartWeights) error {
	refusal, _ := errors.AsType[*api.Refusal](err)
	if refusal == nil || refusal.Drift == nil {
		return r.program.Doubt(api.Write, errors.New("a conflict without drift, which says what was found instead"))
	}
	d := refusal.Drift
	from, known := router.Find(expected, d.Part)
	to, wanted := router.Find(want, d.Part)
	if !known || !wanted || router.Between(d.Seen, from, to) {
		return r.program.Doubt(api.Write, fmt.Errorf("a conflict over part %s with weights %v, which are as expected or wanted", d.Part, d.Seen))
	}
	return drifted(d.Part, d.Seen, from)
}

// Settled implements router.Router.
func (r *Router) Settled(ctx context.Context, want []state.PartWeights, receipt state.Receipt) (bool, error) {
	got, err := ask[api.SettledResult](ctx, r.program, api.Settled, api.SettledParams{Want: weightsOf(want), Receipt: receipt})
	return err == nil && got.Settled, err
}

// Plan implements router.Planner: by percent, or as the program says. A part
// that is Unfit refuses any share but that of a return.
//
// A plan has no context. It ends within planTime, and the first signal, which
// lets a call in flight end, waits for it.
func (r *Router) Plan(slot state.Slot, share, tolerance float64, seen router.Reading) ([]state.PartWeights, float64, error) {
	for _, p := range seen.Parts {
		if p.Unfit != nil && share > 0 {
			return nil, 0, p.Unfit
		}
	}
	switch {
	case !r.program.Settings.Plans:
		parts, got, err := router.Percent(slot, share, r.program.Settings.Step, tolerance, seen)
		if f, ok := errors.AsType[*providers.Fault](err); ok {
			f.Provider = name
		}
		return parts, got, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.planTime)
	defer cancel()
	if share == 0 {
		return r.planBack(ctx, slot, tolerance, seen)
	}
	return r.plan(ctx, slot, share, tolerance, seen)
}

// planBack asks for parts that make no sense one by one, after the others: what
// the program has no plan for has none, and its write says so.
func (r *Router) planBack(ctx context.Context, slot state.Slot, tolerance float64, seen router.Reading) (out []state.PartWeights, got float64, err error) {
	var fit, unfit router.Reading
	for _, p := range seen.Parts {
		if p.Unfit == nil {
			fit.Parts = append(fit.Parts, p)
		} else {
			unfit.Parts = append(unfit.Parts, p)
		}
	}
	if len(fit.Parts) > 0 {
		if out, _, err = r.plan(ctx, slot, 0, tolerance, fit); err != nil {
			return nil, 0, err
		}
	}
	for _, p := range unfit.Parts {
		if one, _, failed := r.plan(ctx, slot, 0, tolerance, router.Reading{Parts: []router.Part{p}}); failed == nil {
			out = append(out, one...)
		}
	}
	return out, 0, nil
}

// plan asks the program.
func (r *Router) plan(ctx context.Context, slot state.Slot, share, tolerance float64, seen router.Reading) ([]state.PartWeights, float64, error) {
	got, err := ask[api.PlanResult](ctx, r.program, api.Plan, api.PlanParams{
		Slot: string(slot), Share: share, Tolerance: tolerance, Parts: seenParts(seen),
	})
	if err != nil {
		return nil, 0, err
	}
	return r.planned(got, share, tolerance, seen)
}

// planned reads a plan.
func (r *Router) planned(got api.PlanResult, share, tolerance float64, seen router.Reading) ([]state.PartWeights, float64, error) {
	out := make([]state.PartWeights, len(got.Weights))
	for i, p := range got.Weights {
		out[i] = state.PartWeights{ID: p.ID, Weights: p.Weights}
	}
	gives, ok := api.Rounded(got.Share)
	if ok && share > 0 && share < 100 { // a little of the traffic is not none
		gives = min(max(got.Share, 0), 100)
	}
	return out, gives, r.checkPlan(out, gives, share, tolerance, seen)
}

func seenParts(seen router.Reading) []api.Part {
	out := []api.Part{}
	for _, p := range seen.Parts {
		one := api.Part{ID: p.ID, Weights: p.Weights, Revision: p.Revision, Foreign: p.Foreign, Shares: map[string]float64{}}
		for slot, share := range p.Shares {
			one.Shares[string(slot)] = share
		}
		for slot, up := range p.Units {
			if one.Units == nil {
				one.Units = map[string]int{}
			}
			one.Units[string(slot)] = up
		}
		out = append(out, one)
	}
	return out
}

// checkPlan refuses a plan that is not for this share or for these parts.
func (r *Router) checkPlan(parts []state.PartWeights, got, share, tolerance float64, seen router.Reading) error {
	exact := share == 0 || share == 100 || got == 0
	switch {
	case got < 0 || got > 100 || math.Abs(got-share) > tolerance+1e-9 || exact && got != share:
		return r.program.Doubt(api.Plan, fmt.Errorf("it gives %v %% for %v %%, tolerance is %v points", got, share, tolerance))
	case len(parts) != len(seen.Parts):
		return r.program.Doubt(api.Plan, fmt.Errorf("it has %d parts, the reading %d", len(parts), len(seen.Parts)))
	}
	for _, p := range parts {
		if indexOf(seen.Parts, p.ID) < 0 || len(p.Weights) == 0 {
			return r.program.Doubt(api.Plan, fmt.Errorf("part %q is not in the reading, or has no weights", p.ID))
		}
	}
	return nil
}

// Target implements router.Targeter.
func (r targeter) Target(ctx context.Context, slots state.Slots, slot state.Slot, match router.Match, on bool) (router.Access, error) {
	got, err := ask[api.TargetResult](ctx, r.program, api.Testers, api.TargetParams{
		Slots: slotsOf(slots), Slot: string(slot), Match: api.Match{Header: match.Header, Value: match.Value, Tag: match.Tag}, On: on,
	})
	if err == nil && on && got.URL == "" && len(got.Header) == 0 {
		err = r.program.Doubt(api.Testers, errors.New("it says no way to reach the slot"))
	}
	return router.Access{URL: got.URL, Header: got.Header}, err
}

// PinnedFor implements router.Sticky.
func (r *Router) PinnedFor() time.Duration { return r.program.Settings.PinnedFor }

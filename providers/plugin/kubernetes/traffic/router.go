// Package traffic is the router within the plugin kubernetes: it compares,
// patches and proves the weights of HTTPRoutes or VirtualServices. It must not
// know how versions get into the slots, nor the plugin's settings.
package traffic

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/api/kubernetes/dialect"
	"github.com/manent/action/providers/api/kubernetes/route"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// name is the plugin's, in errors.
const name = "kubernetes"

var (
	_ router.Router   = (*Router)(nil)
	_ router.Planner  = (*Router)(nil)
	_ router.Targeter = (*Router)(nil)
)

// Router moves the weights of one or more routes; each is a part.
type Router struct {
	Client *api.Client
	Parts  []string // names of the routes
	Step   float64  // smallest difference of share, in percentage points
	In     Dialect
	Log    func(format string, args ...any)
	Now    func() time.Time
}

// Dialect is what Gateway API and Istio differ in.
type Dialect interface {
	// Ref names a route.
	Ref(ctx context.Context, id string) (api.Ref, error)
	Parse(ref api.Ref, doc map[string]any) (dialect.Route, error)
	// Capacity finds what serves in each slot, and checks what has to be
	// there beside the routes.
	Capacity(ctx context.Context) (dialect.Serving, error)
	// Services are those that routes lead to, and Beside what is wrong with
	// them, where made is what a deployment makes.
	Services(ctx context.Context) (dialect.Services, error)
	Beside(routes []dialect.Route, found, made dialect.Services) []dialect.Problem
	// Others are the routes beside ours that reach the slots' pods.
	Others(ctx context.Context, ours []string) ([]string, error)
	// InForce says whether the present rules are.
	InForce(ctx context.Context, r dialect.Route, last dialect.Write) (bool, error)
}

// look reads one route.
func (r *Router) look(ctx context.Context, id string) (dialect.Route, error) {
	if !slices.Contains(r.Parts, id) {
		return dialect.Route{}, &providers.Fault{Kind: providers.NotFound,
			Err: fmt.Errorf("there is no such part, expected one of %s", strings.Join(r.Parts, ", "))}
	}
	ref, err := r.In.Ref(ctx, id)
	if err != nil {
		return dialect.Route{}, err
	}
	found, err := r.Client.Get(ctx, ref)
	if err != nil && providers.KindOf(err) == providers.NotFound {
		err = &providers.Fault{Kind: providers.NotFound, Err: err, Hint: dialect.Absent(ref)}
	}
	if err != nil {
		return dialect.Route{}, err
	}
	return r.In.Parse(ref, found.Object)
}

// Holders are the field managers that hold a route's rules.
func (r *Router) Holders(ctx context.Context, id string) ([]string, error) {
	o, err := r.look(ctx, id)
	if err != nil {
		return nil, named("read "+id, err)
	}
	return o.Managers(), nil
}

// Beside is what is wrong beside the routes, as far as these can be read.
func (r *Router) Beside(ctx context.Context, made dialect.Services) ([]dialect.Problem, error) {
	var services dialect.Services
	var err error
	var routes []dialect.Route
	for _, found := range r.all(ctx, r.Parts, func() { services, err = r.In.Services(ctx) }) {
		if found.err == nil {
			routes = append(routes, found.route)
		}
	}
	if err != nil || len(routes) == 0 {
		return nil, named("look at the Services", err)
	}
	ask := func() (dialect.Serving, error) { return r.In.Capacity(ctx) }
	return dialect.Untouched(r.In.Beside(routes, services, made), ask), nil
}

// glance bounds how long Read looks for what serves in the slots, within one
// call of the engine: the weights matter more.
const glance = 15 * time.Second

// answer is a route, or why it cannot be had.
type answer struct {
	route dialect.Route
	err   error
}

// all reads several routes at once, so that a slow API server answers within
// one call of the engine. beside is done at the same time.
func (r *Router) all(ctx context.Context, ids []string, beside func()) []answer {
	out := make([]answer, len(ids))
	var asked sync.WaitGroup
	for i, id := range ids {
		asked.Go(func() { out[i].route, out[i].err = r.look(ctx, id) })
	}
	beside()
	asked.Wait()
	return out
}

// Read implements router.Router. What serves in the slots is not known while
// it cannot be read; the weights are, and a return needs no more.
func (r *Router) Read(ctx context.Context, slots state.Slots) (router.Reading, error) {
	var serving dialect.Serving
	var unknown error
	var looks sync.WaitGroup
	looks.Go(func() {
		short, cancel := context.WithTimeout(ctx, glance)
		defer cancel()
		serving, unknown = r.In.Capacity(short)
	})
	found := r.all(ctx, r.Parts, func() {})
	out := router.Reading{Parts: make([]router.Part, len(r.Parts))}
	for i, id := range r.Parts {
		part := &out.Parts[i]
		part.ID = id
		if part.Err = named("read "+id, found[i].err); part.Err == nil {
			looks.Go(func() { r.describe(ctx, found[i].route, slots.Candidate, part) })
			out.Testers = out.Testers || found[i].route.Split.Targeted()
		}
	}
	looks.Wait()
	for i := range out.Parts {
		if out.Parts[i].Err == nil {
			beside(&out.Parts[i], found[i].route, serving, slots.Candidate)
		}
	}
	if unknown != nil && ctx.Err() == nil && slots.Candidate != "" { // before a rollout Settled says it
		r.Log("kubernetes: nobody can say what serves in the slots: %v", api.Bare(unknown))
	}
	return out, nil
}

// beside adds to a part what is seen beside its route.
func beside(part *router.Part, o dialect.Route, serving dialect.Serving, candidate state.Slot) {
	part.Units = serving.Units
	if mixed := serving.Unfit(o.Split); mixed != nil && part.Unfit == nil {
		part.Unfit = named(o.Ref.String(), mixed)
	}
	if stray := serving.Stray(o.Split, candidate); stray > 0 {
		part.Foreign = together(map[string]float64{dialect.Strayed(candidate): stray}, part.Foreign)
	}
}

// describe says what a route has.
func (r *Router) describe(ctx context.Context, o dialect.Route, candidate state.Slot, part *router.Part) {
	part.Weights, part.Shares, part.Foreign = o.Split.Weights(), o.Split.Shares(candidate), o.Split.Foreign(candidate)
	part.Revision = o.Revision()
	if unfit := o.Split.Unfit(); unfit != nil {
		part.Unfit = named(o.Ref.String(), unfit)
	}
	if change, ok := o.Split.LastChange(); ok {
		part.By = change.String()
	}
	settled, err := r.In.InForce(ctx, o, dialect.Write{At: o.Changed(r.Now()), Mute: true})
	part.Pending = !settled || err != nil
}

// Settled implements router.Router. Without a receipt, before a rollout begins,
// what has to be there beside the routes is looked at too.
func (r *Router) Settled(ctx context.Context, want []state.PartWeights, receipt state.Receipt) (bool, error) {
	ids := make([]string, len(want))
	for i, p := range want {
		ids[i] = p.ID
	}
	var absent error
	var serving dialect.Serving
	found := r.all(ctx, ids, func() {
		if receipt == nil {
			serving, absent = r.In.Capacity(ctx)
		}
	})
	if absent != nil {
		return false, named("look at what serves", absent)
	}
	var all atomic.Bool
	all.Store(true)
	proofs := make([]func() error, len(ids))
	for i, f := range found {
		if f.err != nil {
			return false, named("prove "+ids[i], f.err)
		}
		last, gone := dialect.LastWrite(f.route, receipt, ids[i], r.Now())
		if last.First, last.Shared = serving.Nothing(), serving.Shared; !f.route.Split.Done(want[i].Weights, gone) {
			return false, nil
		}
		proofs[i] = func() error {
			ok, err := r.In.InForce(ctx, f.route, last)
			if !ok {
				all.Store(false)
			}
			return named("prove "+ids[i], err)
		}
	}
	err := api.Together(proofs...)
	return err == nil && all.Load(), err
}

// Plan implements router.Planner. A part that is unfit refuses any share.
func (r *Router) Plan(slot state.Slot, share, tolerance float64, seen router.Reading) ([]state.PartWeights, float64, error) {
	for _, p := range seen.Parts {
		if p.Unfit != nil && share > 0 {
			return nil, 0, named("plan on "+p.ID, p.Unfit)
		}
	}
	parts, got, err := router.Percent(slot, share, r.Step, tolerance, seen)
	if err != nil {
		return nil, 0, named("plan", err)
	}
	if got == math.Trunc(got) {
		return parts, got, nil
	}
	for _, p := range parts {
		for unit, w := range p.Weights {
			p.Weights[unit] = math.Round(w * 100)
		}
	}
	return parts, got, nil
}

// Target implements router.Targeter. It waits until the testers' entries are in
// force, as far as anybody says so, since no later call proves it.
func (r *Router) Target(ctx context.Context, _ state.Slots, slot state.Slot, match router.Match, on bool) (router.Access, error) {
	if match.Header == "" {
		match.Header, match.Value = "x-canary", "always"
	}
	entry := &route.Testers{Slot: slot, Header: match.Header, Value: match.Value}
	if err := entry.Check(); err != nil {
		return router.Access{}, named("testers", err)
	}
	want := entry
	if !on {
		want = nil
	}
	found := r.all(ctx, r.Parts, func() {})
	for i, id := range r.Parts {
		if err := r.target(ctx, id, &found[i], want); err != nil {
			return router.Access{}, named("testers on "+id, err)
		}
	}
	until := r.Now().Add(awaited)
	for i, id := range r.Parts {
		if err := r.await(ctx, found[i].route, until, !on); err != nil {
			return router.Access{}, named("testers on "+id, err)
		}
	}
	return router.Access{Header: map[string]string{match.Header: match.Value}}, nil
}

// target writes the testers' entries of one route, and leaves it as it is then.
func (r *Router) target(ctx context.Context, id string, o *answer, want *route.Testers) error {
	for range dialect.Tries {
		if o.err != nil {
			return o.err
		}
		if unfit := o.route.Split.Unfit(); want != nil && unfit != nil {
			return unfit
		}
		ops, err := o.route.Split.Target(want)
		if err != nil || len(ops) == 0 {
			return err
		}
		before := o.route.Split
		_, refused := r.Client.Patch(ctx, o.route.Ref, ops)
		if refused != nil && !dialect.LostRace(refused) {
			return refused
		}
		if o.route, o.err = r.look(ctx, id); o.err == nil && refused != nil && providers.KindOf(refused) == providers.Invalid && o.route.Split.Same(before) {
			return refused
		}
	}
	return dialect.Busy()
}

// awaited bounds how long Target waits for all routes, within one call of the
// engine.
const awaited = 10 * time.Second

// await looks until the route is in force. A controller that stays silent is
// no reason to fail: the gate sees what testers see.
func (r *Router) await(ctx context.Context, o dialect.Route, until time.Time, off bool) error {
	for {
		if ok, err := r.In.InForce(ctx, o, dialect.Write{At: o.Changed(r.Now()), Back: off}); ok || err != nil {
			return err
		}
		if !r.Now().Before(until) {
			r.Log("kubernetes: the testers' entry of %s is written, and not known to be in force after %v", o.Ref, awaited)
			return nil
		}
		select {
		case <-ctx.Done():
			return &providers.Fault{Kind: providers.Unknown, Err: fmt.Errorf("the testers' entry is written, not yet in force: %w", ctx.Err())}
		case <-time.After(100 * time.Millisecond):
		}
		var err error
		if o, err = r.look(ctx, o.Ref.Name); err != nil {
			return err
		}
	}
}

// named makes an error this plugin's, with what was done.
func named(op string, err error) error {
	if err == nil {
		return nil
	}
	f := &providers.Fault{Provider: name, Op: op, Kind: providers.KindOf(err), Err: api.Bare(err), Hint: providers.HintOf(err)}
	if given, ok := errors.AsType[*providers.Fault](err); ok {
		f.After = given.After
	}
	return f
}

// Package traffic is the router within the plugin kubernetes: it compares,
// patches and proves the weights of HTTPRoutes or VirtualServices. It must not
// know how versions get into the slots, nor the plugin's settings.
package traffic

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
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
	// Capacity counts what serves in each slot, without those that nobody
	// can know of, and checks what has to be there beside the routes.
	Capacity(ctx context.Context) (map[state.Slot]int, error)
	// InForce says whether the present rules are, the last change of which
	// was written at since; known says that manent did it.
	InForce(ctx context.Context, r dialect.Route, since time.Time, known bool) (bool, error)
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
	var out []string
	for _, c := range o.Split.Holders() {
		out = append(out, c.Manager)
	}
	return out, nil
}

// Read implements router.Router. What serves in the slots is not known while
// it cannot be read; the weights are, and a return needs no more.
func (r *Router) Read(ctx context.Context, _ state.Slots) (router.Reading, error) {
	units, err := r.In.Capacity(ctx)
	if err != nil && ctx.Err() == nil {
		r.Log("kubernetes: nobody can say what serves in the slots: %v", err)
	}
	var out router.Reading
	for _, id := range r.Parts {
		part := router.Part{PartWeights: state.PartWeights{ID: id}}
		if o, err := r.look(ctx, id); err != nil {
			part.Err = named("read "+id, err)
		} else {
			part.Weights, part.Shares, part.Foreign = o.Split.Weights(), o.Split.Shares(), o.Split.Foreign()
			part.Revision, part.Units = o.Revision(), units
			if change, ok := o.Split.LastChange(); ok {
				part.By = change.String()
			}
			settled, err := r.In.InForce(ctx, o, o.Changed(), false)
			part.Pending = !settled || err != nil
			out.Testers = out.Testers || o.Split.Targeted()
		}
		out.Parts = append(out.Parts, part)
	}
	return out, nil
}

// Settled implements router.Router. Without a receipt, before a rollout begins,
// what has to be there beside the routes is looked at too.
func (r *Router) Settled(ctx context.Context, want []state.PartWeights, receipt state.Receipt) (bool, error) {
	if receipt == nil {
		if _, err := r.In.Capacity(ctx); err != nil {
			return false, named("look at what serves", err)
		}
	}
	for _, p := range want {
		o, err := r.look(ctx, p.ID)
		if err != nil {
			return false, named("prove "+p.ID, err)
		}
		if !router.Same(o.Split.Weights(), p.Weights) {
			return false, nil
		}
		since, err := time.Parse(time.RFC3339Nano, receipt[p.ID+" at"])
		known := err == nil
		if !known {
			since = o.Changed()
		}
		if ok, err := r.In.InForce(ctx, o, since, known); err != nil || !ok {
			return false, named("prove "+p.ID, err)
		}
	}
	return true, nil
}

// Plan implements router.Planner.
func (r *Router) Plan(slot state.Slot, share, tolerance float64, seen router.Reading) ([]state.PartWeights, float64, error) {
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
	if err := checkHeader(match); err != nil {
		return router.Access{}, named("testers", err)
	}
	var want *route.Testers
	if on {
		want = &route.Testers{Slot: slot, Header: match.Header, Value: match.Value}
	}
	for _, id := range r.Parts {
		if err := r.target(ctx, id, want); err != nil {
			return router.Access{}, named("testers on "+id, err)
		}
	}
	return router.Access{Header: map[string]string{match.Header: match.Value}}, nil
}

func (r *Router) target(ctx context.Context, id string, want *route.Testers) error {
	o, err := r.look(ctx, id)
	for range tries {
		if err != nil {
			return err
		}
		ops, err := o.Split.Target(want)
		if err != nil {
			return err
		}
		if len(ops) == 0 {
			return r.await(ctx, o)
		}
		if _, err = r.Client.Patch(ctx, o.Ref, ops); err != nil && !lostRace(err) {
			return err
		}
		before, refused := o, err
		if o, err = r.look(ctx, id); err == nil && refused != nil && providers.KindOf(refused) == providers.Invalid && o.Split.Same(before.Split) {
			return refused
		}
	}
	return busy()
}

// awaited bounds how long Target waits, within one call of the engine.
const awaited = 15 * time.Second

// await looks until the route is in force. A controller that stays silent is
// no reason to fail: the gate sees what testers see.
func (r *Router) await(ctx context.Context, o dialect.Route) error {
	until := r.Now().Add(awaited)
	for {
		if ok, err := r.In.InForce(ctx, o, o.Changed(), false); ok || err != nil {
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

// checkHeader refuses what no route takes.
func checkHeader(m router.Match) error {
	ok := m.Value != "" && len(m.Header) <= 256 && len(m.Value) <= 4096 && !strings.ContainsFunc(m.Header, func(c rune) bool {
		return !strings.ContainsRune("!#$%&'*+-.^_`|~", c) && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	}) && !strings.ContainsFunc(m.Value, func(c rune) bool { return c < ' ' || c == 0x7f })
	if ok {
		return nil
	}
	return &providers.Fault{Kind: providers.Invalid, Err: fmt.Errorf("testers' header %q with value %q, expected the name of a header and a value for it", m.Header, m.Value)}
}

// named makes an error this plugin's, with what was done.
func named(op string, err error) error {
	if err == nil {
		return nil
	}
	return &providers.Fault{Provider: name, Op: op, Kind: providers.KindOf(err), Err: err, Hint: providers.HintOf(err)}
}

package kubernetes

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/api/kubernetes/route"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

var (
	_ router.Router   = (*Router)(nil)
	_ router.Planner  = (*Router)(nil)
	_ router.Targeter = (*Router)(nil)
)

// Traits are what a router with these settings can do. Istio before 1.20
// refused weights that are not 100 together, so there a share has no decimals.
func (s Settings) Traits() router.Traits {
	if len(s.HTTPRoutes) > 0 {
		return router.Traits{Unit: "weight, 100 together; 10000 for a share with decimals", Step: 0.01, Conditional: true, Testers: "header"}
	}
	return router.Traits{Unit: "weight, 100 together", Step: 1, Conditional: true, Testers: "header"}
}

// Router moves the weights of one or more routes; each is a part.
type Router struct {
	*cluster
	dialect dialect
}

// dialect is what Gateway API and Istio differ in.
type dialect interface {
	// ref names a route.
	ref(ctx context.Context, name string) (api.Ref, error)
	read(doc map[string]any, names route.Names) (route.Split, error)
	// capacity counts what serves in each slot, without those that nobody
	// can know of, and checks what has to be there beside the routes.
	capacity(ctx context.Context) (map[state.Slot]int, error)
	// inForce says whether the present spec is, the last change of which was
	// written at since; known says that this is from the receipt of a write.
	inForce(ctx context.Context, s route.Split, doc map[string]any, since time.Time, known bool) (bool, error)
}

// object is a route that has been read.
type object struct {
	ref   api.Ref
	doc   map[string]any
	split route.Split
}

// look reads one route.
func (r *Router) look(ctx context.Context, id string) (object, error) {
	ref, err := r.ref(ctx, id)
	if err != nil {
		return object{}, err
	}
	found, err := r.client.Get(ctx, ref)
	if err != nil {
		return object{}, err
	}
	return r.parse(ref, found)
}

func (r *Router) ref(ctx context.Context, id string) (api.Ref, error) {
	if !slices.Contains(r.settings.objects(), id) {
		return api.Ref{}, &providers.Fault{Kind: providers.NotFound,
			Err: fmt.Errorf("there is no such part, expected one of %s", strings.Join(r.settings.objects(), ", "))}
	}
	ref, err := r.dialect.ref(ctx, id)
	if err == nil && r.settings.RouteNamespace != "" {
		ref.Namespace = r.settings.RouteNamespace
	} else if err == nil {
		ref.Namespace, err = r.namespace()
	}
	return ref, err
}

func (r *Router) parse(ref api.Ref, found *unstructured.Unstructured) (object, error) {
	o := object{ref: ref, doc: found.Object}
	names, err := r.names()
	if err == nil {
		o.split, err = r.dialect.read(found.Object, names)
	}
	return o, named(ref.String(), err)
}

func (c *cluster) names() (route.Names, error) {
	ns, err := c.namespace()
	return route.Names{Service: c.settings.Service, Namespace: ns, Rules: c.settings.Rules}, err
}

// Read implements router.Router.
func (r *Router) Read(ctx context.Context, _ state.Slots) (router.Reading, error) {
	units, err := r.dialect.capacity(ctx)
	if err != nil {
		return router.Reading{}, named("read capacity", err)
	}
	var out router.Reading
	for _, id := range r.settings.objects() {
		part := router.Part{PartWeights: state.PartWeights{ID: id}}
		if o, err := r.look(ctx, id); err != nil {
			part.Err = named("read "+id, err)
		} else {
			part.Weights, part.Shares, part.Foreign = o.split.Weights(), o.split.Shares(), o.split.Foreign()
			part.Revision, part.Units = o.revision(), units
			if change, ok := o.split.LastChange(); ok {
				part.By = change.String()
			}
			settled, err := r.dialect.inForce(ctx, o.split, o.doc, o.changed(), false)
			part.Pending = !settled || err != nil
			out.Testers = out.Testers || o.split.Targeted()
		}
		out.Parts = append(out.Parts, part)
	}
	return out, nil
}

func (o object) revision() string {
	meta, _ := o.doc["metadata"].(map[string]any)
	revision, _ := meta["resourceVersion"].(string)
	return revision
}

// changed is when the rules were last changed, zero when the document does not
// say: long ago. It is recorded in whole seconds, so it was up to one later.
func (o object) changed() time.Time {
	change, _ := o.split.LastChange()
	return change.At.Add(time.Second)
}

// Settled implements router.Router.
func (r *Router) Settled(ctx context.Context, want []state.PartWeights, receipt state.Receipt) (bool, error) {
	for _, p := range want {
		o, err := r.look(ctx, p.ID)
		if err != nil {
			return false, named("prove "+p.ID, err)
		}
		if !router.Same(o.split.Weights(), p.Weights) {
			return false, nil
		}
		since, err := time.Parse(time.RFC3339Nano, receipt[p.ID+" at"])
		known := err == nil
		if !known {
			since = o.changed()
		}
		if ok, err := r.dialect.inForce(ctx, o.split, o.doc, since, known); err != nil || !ok {
			return false, named("prove "+p.ID, err)
		}
	}
	return true, nil
}

// Plan implements router.Planner.
func (r *Router) Plan(slot state.Slot, share, tolerance float64, seen router.Reading) ([]state.PartWeights, float64, error) {
	parts, got, err := router.Percent(slot, share, r.settings.Traits().Step, tolerance, seen)
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
	for _, id := range r.settings.objects() {
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
		ops, err := o.split.Target(want)
		if err != nil {
			return err
		}
		if len(ops) == 0 {
			return r.await(ctx, o)
		}
		if _, err = r.client.Patch(ctx, o.ref, ops); err != nil && !lostRace(err) {
			return err
		}
		before, refused := o, err
		if o, err = r.look(ctx, id); err == nil && refused != nil && providers.KindOf(refused) == providers.Invalid && o.split.Same(before.split) {
			return refused
		}
	}
	return busy()
}

// awaited bounds how long Target waits, within one call of the engine.
const awaited = 15 * time.Second

// await looks until the route is in force. A controller that stays silent is
// no reason to fail: the gate sees what testers see.
func (r *Router) await(ctx context.Context, o object) error {
	until := r.now().Add(awaited)
	for {
		if ok, err := r.dialect.inForce(ctx, o.split, o.doc, o.changed(), false); ok || err != nil {
			return err
		}
		if !r.now().Before(until) {
			r.log("kubernetes: the testers' entry of %s is written, and not known to be in force after %v", o.ref, awaited)
			return nil
		}
		select {
		case <-ctx.Done():
			return &providers.Fault{Kind: providers.Unknown, Err: fmt.Errorf("the testers' entry is written, not yet in force: %w", ctx.Err())}
		case <-time.After(100 * time.Millisecond):
		}
		var err error
		if o, err = r.look(ctx, o.ref.Name); err != nil {
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

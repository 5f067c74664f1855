// Package nginxplus is the router of NGINX Plus: the weights of an upstream's
// servers, by the API of each instance. It must not know what the targets run,
// nor the plan.
//
// Each instance is a part; its units are the servers by name, as weight, and 0
// for one that drains. NGINX keeps the weight of a server that drains, takes no
// weight 0, and sets none of this back at the end of a rollout. What the API
// changes lives in shared memory: a reload of NGINX discards it unless the
// upstream has a state file, which shows as drift.
//
// The API has no conditional write. Every instance is compared before the
// first is written, and once more right before its own writes, and read again
// after them. A hand that changes the very server in between is overwritten
// unseen; what else it changed is found. A return overwrites in any case: it
// makes its changes at the same time and leaves the reading after them to the
// caller, so that it ends in the time of a call also where the API is slow.
package nginxplus

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

var (
	_ router.Router  = (*Router)(nil)
	_ router.Planner = (*Router)(nil)
	_ router.Reacher = (*Router)(nil)
	_ router.Sticky  = (*Router)(nil)
)

const name = "nginx-plus"

// units are the weights that a share is made of. NGINX sets no upper bound;
// 256 has a resolution of 0.4 points between slots of one size.
func units() router.Units { return router.Units{Least: 1, Most: 256} }

// Settings of the router.
type Settings struct {
	URLs        []string            `name:"api_urls" required:"true" help:"address of the API of each instance, the location with the api directive: https://lb1:8443/api"`
	Upstream    string              `name:"upstream" required:"true" help:"upstream of the http block, with a zone, that has the servers of both slots"`
	Version     int                 `name:"api_version" help:"version of the API; left out, the smaller of 9 and the newest of the instance"`
	Member      string              `name:"member" default:"{host}" help:"a target's server as the upstream has it: {host}, {host}:{port}, {label.<name>}; port 80 if it has none"`
	Credentials providers.SecretRef `name:"credentials_secret" help:"user:password, if the API asks for basic authentication"`
	PinnedFor   time.Duration       `name:"pinned_for" default:"0s" help:"how long a sticky session keeps a client at a server that drains; a retirement waits that long"`
	CAFile      string              `name:"ca_file" help:"PEM file of the authorities to trust instead of the system's"`
	AllowHTTP   bool                `name:"allow_http" default:"false" help:"true allows http URLs to other machines, which show the password to everybody on the way"`
	Timeout     time.Duration       `name:"timeout" default:"8s" help:"for one call of the API, 1s to 15s"`
}

// Spec describes the router.
func Spec() router.Spec {
	s := providers.Define(name, "NGINX Plus: the servers of an upstream, by the API of each instance", func(env providers.Env, s Settings) (router.Router, error) {
		return New(env, s, httpx.Options{})
	})
	s.Unproven = "tests ran on a stand-in made from the published description of the API, version 9"
	return router.Spec{
		Spec:   s,
		Traits: router.Traits{Unit: "weight 1–256 per server, 0 drains", OnTargets: true, Notes: notes()},
	}
}

// Router is the upstream on all instances.
type Router struct {
	env      providers.Env
	settings Settings
	members  []router.Member // nil while no targets are known
	parts    []part
	http     *httpx.Client
}

// Read implements router.Router.
func (r *Router) Read(ctx context.Context, slots state.Slots) (router.Reading, error) {
	ctx, err := r.login(ctx)
	if err != nil {
		return router.Reading{}, err
	}
	out := router.Reading{Parts: make([]router.Part, len(r.parts))}
	var all sync.WaitGroup
	for i, p := range r.parts {
		all.Go(func() { out.Parts[i] = r.at(p, slots.Candidate).read(ctx) })
	}
	all.Wait()
	return out, nil
}

// Write implements router.Router. Conflicts are looked for on every part
// before the first is written; then each part that can be reached is written
// in order, also after one that failed.
func (r *Router) Write(ctx context.Context, slots state.Slots, want []state.PartWeights, expect router.Reading) (state.Receipt, error) {
	jobs, err := r.jobs(slots, want, expect)
	if err == nil {
		ctx, err = r.login(ctx)
	}
	if err != nil {
		return nil, err
	}
	return router.WriteParts(ctx, jobs)
}

// Settled implements router.Router: workers share what the API shows.
func (r *Router) Settled(ctx context.Context, want []state.PartWeights, _ state.Receipt) (bool, error) {
	ctx, err := r.login(ctx)
	if err != nil {
		return false, err
	}
	ok, err := router.SettledParts(want, func(w state.PartWeights) (bool, error) {
		i, err := r.on(w.ID, "")
		if err != nil {
			return false, err
		}
		return i.settled(ctx, w.Weights)
	})
	return ok, router.Named(name, "prove weights", err)
}

// Plan implements router.Planner.
func (r *Router) Plan(slot state.Slot, share, tolerance float64, seen router.Reading) ([]state.PartWeights, float64, error) {
	parts, got, err := router.PlanMembers(r.members, slot, share, tolerance, units(), seen)
	return parts, got, router.Named(name, "", err)
}

// Reach implements router.Reacher.
func (r *Router) Reach(slot state.Slot, share, tolerance float64) (float64, error) {
	_, got, err := router.SolveMembers(r.members, nil, slot, share, tolerance, units())
	return got, router.Named(name, "", err)
}

// PinnedFor implements router.Sticky.
func (r *Router) PinnedFor() time.Duration { return r.settings.PinnedFor }

func (r *Router) on(id string, candidate state.Slot) (instance, error) {
	i := slices.IndexFunc(r.parts, func(p part) bool { return p.id == id })
	if i < 0 {
		return instance{}, &providers.Fault{Kind: providers.Invalid, Err: fmt.Errorf("there is no instance %s in api_urls", id)}
	}
	return r.at(r.parts[i], candidate), nil
}

// Package haproxy is the router of HAProxy: the weights of one backend's
// servers, changed on every instance by its Data Plane API. The slots are the
// environment's targets by their label slot. It must not know what is in the
// slots, nor the plan.
//
// What the configuration says is compared and written; what HAProxy runs says
// which shares there are, and whether a change is in force. A write is many
// small ones, in an order in which the candidate never has more than before or
// after and something is always in service, and each is refused by the API if
// the configuration is no longer the one that was read.
package haproxy

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/haproxy"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

var (
	_ router.Router  = (*Router)(nil)
	_ router.Planner = (*Router)(nil)
	_ router.Reacher = (*Router)(nil)
	_ router.Sticky  = (*Router)(nil)
)

const name = "haproxy"

// units are the weights of a server in service; 0 is out of service
// (HAProxy's configuration manual, server weight).
func units() router.Units { return router.Units{Least: 1, Most: 256} }

// Settings of the router.
type Settings struct {
	URLs        []string            `name:"dataplane_urls" required:"true" help:"Data Plane API of each active instance, without /v3; weights change on all of them"`
	Backend     string              `name:"backend" required:"true" help:"backend that has the servers of both slots"`
	Credentials providers.SecretRef `name:"credentials_secret" required:"true" help:"user:password of the Data Plane API"`
	Version     string              `name:"api_version" default:"v3" enum:"v2,v3" help:"v2 for Data Plane API 2.x, v3 for 3.0 and newer"`
	CAFile      string              `name:"ca_file" help:"PEM file of the authorities to trust instead of the system's"`
	AllowHTTP   bool                `name:"allow_http" default:"false" help:"true allows http URLs to other machines, which show the password to everybody on the way"`
	Member      string              `name:"member" default:"{host}" help:"name of a target's server: {host}, {port} and {label.NAME} are replaced"`
	PinnedFor   time.Duration       `name:"pinned_for" default:"0s" help:"how long a cookie or stick table keeps clients at a server; required where the backend has one"`
	Timeout     time.Duration       `name:"timeout" default:"8s" help:"for one call of the API, 1s to 15s"`
}

// Spec describes the router.
func Spec() router.Spec {
	return router.Spec{
		Spec:   spec(),
		Traits: router.Traits{Unit: "weight 0–256", Conditional: true, OnTargets: true, Notes: notes()},
	}
}

func spec() providers.Spec[router.Router] {
	s := providers.Define(name, "HAProxy: the weights of a backend's servers, by the Data Plane API of each instance", build)
	s.Unproven = "the Data Plane API itself: tests ran on a stand-in for it, which drives HAProxy 2.6"
	return s
}

// Router is one environment's split on all instances.
type Router struct {
	env       providers.Env
	settings  Settings
	members   []router.Member
	instances []haproxy.Instance
	log       *router.Log
}

// Read implements router.Router. The instances are asked at the same time, so
// that a slow one takes nobody else's time.
func (r *Router) Read(ctx context.Context, _ state.Slots) (router.Reading, error) {
	ctx, err := r.login(ctx)
	if err != nil {
		return router.Reading{}, err
	}
	reading := router.Reading{Parts: make([]router.Part, len(r.instances))}
	router.Each(len(r.instances), func(k int) error {
		i := r.instances[k]
		part, err := instance{r, i}.read(ctx)
		part.Err = router.Named(name, "read on "+i.ID, err)
		reading.Parts[k] = part
		return nil
	})
	return reading, nil
}

// Write implements router.Router. Conflicts are looked for on every part
// before the first is written; then each part that can be reached is written
// in order, also after one that failed. A server may hold its weight of before
// or the wanted one, as a write that was cut off leaves them.
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

// Settled implements router.Router: on every part the configuration has the
// weights, no reload for them is pending, and HAProxy runs with them. The
// receipt has the id of the last reload for each part that needed one.
func (r *Router) Settled(ctx context.Context, want []state.PartWeights, receipt state.Receipt) (bool, error) {
	ctx, err := r.login(ctx)
	if err != nil {
		return false, err
	}
	in := make([]bool, len(want))
	problems := router.Each(len(want), func(k int) error {
		id := want[k].ID
		i, err := r.on(id)
		if err == nil {
			in[k], err = i.settled(ctx, want[k].Weights, receipt[id])
		}
		return router.Named(name, "prove on "+id, err)
	})
	return !slices.Contains(in, false), router.Join(problems)
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

func (r *Router) on(id string) (instance, error) {
	for _, i := range r.instances {
		if i.ID == id {
			return instance{r, i}, nil
		}
	}
	return instance{}, &providers.Fault{Kind: providers.Invalid, Err: fmt.Errorf("there is no instance %s in dataplane_urls", id)}
}

// login checks that there is something to act on, and resolves the
// credentials, once for a call.
func (r *Router) login(ctx context.Context) (context.Context, error) {
	if err := router.HasTargets(r.members); err != nil {
		return nil, router.Named(name, "targets", err)
	}
	secret, err := r.settings.Credentials.Resolve(ctx, r.env)
	if err == nil {
		ctx, err = haproxy.Login(ctx, secret)
	}
	return ctx, router.Named(name, "credentials_secret", err)
}

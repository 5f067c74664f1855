// Package f5 is the router of F5 BIG-IP: the ratios of one LTM pool's members,
// changed by iControl REST on the active device. The slots are the
// environment's targets by their label slot. It must not know what is in the
// slots, nor the plan.
//
// A member's weight is its ratio while it may get new connections, and 0 while
// it is disabled (session user-disabled): a ratio of 0 would not take it out.
// Disabling leaves the ratio as it is, and nothing is stored for it. All
// members change in one transaction, so that no share is ever between; but in
// a return each for itself and at the same time, as a slow device would not
// end a transaction in the time of a call. The system refuses no stale write:
// weights are read, compared, written and read again, and a change in the
// moment between is overwritten or found after.
package f5

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/f5"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

var (
	_ router.Router  = (*Router)(nil)
	_ router.Planner = (*Router)(nil)
	_ router.Reacher = (*Router)(nil)
	_ router.Sticky  = (*Router)(nil)
)

const name = "f5"

// units are the ratios that every version takes; 0 is a disabled member.
func units() router.Units { return router.Units{Least: 1, Most: 100} }

// Settings of the router.
type Settings struct {
	URL         string              `name:"management_url" required:"true" help:"management interface of the active BIG-IP, https://HOST"`
	Pool        string              `name:"pool" required:"true" help:"LTM pool that has the members of both slots; FOLDER/POOL below the partition where there is a folder"`
	Partition   string              `name:"partition" default:"Common" help:"partition of the pool"`
	Credentials providers.SecretRef `name:"credentials_secret" required:"true" help:"user:password of a user with the role manager on the partition"`
	SyncGroup   string              `name:"sync_group" help:"device group that the configuration is sent to after each change; everything that is pending is sent"`
	Member      string              `name:"member" default:"{host}" help:"name of a target's member, usually {host}:{port}: {host}, {port} and {label.NAME} are replaced; without a port it has to mean one member"`
	CAFile      string              `name:"ca_file" help:"PEM file of the authorities to trust instead of the system's"`
	PinnedFor   time.Duration       `name:"pinned_for" default:"0s" help:"how long a persistence profile keeps clients at a member; required where a virtual server has one"`
	Save        bool                `name:"save_config" default:"true" help:"save the running configuration after each change: without, a restart of the device brings old ratios back"`
	Timeout     time.Duration       `name:"timeout" default:"15s" help:"for one call of the API, 1s to 15s"`
}

// Spec describes the router.
func Spec() router.Spec {
	return router.Spec{
		Spec:   spec(),
		Traits: router.Traits{Unit: "ratio 1–100, disabled at 0", Conditional: false, OnTargets: true, Notes: notes()},
	}
}

func spec() providers.Spec[router.Router] {
	s := providers.Define(name, "F5 BIG-IP: the ratios of a pool's members, by iControl REST", build)
	s.Unproven = "a BIG-IP: tests ran on a stand-in for iControl REST written from its documentation"
	return s
}

// Router is one environment's split on one pool.
type Router struct {
	env      providers.Env
	settings Settings
	members  []router.Member
	api      *f5.Client
	pause    time.Duration     // between two tries, 0 for the client's
	carry    http.RoundTripper // nil for the client's
	log      *router.Log
}

// part is the only part's name: the pool's full path.
func (s Settings) part() string { return "/" + s.Partition + "/" + s.Pool }

// Read implements router.Router.
func (r *Router) Read(ctx context.Context, _ state.Slots) (router.Reading, error) {
	if err := router.HasTargets(r.members); err != nil {
		return router.Reading{}, router.Named(name, "targets", err)
	}
	part := router.Part{PartWeights: state.PartWeights{ID: r.settings.part()}}
	part.Err = r.use(ctx, "read", func(ctx context.Context, s *f5.Session) error {
		seen, err := r.look(ctx, s, true)
		if err == nil {
			seen.report(&part)
			part.Unfit = r.unfit(seen)
		}
		return err
	})
	return router.Reading{Parts: []router.Part{part}}, nil
}

// Write implements router.Router. Everything changes or nothing does. A pool
// that is as wanted already is sent to the group and saved all the same: a
// process that ended after the change did neither.
func (r *Router) Write(ctx context.Context, slots state.Slots, want []state.PartWeights, expect router.Reading) (state.Receipt, error) {
	receipt := state.Receipt{}
	for _, w := range want {
		j, err := r.job(slots, w, expect)
		if err != nil {
			return receipt, router.Named(name, "write", err)
		}
		err = r.use(ctx, "write", func(ctx context.Context, s *f5.Session) error {
			said, before, err := j.write(ctx, s)
			if said != "" {
				receipt[w.ID] = said
			}
			if err == nil {
				err = j.keep(ctx, s, before)
			}
			return err
		})
		if err != nil {
			return receipt, err
		}
	}
	return receipt, nil
}

// Settled implements router.Router: the active device has the weights, and
// with sync_group its peers have the same configuration. A return does not wait
// for the peers of an active device, but for a transaction that may still land.
func (r *Router) Settled(ctx context.Context, want []state.PartWeights, receipt state.Receipt) (bool, error) {
	in := true
	err := r.use(ctx, "prove", func(ctx context.Context, s *f5.Session) error {
		var err error
		if receipt[r.settings.part()] == returned { // before the pool is read, or one could land between
			in, err = r.landed(ctx, s)
		}
		if err != nil || !in {
			return err
		}
		seen, err := r.look(ctx, s, false)
		if err != nil {
			return err
		}
		for _, w := range want {
			if w.ID != r.settings.part() {
				return r.noPart(w.ID)
			}
			if in = in && seen.has(w.Weights); in && err == nil {
				in, err = r.inForce(seen, w.Weights, receipt[w.ID] == returned)
			}
		}
		return err
	})
	return in && err == nil, err
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

// use does something on the device and names what in an error.
func (r *Router) use(ctx context.Context, op string, do func(context.Context, *f5.Session) error) error {
	return router.Named(name, op, r.api.Use(ctx, do))
}

func (r *Router) noPart(id string) error {
	return &providers.Fault{Kind: providers.NotFound, Err: fmt.Errorf("no part %q, expected %s", id, r.settings.part())}
}

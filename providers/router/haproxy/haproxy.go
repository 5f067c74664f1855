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
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/haproxy"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

const name = "haproxy"

var (
	_ router.Router  = (*Router)(nil)
	_ router.Planner = (*Router)(nil)
	_ router.Reacher = (*Router)(nil)
	_ router.Sticky  = (*Router)(nil)
)

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
		Traits: router.Traits{Unit: "weight 0–256", Conditional: true, OnTargets: true},
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

	mu     sync.Mutex
	warned map[string]bool // what the log has already
}

// Read implements router.Router. The instances are asked at the same time, so
// that a slow one takes nobody else's time.
func (r *Router) Read(ctx context.Context, _ state.Slots) (router.Reading, error) {
	if len(r.members) == 0 {
		return router.Reading{}, named("read", refusal(providers.Invalid, "give it targets with the labels slot: a and slot: b", "the environment has no targets"))
	}
	ctx, err := r.login(ctx)
	if err != nil {
		return router.Reading{}, err
	}
	reading := router.Reading{Parts: make([]router.Part, len(r.instances))}
	var all sync.WaitGroup
	for k, i := range r.instances {
		all.Go(func() {
			part, err := instance{r, i}.read(ctx)
			part.Err = named("read on "+i.ID, err)
			reading.Parts[k] = part
		})
	}
	all.Wait()
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
	var problems []error
	for k := range jobs {
		err := named("compare on "+jobs[k].want.ID, jobs[k].compare(ctx))
		if providers.IsConflict(err) {
			return nil, err
		}
		if jobs[k].failed = err != nil; jobs[k].failed {
			problems = append(problems, err)
		}
	}
	receipt := state.Receipt{}
	for k := range jobs {
		if jobs[k].failed {
			continue
		}
		reload, err := jobs[k].write(ctx)
		if reload != "" {
			receipt[jobs[k].want.ID] = reload
		}
		if err != nil {
			problems = append(problems, named("write on "+jobs[k].want.ID, err))
		}
	}
	return receipt, join(problems)
}

// Settled implements router.Router: on every part the configuration has the
// weights, no reload for them is pending, and HAProxy runs with them. The
// receipt has the id of the last reload for each part that needed one.
func (r *Router) Settled(ctx context.Context, want []state.PartWeights, receipt state.Receipt) (bool, error) {
	ctx, err := r.login(ctx)
	if err != nil {
		return false, err
	}
	for _, w := range want {
		i, err := r.on(w.ID)
		if err != nil {
			return false, named("prove", err)
		}
		ok, err := i.settled(ctx, w.Weights, receipt[w.ID])
		if err != nil || !ok {
			return false, named("prove on "+w.ID, err)
		}
	}
	return true, nil
}

// PinnedFor implements router.Sticky.
func (r *Router) PinnedFor() time.Duration { return r.settings.PinnedFor }

func (r *Router) on(id string) (instance, error) {
	for _, i := range r.instances {
		if i.ID == id {
			return instance{r, i}, nil
		}
	}
	return instance{}, refusal(providers.Invalid, "", "there is no instance %s in dataplane_urls", id)
}

// login resolves the credentials, once for a call.
func (r *Router) login(ctx context.Context) (context.Context, error) {
	secret, err := r.settings.Credentials.Resolve(ctx, r.env)
	if err == nil {
		ctx, err = haproxy.Login(ctx, secret)
	}
	return ctx, named("credentials", err)
}

// warn logs a thing once: a router looks at the same instance many times.
func (r *Router) warn(format string, args ...any) {
	line := fmt.Sprintf("haproxy: "+format, args...)
	r.mu.Lock()
	defer r.mu.Unlock() // the log too is one for all instances
	if !r.warned[line] && r.env.Log != nil {
		r.env.Log("%s", line)
	}
	r.warned[line] = true
}

func refusal(kind providers.Kind, hint, format string, args ...any) error {
	return &providers.Fault{Kind: kind, Err: fmt.Errorf(format, args...), Hint: hint}
}

// named makes an error this router's, with what was done.
func named(op string, err error) error {
	if err == nil {
		return nil
	}
	f := providers.Fault{Provider: name, Op: op, Kind: providers.KindOf(err), Err: err, Hint: providers.HintOf(err)}
	if below, ok := errors.AsType[*providers.Fault](err); ok {
		f.After = below.After
	}
	return &f
}

// join makes one error of several; it is of the first one's kind.
func join(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	all := problems[0]
	for _, p := range problems[1:] {
		all = fmt.Errorf("%w; %w", all, p)
	}
	return all
}

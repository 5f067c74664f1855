// Package proxy is the router of manent's own reverse proxy (manent proxy):
// each proxy is one part, and its admin interface the truth about what it
// does. It must not know how the proxy forwards a request.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/proxy"
	"github.com/manent/action/providers/httpx"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

var (
	_ router.Router   = (*Router)(nil)
	_ router.Planner  = (*Router)(nil)
	_ router.Targeter = (*Router)(nil)
	_ router.Sticky   = (*Router)(nil)
)

const (
	name = "proxy"
	step = 0.01 // percent: the proxy deals in hundredths
	// tries bounds how often a write that lost a race over something else
	// than the weights is sent again.
	tries = 5
)

// Settings are the router's settings.
type Settings struct {
	Admin     []string      `name:"admin" required:"true" help:"admin address of each proxy, such as http://127.0.0.1:9901; the interface answers only its own machine, so use a tunnel for another's"`
	PinnedFor time.Duration `name:"pinned_for" default:"0s" help:"how long connections that outlive their request (WebSockets, downloads) may stay on a slot without weight; a retirement waits that long. Cookies do not count: a pin to such a slot is not honoured"`
}

// Spec describes the router.
func Spec() router.Spec {
	return router.Spec{
		Spec: providers.Define(name, "manent's own reverse proxy, by its admin interface", func(_ providers.Env, s Settings) (router.Router, error) {
			return New(s, httpx.Options{})
		}),
		Traits: router.Traits{Unit: "percent, in steps of 0.01", Step: step, Conditional: true, Testers: "header"},
	}
}

// Router moves the weights of one or more proxies.
type Router struct {
	settings Settings
	parts    []part
}

type part struct {
	id    string
	admin *api.Client
}

// New returns a router; of the options only timeouts and retries matter.
func New(s Settings, opts httpx.Options) (*Router, error) {
	opts.Provider = name
	r := &Router{settings: s}
	seen := map[string]bool{}
	for _, raw := range s.Admin {
		u, err := providers.CheckURL(raw, false)
		if err == nil && seen[u.Host] {
			err = fmt.Errorf("%s is given twice", u.Host)
		}
		if err != nil {
			return nil, &providers.Fault{Provider: name, Op: "setting admin", Kind: providers.Invalid, Err: err}
		}
		seen[u.Host] = true
		r.parts = append(r.parts, part{id: u.Host, admin: api.NewClient(opts, httpx.CleanURL(raw))})
	}
	if len(r.parts) == 0 {
		return nil, &providers.Fault{Provider: name, Op: "setting admin", Kind: providers.Invalid, Err: errors.New("no address, expected at least one")}
	}
	return r, nil
}

// Read implements router.Router.
func (r *Router) Read(ctx context.Context, _ state.Slots) (router.Reading, error) {
	out := router.Reading{Parts: make([]router.Part, len(r.parts))}
	testers := make([]bool, len(r.parts))
	var wg sync.WaitGroup
	for i, p := range r.parts {
		wg.Go(func() { out.Parts[i], testers[i] = p.read(ctx) })
	}
	wg.Wait()
	bad := 0
	for i, p := range out.Parts {
		out.Testers = out.Testers || testers[i]
		if p.Err != nil {
			bad++
		}
	}
	if bad == len(out.Parts) {
		return router.Reading{}, out.Err()
	}
	return out, nil
}

func (p part) read(ctx context.Context) (router.Part, bool) {
	seen, err := p.admin.State(ctx)
	if err != nil {
		return router.Part{PartWeights: state.PartWeights{ID: p.id}, Err: err}, false
	}
	out := router.Part{
		PartWeights: state.PartWeights{ID: p.id, Weights: seen.Weights}, Revision: seen.Revision,
		Shares: map[state.Slot]float64{}, Units: map[state.Slot]int{},
	}
	for slot, share := range seen.Weights {
		out.Shares[state.Slot(slot)] = share
		if up := seen.Slots[slot].Up; up == nil || *up {
			out.Units[state.Slot(slot)] = 1
		} else {
			out.Units[state.Slot(slot)] = 0
		}
	}
	return out, seen.Testers.On
}

// Write implements router.Router. The receipt holds each part's revision.
func (r *Router) Write(ctx context.Context, _ state.Slots, want []state.PartWeights, expect router.Reading) (state.Receipt, error) {
	receipt, expected := state.Receipt{}, expect.Weights()
	for _, w := range want {
		p, err := r.part(w.ID)
		if err != nil {
			return receipt, err
		}
		from, _ := router.Find(expected, w.ID)
		revision, err := p.write(ctx, w.Weights, from)
		if err != nil {
			return receipt, err
		}
		receipt[w.ID] = revision
	}
	return receipt, nil
}

// write sends the weights under the revision at which it compared them. A
// revision that changed meanwhile is no conflict as long as the weights stay.
func (p part) write(ctx context.Context, want, from map[string]float64) (revision string, err error) {
	for range tries {
		var seen api.State
		if seen, err = p.admin.State(ctx); err != nil {
			return "", err
		}
		if router.Same(seen.Weights, want) {
			return seen.Revision, nil
		}
		if !router.Same(seen.Weights, from) {
			return "", p.drifted(seen.Weights, from)
		}
		if seen, err = p.admin.SetWeights(ctx, want, seen.Revision); !providers.IsConflict(err) {
			return seen.Revision, err
		}
	}
	return "", err
}

func (p part) drifted(seen, want map[string]float64) error {
	return &providers.Fault{
		Provider: name, Op: "write weights of " + p.id, Kind: providers.Conflict,
		Err:  &router.ErrDrifted{Part: p.id, Seen: maps.Clone(seen), Want: maps.Clone(want)},
		Hint: "somebody else moved the weights; find out who before going on",
	}
}

// Settled implements router.Router: requests are dealt by what the admin
// interface shows, from the moment it shows it.
func (r *Router) Settled(ctx context.Context, want []state.PartWeights, _ state.Receipt) (bool, error) {
	for _, w := range want {
		p, err := r.part(w.ID)
		if err != nil {
			return false, err
		}
		seen, err := p.admin.State(ctx)
		if err != nil || !router.Same(seen.Weights, w.Weights) {
			return false, err
		}
	}
	return true, nil
}

func (r *Router) part(id string) (part, error) {
	ids := make([]string, 0, len(r.parts))
	for _, p := range r.parts {
		if p.id == id {
			return p, nil
		}
		ids = append(ids, p.id)
	}
	return part{}, &providers.Fault{
		Provider: name, Kind: providers.NotFound,
		Err: fmt.Errorf("no part %q, expected one of %s", id, strings.Join(ids, ", ")),
	}
}

// Plan implements router.Planner.
func (r *Router) Plan(slot state.Slot, share, tolerance float64, seen router.Reading) ([]state.PartWeights, float64, error) {
	parts, got, err := router.Percent(slot, share, step, tolerance, seen)
	if f, ok := errors.AsType[*providers.Fault](err); ok {
		f.Provider = name
	}
	return parts, got, err
}

// Target implements router.Targeter: the header works on the ordinary URL.
func (r *Router) Target(ctx context.Context, _ state.Slots, slot state.Slot, match router.Match, on bool) (router.Access, error) {
	if match.Header == "" {
		match.Header, match.Value = "x-canary", "always"
	}
	want := api.Testers{}
	if on {
		want = api.Testers{On: true, Header: match.Header, Value: match.Value, Slot: string(slot)}
	}
	for _, p := range r.parts {
		if err := p.target(ctx, want); err != nil {
			return router.Access{}, err
		}
	}
	return router.Access{Header: map[string]string{match.Header: match.Value}}, nil
}

func (p part) target(ctx context.Context, want api.Testers) (err error) {
	for range tries {
		var seen api.State
		if seen, err = p.admin.State(ctx); err != nil || seen.Testers == want {
			return err
		}
		if _, err = p.admin.SetTesters(ctx, want, seen.Revision); !providers.IsConflict(err) {
			return err
		}
	}
	return err
}

// PinnedFor implements router.Sticky.
func (r *Router) PinnedFor() time.Duration { return r.settings.PinnedFor }

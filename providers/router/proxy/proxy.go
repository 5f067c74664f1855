// Package proxy is the router of manent's own reverse proxy (manent proxy):
// each proxy is one part, and its admin interface the truth about what it
// does. It must not know how the proxy forwards a request.
package proxy

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
		Traits: router.Traits{Unit: "percent, in steps of 0.01", Step: step, Conditional: true, Testers: "header", Notes: notes()},
	}
}

// Router moves the weights of one or more proxies.
type Router struct {
	settings Settings
	parts    []part
}

// Read implements router.Router.
func (r *Router) Read(ctx context.Context, _ state.Slots) (router.Reading, error) {
	out := router.Reading{Parts: make([]router.Part, len(r.parts))}
	testers, bad := make([]bool, len(r.parts)), 0
	router.Each(len(r.parts), func(i int) error {
		out.Parts[i], testers[i] = r.parts[i].read(ctx)
		return nil
	})
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

// Write implements router.Router. The receipt holds each part's revision.
func (r *Router) Write(ctx context.Context, _ state.Slots, want []state.PartWeights, expect router.Reading) (state.Receipt, error) {
	jobs, err := r.jobs(want, expect)
	if err != nil {
		return nil, err
	}
	return router.WriteParts(ctx, jobs)
}

// Settled implements router.Router: requests are dealt by what the admin
// interface shows, from the moment it shows it.
func (r *Router) Settled(ctx context.Context, want []state.PartWeights, _ state.Receipt) (bool, error) {
	in := make([]bool, len(want))
	problems := router.Each(len(want), func(k int) error {
		p, err := r.on(want[k].ID)
		if err != nil {
			return err
		}
		seen, err := p.admin.State(ctx)
		in[k] = err == nil && router.Same(seen.Weights, want[k].Weights)
		return router.Named(name, "prove on "+p.id, err)
	})
	return !slices.Contains(in, false), router.Join(problems)
}

// Plan implements router.Planner.
func (r *Router) Plan(slot state.Slot, share, tolerance float64, seen router.Reading) ([]state.PartWeights, float64, error) {
	parts, got, err := router.Percent(slot, share, step, tolerance, seen)
	return parts, got, router.Named(name, "", err)
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
	problems := router.Each(len(r.parts), func(k int) error { return r.parts[k].target(ctx, want) })
	if err := router.Join(problems); err != nil {
		return router.Access{}, router.Named(name, "testers", err)
	}
	return router.Access{Header: map[string]string{match.Header: match.Value}}, nil
}

// PinnedFor implements router.Sticky.
func (r *Router) PinnedFor() time.Duration { return r.settings.PinnedFor }

func (r *Router) on(id string) (part, error) {
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

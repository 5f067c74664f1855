package nginxplus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/nginxplus"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

const (
	tries = 4     // of a write that met a reload
	most  = 65535 // weight that is written; a share needs no more than 256
)

// instance is one NGINX while a call lasts.
type instance struct {
	id      string
	api     *api.Client
	members []router.Member
}

func (r *Router) at(p part) instance {
	return instance{id: p.id, api: api.New(r.http, name, p.url, r.settings.Upstream, r.settings.Version), members: r.members}
}

func (i instance) look(ctx context.Context) (view, error) {
	servers, err := i.api.Servers(ctx)
	if err != nil {
		return view{}, err
	}
	v := divide(servers, i.members)
	v.unfit = router.Named(name, "upstream at "+i.id, v.unfit)
	return v, nil
}

// read is a look that also finds out whether the API lets anybody write.
func (i instance) read(ctx context.Context) router.Part {
	v, err := i.look(ctx)
	if err != nil {
		return router.Part{PartWeights: state.PartWeights{ID: i.id}, Err: err}
	}
	if err := i.api.Writable(ctx); v.unfit == nil && providers.KindOf(err) == providers.Denied {
		v.unfit = err
	}
	return v.part(i.id)
}

// job is the write of one part.
type job struct {
	instance
	want   state.PartWeights
	expect *router.Part // nil when the caller did not see the part
	slot   state.Slot   // whose share is bounded on the way
	failed bool
}

// jobs checks what is wanted before anything is touched.
func (r *Router) jobs(slots state.Slots, want []state.PartWeights, expect router.Reading) ([]job, error) {
	out := make([]job, 0, len(want))
	for _, w := range want {
		i, err := r.instance(w.ID)
		if err == nil {
			err = r.checkWeights(w.Weights)
		}
		if err != nil {
			return nil, router.Named(name, "write weights at "+w.ID, err)
		}
		out = append(out, job{instance: i, want: w, slot: slots.Candidate, expect: expect.Part(w.ID)})
	}
	return out, nil
}

func (r *Router) instance(id string) (instance, error) {
	i := slices.IndexFunc(r.parts, func(p part) bool { return p.id == id })
	if i < 0 {
		return instance{}, invalid(fmt.Errorf("there is no instance %q in api_urls", id), "")
	}
	return r.at(r.parts[i]), nil
}

// checkWeights takes whole weights of targets only.
func (r *Router) checkWeights(weights map[string]float64) error {
	known := map[string]bool{}
	for _, m := range r.members {
		known[m.Name] = true
	}
	for member, w := range weights {
		switch {
		case w != math.Trunc(w) || w < 0 || w > most:
			return invalid(fmt.Errorf("weight %v of server %s, expected a whole number of 0 to %d", w, member, most), "")
		case w > 0 && !known[member]:
			return invalid(fmt.Errorf("weight %v for server %s, which is no target's", w, member), "put the target back, or read the weights again")
		}
	}
	return nil
}

// compare finds out whether the part may be written.
func (j *job) compare(ctx context.Context) error {
	v, err := j.look(ctx)
	if err != nil {
		return err
	}
	return j.expected(v)
}

// expected returns nil if each server is what the caller saw, or as wanted.
func (j *job) expected(v view) error {
	op := "compare weights at " + j.id
	switch {
	case v.has(j.want.Weights):
		return nil
	case v.lacks(j.want.Weights):
		return v.unfit
	case j.expect != nil && j.expect.Err != nil:
		return &providers.Fault{Provider: name, Op: op, Kind: providers.Unavailable,
			Err: errors.New("it could not be read before, so there is nothing to compare with"), Hint: "read again"}
	case j.expect == nil:
		return drifted(op, j.id, v, nil)
	case !router.Between(v.weights(), j.expect.Weights, j.want.Weights):
		return drifted(op, j.id, v, j.expect.Weights)
	}
	return nil
}

func drifted(op, part string, v view, want map[string]float64) error {
	return &providers.Fault{Provider: name, Op: op, Kind: providers.Conflict,
		Err:  &router.ErrDrifted{Part: part, Seen: v.weights(), Want: want},
		Hint: "somebody else moved the weights, or NGINX was reloaded without a state file; find out before going on"}
}

// write compares again, writes what differs, and reads the instance once more:
// there is no other way to see a hand that wrote at the same time. A server
// whose id is gone was there under another one when NGINX was reloaded.
func (j *job) write(ctx context.Context) error {
	var err error
	for range tries {
		var v view
		if v, err = j.look(ctx); err != nil {
			return err
		}
		if v.has(j.want.Weights) {
			return nil
		}
		if err = j.expected(v); err != nil {
			return err
		}
		if err = j.apply(ctx, v); err != nil && !errors.Is(err, api.ErrGone) {
			return err
		} else if err == nil {
			return j.proven(ctx)
		}
	}
	return err
}

// apply writes server by server, in the order that bounds the share.
func (j *job) apply(ctx context.Context, v view) error {
	want := map[string]int{}
	byID := map[string]api.Server{}
	for _, e := range v.ours {
		want[e.ID], byID[e.ID] = int(j.want.Weights[e.member]), e.Server
	}
	for _, c := range router.Changes(v.servers(), j.slot, want) {
		if err := j.api.Set(ctx, byID[c.ID], c.To); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) proven(ctx context.Context) error {
	v, err := j.look(ctx)
	if err == nil && !v.has(j.want.Weights) {
		return drifted("read weights after the write at "+j.id, j.id, v, j.want.Weights)
	}
	return err
}

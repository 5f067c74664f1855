package nginxplus

import (
	"context"
	"errors"

	api "github.com/manent/action/providers/api/nginxplus"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

const (
	tries = 4     // of a write that met a reload
	most  = 65535 // weight that is written; a share needs no more than 256
)

// job is the write of one part.
type job struct {
	instance
	want   map[string]float64
	expect *router.Part // nil when the caller did not see the part
	slot   state.Slot   // whose share is bounded on the way
	back   bool         // nothing is wanted for that slot
}

// jobs checks what is wanted before anything is touched.
func (r *Router) jobs(slots state.Slots, want []state.PartWeights, expect router.Reading) ([]router.Job, error) {
	jobs := make([]router.Job, 0, len(want))
	for _, w := range want {
		i, err := r.on(w.ID, slots.Candidate)
		if err == nil {
			_, err = router.Whole(w.Weights, r.members, most)
		}
		if err != nil {
			return nil, router.Named(name, "write on "+w.ID, err)
		}
		jobs = append(jobs, job{instance: i, want: w.Weights, expect: expect.Part(w.ID), slot: slots.Candidate, back: router.Returns(r.members, w.Weights, slots.Candidate)})
	}
	return jobs, nil
}

// ID implements router.Job.
func (j job) ID() string { return j.id }

// Compare implements router.Job.
func (j job) Compare(ctx context.Context) error {
	v, err := j.look(ctx)
	if err == nil {
		err = j.expected(v)
	}
	return router.Named(name, "compare on "+j.id, err)
}

// expected returns nil if each server is what the caller saw, or as wanted.
func (j job) expected(v view) error {
	switch {
	case v.has(j.want):
		return nil
	case v.lacks(j.want):
		return v.unfit
	}
	return router.Expected(j.id, v.weights(), j.want, j.expect)
}

// Write implements router.Job.
func (j job) Write(ctx context.Context) (string, error) {
	if err := j.write(ctx); err != nil {
		return "", router.Named(name, "write on "+j.id, err)
	}
	return "written", nil
}

// write compares, writes what differs, and reads the instance once more: there
// is no other way to see a hand that wrote at the same time. A server whose id
// is gone was there under another one when NGINX was reloaded.
func (j job) write(ctx context.Context) error {
	var err error
	for range tries {
		var v view
		if v, err = j.look(ctx); err != nil {
			return err
		}
		if v.has(j.want) {
			return nil
		}
		if err = j.expected(v); err != nil {
			return err
		}
		switch err = j.apply(ctx, v); {
		case err == nil && !j.back:
			return j.proven(ctx)
		case !errors.Is(err, api.ErrGone):
			return err
		}
	}
	return err
}

// apply writes server by server, in the order that bounds the share.
func (j job) apply(ctx context.Context, v view) error {
	want := map[string]int{}
	byID := map[string]api.Server{}
	for _, e := range v.ours {
		want[e.ID], byID[e.ID] = int(j.want[e.member]), e.Server
	}
	set := func(c router.Change) error { return j.api.Set(ctx, byID[c.ID], c.To) }
	if j.back {
		return router.Back(v.servers(), j.slot, want, set)
	}
	for _, c := range router.Changes(v.servers(), j.slot, want) {
		if err := set(c); err != nil {
			return err
		}
	}
	return nil
}

func (j job) proven(ctx context.Context) error {
	v, err := j.look(ctx)
	if err == nil && !v.has(j.want) {
		return router.Named("", "read after the write", router.Drifted(j.id, v.weights(), j.want))
	}
	return err
}

package proxy

import (
	"context"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/proxy"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

const tries = 5 // of a write that lost a race over something else than the weights

// job is the write of one part.
type job struct {
	part
	want   map[string]float64
	expect *router.Part // nil when the caller did not see the part
}

// jobs checks what is wanted before anything is touched.
func (r *Router) jobs(want []state.PartWeights, expect router.Reading) ([]router.Job, error) {
	jobs := make([]router.Job, 0, len(want))
	for _, w := range want {
		p, err := r.on(w.ID)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, job{part: p, want: w.Weights, expect: expect.Part(w.ID)})
	}
	return jobs, nil
}

// ID implements router.Job.
func (j job) ID() string { return j.id }

// Compare implements router.Job.
func (j job) Compare(ctx context.Context) error {
	seen, err := j.admin.State(ctx)
	if err == nil {
		err = router.Expected(j.id, seen.Weights, j.want, j.expect)
	}
	return router.Named(name, "compare on "+j.id, err)
}

// Write implements router.Job. The receipt is the revision.
func (j job) Write(ctx context.Context) (string, error) {
	revision, err := j.write(ctx)
	return revision, router.Named(name, "write on "+j.id, err)
}

// write sends the weights under the revision at which it compared them. A
// revision that changed meanwhile is no conflict as long as the weights stay.
func (j job) write(ctx context.Context) (revision string, err error) {
	for range tries {
		var seen api.State
		if seen, err = j.admin.State(ctx); err != nil {
			return "", err
		}
		if router.Same(seen.Weights, j.want) {
			return seen.Revision, nil
		}
		if err := router.Expected(j.id, seen.Weights, j.want, j.expect); err != nil {
			return "", err
		}
		if seen, err = j.admin.SetWeights(ctx, j.want, seen.Revision); !providers.IsConflict(err) {
			return seen.Revision, err
		}
	}
	return "", err
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

package nginx

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/nginx/split"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

const tries = 4 // of a write that met another revision with the same weights

// job is the write of one part.
type job struct {
	*Router
	slots  state.Slots
	want   state.PartWeights
	share  split.Share
	expect *router.Part // nil when the caller did not see the part
}

// jobs checks what is wanted before anything is touched.
func (r *Router) jobs(slots state.Slots, want []state.PartWeights, expect router.Reading) ([]router.Job, error) {
	jobs := make([]router.Job, 0, len(want))
	for _, p := range want {
		share, err := split.ShareOf(p.Weights)
		if err == nil {
			err = r.settings.setup().Check() // there may be no servers
		}
		if !slices.Contains(r.settings.parts(), p.ID) {
			err = fmt.Errorf("there is no such instance, expected one of %v", r.settings.parts())
		}
		if err != nil {
			return nil, &providers.Fault{Provider: name, Op: "write on " + p.ID, Kind: providers.Invalid, Err: err}
		}
		jobs = append(jobs, job{Router: r, slots: slots, want: p, share: share, expect: expect.Part(p.ID)})
	}
	return jobs, nil
}

// ID implements router.Job.
func (j job) ID() string { return j.want.ID }

// Compare implements router.Job.
func (j job) Compare(ctx context.Context) error {
	return j.on(ctx, "compare", j.want.ID, func(ctx context.Context, i instance) error {
		return j.expected(i.look(ctx))
	})
}

// expected returns nil if the file is what the caller saw, or as wanted.
func (j job) expected(f file, err error) error {
	switch {
	case err == nil:
		return router.Expected(j.want.ID, f.Weights(), j.want.Weights, j.expect)
	case f.Digest != "" && j.expect != nil && j.expect.Unfit != nil && j.expect.Weights == nil && j.expect.Revision == f.Digest:
		return nil
	}
	return err
}

// Write implements router.Job. The receipt is the generation of the file.
func (j job) Write(ctx context.Context) (generation string, err error) {
	err = j.on(ctx, "write", j.want.ID, func(ctx context.Context, i instance) error {
		generation, err = j.write(ctx, i)
		return err
	})
	return generation, err
}

// write compares again, as the file may have changed since, and writes; what
// decides is the comparison within the host's lock. A file that is as wanted
// but unfinished is written again: NGINX may not have been told of it.
func (j job) write(ctx context.Context, i instance) (generation string, err error) {
	to, err := i.change(ctx, func(f file, err error) (split.File, bool, error) {
		if err == nil && router.Same(f.Weights(), j.want.Weights) && !f.Unfinished {
			return f.File, false, nil
		}
		return f.Next(i.settings.setup(), j.slots, j.share), true, j.expected(f, err)
	})
	return to.Generation, err
}

// target sets the testers' entry and keeps the share.
func (i instance) target(ctx context.Context, slots state.Slots, t split.Testers) error {
	to, err := i.change(ctx, func(f file, err error) (split.File, bool, error) {
		next := f.File
		if f.Digest == host.Absent {
			next = next.Next(i.settings.setup(), slots, split.Share{})
		}
		next.Testers = t
		return next, f.Testers != t || f.Unfinished, err
	})
	if err == nil {
		err = i.await(ctx, to)
	}
	return err
}

// change replaces the file by what next makes of it, if that says so; once
// more when the file is another one by then.
func (i instance) change(ctx context.Context, next func(file, error) (to split.File, differs bool, err error)) (split.File, error) {
	var conflict error
	for range tries {
		f, lookErr := i.look(ctx)
		to, differs, err := next(f, lookErr)
		if err != nil || !differs {
			return to, err
		}
		to.Generation = i.nonce()
		if conflict = i.server().Replace(ctx, i.settings.IncludeFile, f.Digest, []byte(to.Render(i.settings.Name))); !providers.IsConflict(conflict) {
			return to, conflict
		}
	}
	return split.File{}, conflict
}

// await looks until the workers serve the file. There is nothing to wait for
// where no file is.
func (i instance) await(ctx context.Context, f split.File) error {
	for f.Generation != "" {
		if ok, err := i.serves(ctx, f.Generation); ok || err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done(): // while they were asked, or in between
			return fmt.Errorf("the file is in place, the workers do not serve it yet: %w", context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

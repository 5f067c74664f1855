package nginx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/nginx"
	"github.com/manent/action/providers/api/nginx/split"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

const (
	tries       = 4  // of a write that met another revision with the same weights
	connections = 20 // that all have to meet new workers
)

// instance is one NGINX while a call lasts.
type instance struct {
	*Router
	host host.Host
	id   string
}

// file is the managed file as found.
type file struct {
	split.File
	Digest     string
	Unfinished bool
}

// on does something on the named instance and names both in the error.
func (r *Router) on(ctx context.Context, hosts *host.Group, op, id string, do func(context.Context, instance) error) error {
	late := fmt.Errorf("no answer within %v", r.settings.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, r.settings.Timeout, late)
	defer cancel()
	name := id
	if len(r.settings.Hosts) == 0 {
		name = ""
	}
	h, err := hosts.Get(ctx, name)
	if err == nil {
		err = do(ctx, instance{Router: r, host: h, id: id})
	}
	return router.Named("nginx", op+" on "+id, err)
}

func (i instance) server() nginx.Server {
	return nginx.Server{Host: i.host, Command: i.settings.Command, Reload: i.settings.Reload}
}

// look reads the file. A content that means nothing is an error, with the
// digest of it in the file all the same.
func (i instance) look(ctx context.Context) (file, error) {
	content, err := host.ReadFile(ctx, i.host, i.settings.IncludeFile)
	if err != nil {
		return file{}, err
	}
	f := file{Digest: content.Digest, Unfinished: content.Unfinished}
	if content.Digest == host.Absent {
		return f, nil
	}
	var byHand bool
	f.File, byHand, err = split.Parse(string(content.Data), i.settings.Prefix)
	if err != nil {
		return f, &providers.Fault{Op: "read " + i.settings.IncludeFile, Kind: providers.Invalid, Err: err,
			Hint: "put back what manent wrote there, or the file that manent generate nginx prints"}
	}
	if byHand {
		i.log("nginx: %s on %s was changed by hand", i.settings.IncludeFile, i.id)
	}
	return f, nil
}

func (i instance) serves(ctx context.Context, generation string) (bool, error) {
	return i.server().Status(ctx, i.settings.StatusURL, generation, connections)
}

// job is the write of one part.
type job struct {
	slots      state.Slots
	share      split.Share
	want       state.PartWeights
	expect     *router.Part // nil when the caller did not see the part
	failed     bool
	generation string
}

// jobs checks what is wanted before anything is touched.
func (r *Router) jobs(slots state.Slots, want []state.PartWeights, expect router.Reading) ([]job, error) {
	jobs := make([]job, 0, len(want))
	for _, p := range want {
		share, err := split.ShareOf(p.Weights)
		if err == nil {
			err = r.settings.setup().Check() // there may be no servers
		}
		if !slices.Contains(r.settings.parts(), p.ID) {
			err = fmt.Errorf("there is no such instance, expected one of %v", r.settings.parts())
		}
		if err != nil {
			return nil, &providers.Fault{Provider: "nginx", Op: "write on " + p.ID, Kind: providers.Invalid, Err: err}
		}
		jobs = append(jobs, job{slots: slots, want: p, share: share, expect: expect.Part(p.ID)})
	}
	return jobs, nil
}

// compare finds out whether the part may be written.
func (j *job) compare(ctx context.Context, i instance) error {
	f, err := i.look(ctx)
	return j.expected(f, err)
}

// expected returns nil if the file is what the caller saw, or as wanted.
func (j *job) expected(f file, err error) error {
	switch {
	case err == nil && router.Same(f.Weights(), j.want.Weights):
		return nil
	case err != nil && f.Digest != "" && j.expect != nil && j.expect.Err != nil && j.expect.Revision == f.Digest:
		return nil
	case err != nil:
		return err
	case j.expect != nil && j.expect.Err != nil:
		return &providers.Fault{Kind: providers.Unavailable, Err: errors.New("it could not be read before, so there is nothing to compare with"), Hint: "read again"}
	case j.expect == nil || !router.Same(f.Weights(), j.expect.Weights):
		drift := &router.ErrDrifted{Part: j.want.ID, Seen: f.Weights()}
		if j.expect != nil {
			drift.Want = j.expect.Weights
		}
		return &providers.Fault{Kind: providers.Conflict, Err: drift}
	}
	return nil
}

// write compares again, as the file may have changed since, and writes; what
// decides is the comparison within the host's lock. A file that is as wanted
// but unfinished is written again: NGINX may not have been told of it.
func (j *job) write(ctx context.Context, i instance) error {
	var err error
	for range tries {
		f, lookErr := i.look(ctx)
		if lookErr == nil && router.Same(f.Weights(), j.want.Weights) && !f.Unfinished {
			j.generation = f.Generation
			return nil
		}
		if err := j.expected(f, lookErr); err != nil {
			return err
		}
		next := f.Next(i.settings.setup(), j.slots, j.share)
		next.Generation = i.nonce()
		j.generation = next.Generation
		if err = i.replace(ctx, f.Digest, next); !providers.IsConflict(err) {
			return err
		}
	}
	return err
}

// target sets the testers' entry and keeps the share.
func (i instance) target(ctx context.Context, slots state.Slots, t split.Testers) error {
	var err error
	for range tries {
		f, lookErr := i.look(ctx)
		if lookErr != nil {
			return lookErr
		}
		if f.Testers == t && !f.Unfinished {
			return i.await(ctx, f.File)
		}
		next := f.File
		if f.Digest == host.Absent {
			next = next.Next(i.settings.setup(), slots, split.Share{})
		}
		next.Testers, next.Generation = t, i.nonce()
		if err = i.replace(ctx, f.Digest, next); err == nil {
			return i.await(ctx, next)
		} else if !providers.IsConflict(err) {
			return err
		}
	}
	return err
}

// await looks until the workers serve the file. There is nothing to wait for
// where no file is.
func (i instance) await(ctx context.Context, f split.File) error {
	for f.Generation != "" {
		if ok, err := i.serves(ctx, f.Generation); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the file is in place, the workers do not serve it yet: %w", context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

func (i instance) replace(ctx context.Context, expect string, f split.File) error {
	return i.server().Replace(ctx, i.settings.IncludeFile, expect, []byte(f.Render(i.settings.Name)))
}

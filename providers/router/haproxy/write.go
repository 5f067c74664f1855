package haproxy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/haproxy"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

const tries = 5 // of a write that met another version with the same weights

// job is the write of one part.
type job struct {
	instance
	candidate state.Slot
	want      state.PartWeights
	units     map[string]int
	expect    *router.Part // nil when the caller did not see the part
	failed    bool
}

// jobs checks what is wanted before anything is touched.
func (r *Router) jobs(slots state.Slots, want []state.PartWeights, expect router.Reading) ([]job, error) {
	jobs := make([]job, 0, len(want))
	for _, w := range want {
		on, err := r.on(w.ID)
		if err != nil {
			return nil, named("write", err)
		}
		j := job{instance: on, candidate: slots.Candidate, want: w, units: map[string]int{}}
		for unit, weight := range w.Weights {
			if weight != math.Trunc(weight) || weight < 0 || weight > 256 || !slices.ContainsFunc(r.members, func(m router.Member) bool { return m.Name == unit }) {
				return nil, named("write on "+w.ID, refusal(providers.Invalid, "", "weight %v of server %s, expected a target's server and a whole number from 0 to 256", weight, unit))
			}
			j.units[unit] = int(weight)
		}
		if k := slices.IndexFunc(expect.Parts, func(p router.Part) bool { return p.ID == w.ID }); k >= 0 {
			j.expect = &expect.Parts[k]
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// compare finds out whether the part may be written.
func (j *job) compare(ctx context.Context) error {
	now, err := j.Configuration(ctx)
	if err != nil {
		return err
	}
	return j.expected(now)
}

// expected returns nil if every server has the weight that the caller saw, or
// the wanted one. A server that is not there takes no traffic, so that it has
// weight 0.
func (j *job) expected(now haproxy.Configuration) error {
	has := j.ours(now)
	switch {
	case router.Same(has, j.want.Weights):
		return nil
	case j.expect == nil:
		return &providers.Fault{Kind: providers.Conflict, Err: &router.ErrDrifted{Part: j.ID, Seen: has}}
	case j.expect.Err != nil:
		return &providers.Fault{Kind: providers.Unavailable, Err: errors.New("it could not be read before, so there is nothing to compare with"), Hint: "read again"}
	case !router.Between(has, j.expect.Weights, j.want.Weights):
		return &providers.Fault{Kind: providers.Conflict, Err: &router.ErrDrifted{Part: j.ID, Seen: has, Want: j.expect.Weights}}
	}
	for unit, w := range j.units {
		if _, there := now.Servers[unit]; !there && w > 0 {
			return j.UnfitServer(j.use(), unit, now, nil)
		}
	}
	return nil
}

// write compares again, as the configuration may have changed since, and
// writes. When the API says that it has another version it does so once more:
// it may be about something else. It returns the reload to wait for, if any.
func (j *job) write(ctx context.Context) (reload string, err error) {
	for range tries {
		now, err := j.Configuration(ctx)
		if err == nil {
			err = j.expected(now)
		}
		if err != nil {
			return reload, err
		}
		last, err := j.Apply(ctx, now, j.changes(now))
		if last != "" {
			reload = last
		}
		if !providers.IsConflict(err) {
			return reload, err
		}
	}
	return reload, &providers.Fault{Kind: providers.Conflict, Err: fmt.Errorf("the configuration changed %d times between reading and writing, its weights did not", tries), Hint: "find out who keeps changing it, and try again"}
}

func (j *job) changes(now haproxy.Configuration) []haproxy.Change {
	servers := make([]router.Server, 0, len(j.members))
	for _, m := range j.members {
		if w, there := now.Weights[m.Name]; there {
			servers = append(servers, router.Server{ID: m.Name, Slot: m.Slot, Weight: w})
		}
	}
	var out []haproxy.Change
	for _, c := range router.Changes(servers, j.candidate, j.units) {
		out = append(out, haproxy.Change{Server: c.ID, Weight: c.To})
	}
	return out
}

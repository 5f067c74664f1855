package haproxy

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/haproxy"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

const tries = 5 // of a write that met another version with the same weights

// job is the write of one part.
type job struct {
	instance
	want   map[string]float64
	units  map[string]int // want in whole numbers
	expect *router.Part   // nil when the caller did not see the part
	slot   state.Slot     // whose share is bounded on the way
}

// jobs checks what is wanted before anything is touched.
func (r *Router) jobs(slots state.Slots, want []state.PartWeights, expect router.Reading) ([]router.Job, error) {
	jobs := make([]router.Job, 0, len(want))
	for _, w := range want {
		i, err := r.on(w.ID)
		if err != nil {
			return nil, router.Named(name, "write", err)
		}
		whole, err := router.Whole(w.Weights, r.members, units().Most)
		if err != nil {
			return nil, router.Named(name, "write on "+w.ID, err)
		}
		jobs = append(jobs, job{instance: i, want: w.Weights, units: whole, expect: expect.Part(w.ID), slot: slots.Candidate})
	}
	return jobs, nil
}

// ID implements router.Job.
func (j job) ID() string { return j.instance.ID }

// Compare implements router.Job.
func (j job) Compare(ctx context.Context) error {
	now, err := j.Configured(ctx)
	if err == nil {
		err = j.expected(now)
	}
	return router.Named(name, "compare on "+j.ID(), err)
}

// expected returns nil if every server has the weight that the caller saw, or
// the wanted one. A server that is not there takes no traffic, so that it has
// weight 0.
func (j job) expected(now haproxy.Configuration) error {
	if err := router.Expected(j.ID(), j.ours(now), j.want, j.expect); err != nil {
		return err
	}
	for unit, w := range j.units {
		if _, there := now.Servers[unit]; !there && w > 0 {
			return j.UnfitServer(j.use(), unit, now, nil)
		}
	}
	return nil
}

// Write implements router.Job. The receipt is the reload to wait for, if any.
func (j job) Write(ctx context.Context) (string, error) {
	reload, err := j.write(ctx)
	return reload, router.Named(name, "write on "+j.ID(), err)
}

// write compares again, as the configuration may have changed since, and
// writes: first on top of the version that the caller saw, which saves a call.
// When the API says that it has another version it does so once more: it may be
// about something else.
func (j job) write(ctx context.Context) (reload string, err error) {
	version := j.version()
	for range tries {
		now, running, err := j.look(ctx, version)
		if err == nil {
			err = j.expected(now)
		}
		if err != nil {
			return reload, err
		}
		last, err := j.Apply(ctx, now, append(j.changes(now), j.again(now, running)...))
		if last != "" {
			reload = last
		}
		if !providers.IsConflict(err) {
			return reload, err
		}
		version = 0
	}
	return reload, &providers.Fault{Kind: providers.Conflict, Err: fmt.Errorf("the configuration changed %d times between reading and writing, its weights did not", tries), Hint: "find out who keeps changing it, and try again"}
}

// version is that of the caller's reading, 0 when it is not known.
func (j job) version() int64 {
	if j.expect == nil {
		return 0
	}
	v, _ := strconv.ParseInt(j.expect.Revision, 10, 64) // 0 where there is none
	return v
}

// look reads the configuration and, for a return on an instance that runs with
// something else, or may, what that is; nil where it cannot be seen.
func (j job) look(ctx context.Context, version int64) (c haproxy.Configuration, running map[string]haproxy.Running, err error) {
	problems := router.Each(2, func(k int) (err error) {
		switch {
		case k == 0:
			c, err = j.Configuration(ctx, version)
		case j.returns() && j.expect != nil && j.expect.Pending:
			running, _ = j.Running(ctx) // a return does not need it
		}
		return err
	})
	return c, running, problems[0]
}

// returns reports whether nothing is wanted for the candidate.
func (j job) returns() bool {
	return j.slot != "" && !slices.ContainsFunc(j.members, func(m router.Member) bool { return m.Slot == j.slot && j.units[m.Name] > 0 })
}

func (j job) changes(now haproxy.Configuration) []haproxy.Change {
	servers := make([]router.Server, 0, len(j.members))
	for _, m := range j.members {
		if w, there := now.Weights[m.Name]; there {
			servers = append(servers, router.Server{ID: m.Name, Slot: m.Slot, Weight: w})
		}
	}
	var out []haproxy.Change
	for _, c := range router.Changes(servers, j.slot, j.units) {
		out = append(out, haproxy.Change{Server: c.ID, Weight: c.To})
	}
	return out
}

// again brings weights into force that are configured as wanted, while somebody
// set others at run time: HAProxy is told of changes only, so there are two, by
// one and back. The candidate's come first.
func (j job) again(now haproxy.Configuration, running map[string]haproxy.Running) []haproxy.Change {
	set := now.SetAtRunTime(j.names(), running)
	var ours, others []haproxy.Change
	for _, m := range j.members {
		want, wanted := j.units[m.Name]
		if _, ok := set[m.Name]; !ok || !wanted || now.Weights[m.Name] != want {
			continue
		}
		beside := want - 1
		if want < 2 { // never 0 on the way
			beside = want + 1
		}
		both := []haproxy.Change{{Server: m.Name, Weight: beside}, {Server: m.Name, Weight: want}}
		if m.Slot == j.slot {
			ours = append(ours, both...)
		} else {
			others = append(others, both...)
		}
	}
	return append(ours, others...)
}

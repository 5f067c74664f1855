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
	now, err := j.Configured(ctx, j.names())
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
		last, err := j.Apply(ctx, now, j.changes(now, running))
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

// look reads the configuration, and what HAProxy runs; nil where that cannot be
// seen, which a write does not need.
func (j job) look(ctx context.Context, version int64) (c haproxy.Configuration, running map[string]haproxy.Running, err error) {
	problems := router.Each(2, func(k int) (err error) {
		if k == 0 {
			c, err = j.Configuration(ctx, version, j.names())
		} else {
			running, _ = j.Running(ctx)
		}
		return err
	})
	return c, running, problems[0]
}

func (j job) changes(now haproxy.Configuration, running map[string]haproxy.Running) []haproxy.Change {
	var out []haproxy.Change
	servers := j.servers(now, running)
	for _, c := range router.Changes(servers, j.slot, j.units) {
		if c.From == c.To { // configured so already, and HAProxy is told of changes only
			k := slices.IndexFunc(servers, func(s router.Server) bool { return s.ID == c.ID })
			out = append(out, haproxy.Change{Server: c.ID, Weight: beside(c.To, *servers[k].Runs)})
		}
		out = append(out, haproxy.Change{Server: c.ID, Weight: c.To})
	}
	return out
}

// beside is the weight next to the wanted one, on the way to it from what runs.
func beside(want, runs int) int {
	if runs < want {
		return want - 1
	}
	return want + 1
}

// servers are the members as configured, and what they run with where that is
// to be written again: by a return, or when the caller saw it. Where nobody
// knows what runs all of them count as up.
func (j job) servers(now haproxy.Configuration, running map[string]haproxy.Running) []router.Server {
	back := router.Returns(j.members, j.want, j.slot)
	set := map[string]int{}
	if back || j.expect != nil && j.expect.Pending {
		set = now.SetAtRunTime(j.names(), running)
	}
	out := make([]router.Server, 0, len(j.members))
	for _, m := range j.members {
		w, there := now.Weights[m.Name]
		if !there {
			continue
		}
		s := router.Server{ID: m.Name, Slot: m.Slot, Weight: w, Up: true}
		if r, runs := running[m.Name]; running != nil {
			s.Up = runs && r.Up() && (w == 0 || r.Weight > 0)
			if runs && back && m.Slot == j.slot && w == 0 && r.User != nil && *r.User > 0 {
				set[m.Name] = *r.User // by an agent too
			}
		}
		if runs, ok := set[m.Name]; ok {
			s.Runs = &runs
		}
		out = append(out, s)
	}
	return out
}

package nginxplus

import (
	"context"
	"slices"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/nginxplus"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
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

// entry is a server of the upstream that belongs to a target.
type entry struct {
	api.Server
	member string
	slot   state.Slot
	takes  bool // false for one that only holds a domain name
}

// view is one instance's upstream as the targets divide it.
type view struct {
	ours   []entry      // in NGINX's order
	others []api.Server // neither a target's nor a backup
	unfit  error        // which targets have no server that can be weighed
}

// divide finds the servers of each target.
func divide(servers []api.Server, members []router.Member) view {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.Name
	}
	var v view
	var found []api.Found
	found, v.others, v.unfit = api.Match(servers, names)
	for _, f := range found {
		v.ours = append(v.ours, entry{Server: f.Server, member: names[f.Of], slot: members[f.Of].Slot, takes: f.Takes})
	}
	return v
}

// servers are the targets' servers for the solver, by NGINX's ids.
func (v view) servers() []router.Server {
	out := make([]router.Server, len(v.ours))
	for i, e := range v.ours {
		out[i] = router.Server{ID: e.ID, Slot: e.slot, Up: e.takes && e.Up && !e.Down, Weight: e.Units()}
	}
	return out
}

// weights are the targets' by name. Where a name stands for several servers
// that differ, the largest counts: only a write that was cut off, a reload or
// somebody else makes them differ.
func (v view) weights() map[string]float64 {
	out := map[string]float64{}
	for _, e := range v.ours {
		out[e.member] = max(out[e.member], float64(e.Units()))
	}
	return out
}

// lacks reports whether a weight is wanted for a target that has no server.
func (v view) lacks(want map[string]float64) bool {
	there := v.weights()
	for member, w := range want {
		if _, ok := there[member]; !ok && w > 0 {
			return true
		}
	}
	return false
}

// has reports whether all servers are as wanted.
func (v view) has(want map[string]float64) bool {
	return !v.lacks(want) && !slices.ContainsFunc(v.ours, func(e entry) bool { return float64(e.Units()) != want[e.member] })
}

// foreign is the weight of servers that are no target's and get requests.
func (v view) foreign() map[string]float64 {
	out := map[string]float64{}
	for _, s := range v.others {
		if !s.Down && s.Units() > 0 {
			out[s.Address] += float64(s.Units())
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// part is what the router reports of this instance.
func (v view) part(id string) router.Part {
	all := v.servers()
	p := router.Part{
		PartWeights: state.PartWeights{ID: id, Weights: v.weights()},
		Units:       map[state.Slot]int{state.SlotA: 0, state.SlotB: 0},
		Shares:      map[state.Slot]float64{},
		Foreign:     v.foreign(), Unfit: v.unfit,
	}
	p.Pending = !v.has(p.Weights)
	for _, s := range all {
		if s.Up {
			p.Units[s.Slot]++
		}
	}
	for _, s := range v.others {
		all = append(all, router.Server{ID: s.ID, Up: s.Up && !s.Down, Weight: s.Units()})
	}
	for slot := range p.Units {
		p.Shares[slot] = router.ShareOf(all, slot)
	}
	return p
}

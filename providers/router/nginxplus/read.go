package nginxplus

import (
	"cmp"
	"context"
	"slices"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/nginxplus"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// instance is one NGINX while a call lasts.
type instance struct {
	id        string
	api       *api.Client
	members   []router.Member
	candidate state.Slot // "" where the caller does not say
}

func (r *Router) at(p part, candidate state.Slot) instance {
	return instance{id: p.id, api: api.New(r.http, name, p.url, r.settings.Upstream, r.settings.Version), members: r.members, candidate: candidate}
}

// look fails only where the configured weights cannot be known: what a name
// stands for may be in the servers' state alone.
func (i instance) look(ctx context.Context) (view, error) {
	servers, unseen, err := i.api.Servers(ctx)
	if err != nil {
		return view{}, err
	}
	v := divide(servers, i.members)
	v.candidate, v.unseen = i.candidate, unseen
	if unseen != nil && providers.KindOf(v.unfit) == providers.NotFound {
		return view{}, unseen
	}
	v.unfit = router.Named(name, "upstream at "+i.id, v.unfit)
	return v, nil
}

// read is a look that also finds out whether the API lets anybody write.
func (i instance) read(ctx context.Context) router.Part {
	v, err := i.look(ctx)
	if err != nil {
		return router.Part{PartWeights: state.PartWeights{ID: i.id}, Err: err}
	}
	if v.unfit == nil && v.unseen == nil {
		v.unfit = i.api.Writable(ctx)
	}
	if v.unfit == nil && v.unseen == nil { // after all others: it may be approved
		v.unfit = router.Named(name, "upstream at "+i.id, v.takenOut())
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
	unseen error        // why the servers' state is not known

	candidate state.Slot
}

// divide finds the servers of each target.
func divide(servers []api.Server, members []router.Member) view {
	var v view
	var found []api.Found
	found, v.others, v.unfit = api.Match(servers, router.Names(members))
	for _, f := range found {
		v.ours = append(v.ours, entry{Server: f.Server, member: members[f.Of].Name, slot: members[f.Of].Slot, takes: f.Takes})
	}
	return v
}

// servers are the targets' servers for the solver, by NGINX's ids. Without
// their state all count as up that are not marked down.
func (v view) servers() []router.Server {
	out := make([]router.Server, len(v.ours))
	for i, e := range v.ours {
		out[i] = router.Server{ID: e.ID, Slot: e.slot, Up: e.takes && v.up(e.Server), Weight: e.Units()}
	}
	return out
}

func (v view) up(s api.Server) bool { return !s.Down && (s.Up || v.unseen != nil) }

// weights are the targets' by name. Where a name stands for several servers
// that differ, what is worse for the stable slot counts: the most of the
// candidate's, the least of the others. Only a write that was cut off, a
// reload or somebody else makes them differ.
func (v view) weights() map[string]float64 {
	out := map[string]float64{}
	for _, e := range v.ours {
		w, known := out[e.member]
		switch units := float64(e.Units()); {
		case !known:
			out[e.member] = units
		case e.slot == v.candidate || v.candidate == "":
			out[e.member] = max(w, units)
		default:
			out[e.member] = min(w, units)
		}
	}
	return out
}

// takenOut names the servers of the slot that serves alone which somebody took
// out. What manent writes leaves none of them draining, and marks none down.
func (v view) takenOut() error {
	alone := router.Alone(v.servers())
	var out []string
	for _, e := range v.ours {
		if how := e.Out(); e.slot == alone && e.takes && how != "" {
			out = append(out, e.Address+" "+how)
		}
	}
	return router.TakenOut(alone, out)
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

// has reports whether all servers are as wanted, each address of a name too.
func (v view) has(want map[string]float64) bool {
	return !v.lacks(want) && !slices.ContainsFunc(v.ours, func(e entry) bool { return float64(e.Units()) != want[e.member] })
}

// foreign is the weight of servers that are no target's and may get requests.
func (v view) foreign() map[string]float64 {
	out := map[string]float64{}
	for _, s := range v.others {
		if s.Takes() {
			out[s.Address] += float64(s.Units())
		}
	}
	return out
}

// part is what the router reports of this instance.
func (v view) part(id string) router.Part {
	all := v.servers()
	p := router.Part{
		PartWeights: state.PartWeights{ID: id, Weights: v.weights()}, Foreign: v.foreign(), Unfit: v.unfit,
		Units: map[state.Slot]int{state.SlotA: 0, state.SlotB: 0}, Servers: map[state.Slot]int{}, Shares: map[state.Slot]float64{},
	}
	p.Pending = !v.has(p.Weights) || v.unseen != nil
	for i, s := range all {
		if s.Up {
			p.Units[s.Slot]++
		}
		if v.ours[i].takes {
			p.Servers[s.Slot]++
		}
	}
	for _, s := range v.others {
		all = append(all, router.Server{ID: s.ID, Up: s.Takes(), Weight: s.Units()})
	}
	for slot := range p.Units {
		p.Shares[slot] = router.ShareOf(all, slot)
	}
	if v.unseen != nil {
		p.Units = nil
		p.Unfit = cmp.Or(p.Unfit, v.unseen)
	}
	return p
}

// settled takes one look. Weights that split the traffic are in force only
// where the servers' state is seen.
func (i instance) settled(ctx context.Context, want map[string]float64) (bool, error) {
	v, err := i.look(ctx)
	if err != nil || !v.has(want) {
		return false, err
	}
	if router.Splits(i.members, want) && v.unseen != nil {
		return false, v.unseen
	}
	return true, nil
}

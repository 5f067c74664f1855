package nginxplus

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	api "github.com/manent/action/providers/api/nginxplus"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

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
}

// match finds the servers of each target: the one of that name, and those that
// NGINX resolved the name to.
func match(servers []api.Server, members []router.Member) (view, error) {
	parents := map[string]bool{}
	for _, s := range servers {
		parents[s.Parent] = true
	}
	var v view
	found := map[string]bool{}
	for _, s := range servers {
		i := slices.IndexFunc(members, func(m router.Member) bool { return belongs(s, servers, m.Name) })
		switch {
		case i < 0 && (s.Backup || parents[s.ID]):
		case i < 0:
			v.others = append(v.others, s)
		case s.Backup:
			return view{}, invalid(fmt.Errorf("server %s is a backup", s.Address), "write it without backup in the upstream: a backup gets requests only while all others are unavailable")
		default:
			found[members[i].Name] = true
			v.ours = append(v.ours, entry{Server: s, member: members[i].Name, slot: members[i].Slot, takes: !parents[s.ID]})
		}
	}
	var missing []string
	for _, m := range members {
		if !found[m.Name] {
			missing = append(missing, m.Name)
		}
	}
	if len(missing) > 0 {
		return view{}, notFound(fmt.Errorf("the upstream has no server %s", strings.Join(missing, ", ")),
			fmt.Sprintf("it has %s; add the missing ones with weight and drain, or change member so that it gives a target's server as the upstream has it", addresses(servers)))
	}
	return v, nil
}

// addresses lists some of the servers for a hint.
func addresses(servers []api.Server) string {
	const most = 8
	var names []string
	for i, s := range servers {
		if i == most {
			return strings.Join(names, ", ") + fmt.Sprintf(" and %d more", len(servers)-most)
		}
		names = append(names, s.Address)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// belongs reports whether a server is the named one, or was resolved from it.
func belongs(s api.Server, all []api.Server, name string) bool {
	name = withPort(name)
	if withPort(s.Address) == name || s.Name != "" && withPort(s.Name) == name {
		return true
	}
	if s.Host != "" {
		_, port, _ := net.SplitHostPort(withPort(s.Address))
		if s.Host == name || net.JoinHostPort(s.Host, port) == name {
			return true
		}
	}
	return s.Parent != "" && slices.ContainsFunc(all, func(p api.Server) bool { return p.ID == s.Parent && withPort(p.Address) == name })
}

// withPort adds the port that NGINX takes where none is written.
func withPort(address string) string {
	if _, _, err := net.SplitHostPort(address); err == nil || strings.HasPrefix(address, "unix:") {
		return address
	}
	return net.JoinHostPort(strings.Trim(address, "[]"), "80")
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

// every reports whether all servers of all targets have weights that are ok.
func (v view) every(ok func(member string, units int) bool) bool {
	return !slices.ContainsFunc(v.ours, func(e entry) bool { return !ok(e.member, e.Units()) })
}

// has reports whether all servers are as wanted.
func (v view) has(want map[string]float64) bool {
	return v.every(func(m string, units int) bool { return float64(units) == want[m] })
}

// between reports whether each server is as expected or as wanted.
func (v view) between(expect, want map[string]float64) bool {
	return v.every(func(m string, units int) bool {
		return float64(units) == expect[m] || float64(units) == want[m]
	})
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
		Foreign:     v.foreign(),
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
	for slot := range maps.Clone(p.Units) {
		p.Shares[slot] = router.ShareOf(all, slot)
	}
	return p
}

package f5

import (
	"context"
	"maps"
	"slices"

	"github.com/manent/action/providers/api/f5"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// view is the pool as the targets divide it.
type view struct {
	f5.Look
	ours    map[string][]f5.Member // by the target's member name
	slots   map[string]state.Slot
	missing []string // of targets without a member
	unclear error    // which names mean several members
	foreign []f5.Member
}

func (r *Router) look(ctx context.Context, s *f5.Session, all bool) (view, error) {
	v := view{slots: map[string]state.Slot{}}
	for _, m := range r.members {
		v.slots[m.Name] = m.Slot
	}
	var err error
	v.Look, err = s.Look(ctx, r.settings.part(), r.settings.SyncGroup, all)
	v.ours, v.missing, v.foreign, v.unclear = f5.Match(v.Pool.Members, router.Names(r.members))
	return v, err
}

// weights are by name. Where a name means several members, the most counts.
func (v view) weights() map[string]float64 {
	out := make(map[string]float64, len(v.ours))
	for id, members := range v.ours {
		for _, m := range members {
			out[id] = max(out[id], float64(m.Weight()))
		}
	}
	return out
}

// wanted are the weights of the members that the names mean: of each the
// name's, but one that is out beside others in service is somebody else's.
func (v view) wanted(want map[string]float64) map[string]int {
	out, has := map[string]int{}, v.weights()
	for id, members := range v.ours {
		for _, m := range members {
			if w := int(want[id]); w == 0 || m.Weight() > 0 || has[id] == 0 {
				out[m.FullPath] = w
			}
		}
	}
	return out
}

// has reports whether all members are as wanted.
func (v view) has(want map[string]float64) bool {
	wanted := v.wanted(want)
	for id, w := range want {
		if _, ok := v.ours[id]; !ok && w != 0 {
			return false
		}
	}
	return !slices.ContainsFunc(v.servers(), func(s router.Server) bool { w, ok := wanted[s.ID]; return ok && w != s.Weight })
}

// servers are our members by their full path.
func (v view) servers() []router.Server {
	var out []router.Server
	for _, id := range slices.Sorted(maps.Keys(v.ours)) {
		for _, m := range v.ours[id] {
			out = append(out, router.Server{ID: m.FullPath, Slot: v.slots[id], Weight: m.Weight(), Up: v.Up(m)})
		}
	}
	return out
}

// report fills in what the weights come to.
func (v view) report(part *router.Part) {
	part.Weights, part.Foreign = v.weights(), map[string]float64{}
	part.Units, part.Servers = map[state.Slot]int{state.SlotA: 0, state.SlotB: 0}, map[state.Slot]int{}
	all := v.servers()
	for _, s := range all {
		if part.Servers[s.Slot]++; s.Up {
			part.Units[s.Slot]++
		}
	}
	for _, m := range v.foreign {
		if v.Takes(m) {
			part.Foreign[m.Name] = float64(m.Weight())
			all = append(all, router.Server{ID: m.FullPath, Weight: m.Weight(), Up: true})
		}
	}
	for i := range all {
		if !v.Pool.ByRatio() {
			all[i].Weight = min(all[i].Weight, 1)
		}
	}
	part.Shares = map[state.Slot]float64{
		state.SlotA: router.ShareOf(all, state.SlotA), state.SlotB: router.ShareOf(all, state.SlotB),
	}
	if part.Pending = v.Standby() != nil || v.Uncounted() != nil; v.Uncounted() != nil {
		part.Units = nil
	}
}

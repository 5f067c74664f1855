package f5

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/f5"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// view is the pool as read.
type view struct {
	pool    f5.Pool
	members []f5.Member
	ours    map[string]f5.Member // by the target's member name
	slots   map[string]state.Slot
	missing []string // of targets without a member
	foreign []f5.Member
}

// look reads the pool on the active device.
func (r *Router) look(ctx context.Context, s *f5.Session) (v view, err error) {
	if err := s.Active(ctx); err != nil {
		return v, err
	}
	if v.pool, err = s.Pool(ctx, r.settings.part()); err != nil {
		return v, err
	}
	if v.members, err = s.Members(ctx, r.settings.part()); err != nil {
		return v, err
	}
	names := make([]string, len(r.members))
	v.slots = map[string]state.Slot{}
	for i, m := range r.members {
		names[i], v.slots[m.Name] = m.Name, m.Slot
	}
	v.ours, v.missing, v.foreign, err = f5.Match(v.members, names)
	return v, err
}

func (v view) weights() map[string]float64 {
	out := make(map[string]float64, len(v.ours))
	for id, m := range v.ours {
		out[id] = float64(m.Weight())
	}
	return out
}

// servers fills in what the weights come to. A member counts as up when its
// monitor, if any, says so and nobody took it or its node out by hand.
func (v view) servers(statuses map[string]f5.Status, part *router.Part) error {
	var all []router.Server
	part.Weights, part.Foreign = v.weights(), map[string]float64{}
	part.Units = map[state.Slot]int{state.SlotA: 0, state.SlotB: 0}
	add := func(m f5.Member, slot state.Slot) error {
		status, ok := statuses[m.Name]
		if !ok {
			return &providers.Fault{Kind: providers.Unknown, Err: fmt.Errorf("unexpected answer: no statistics of member %s", m.Name)}
		}
		s := router.Server{ID: m.Name, Slot: slot, Weight: m.Weight(), Up: m.Up() && status.Enabled != "disabled-by-parent"}
		if !v.pool.ByRatio() {
			s.Weight = min(s.Weight, 1)
		}
		all = append(all, s)
		if slot != "" && s.Up {
			part.Units[slot]++
		}
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(v.ours)) {
		if err := add(v.ours[id], v.slots[id]); err != nil {
			return err
		}
	}
	for _, m := range v.foreign {
		if w := m.Weight(); w > 0 {
			part.Foreign[m.Name] = float64(w)
		}
		if err := add(m, ""); err != nil {
			return err
		}
	}
	part.Shares = map[state.Slot]float64{
		state.SlotA: router.ShareOf(all, state.SlotA), state.SlotB: router.ShareOf(all, state.SlotB),
	}
	return nil
}

// splits reports whether both slots have weight. All or nothing works whatever
// the pool does with ratios.
func (v view) splits(weights map[string]float64) bool {
	has := map[state.Slot]bool{}
	for unit, w := range weights {
		has[v.slots[unit]] = has[v.slots[unit]] || w > 0
	}
	return has[state.SlotA] && has[state.SlotB]
}

// unfit says why no share can be raised: a member is missing, ratios do not
// count, clients stay where they are, or nobody can tell.
func (r *Router) unfit(ctx context.Context, s *f5.Session, v view) error {
	for _, id := range slices.Sorted(maps.Keys(v.ours)) {
		if m := v.ours[id]; m.ForcedDown() {
			r.log.Once("member %s is forced offline and stays so", m.Name)
		}
	}
	if problem := v.unfit(r.settings); problem != nil {
		return problem
	}
	virtuals, err := s.Virtuals(ctx, r.settings.part())
	if err != nil {
		return err
	}
	for _, vs := range virtuals {
		profiles := strings.Join(vs.Persistence, ", ")
		switch {
		case profiles == "":
		case r.settings.PinnedFor == 0:
			return &providers.Fault{
				Kind: providers.Invalid, Err: fmt.Errorf("virtual server %s has persistence %s, which keeps clients at their member whatever the ratios", vs.FullPath, profiles),
				Hint: "set pinned_for to the profile's timeout, or take the profile off the virtual server",
			}
		default:
			r.log.Once("virtual server %s has persistence %s: shares are those of new clients, and a client stays at a disabled member", vs.FullPath, profiles)
		}
	}
	return nil
}

// unfit is what the pool itself shows.
func (v view) unfit(s Settings) error {
	if len(v.missing) > 0 {
		return &providers.Fault{
			Kind: providers.NotFound, Err: fmt.Errorf("pool %s has no member %s, expected one for each target", v.pool.FullPath, strings.Join(v.missing, ", ")),
			Hint: fmt.Sprintf("add them to the pool, or correct targets and member, which is %s: a BIG-IP's members are ADDRESS:PORT", s.Member),
		}
	}
	return v.pool.Uneven(v.members)
}

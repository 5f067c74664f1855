package f5

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/f5"
	"github.com/manent/action/providers/router"
)

// unfit says why no share can be raised: a member is missing or was taken out,
// ratios do not count, clients stay where they are, the device does not deal
// the traffic, or nobody can tell.
func (r *Router) unfit(v view) error {
	return cmp.Or(v.unfit(r.settings), v.Standby(), v.Behind(), v.Uncounted(), r.pins(v), v.ReadOnly, v.Untold, r.unlike(v)) // last: it may be approved
}

// unfit is what the pool itself shows.
func (v view) unfit(s Settings) error {
	if len(v.missing) > 0 && v.unclear == nil {
		return &providers.Fault{
			Kind: providers.NotFound, Err: fmt.Errorf("pool %s has no member %s, expected one for each target", v.Pool.FullPath, strings.Join(v.missing, ", ")),
			Hint: fmt.Sprintf("add them to the pool, or correct targets and member, which is %s: a BIG-IP's members are ADDRESS:PORT", s.Member),
		}
	}
	return cmp.Or(v.unclear, v.Pool.Uneven(v.Pool.Members))
}

// unlike names the members of the slot that serves alone which somebody took
// out. What manent writes leaves none of them so.
func (r *Router) unlike(v view) error {
	alone := router.Alone(v.servers())
	var out []string
	for _, t := range r.members {
		for _, m := range v.ours[t.Name] {
			if m.ForcedDown() {
				r.log.Once("member %s is forced offline and stays so", m.Name)
			}
			if how := m.Out(); t.Slot == alone && how != "" {
				out = append(out, m.Name+" "+how)
			}
		}
	}
	return router.TakenOut(alone, out)
}

// pins is about clients that stay where they are.
func (r *Router) pins(v view) error {
	for _, found := range v.Pinned() {
		if r.settings.PinnedFor == 0 {
			return &providers.Fault{
				Kind: providers.Invalid, Err: fmt.Errorf("%s, which keeps clients at their member whatever the ratios", found),
				Hint: "set pinned_for to the profile's timeout, or take the profile off the virtual server",
			}
		}
		r.log.Once("%s: shares are those of new clients, and a client stays at a disabled member", found)
	}
	return v.Unlisted
}

// landed reports whether no transaction is left that may still give the
// candidate a share. A user who may not ask is let go on.
func (r *Router) landed(ctx context.Context, s *f5.Session) (bool, error) {
	left, err := s.Unfinished(ctx, r.settings.part())
	switch {
	case err != nil && providers.KindOf(err).Definite():
		r.log.Once("whether a transaction may still give the candidate a share: %v", err)
		return true, nil
	case left != "":
		r.log.Once("the return is complete when it has ended: %s", left)
	}
	return left == "", err
}

// inForce says whether weights that the device has are in force. The weights
// of a standby are only where the active device has the same.
func (r *Router) inForce(v view, want map[string]float64, back bool) (bool, error) {
	if router.Splits(r.members, want) {
		if err := cmp.Or(v.unfit(r.settings), v.Standby()); err != nil {
			return false, err
		}
	}
	active, behind := v.Standby() == nil, v.Behind()
	switch {
	case active && behind != nil && back:
		r.log.Once("all traffic is back on the active device; should another one take over, it may go to the candidate: %v", behind)
	case active && v.Passing():
		r.log.Once("%v", behind)
		return false, nil
	case active:
		return behind == nil, behind
	case behind != nil || v.Group == "":
		return false, v.Standby()
	}
	return true, nil
}

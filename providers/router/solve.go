package router

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/manent/action/providers"
	"github.com/manent/action/state"
)

// Server is one server of a slot, for a router that has a weight for each.
type Server struct {
	ID     string
	Slot   state.Slot
	Up     bool // takes traffic when it has weight, true where nobody could see; a server that is down does not count in any share
	Weight int  // as the router has it, 0 = takes none
	Runs   *int // the weight in force where that is another one, else nil
}

// serves reports whether the server takes traffic, and goes on to if it keeps
// its weight: one that is down does not, however much it has.
func (s Server) serves() bool { return s.Up && s.Weight > 0 && (s.Runs == nil || *s.Runs > 0) }

// rises says whether it has less in force than it is to get.
func (s Server) rises(to int) bool {
	if s.Runs != nil && *s.Runs != to {
		return to > *s.Runs
	}
	return to > s.Weight
}

// Units are the weights that a router has for a server in service, least to
// most. 0 stands for out of service with every router, whatever it does then
// (weight 0, drain, disabled), and is never a unit.
type Units struct{ Least, Most int }

// Solve returns a weight for each server that gives slot the share (percent)
// of the traffic, and the share that these really give. The servers of a slot
// all get the same weight, those that are down too. Of the weights that come
// nearest it takes the smallest, times what brings the larger near to 100: see
// full. It refuses (Invalid) a share that is further
// from what can be reached than tolerance (points), naming the smallest that
// can be reached, and a share for a slot without a server up.
func Solve(servers []Server, slot state.Slot, share, tolerance float64, units Units) (map[string]int, float64, error) {
	ours, others := up(servers, slot), up(servers, slot.Other())
	if share > 0 && ours == 0 || share < 100 && others == 0 {
		missing := slot
		if share < 100 && others == 0 {
			missing = slot.Other()
		}
		return nil, 0, refuse(share, fmt.Sprintf("slot %s has no server up", missing), "bring one of its servers up")
	}
	our, other, got := nearest(ours, others, share, units)
	if math.Abs(got-share) > tolerance+1e-9 || got == 0 && share > 0 || got == 100 && share < 100 {
		least := 100 * float64(ours*units.Least) / float64(ours*units.Least+others*units.Most)
		return nil, 0, refuse(share,
			fmt.Sprintf("%d servers of slot %s and %d of slot %s with weights %d to %d come no nearer than %.4g %%, tolerance is %.4g points", ours, slot, others, slot.Other(), units.Least, units.Most, got, tolerance),
			fmt.Sprintf("the smallest share here is %.4g %%; choose another share, give the slots alike many servers, or raise rollout.traffic.shareTolerance", least))
	}
	weights := make(map[string]int, len(servers))
	for _, s := range servers {
		weights[s.ID] = other
		if s.Slot == slot {
			weights[s.ID] = our
		}
	}
	return weights, got, nil
}

func refuse(share float64, why, hint string) error {
	return &providers.Fault{Op: fmt.Sprintf("plan share %v %%", share), Kind: providers.Invalid, Err: fmt.Errorf("%s", why), Hint: hint}
}

func up(servers []Server, slot state.Slot) int {
	n := 0
	for _, s := range servers {
		if s.Slot == slot && s.Up {
			n++
		}
	}
	return n
}

// nearest returns the weight of each of our servers, that of each of the
// others, and the share that we have with these.
func nearest(ours, others int, share float64, units Units) (our, other int, got float64) {
	switch share {
	case 0:
		return 0, full(units), 0
	case 100:
		return full(units), 0, 100
	}
	best := math.Inf(1)
	for w := units.Least; w <= units.Most; w++ {
		ideal := float64(w*ours) * (100 - share) / (share * float64(others))
		for _, o := range []int{int(math.Floor(ideal)), int(math.Ceil(ideal))} {
			o = min(max(o, units.Least), units.Most)
			s := 100 * float64(w*ours) / float64(w*ours+o*others)
			off := math.Abs(s - share)
			if off < best-1e-12 || off < best+1e-12 && w+o < our+other {
				best, our, other, got = off, w, o, s
			}
		}
	}
	times := max(1, full(units)/max(our, other))
	return times * our, times * other, got
}

// full is the weight of a server whose slot has all the traffic, and what the
// larger weight comes near to at any other share. A server keeps its place in
// the turns when weights change. Were it 100 before and 1 after, the others
// would get nothing for a hundred requests: HAProxy was seen to do so, and
// NGINX counts its turns alike (its smooth round robin). It costs nothing
// where a system begins its turns again.
func full(units Units) int { return min(max(100, units.Least), units.Most) }

// ShareOf is the percentage of the traffic that a slot's servers get by their
// weights, 0 when nothing is in service.
func ShareOf(servers []Server, slot state.Slot) float64 {
	var ours, all float64
	for _, s := range servers {
		if !s.Up {
			continue
		}
		all += float64(s.Weight)
		if s.Slot == slot {
			ours += float64(s.Weight)
		}
	}
	if all == 0 {
		return 0
	}
	return 100 * ours / all
}

// Change is one write to one server.
type Change struct {
	ID       string
	From, To int
}

// Changes are the writes that bring the servers to want, in an order in which
// the share of slot, between two of them, is never larger than both before and
// after, and in which some server is always in service: first more weight for
// the other slot, then less for this one, then more for this one, then less
// for the other one. Where a server of the other slot serves and goes on to,
// less for this one comes first of all: a return that is cut off has done
// what counts. Servers that are as wanted and run so, and those that want does
// not name, are left out; those that are up come before those that are not.
func Changes(servers []Server, slot state.Slot, want map[string]int) []Change {
	type step struct {
		Change
		turn, down int
	}
	keeps := slices.ContainsFunc(servers, func(s Server) bool {
		to, ok := want[s.ID]
		return s.Slot != slot && s.serves() && (to > 0 || !ok)
	})
	downs := map[bool]int{false: 1}
	turns := map[[2]bool]int{{false, true}: 1, {true, false}: 2, {true, true}: 3, {false, false}: 4}
	if keeps {
		turns[[2]bool{true, false}] = 0
	}
	var steps []step
	for _, s := range servers {
		to, ok := want[s.ID]
		if !ok || to == s.Weight && (s.Runs == nil || *s.Runs == to) {
			continue
		}
		steps = append(steps, step{Change{ID: s.ID, From: s.Weight, To: to}, turns[[2]bool{s.Slot == slot, s.rises(to)}], downs[s.Up]})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.down, b.down)) })
	out := make([]Change, len(steps))
	for i, s := range steps {
		out[i] = s.Change
	}
	return out
}

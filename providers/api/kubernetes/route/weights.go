package route

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/manent/action/providers"
	"github.com/manent/action/state"
)

// weight is a slot's, of all its entries in the rule.
func (r Rule) weight(slot state.Slot) int64 {
	w := r.Refs[slot].Weight
	for _, b := range r.extra[slot] {
		w += b.Weight
	}
	return w
}

// share is the percent of the rule's traffic that a slot gets; false if the
// rule serves nobody.
func (r Rule) share(slot state.Slot) (float64, bool) {
	if _, ours := r.Refs[slot]; r.alone {
		if ours {
			return 100, true
		}
		return 0, true
	}
	total := r.weight(state.SlotA) + r.weight(state.SlotB)
	for _, w := range r.Foreign {
		total += w
	}
	if total <= 0 {
		return 0, false
	}
	return 100 * float64(r.weight(slot)) / float64(total), true
}

// Weights are the document's own: "a" and "b" if all managed rules agree, else
// each slot's under "<slot> of rule <rule>".
func (s Split) Weights() map[string]float64 {
	first := s.Rules[0]
	agree := !slices.ContainsFunc(s.Rules, func(r Rule) bool {
		return r.weight(state.SlotA) != first.weight(state.SlotA) || r.weight(state.SlotB) != first.weight(state.SlotB)
	})
	out := map[string]float64{}
	for _, r := range s.Rules {
		for slot := range r.Refs {
			key := string(slot)
			if !agree {
				key += " of rule " + r.label()
			}
			out[key] = float64(r.weight(slot))
		}
	}
	return out
}

// Shares are the percent of the traffic of each slot. How much traffic comes
// by a rule nobody knows: of the candidate it is the rule's where it is
// largest, of the other the mean, so that it is 100 only when all are. Rules
// that pin traffic to a slot count; one that serves nobody does not.
func (s Split) Shares(candidate state.Slot) map[state.Slot]float64 {
	out := map[state.Slot]float64{state.SlotA: 0, state.SlotB: 0}
	for slot := range out {
		var sum, most, n float64
		for _, r := range slices.Concat(s.Rules, s.loose) {
			if share, serves := r.share(slot); serves {
				sum, most, n = sum+share, max(most, share), n+1
			}
		}
		switch {
		case slot == candidate:
			out[slot] = most
		case n > 0:
			out[slot] = sum / n
		}
	}
	return out
}

// Lowest is the percent of a slot in the managed rule where it is smallest.
func (s Split) Lowest(slot state.Slot) float64 {
	least := 100.0
	for _, r := range s.Rules {
		share, _ := r.share(slot)
		least = min(least, share)
	}
	return least
}

// Foreign is the weight of entries that are not ours in managed rules, and of
// those anywhere that send to the Service itself, and so to the pods of both
// slots. One that is alone and has no weight counts 100. So is what reaches the
// candidate and no share says: see strayed.
func (s Split) Foreign(candidate state.Slot) map[string]float64 {
	out := s.strayed(candidate)
	for _, r := range s.Rules {
		for name, w := range r.Foreign {
			out[name] = max(out[name], float64(w))
		}
	}
	for _, r := range s.beside {
		for _, p := range r.past {
			name := fmt.Sprintf("%s in rule %s", p.name, r.label())
			if r.list != s.format.list {
				name = fmt.Sprintf("%s in %s entry %s", p.name, r.list, r.label())
			}
			if r.alone && p.weight == 0 {
				p.weight = 100
			}
			if p.weight > 0 {
				out[name] += float64(p.weight)
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// Unfit says why no share of this document means anything, nil when one does.
func (s Split) Unfit() error {
	if lost := s.lost(s.Rules); len(s.names.Rules) > 0 && lost != "" {
		return &providers.Fault{Kind: providers.NotFound, Hint: s.format.missing,
			Err: fmt.Errorf("no rule named %q that names both slots of %s", lost, s.names.Service)}
	}
	if !s.managed(s.Rules[0]) {
		return s.none()
	}
	for _, r := range s.loose {
		return s.pinned(r)
	}
	for _, r := range s.mirroring {
		return invalid("take the mirror out: it reaches a version that has no share, and goes on when its slot is emptied",
			"rule %s mirrors its requests to %s, whatever the share is", r.label(), r.mirrors[0].name)
	}
	for _, r := range s.Rules {
		for slot := range r.extra {
			return invalid("name each slot once", "rule %s names slot %s of %s twice", r.label(), slot, s.names.Service)
		}
	}
	for _, r := range slices.Concat(s.Rules, s.beside) {
		for _, p := range r.past {
			return invalid("send it to a slot, or list the rules to be managed in the setting rules",
				"%s entry %s sends to %s itself, and so to the pods of both slots", r.list, r.label(), p.name)
		}
	}
	return nil
}

// pinned refuses a rule that would keep sending to one slot whatever the share,
// also after that slot was emptied.
func (s Split) pinned(r Rule) error {
	if r.list != s.format.list {
		return invalid("take it out, or list the rules to be managed in the setting rules",
			"%s entry %s sends to a slot of %s, and only %s entries are moved", r.list, r.label(), s.names.Service, s.format.list)
	}
	has := slices.Collect(maps.Keys(r.Refs))[0]
	return invalid(fmt.Sprintf("add slot %s of %s to it with weight 0, or list the rules to be managed in the setting rules", has.Other(), s.names.Service),
		"rule %s sends to slot %s only, whatever the share is", r.label(), has)
}

var errNumber = errors.New("not a whole number")

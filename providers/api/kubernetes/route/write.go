package route

import (
	"maps"
	"math"
	"slices"

	"github.com/manent/action/providers/api/kubernetes/patch"
	"github.com/manent/action/state"
)

// Check refuses weights that cannot be written.
func Check(want map[string]float64) error {
	for slot, w := range want {
		if slot != string(state.SlotA) && slot != string(state.SlotB) {
			return invalid("", "weight of %q, expected a and b", slot)
		}
		if w < 0 || w > 1_000_000 || w != math.Trunc(w) {
			return invalid("", "weight %v of slot %s, expected a whole number from 0 to 1000000", w, slot)
		}
	}
	if want["a"]+want["b"] == 0 {
		return invalid("", "both weights are 0: nobody would be served")
	}
	return nil
}

// Done reports whether all managed rules have these weights and, if traffic was
// to be taken from a slot, no other rule sends to it.
func (s Split) Done(want map[string]float64, gone state.Slot) bool {
	have := s.Weights()
	for _, slot := range []string{"a", "b"} {
		if have[slot] != want[slot] {
			return false
		}
		delete(have, slot)
	}
	return len(have) == 0 && len(s.stuck(gone)) == 0
}

// stuck are the rules that are not managed and send to a slot which is to get
// nothing.
func (s Split) stuck(gone state.Slot) []Rule {
	var out []Rule
	for _, r := range s.loose {
		if share, serves := r.share(gone); gone != "" && serves && share > 0 {
			out = append(out, r)
		}
	}
	return out
}

// Write is the patch that sets the weights of all managed rules, on condition
// that the document is as it was read. With gone, a slot of weight 0, that
// slot loses its traffic in all other rules too; where a rule sends to nobody
// else, the other slot is added to it.
func (s Split) Write(want map[string]float64, gone state.Slot) []patch.Op {
	ops, writes := s.condition(), []patch.Op(nil)
	for _, r := range slices.Concat(s.Rules, s.stuck(gone)) {
		t, w := s.set(r, want)
		ops, writes = append(ops, t...), append(writes, w...)
	}
	return append(ops, writes...)
}

// set is what sets one rule's weights: a slot's first entry has all of it.
func (s Split) set(r Rule, want map[string]float64) (tests, writes []patch.Op) {
	at := []any{"spec", r.list, r.Index, s.format.refs}
	refs := s.refs(r)
	for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
		first, there := r.Refs[slot]
		if !there && want[string(slot)] > 0 {
			ref, _ := copied(refs[r.Refs[slot.Other()].Index]).(map[string]any)
			s.format.rename(ref, slot, s.names)
			ref["weight"] = int64(want[string(slot)])
			writes = append(writes, patch.Add(ref, append(slices.Clone(at), "-")...))
		}
		if !there {
			continue
		}
		for n, b := range append([]Backend{first}, r.extra[slot]...) {
			weight := int64(0)
			if n == 0 {
				weight = int64(want[string(slot)])
			}
			one := append(slices.Clone(at), b.Index)
			tests = append(tests, s.test(refs[b.Index], one)...)
			writes = append(writes, patch.Add(weight, append(one, "weight")...))
		}
	}
	return tests, writes
}

// refs are the entries of a rule.
func (s Split) refs(r Rule) []map[string]any {
	spec, _ := s.doc["spec"].(map[string]any)
	return objects(objects(spec[r.list])[r.Index][s.format.refs])
}

// Ports are the ports of a slot's Service that rules send to, 0 for one that
// does not say.
func (s Split) Ports(slot state.Slot) []int64 {
	ports := map[int64]bool{}
	for _, r := range slices.Concat(s.Rules, s.loose) {
		if b, ok := r.Refs[slot]; ok {
			ports[b.Port] = true
		}
	}
	return slices.Sorted(maps.Keys(ports))
}

// test pins who an entry is and what it weighs. That an absent weight is still
// absent is in the generation.
func (s Split) test(ref map[string]any, at []any) []patch.Op {
	var ops []patch.Op
	for _, member := range []string{"name", "destination", "weight"} {
		if value, ok := ref[member]; ok {
			ops = append(ops, patch.Test(value, append(slices.Clone(at), member)...))
		}
	}
	return ops
}

func (s Split) condition() []patch.Op {
	return []patch.Op{patch.Test(s.Generation(), "metadata", "generation")}
}

// Package route is what manent reads from and changes in the documents that
// split traffic in Kubernetes: a Gateway API HTTPRoute, whose rules name the
// Services <service>-a and <service>-b, and an Istio VirtualService, whose
// http entries name the subsets a and b of one host. It is pure: documents in,
// weights and JSON patches out. It must not know how documents come and go.
//
// A rule is managed if it names both slots. All managed rules have the same
// weights; one that differs shows in Weights under a name of its own, so that
// it is drift. Everything else in a document is left as it is.
//
// Shapes and limits are those of the CRDs of Gateway API 1.6 (httproute_types)
// and Istio 1.32 (networking/v1, virtual_service.proto).
package route

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/kubernetes/patch"
	"github.com/manent/action/state"
)

// Names say which entries are ours.
type Names struct {
	Service   string   // without the slot's suffix
	Namespace string   // of the Services
	Rules     []string // names of the managed rules, empty for all that name both slots
}

// Split is a document that has been read.
type Split struct {
	Rules []Rule // the managed ones, in the document's order

	format  format
	names   Names
	doc     map[string]any
	all     []map[string]any
	testers []int // indexes of manent's own entries for testers
}

// Rule is one managed rule.
type Rule struct {
	Index   int // in the document
	Name    string
	Refs    map[state.Slot]Backend
	Foreign map[string]int64 // weight of what is not ours, by name
}

// Backend is a slot's place in a rule.
type Backend struct {
	Index  int
	Weight int64 // as it counts, also where the document has none
	Absent bool  // the document has none
}

// format is what the two documents differ in.
type format struct {
	kind, list, refs string                                               // HTTPRoute, rules, backendRefs
	absent           int64                                                // weight of an entry that has none
	owner            func(ref map[string]any, in string, n Names) backend // whose an entry is
	target           func(s Split, r Rule, n int, t Testers) (map[string]any, error)
	before           bool // testers' entries come before what they are cloned from, else last
	strays           func(doc map[string]any, n Names) string
	missing          string // what to add if there is no managed rule
}

// backend says whose an entry is.
type backend struct {
	slot state.Slot // "" for not ours
	name string
}

// read finds the managed rules.
func (f format) read(doc map[string]any, names Names) (Split, error) {
	s := Split{format: f, names: names, doc: doc}
	spec, _ := doc["spec"].(map[string]any)
	s.all = objects(spec[f.list])
	for i, entry := range s.all {
		if s.own(entry) {
			s.testers = append(s.testers, i)
			continue
		}
		rule, err := s.rule(i, entry)
		if err != nil {
			return Split{}, err
		}
		switch {
		case len(rule.Refs) == 2 && s.wanted(rule.Name):
			s.Rules = append(s.Rules, rule)
		case len(rule.Refs) == 1 && len(names.Rules) == 0:
			return Split{}, lone(rule, names)
		}
	}
	return s, s.complete()
}

// lone refuses a rule that would keep sending to one slot whatever the share,
// also after that slot was emptied.
func lone(r Rule, names Names) error {
	has := slices.Collect(maps.Keys(r.Refs))[0]
	return invalid(fmt.Sprintf("add slot %s of %s to it with weight 0, or list the rules to be managed in the setting rules", has.Other(), names.Service),
		"rule %s sends to slot %s only, whatever the share is", r.label(), has)
}

func (s Split) wanted(name string) bool {
	return len(s.names.Rules) == 0 || slices.Contains(s.names.Rules, name)
}

// complete checks that everything that should be managed is.
func (s Split) complete() error {
	for _, name := range s.names.Rules {
		if !slices.ContainsFunc(s.Rules, func(r Rule) bool { return r.Name == name }) {
			return &providers.Fault{Kind: providers.NotFound, Hint: s.format.missing,
				Err: fmt.Errorf("no rule named %q that names both slots of %s", name, s.names.Service)}
		}
	}
	if len(s.Rules) == 0 {
		return &providers.Fault{Kind: providers.NotFound, Hint: s.format.missing,
			Err: fmt.Errorf("none of its %d rules names both slots of %s", len(s.all)-len(s.testers), s.names.Service)}
	}
	if len(s.names.Rules) == 0 {
		if found := s.format.strays(s.doc, s.names); found != "" {
			return invalid("take it out, or list the rules to be managed in the setting rules", "%s", found)
		}
	}
	return nil
}

func (s Split) rule(i int, entry map[string]any) (Rule, error) {
	name, _ := entry["name"].(string)
	r := Rule{Index: i, Name: name, Refs: map[state.Slot]Backend{}, Foreign: map[string]int64{}}
	for j, ref := range objects(entry[s.format.refs]) {
		weight, given, err := number(ref["weight"])
		if err != nil {
			return r, invalid("", "rule %s: weight %v is not a whole number", r.label(), ref["weight"])
		}
		b := Backend{Index: j, Weight: weight, Absent: !given}
		if b.Absent {
			b.Weight = s.format.absent
		}
		who := s.format.owner(ref, namespaceOf(s.doc), s.names)
		_, twice := r.Refs[who.slot]
		switch {
		case who.slot == "":
			r.Foreign[who.name] += b.Weight
		case twice:
			return r, invalid("name each slot once", "rule %s names slot %s of %s twice", r.label(), who.slot, s.names.Service)
		default:
			r.Refs[who.slot] = b
		}
	}
	maps.DeleteFunc(r.Foreign, func(_ string, w int64) bool { return w == 0 })
	return r, nil
}

// label is the rule's name for people.
func (r Rule) label() string {
	if r.Name != "" {
		return fmt.Sprintf("%d (%s)", r.Index, r.Name)
	}
	return fmt.Sprint(r.Index)
}

// Weights are the document's own: "a" and "b" if all managed rules agree, else
// each slot's under "<slot> of rule <rule>".
func (s Split) Weights() map[string]float64 {
	first := s.Rules[0]
	agree := !slices.ContainsFunc(s.Rules, func(r Rule) bool {
		return r.Refs[state.SlotA].Weight != first.Refs[state.SlotA].Weight || r.Refs[state.SlotB].Weight != first.Refs[state.SlotB].Weight
	})
	out := map[string]float64{}
	for _, r := range s.Rules {
		for slot, b := range r.Refs {
			key := string(slot)
			if !agree {
				key += " of rule " + r.label()
			}
			out[key] = float64(b.Weight)
		}
	}
	return out
}

// Shares are the percent of the traffic of each slot, of the rule where it is
// largest. A rule without any weight serves nobody and counts nothing.
func (s Split) Shares() map[state.Slot]float64 {
	out := map[state.Slot]float64{state.SlotA: 0, state.SlotB: 0}
	for _, r := range s.Rules {
		total := r.Refs[state.SlotA].Weight + r.Refs[state.SlotB].Weight
		for _, w := range r.Foreign {
			total += w
		}
		for slot, b := range r.Refs {
			if total > 0 {
				out[slot] = max(out[slot], 100*float64(b.Weight)/float64(total))
			}
		}
	}
	return out
}

// Foreign is the weight of entries that are not ours in managed rules.
func (s Split) Foreign() map[string]float64 {
	var out map[string]float64
	for _, r := range s.Rules {
		for name, w := range r.Foreign {
			if out == nil {
				out = map[string]float64{}
			}
			out[name] = max(out[name], float64(w))
		}
	}
	return out
}

// Targeted reports whether testers' entries are in place.
func (s Split) Targeted() bool { return len(s.testers) > 0 }

// Generation is what the API server counts up with each change of the spec,
// and not of the status.
func (s Split) Generation() int64 { return Generation(s.doc) }

// Generation of any document, 0 if it has none.
func Generation(doc map[string]any) int64 {
	meta, _ := doc["metadata"].(map[string]any)
	n, _, _ := number(meta["generation"])
	return n
}

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

// Write is the patch that sets the weights of all managed rules, on condition
// that the document is as it was read.
func (s Split) Write(want map[string]float64) []patch.Op {
	tests, writes := s.condition(), []patch.Op(nil)
	for _, r := range s.Rules {
		entry := s.all[r.Index]
		for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
			b := r.Refs[slot]
			at := []any{"spec", s.format.list, r.Index, s.format.refs, b.Index}
			tests = append(tests, s.test(objects(entry[s.format.refs])[b.Index], at)...)
			writes = append(writes, patch.Add(int64(want[string(slot)]), append(at, "weight")...))
		}
	}
	return append(tests, writes...)
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

// Same reports whether two readings are of the same spec: then a patch that
// was refused was refused for what it says.
func (s Split) Same(other Split) bool {
	return s.Generation() == other.Generation() && uid(s.doc) == uid(other.doc)
}

func uid(doc map[string]any) any {
	meta, _ := doc["metadata"].(map[string]any)
	return meta["uid"]
}

func namespaceOf(doc map[string]any) string {
	meta, _ := doc["metadata"].(map[string]any)
	ns, _ := meta["namespace"].(string)
	return ns
}

func invalid(hint, format string, args ...any) error {
	return &providers.Fault{Kind: providers.Invalid, Err: fmt.Errorf(format, args...), Hint: hint}
}

// objects are the members of a list that are objects.
func objects(list any) []map[string]any {
	items, _ := list.([]any)
	out := make([]map[string]any, len(items))
	for i, item := range items {
		out[i], _ = item.(map[string]any)
	}
	return out
}

var errNumber = errors.New("not a whole number")

// number reads a number as JSON decoders give it.
func number(v any) (n int64, given bool, err error) {
	switch v := v.(type) {
	case nil:
		return 0, false, nil
	case int64:
		return v, true, nil
	case int:
		return int64(v), true, nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v), true, nil
		}
	}
	return 0, true, errNumber
}

func text(m map[string]any, key, otherwise string) string {
	if v, ok := m[key].(string); ok && v != "" {
		return v
	}
	return otherwise
}

func lower(s string) string { return strings.ToLower(s) }

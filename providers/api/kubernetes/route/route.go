// Package route is what manent reads from and changes in the documents that
// split traffic in Kubernetes: a Gateway API HTTPRoute, whose rules name the
// Services <service>-a and <service>-b, and an Istio VirtualService, whose
// http entries name the subsets a and b of one host. It is pure: documents in,
// weights and JSON patches out. It must not know how documents come and go.
//
// A rule is managed if it names both slots. All managed rules have the same
// weights; one that differs shows in Weights under a name of its own, so that
// it is drift. Everything else in a document is left as it is, but for a return:
// that takes all traffic from a slot, wherever it comes from. A document that
// somebody has changed so that no share means anything is read all the same,
// and says why it is Unfit.
//
// Shapes and limits are those of the CRDs of Gateway API 1.6 (httproute_types)
// and Istio 1.32 (networking/v1, virtual_service.proto).
package route

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/manent/action/providers"
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
	testers []int  // indexes of manent's own entries for testers
	testing []Rule // these entries
	loose   []Rule // others that send to a slot, whatever the share is
	beside  []Rule // others that send to the Service past its slots
	aside   []Rule // those that the setting rules leaves alone, whatever they send to

	mirroring []Rule // others, and managed ones, that send a copy of their requests to our pods
}

// Rule is one managed rule.
type Rule struct {
	Index   int // in the document
	Name    string
	Refs    map[state.Slot]Backend
	Foreign map[string]int64 // weight of what is not ours, by name

	list  string                   // of the document that it is in
	extra map[state.Slot][]Backend // further entries of a slot
	past  []backend                // entries of the Service itself
	alone bool                     // it has one entry, which gets everything

	mirrors []mirror // copies of its requests that reach our pods
}

// Backend is a slot's place in a rule.
type Backend struct {
	Index  int
	Weight int64 // as it counts, also where the document has none
	Port   int64 // 0 when the document has none
}

// format is what the two documents differ in.
type format struct {
	kind, list, refs string                                               // HTTPRoute, rules, backendRefs
	others           []string                                             // lists of the same shape that are not managed
	absent           int64                                                // weight of an entry that has none
	alone            bool                                                 // an entry that is alone gets everything, whatever its weight
	owner            func(ref map[string]any, in string, n Names) backend // whose an entry is
	rename           func(ref map[string]any, slot state.Slot, n Names)   // makes a slot's entry the other's
	mirrors          func(entry map[string]any) []mirrored                // where copies of an entry's requests go
	target           func(s Split, r Rule, n int, t Testers) (map[string]any, error)
	before           bool   // testers' entries come before what they are cloned from, else last
	missing          string // what to add if there is no managed rule
}

// backend says whose an entry is.
type backend struct {
	slot   state.Slot // "" for not ours
	name   string
	past   bool  // the Service itself, with the pods of both slots
	weight int64 // as it counts
}

// read finds the managed rules. It fails only when the document does not say
// what the weights are.
func (f format) read(doc map[string]any, names Names) (Split, error) {
	s := Split{format: f, names: names, doc: doc}
	spec, _ := doc["spec"].(map[string]any)
	s.all = objects(spec[f.list])
	var rules []Rule
	for _, list := range append([]string{f.list}, f.others...) {
		for i, entry := range objects(spec[list]) {
			rule, err := s.rule(list, i, entry)
			if list == f.list && s.own(entry) {
				s.testers, s.testing = append(s.testers, i), append(s.testing, rule)
				continue
			}
			if err != nil {
				return Split{}, err
			}
			rules = append(rules, rule)
		}
	}
	if s.choose(rules); len(s.Rules) == 0 {
		return Split{}, s.none()
	}
	return s, nil
}

// choose says which rules are managed: those named in the settings, if they
// are all there, and the others are left alone then. Otherwise all that name both
// slots, so that a rule which lost its name does not keep its traffic; where
// none does, those that name one.
func (s *Split) choose(rules []Rule) {
	if len(s.names.Rules) > 0 && s.lost(rules) == "" {
		beside := func(r Rule) bool { return !s.managed(r) || !slices.Contains(s.names.Rules, r.Name) }
		s.Rules = slices.DeleteFunc(slices.Clone(rules), beside)
		s.aside = slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return !beside(r) })
		s.mirroring = mirroring(s.Rules)
		return
	}
	s.mirroring = mirroring(rules)
	var lone []Rule
	for _, r := range rules {
		switch {
		case s.managed(r):
			s.Rules = append(s.Rules, r)
		case len(r.Refs) == 1 && r.list == s.format.list:
			lone = append(lone, r)
		case len(r.Refs) > 0:
			s.loose = append(s.loose, r)
		}
		if len(r.past) > 0 && !s.managed(r) {
			s.beside = append(s.beside, r)
		}
	}
	if len(s.Rules) == 0 {
		s.Rules, lone = lone, nil
	}
	s.loose = append(lone, s.loose...)
}

// managed: it can split traffic.
func (s Split) managed(r Rule) bool { return r.list == s.format.list && len(r.Refs) == 2 }

// lost is the first rule of the settings that is not there, "" if all are.
func (s Split) lost(rules []Rule) string {
	i := slices.IndexFunc(s.names.Rules, func(name string) bool {
		return !slices.ContainsFunc(rules, func(r Rule) bool { return r.Name == name && s.managed(r) })
	})
	if i < 0 {
		return ""
	}
	return s.names.Rules[i]
}

// none says that there is no managed rule.
func (s Split) none() error {
	return &providers.Fault{Kind: providers.NotFound, Hint: s.format.missing,
		Err: fmt.Errorf("none of its %d rules names both slots of %s", len(s.all)-len(s.testers), s.names.Service)}
}

func (s Split) rule(list string, i int, entry map[string]any) (Rule, error) {
	name, _ := entry["name"].(string)
	refs := objects(entry[s.format.refs])
	r := Rule{
		Index: i, Name: name, Refs: map[state.Slot]Backend{}, Foreign: map[string]int64{},
		list: list, extra: map[state.Slot][]Backend{}, alone: s.format.alone && len(refs) == 1,
		mirrors: s.mirrors(entry),
	}
	for j, ref := range refs {
		weight, given, err := number(ref["weight"])
		if err != nil {
			return r, invalid("", "rule %s: weight %v is not a whole number", r.label(), ref["weight"])
		}
		b := Backend{Index: j, Weight: weight}
		if b.Port, _, _ = number(port(ref)); !given {
			b.Weight = s.format.absent
		}
		r.add(s.format.owner(ref, namespaceOf(s.doc), s.names), b)
	}
	maps.DeleteFunc(r.Foreign, func(_ string, w int64) bool { return w == 0 })
	return r, nil
}

// port of an entry, as either document has it.
func port(ref map[string]any) any {
	if dest, ok := ref["destination"].(map[string]any); ok {
		one, _ := dest["port"].(map[string]any)
		return one["number"]
	}
	return ref["port"]
}

// add counts one entry.
func (r *Rule) add(who backend, b Backend) {
	if who.past {
		who.weight = b.Weight
		r.past = append(r.past, who)
	}
	_, twice := r.Refs[who.slot]
	switch {
	case who.slot == "":
		r.Foreign[who.name] += b.Weight
	case twice:
		r.extra[who.slot] = append(r.extra[who.slot], b)
	default:
		r.Refs[who.slot] = b
	}
}

// label is the rule's name for people.
func (r Rule) label() string {
	if r.Name != "" {
		return fmt.Sprintf("%d (%s)", r.Index, r.Name)
	}
	return fmt.Sprint(r.Index)
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

package route

import (
	"fmt"
	"slices"

	"github.com/manent/action/state"
)

// mirror is where a rule sends a copy of its requests: a slot, or the Service
// itself. Nobody sees the answers, but the copies reach the version all the same.
type mirror struct {
	backend
	percent float64 // of the rule's requests
}

// mirrored is an entry that names a mirror, shaped like one of the rule's own.
type mirrored struct {
	ref     map[string]any
	percent float64
}

// gatewayMirrors are the RequestMirror filters of a rule and of its backends
// (HTTPRequestMirrorFilter of Gateway API 1.6).
func gatewayMirrors(entry map[string]any) []mirrored {
	var out []mirrored
	lists := []any{entry["filters"]}
	for _, ref := range objects(entry["backendRefs"]) {
		lists = append(lists, ref["filters"])
	}
	for _, list := range lists {
		for _, filter := range objects(list) {
			to, ok := filter["requestMirror"].(map[string]any)
			ref, named := to["backendRef"].(map[string]any)
			if !ok || !named {
				continue
			}
			percent := float(to["percent"], 100)
			if part, ok := to["fraction"].(map[string]any); ok {
				percent = 100 * float(part["numerator"], 0) / max(1, float(part["denominator"], 100))
			}
			out = append(out, mirrored{ref, percent})
		}
	}
	return out
}

// istioMirrors are mirror, with its three ways to say how much, and mirrors
// (HTTPRoute and HTTPMirrorPolicy of networking/v1).
func istioMirrors(entry map[string]any) []mirrored {
	var out []mirrored
	if to, ok := entry["mirror"].(map[string]any); ok {
		percent := float(entry["mirrorPercent"], float(entry["mirror_percent"], 100))
		if given, ok := entry["mirrorPercentage"].(map[string]any); ok {
			percent = float(given["value"], 0)
		}
		out = append(out, mirrored{map[string]any{"destination": to}, percent})
	}
	for _, one := range objects(entry["mirrors"]) {
		percent := 100.0
		if given, ok := one["percentage"].(map[string]any); ok {
			percent = float(given["value"], 0)
		}
		out = append(out, mirrored{map[string]any{"destination": one["destination"]}, percent})
	}
	return out
}

// mirrors are those of a rule that reach pods of ours.
func (s Split) mirrors(entry map[string]any) []mirror {
	var out []mirror
	for _, m := range s.format.mirrors(entry) {
		if who := s.format.owner(m.ref, namespaceOf(s.doc), s.names); m.percent > 0 && (who.slot != "" || who.past) {
			if s.format.alone && who.slot != "" {
				who.name += " subset " + string(who.slot)
			}
			out = append(out, mirror{who, m.percent})
		}
	}
	return out
}

// Strays are the rules beside the managed ones that send to a slot, or a copy
// of their requests: those that the setting rules leaves out. Nothing moves
// them, so a version that is put into the slot serves them at once.
func (s Split) Strays(slot state.Slot) []string {
	var out []string
	for _, r := range s.aside {
		out = append(out, s.ways(r, slot)...)
	}
	return out
}

// Sends are all the rules that send to a slot, or a copy of their requests,
// whoever manages them, testers' entries too: while there is one, what is in
// the slot is in use.
func (s Split) Sends(slot state.Slot) []string {
	var out []string
	for _, r := range slices.Concat(s.Rules, s.loose, s.aside, s.testing) {
		out = append(out, s.ways(r, slot)...)
	}
	for _, r := range s.mirroring {
		if len(r.Refs) == 0 { // else it is one of those
			out = append(out, s.ways(r, slot)...)
		}
	}
	return out
}

// reaches is how a document that is none of ours reaches our pods.
func (f format) reaches(doc map[string]any, names Names) []string {
	s, out := Split{format: f, names: names, doc: doc}, []string(nil)
	spec, _ := doc["spec"].(map[string]any)
	for _, list := range append([]string{f.list}, f.others...) {
		for i, entry := range objects(spec[list]) {
			r, _ := s.rule(list, i, entry) // a weight that is none serves nobody
			for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
				out = append(out, s.ways(r, slot)...)
			}
			for _, p := range r.past {
				if p.weight > 0 || r.alone {
					out = append(out, fmt.Sprintf("%s sends to %s itself", s.title(r), p.name))
				}
			}
		}
	}
	return out
}

// mirroring are the rules with mirrors.
func mirroring(rules []Rule) []Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return len(r.mirrors) == 0 })
}

// title is a rule's name with its list.
func (s Split) title(r Rule) string {
	if r.list != s.format.list {
		return r.list + " entry " + r.label()
	}
	return "rule " + r.label()
}

// ways are how a rule's requests, or copies of them, come to a slot.
func (s Split) ways(r Rule, slot state.Slot) []string {
	var out []string
	if share, serves := r.share(slot); serves && share > 0 {
		out = append(out, fmt.Sprintf("%s sends to slot %s", s.title(r), slot))
	}
	for _, m := range r.mirrors {
		if m.slot == slot {
			out = append(out, fmt.Sprintf("%s mirrors to %s", s.title(r), m.name))
		}
	}
	return out
}

// strayed is what reaches the candidate besides its share, by name with the
// remedy: mirrors, and rules that are not managed. It is nothing when the
// candidate has all traffic in any case.
func (s Split) strayed(candidate state.Slot) map[string]float64 {
	out := map[string]float64{}
	if candidate == "" || s.Lowest(candidate) >= 100 {
		return out
	}
	for _, r := range slices.Concat(s.mirroring, s.aside) {
		for _, m := range r.mirrors {
			if m.slot == candidate || m.past {
				out[fmt.Sprintf("%s by a mirror of %s, which is to be taken out", m.name, s.title(r))] = m.percent
			}
		}
	}
	for _, r := range s.aside {
		if share, serves := r.share(candidate); serves && share > 0 {
			out[fmt.Sprintf("slot %s in %s, which the setting rules leaves out and somebody has to change", candidate, s.title(r))] = share
		}
	}
	return out
}

// float is a number as JSON decoders give it.
func float(v any, otherwise float64) float64 {
	switch v := v.(type) {
	case float64:
		return v
	case int64:
		return float64(v)
	case int:
		return float64(v)
	}
	return otherwise
}

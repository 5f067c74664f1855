package route

import (
	"fmt"
	"strings"

	"github.com/manent/action/state"
)

// Istio reads a VirtualService. The first entry that matches wins, so an entry
// for testers stands right before the one that it is cloned from. A
// destination that is alone gets everything whatever its weight, so none is
// ever taken away.
func Istio(doc map[string]any, names Names) (Split, error) {
	return istioFormat(names).read(doc, names)
}

// IstioReaches is how any VirtualService reaches pods of ours, nil when it does
// not.
func IstioReaches(doc map[string]any, names Names) []string {
	return istioFormat(names).reaches(doc, names)
}

func istioFormat(names Names) format {
	return format{
		kind: "VirtualService", list: "http", refs: "route", others: []string{"tcp", "tls"}, alone: true,
		owner: istioOwner, rename: istioRename, target: istioTarget, mirrors: istioMirrors, before: true,
		missing: "give the application's http entry two destinations: host " + names.Service + " with subset a and weight 100, and with subset b and weight 0",
	}
}

// istioOwner: a destination is ours if it is a slot's subset of the Service.
// Without subset it is all pods of the Service, those of both slots.
func istioOwner(ref map[string]any, in string, n Names) backend {
	dest, _ := ref["destination"].(map[string]any)
	host, subset := text(dest, "host", ""), text(dest, "subset", "")
	if SameHost(host, in, n) && (subset == string(state.SlotA) || subset == string(state.SlotB)) {
		return backend{slot: state.Slot(subset), name: host}
	}
	return backend{name: strings.TrimSuffix(host+" subset "+subset, " subset "), past: subset == "" && SameHost(host, in, n)}
}

func istioRename(ref map[string]any, slot state.Slot, _ Names) {
	if dest, ok := ref["destination"].(map[string]any); ok {
		dest["subset"] = string(slot)
	}
}

// SameHost reports whether a host in an object of namespace in is the Service:
// shop, shop.ns, shop.ns.svc or longer, a short name being of in.
func SameHost(host, in string, n Names) bool {
	parts := strings.Split(host, ".")
	switch {
	case parts[0] != n.Service:
		return false
	case len(parts) == 1:
		return in == n.Namespace
	}
	return parts[1] == n.Namespace && (len(parts) == 2 || parts[2] == "svc")
}

func istioTarget(s Split, r Rule, n int, t Testers) (map[string]any, error) {
	entry, ref := s.clone(r, n, t.Slot)
	ref["weight"] = int64(100)
	header := lower(t.Header) // Envoy knows header names in lower case only
	matches := objects(entry["match"])
	if len(matches) == 0 {
		matches = []map[string]any{{}}
	}
	list := make([]any, len(matches))
	for i, m := range matches {
		if m == nil {
			m = map[string]any{}
		}
		headers, _ := m["headers"].(map[string]any)
		without, _ := m["withoutHeaders"].(map[string]any)
		if has(headers, header) || has(without, header) {
			return nil, taken(r, header)
		}
		if headers == nil {
			headers = map[string]any{}
		}
		headers[header] = map[string]any{"exact": t.Value}
		m["headers"] = headers
		list[i] = m
	}
	entry["match"] = list
	return entry, nil
}

func has(headers map[string]any, name string) bool {
	for h := range headers {
		if lower(h) == name {
			return true
		}
	}
	return false
}

// Subsets are the labels of both slots in a DestinationRule, of each subset by
// its name.
func Subsets(doc map[string]any, n Names) (map[state.Slot]map[string]string, error) {
	spec, _ := doc["spec"].(map[string]any)
	if host := text(spec, "host", ""); !SameHost(host, namespaceOf(doc), n) {
		return nil, invalid("name the DestinationRule of the Service with the setting destination_rule", "it is for host %q, expected Service %s of namespace %s", host, n.Service, n.Namespace)
	}
	out := map[state.Slot]map[string]string{}
	for _, subset := range objects(spec["subsets"]) {
		labels := map[string]string{}
		given, _ := subset["labels"].(map[string]any)
		for key := range given {
			labels[key] = text(given, key, "")
		}
		out[state.Slot(text(subset, "name", ""))] = labels
	}
	for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
		if len(out[slot]) == 0 {
			return nil, invalid(fmt.Sprintf("add to spec.subsets {name: %s, labels: {manent.io/track: %s}}: requests for a subset that is not there are answered 503", slot, slot),
				"it has no subset %s with labels", slot)
		}
	}
	return out, nil
}

// Within reports whether whatever has the labels others has these too.
func Within(labels, others map[string]string) bool {
	for key, value := range labels {
		if have, ok := others[key]; !ok || have != value {
			return false
		}
	}
	return true
}

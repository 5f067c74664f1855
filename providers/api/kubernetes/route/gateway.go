package route

import (
	"strings"

	"github.com/manent/action/state"
)

// Limits of an HTTPRoute (CRD of Gateway API 1.6).
const (
	maxRules   = 16
	maxMatches = 128 // in all rules together
	maxHeaders = 16
)

// Gateway reads an HTTPRoute. The order of its rules means little: the more
// specific path wins, then the method, then the larger number of headers. So
// testers need a clone of each managed rule; one that has only the header would
// lose to any longer path.
func Gateway(doc map[string]any, names Names) (Split, error) {
	return gatewayFormat(names).read(doc, names)
}

// GatewayReaches is how any HTTPRoute reaches pods of ours, nil when it does not.
func GatewayReaches(doc map[string]any, names Names) []string {
	return gatewayFormat(names).reaches(doc, names)
}

func gatewayFormat(names Names) format {
	return format{
		kind: "HTTPRoute", list: "rules", refs: "backendRefs", absent: 1,
		owner: gatewayOwner, target: gatewayTarget, mirrors: gatewayMirrors,
		rename:  func(ref map[string]any, slot state.Slot, n Names) { ref["name"] = n.Service + "-" + string(slot) },
		missing: "give the application's rule two backendRefs: Service " + names.Service + "-a with weight 100 and " + names.Service + "-b with weight 0",
	}
}

// gatewayOwner: a backend is ours if it is the Service of a slot. A
// backendRef without namespace is in the route's.
func gatewayOwner(ref map[string]any, in string, n Names) backend {
	kind, group := text(ref, "kind", "Service"), text(ref, "group", "")
	name, ns, past := text(ref, "name", ""), text(ref, "namespace", in), false
	if kind == "Service" && group == "" && ns == n.Namespace {
		if slot := state.Slot(strings.TrimPrefix(name, n.Service+"-")); (slot == state.SlotA || slot == state.SlotB) && strings.HasPrefix(name, n.Service+"-") {
			return backend{slot: slot, name: name}
		}
		past = name == n.Service
	}
	if ns != in {
		name = ns + "/" + name
	}
	if kind != "Service" {
		name = kind + " " + name
	}
	return backend{name: name, past: past}
}

func gatewayTarget(s Split, r Rule, n int, t Testers) (map[string]any, error) {
	entry, ref := s.clone(r, n, t.Slot)
	ref["weight"] = int64(1) // the slot's own may be 0, and then nobody would be served
	matches := objects(entry["matches"])
	if len(matches) == 0 {
		matches = []map[string]any{{}}
	}
	list := make([]any, len(matches))
	for i, m := range matches {
		if m == nil {
			m = map[string]any{}
		}
		headers := objects(m["headers"])
		for _, h := range headers {
			if lower(text(h, "name", "")) == lower(t.Header) {
				return nil, taken(r, t.Header)
			}
		}
		if err := atMost("headers in a match", len(headers)+1, maxHeaders); err != nil {
			return nil, err
		}
		if _, given := m["path"]; !given {
			m["path"] = map[string]any{"type": "PathPrefix", "value": "/"} // as the API server would
		}
		have, _ := m["headers"].([]any)
		m["headers"] = append(have, map[string]any{"type": "Exact", "name": t.Header, "value": t.Value})
		list[i] = m
	}
	entry["matches"] = list
	return entry, s.room()
}

// room checks the limits of a route that gets a clone of each managed rule.
func (s Split) room() error {
	matches, clones := 0, 0
	for i, rule := range s.all {
		if s.own(rule) {
			continue
		}
		n := max(1, len(objects(rule["matches"])))
		matches += n
		for _, r := range s.Rules {
			if r.Index == i {
				clones += n
			}
		}
	}
	if err := atMost("rules", len(s.all)-len(s.testers)+len(s.Rules), maxRules); err != nil {
		return err
	}
	return atMost("matches", matches+clones, maxMatches)
}

package kubetest

import (
	"fmt"
	"strings"
)

// defaults fills in what the CRD of an HTTPRoute does.
func (f *Fake) defaults(o map[string]any) {
	if o["kind"] != "HTTPRoute" {
		return
	}
	spec := o["spec"].(map[string]any)
	for _, rule := range entries(spec, "rules") {
		if _, ok := rule["matches"]; !ok {
			rule["matches"] = []any{map[string]any{}}
		}
		for _, m := range entries(rule, "matches") {
			if m["path"] == nil {
				m["path"] = map[string]any{"type": "PathPrefix", "value": "/"}
			}
			for _, h := range entries(m, "headers") {
				fill(h, "type", "Exact")
			}
		}
		for _, ref := range entries(rule, "backendRefs") {
			fill(ref, "weight", 1.0)
			fill(ref, "kind", "Service")
			fill(ref, "group", "")
		}
	}
}

func fill(o map[string]any, key string, value any) {
	if _, ok := o[key]; !ok {
		o[key] = value
	}
}

func entries(o map[string]any, key string) []map[string]any {
	list, _ := o[key].([]any)
	out := make([]map[string]any, 0, len(list))
	for _, item := range list {
		out = append(out, item.(map[string]any))
	}
	return out
}

// valid is what the CRDs, and Istio's webhook, refuse.
func valid(o map[string]any) error {
	spec := o["spec"].(map[string]any)
	if o["kind"] == "HTTPRoute" {
		return validRoute(entries(spec, "rules"))
	}
	for i, entry := range entries(spec, "http") {
		total, routes := 0.0, entries(entry, "route")
		for _, r := range routes {
			weight, _ := r["weight"].(float64)
			if weight < 0 {
				return fmt.Errorf("spec.http[%d]: weight %v must be in the range 0..100", i, weight)
			}
			total += weight
		}
		if len(routes) > 1 && total == 0 {
			return fmt.Errorf("spec.http[%d]: total destination weight = 0", i)
		}
	}
	return nil
}

func validRoute(rules []map[string]any) error {
	known := " name matches filters backendRefs timeouts "
	names, matches := map[any]bool{}, 0
	for i, rule := range rules {
		for key := range rule {
			if !strings.Contains(known, " "+key+" ") {
				return fmt.Errorf("strict decoding error: unknown field \"spec.rules[%d].%s\"", i, key)
			}
		}
		if name, ok := rule["name"]; ok && names[name] {
			return fmt.Errorf("spec.rules: rule name must be unique within the route")
		} else if ok {
			names[name] = true
		}
		matches += len(entries(rule, "matches"))
		for j, ref := range entries(rule, "backendRefs") {
			if w := ref["weight"].(float64); w < 0 || w > 1e6 || w != float64(int(w)) {
				return fmt.Errorf("spec.rules[%d].backendRefs[%d].weight: Invalid value: %v", i, j, w)
			}
		}
	}
	if len(rules) > 16 || matches > 128 {
		return fmt.Errorf("spec.rules: Too many: %d: must have at most 16 items", len(rules))
	}
	return nil
}

// weights is a text of the weights of all entries that are not the testers'.
func weights(o map[string]any) string {
	var out strings.Builder
	spec, _ := o["spec"].(map[string]any)
	for _, list := range []string{"rules", "http"} {
		for _, rule := range entries(spec, list) {
			if name, _ := rule["name"].(string); strings.HasPrefix(name, "manent-testers-") {
				continue
			}
			for _, ref := range append(entries(rule, "backendRefs"), entries(rule, "route")...) {
				fmt.Fprint(&out, ref["name"], ref["destination"], ref["weight"], ";")
			}
		}
	}
	return out.String()
}

// SetStatus sets a condition for every parent of an HTTPRoute, as its
// controller would.
func SetStatus(o map[string]any, condition, status, reason string, generation float64) {
	spec := o["spec"].(map[string]any)
	all, _ := o["status"].(map[string]any)
	var parents []any
	for i, ref := range entries(spec, "parentRefs") {
		var conditions []any
		if had := entries(all, "parents"); i < len(had) {
			for _, c := range entries(had[i], "conditions") {
				if c["type"] != condition {
					conditions = append(conditions, c)
				}
			}
		}
		conditions = append(conditions, map[string]any{"type": condition, "status": status, "reason": reason, "message": "said by the test", "observedGeneration": generation})
		parents = append(parents, map[string]any{"parentRef": ref, "controllerName": "example.net/controller", "conditions": conditions})
	}
	o["status"] = map[string]any{"parents": parents}
}

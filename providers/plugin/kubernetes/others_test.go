package kubernetes

import (
	"slices"
	"strings"
	"testing"

	"github.com/manent/action/providers/api/kubernetes/kubetest"
	"github.com/manent/action/providers/plugin"
)

// TestOtherRoutes: doctor names the routes that reach the slots and are not
// moved, when it may list them.
func TestOtherRoutes(t *testing.T) {
	to := func(name string) map[string]any {
		return map[string]any{"backendRefs": []any{map[string]any{"name": name, "port": 80}}}
	}
	for name, tt := range map[string]struct {
		world  func(*testing.T) *world
		others []map[string]any
		denied bool
		words  []string
	}{
		"none of ours": {gatewayWorld, []map[string]any{kubetest.HTTPRoute("cart", to("cart"))}, false, nil},
		"a slot, the Service, a mirror": {gatewayWorld, []map[string]any{
			kubetest.HTTPRoute("admin", to("cart"), to("shop-b")), kubetest.HTTPRoute("old", to("shop")),
			kubetest.HTTPRoute("shadow", map[string]any{"filters": []any{map[string]any{"type": "RequestMirror", "requestMirror": map[string]any{"backendRef": map[string]any{"name": "shop-a", "port": 80}}}}, "backendRefs": to("cart")["backendRefs"]}),
		}, false, []string{"HTTPRoute shop/admin: rule 1 sends to slot b; HTTPRoute shop/old: rule 0 sends to shop itself; HTTPRoute shop/shadow: rule 0 mirrors to shop-a"}},
		"a subset": {istioWorld, []map[string]any{kubetest.VirtualService("admin", subset("x", map[string]any{"host": "shop", "subset": "b"}))}, false,
			[]string{"VirtualService shop/admin: rule 0 (x) sends to slot b"}},
		"not allowed": {gatewayWorld, []map[string]any{kubetest.HTTPRoute("admin", to("shop-b"))}, true, []string{"these credentials may not list them, which no rollout needs"}},
	} {
		w := tt.world(t)
		for _, o := range tt.others {
			w.Create(o)
		}
		w.Deny(func(verb, resource string) bool { return tt.denied && verb == "list" && resource == "httproutes" })
		b := w.bundle(t)
		if err := b.Check(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		found := slices.DeleteFunc(b.Findings(t.Context()), func(f plugin.Finding) bool { return f.Name != "routes" })
		if len(found) != len(tt.words) || len(found) == 1 && (!strings.HasSuffix(found[0].Text, tt.words[0]) || found[0].Warn == tt.denied) {
			t.Errorf("%s: found %+v, want %q", name, found, tt.words)
		}
	}
}

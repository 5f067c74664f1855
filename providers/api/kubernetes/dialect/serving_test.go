package dialect

import (
	"testing"

	"github.com/manent/action/providers/api/kubernetes/kubetest"
	"github.com/manent/action/providers/api/kubernetes/route"
	"github.com/manent/action/state"
)

// TestStray: what slot a's traffic gives to slot b counts while slot a has any.
func TestStray(t *testing.T) {
	pods := func(names ...string) map[string]bool {
		out := map[string]bool{}
		for _, name := range names {
			out[name] = true
		}
		return out
	}
	wide, b := map[string]string{"app": "shop"}, map[string]string{"app": "shop", "track": "b"}
	s := serving(chosen{labels: wide, ready: pods("1", "2", "3", "4")}, chosen{labels: b, ready: pods("4")})
	if len(s.Mixed) != 1 || s.Nothing() || s.Any() == nil {
		t.Errorf("%+v", s)
	}
	byHand := chosen{by: "Service", ready: pods("vip")}
	if s := serving(byHand, byHand); len(s.Mixed) > 0 || s.Shared == "" || s.Units[state.SlotB] != 1 {
		t.Errorf("neither has a selector: %+v", s)
	}
	if s := serving(byHand, chosen{labels: b, ready: pods("vip")}); len(s.Mixed) != 2 || s.Shared != "" {
		t.Errorf("one has a selector: %+v", s)
	}
	for _, tt := range []struct {
		weights   [2]int
		candidate state.Slot
		want      float64
	}{
		{[2]int{100, 0}, state.SlotB, 25}, {[2]int{1, 99}, state.SlotB, 25}, {[2]int{0, 100}, state.SlotB, 0},
		{[2]int{0, 100}, state.SlotA, 0}, {[2]int{100, 0}, "", 0},
	} {
		refs := kubetest.Refs()
		for i, w := range tt.weights {
			refs[i].(map[string]any)["weight"] = w
		}
		split, err := route.Gateway(kubetest.HTTPRoute("web", map[string]any{"backendRefs": refs}), route.Names{Service: "shop", Namespace: "shop"})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Stray(split, tt.candidate); got != tt.want {
			t.Errorf("weights %v, candidate %q: %v %%, want %v", tt.weights, tt.candidate, got, tt.want)
		}
	}
}

//go:build peers

package kubernetes

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/api/kubernetes/kubetest"
	"github.com/manent/action/providers/plugin/kubernetes/traffic"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// both runs a test with each dialect.
func both(t *testing.T, test func(t *testing.T, p *peer)) {
	t.Parallel()
	t.Run("gateway", func(t *testing.T) { t.Parallel(); test(t, peerGateway(t)) })
	t.Run("istio", func(t *testing.T) { t.Parallel(); test(t, peerIstio(t)) })
}

// declared is a route as it is in somebody's Git repository: all on slot a.
func declared(p *peer) map[string]any {
	o := map[string]any{}
	for key, value := range p.routes[1] {
		o[key] = value
	}
	return o
}

// TestPeersGitOps: a tool that applies the declared weights in the middle of a
// rollout is named, whether it forces or not.
func TestPeersGitOps(t *testing.T) {
	both(t, func(t *testing.T, p *peer) {
		r := p.router(t)
		move(t, r, 25)
		if got := look(t, r).Parts[1].By; !strings.HasPrefix(got, "manent at ") {
			t.Errorf("changed by %q, want manent", got)
		}
		err := p.Apply(declared(p), "argocd-controller", false)
		if err == nil || !strings.Contains(err.Error(), `"manent"`) {
			t.Errorf("apply without force: %v, want a conflict with manent", err)
		}
		before := look(t, r)
		wish, _, _ := r.Plan(state.SlotB, 50, 0.5, before)
		if err := p.Apply(declared(p), "argocd-controller", true); err != nil {
			t.Fatal(err)
		}
		p.observe()
		_, err = r.Write(t.Context(), slots, wish, before)
		want(t, err, providers.Conflict, "a 100, b 0, expected a 75, b 25", "last changed by argocd-controller at ")
		if got := look(t, r).Parts[1]; got.Shares[state.SlotB] != 0 || !strings.HasPrefix(got.By, "argocd-controller at ") {
			t.Errorf("part %+v", got)
		}
	})
}

// TestPeersForeign: an entry of somebody else in a managed rule, between a
// reading and the write.
func TestPeersForeign(t *testing.T) {
	both(t, func(t *testing.T, p *peer) {
		r := p.router(t)
		before := look(t, r)
		rules, refs := lists(p.routes[1])
		name, foreign := "old", map[string]any{"name": "old", "port": 80, "weight": 300}
		if rules == "http" {
			name, foreign = "old.shop", map[string]any{"destination": map[string]any{"host": "old.shop"}, "weight": 300}
		}
		p.Edit(p.routes[1], "kubectl-edit", func(o map[string]any) {
			rule := o["spec"].(map[string]any)[rules].([]any)[0].(map[string]any)
			rule[refs] = append(rule[refs].([]any)[:2], foreign)
		})
		p.observe()
		if got := look(t, r).Parts[1]; got.Foreign[name] != 300 || got.Shares[state.SlotA] != 25 {
			t.Errorf("part %+v", got)
		}
		wish, _, _ := r.Plan(state.SlotB, 25, 0.5, before)
		_, err := r.Write(t.Context(), slots, wish, before)
		want(t, err, providers.Conflict, name, "300", "kubectl-edit")
		if p.writes.Load() != 0 {
			t.Errorf("%d writes beside a conflict", p.writes.Load())
		}
		move(t, r, 0) // a return keeps it
		if got := look(t, r).Parts[1]; got.Foreign[name] != 300 {
			t.Errorf("after a return: %+v", got)
		}
	})
}

// TestPeersOneRuleDiffers: drift of one rule among several.
func TestPeersOneRuleDiffers(t *testing.T) {
	both(t, func(t *testing.T, p *peer) {
		r := p.router(t)
		move(t, r, 25)
		before := look(t, r)
		rules, refs := lists(p.routes[0])
		p.Edit(p.routes[0], "kubectl-edit", func(o map[string]any) {
			list := o["spec"].(map[string]any)[rules].([]any)
			list[len(list)-1].(map[string]any)[refs].([]any)[0].(map[string]any)["weight"] = 74
		})
		p.observe()
		seen := look(t, r)
		if router.SameParts(seen.Weights(), before.Weights()) {
			t.Errorf("weights %v although one rule was changed", seen.Weights())
		}
		wish, _, _ := r.Plan(state.SlotB, 0, 0.5, seen)
		if _, err := r.Write(t.Context(), slots, wish, seen); err != nil {
			t.Fatal(err)
		}
		for _, rule := range weightsOf(p, p.routes[0]) {
			if !router.Same(rule.Weights, map[string]float64{"a": 100, "b": 0}) {
				t.Errorf("rule %s has %v", rule.ID, rule.Weights)
			}
		}
	})
}

// TestPeersSixteenRules: the limit is the API server's, and it is looked at
// before anything is sent.
func TestPeersSixteenRules(t *testing.T) {
	t.Parallel()
	rules := func(n int) []any {
		var out []any
		for i := range n {
			out = append(out, map[string]any{"backendRefs": kubetest.Refs(), "matches": []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": fmt.Sprintf("/%d", i)}}}})
		}
		return out
	}
	route := kubetest.HTTPRoute("web", rules(8)...)
	p := newPeer(t, map[string]any{"http_route": "web", "settle": "0s"}, []map[string]any{route})
	p.observe()
	r := p.router(t)
	match := router.Match{Header: "x-canary", Value: "always"}
	target := func(on bool) error {
		_, err := r.Target(t.Context(), slots, state.SlotB, match, on)
		return err
	}
	if err := target(true); err != nil {
		t.Fatal(err)
	}
	count := func() int { return len(p.Get(route)["spec"].(map[string]any)["rules"].([]any)) }
	if count() != 16 {
		t.Errorf("%d rules, want 16", count())
	}
	if err := p.Apply(kubetest.HTTPRoute("seventeen", rules(17)...), "kubectl", true); err == nil || !strings.Contains(err.Error(), "at most 16") {
		t.Errorf("17 rules: %v, want the API server to refuse", err)
	}
	if err := target(false); err != nil || count() != 8 {
		t.Fatalf("%v, %d rules, want 8", err, count())
	}
	p.Edit(route, "kubectl", func(o map[string]any) { o["spec"].(map[string]any)["rules"] = rules(9) })
	p.observe()
	want(t, target(true), providers.Invalid, "18 rules, expected at most 16")
	if count() != 9 {
		t.Errorf("%d rules after a refusal, want 9", count())
	}
}

// TestPeersSixteenEntries: Istio has no such limit; all are moved by one patch.
func TestPeersSixteenEntries(t *testing.T) {
	t.Parallel()
	var entries []any
	for i := range 16 {
		entries = append(entries, map[string]any{"route": kubetest.Destinations(), "match": []any{map[string]any{"uri": map[string]any{"prefix": fmt.Sprintf("/%d", i)}}}})
	}
	route := kubetest.VirtualService("shop", entries...)
	p := newPeer(t, map[string]any{"virtual_service": "shop", "settle": "0s"}, []map[string]any{route}, kubetest.DestinationRule(),
		kubetest.Service("shop", map[string]any{"app": "shop"}), kubetest.Pod("b", map[string]any{"app": "shop", "manent.io/track": "b"}))
	r := p.router(t)
	count := func() int { return len(p.Get(route)["spec"].(map[string]any)["http"].([]any)) }
	for _, step := range []struct {
		on    bool
		share float64
		rules int
	}{{true, 25, 32}, {false, 50, 16}} {
		if _, err := r.Target(t.Context(), slots, state.SlotB, router.Match{Header: "x-canary", Value: "always"}, step.on); err != nil {
			t.Fatal(err)
		}
		move(t, r, step.share)
		moved := weightsOf(p, route)
		for _, rule := range moved {
			if rule.Weights["b"] != step.share {
				t.Errorf("entry %s has %v, want %v", rule.ID, rule.Weights, step.share)
			}
		}
		if count() != step.rules || len(moved) != 16 {
			t.Errorf("%d entries, %d with weights, want %d and 16", count(), len(moved), step.rules)
		}
	}
	if p.writes.Load() != 2 {
		t.Errorf("%d writes, want one for each share", p.writes.Load())
	}
}

// TestPeersEdited: what somebody makes of a route in the middle of a rollout;
// the API server takes what a return makes of it.
func TestPeersEdited(t *testing.T) {
	both(t, func(t *testing.T, p *peer) {
		r := p.router(t)
		move(t, r, 25)
		match := []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": "/beta"}}}
		added := map[string]any{"matches": match, "backendRefs": []any{map[string]any{"name": "shop-b", "port": 80}, map[string]any{"name": "shop-b", "port": 8080}}}
		rules, _ := lists(p.routes[0])
		p.Edit(p.routes[0], "kubectl-edit", func(o map[string]any) {
			spec := o["spec"].(map[string]any)
			if only := []any{map[string]any{"destination": map[string]any{"host": "shop", "subset": "b"}}}; rules == "http" {
				added = map[string]any{"match": []any{map[string]any{"uri": map[string]any{"prefix": "/beta"}}}, "route": only}
				spec["tcp"] = []any{map[string]any{"route": only}}
			}
			spec[rules] = append([]any{added}, spec[rules].([]any)...)
		})
		p.observe()
		seen := look(t, r)
		want(t, seen.Parts[0].Unfit, providers.Invalid, "rule 0 sends to slot b only")
		_, _, err := r.Plan(state.SlotB, 50, 0.5, seen)
		want(t, err, providers.Invalid, "rule 0 sends to slot b only")
		back, receipt := move(t, r, 0)
		if ok, err := r.Settled(t.Context(), back, receipt); !ok || err != nil {
			t.Errorf("return in force: %v, %v", ok, err)
		}
		if got := look(t, r).Parts[0]; got.Shares[state.SlotA] != 100 || got.Shares[state.SlotB] != 0 {
			t.Errorf("after the return shares %v", got.Shares)
		}
	})
}

// TestPeersLeastRights takes each rule of the documented Role away; the error
// names what is missing. That the Role suffices, all other tests show.
func TestPeersLeastRights(t *testing.T) {
	both(t, func(t *testing.T, p *peer) {
		r := p.router(t)
		seen := look(t, r)
		rules := api.Lines(settingsOf(t, p.settings).Role()[p.Name])
		for i, rule := range rules {
			without := append(append([]string{}, rules[:i]...), rules[i+1:]...)
			p.Allow(without...)
			resource := strings.SplitN(strings.SplitN(rule, `resources: ["`, 2)[1], `"`, 2)[0]
			want(t, readErr(t, r), providers.Denied, "status 403", "allow it in RBAC", resource, "in a Role of namespace "+p.Name)
		}
		for i := range rules {
			rules[i] = strings.Replace(rules[i], "[get, patch]", "[get]", 1)
		}
		p.Allow(rules...)
		if err := readErr(t, r); err != nil {
			t.Error(err) // reading goes on
		}
		wish, _, _ := r.Plan(state.SlotB, 25, 0.5, seen)
		_, err := r.Write(t.Context(), slots, wish, seen)
		want(t, err, providers.Denied, "cannot patch resource", "verbs: [patch]}")
	})
}

// reset puts all weight on slot a, past the router.
func (p *peer) reset(t *testing.T) {
	t.Helper()
	for _, route := range p.routes {
		rules, refs := lists(route)
		p.Edit(route, "kubectl", func(o map[string]any) { setWeights(o, rules, refs, 100, 0) })
	}
	p.observe()
}

// TestPeersCrashes ends the process at every request of a weight step, before
// and after it is done, and begins again: the next process finds every part as
// it was or as wanted, and ends where the first would have.
func TestPeersCrashes(t *testing.T) {
	both(t, func(t *testing.T, p *peer) {
		next := p.faulty.Next
		ended := false
		for n := 1; !ended && n < 60; n++ {
			for _, done := range []bool{false, true} {
				p.reset(t)
				before := look(t, p.router(t))
				wish, _, _ := p.router(t).Plan(state.SlotB, 25, 0.5, before)
				p.faulty.Next = dies(next, n, done)
				ended = step(t, p.router(t), before, wish)
				p.faulty.Next = next

				r := p.router(t)
				seen := look(t, r)
				for i, part := range seen.Parts {
					if !router.Same(part.Weights, before.Parts[i].Weights) && !router.Same(part.Weights, wish[i].Weights) {
						t.Fatalf("dead at request %d: part %s has %v", n, part.ID, part.Weights)
					}
				}
				receipt, err := r.Write(t.Context(), slots, wish, seen)
				if err != nil {
					t.Fatalf("dead at request %d, then: %v", n, err)
				}
				if ok, err := r.Settled(t.Context(), wish, receipt); !ok || err != nil {
					t.Fatalf("dead at request %d, then in force: %v, %v", n, ok, err)
				}
				if got := look(t, r).Weights(); !router.SameParts(got, wish) {
					t.Fatalf("dead at request %d, then %v, want %v", n, got, wish)
				}
			}
		}
		if !ended {
			t.Error("the step did not end in 60 requests")
		}
	})
}

// step is one weight step as a process does it; it says whether it came to its end.
func step(t *testing.T, r *traffic.Router, expect router.Reading, wish []state.PartWeights) bool {
	t.Helper()
	receipt, err := r.Write(t.Context(), slots, wish, expect)
	if err == nil {
		var ok bool
		if ok, err = r.Settled(t.Context(), wish, receipt); err == nil && !ok {
			t.Fatal("not in force")
		}
	}
	if err != nil && (providers.IsConflict(err) || providers.KindOf(err).Definite()) {
		t.Fatalf("a dead connection is called %v: %v", providers.KindOf(err), err)
	}
	return err == nil
}

// dies answers no request from the n-th on; the n-th is carried out or not.
func dies(next http.Handler, n int, done bool) http.Handler {
	var count atomic.Int32
	return handler(func(w http.ResponseWriter, r *http.Request) {
		now := int(count.Add(1))
		if now < n || now == n && done {
			next.ServeHTTP(w, r)
		}
		if now >= n {
			panic(http.ErrAbortHandler)
		}
	})
}

// TestPeersNoWebhook: an API server without Istio's webhook takes weights that
// istiod would refuse or scale; what is read is what they mean.
func TestPeersNoWebhook(t *testing.T) {
	t.Parallel()
	p := peerIstio(t)
	r := p.router(t)
	p.Edit(p.routes[1], "kubectl", func(o map[string]any) { setWeights(o, "http", "route", 95, 30) })
	if got := look(t, r).Parts[1].Shares; got[state.SlotA] != 76 || got[state.SlotB] != 24 {
		t.Errorf("shares %v of weights 95 and 30", got)
	}
	p.Edit(p.routes[1], "kubectl", func(o map[string]any) { setWeights(o, "http", "route", 0, 0) })
	if got := look(t, r).Parts[1].Shares; got[state.SlotA] != 0 || got[state.SlotB] != 0 {
		t.Errorf("shares %v without any weight", got)
	}
	_, err := r.Write(t.Context(), slots, []state.PartWeights{{ID: "mesh", Weights: map[string]float64{"a": 0, "b": 0}}}, look(t, r))
	want(t, err, providers.Invalid, "both weights are 0")
}

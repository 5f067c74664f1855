package kubernetes

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/kubernetes/kubetest"
	"github.com/manent/action/providers/plugin/kubernetes/traffic"
	"github.com/manent/action/state"
)

// TestRulesLeftOut: a rule that the setting rules leaves out is not moved, and
// what it sends to is in use: nothing is taken from it, nor put into it.
func TestRulesLeftOut(t *testing.T) {
	w := slotWorld(t)
	w.settings["http_route"], w.settings["rules"] = "web", "rest"
	former := deploySlot(t, w, state.SlotA, "1.0", false)
	w.spec(routes+"web", func(spec map[string]any) {
		rule := spec["rules"].([]any)[1].(map[string]any)
		rule["name"], rule["backendRefs"] = "legacy", []any{map[string]any{"name": "shop-a", "port": 80.0}}
	})
	b := w.bundle(t)
	r := b.Router.(*traffic.Router)
	if err := b.CheckSlot(t.Context(), state.SlotB); err != nil {
		t.Errorf("slot b: %v", err)
	}
	if err := b.CheckSlot(t.Context(), state.SlotA); err != nil {
		t.Errorf("slot a of a first release: %v", err)
	}
	move(t, r, 100)
	if p := look(t, r).Parts[0]; p.Unfit != nil || len(p.Foreign) > 0 || p.Shares[state.SlotA] != 0 || p.Shares[state.SlotB] != 100 {
		t.Errorf("part %+v, want the share of the rules that are managed", p)
	}
	want(t, b.Scaler.Retire(t.Context(), former), providers.Conflict, "see web: it is in use: rule 1 (legacy) sends to slot a", "take them out")
	if got := w.replicas(t, "shop-a"); got != 8.0 {
		t.Errorf("%v replicas of the slot that is in use", got)
	}
	want(t, b.CheckSlot(t.Context(), state.SlotA), providers.Invalid, "free on web: slot a is not free: rule 1 (legacy) sends to slot a", "let it send to slot b")

	to := func(slot string) {
		w.spec(routes+"web", func(spec map[string]any) {
			ref := spec["rules"].([]any)[1].(map[string]any)["backendRefs"].([]any)[0].(map[string]any)
			ref["name"] = "shop-" + slot
		})
	}
	to("b")
	if p := look(t, r).Parts[0]; len(p.Foreign) > 0 {
		t.Errorf("foreign %v: all traffic is at slot b", p.Foreign)
	}
	move(t, r, 0)
	if foreign := slices.Collect(maps.Keys(look(t, r).Parts[0].Foreign)); len(foreign) != 1 || !strings.HasPrefix(foreign[0], "slot b in rule 1 (legacy)") {
		t.Errorf("foreign %v after the return", foreign)
	}
	move(t, r, 100)
	if err := b.Scaler.Retire(t.Context(), former); err != nil || w.replicas(t, "shop-a") != 0.0 {
		t.Errorf("nothing sends to slot a: %v", err)
	}
	w.Delete(routes + "web")
	want(t, b.Scaler.Retire(t.Context(), former), providers.NotFound, "retire slot a: see web")
}

// TestFirstRelease: what nothing serves yet may come with the first deployment.
func TestFirstRelease(t *testing.T) {
	const endpoints = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/shop-"
	unserved := func(w *world) {
		for _, slot := range []string{"a", "b"} {
			w.Delete(services + "shop-" + slot)
			w.Delete(endpoints + slot + "-1")
		}
		for _, id := range []string{"web", "api"} {
			w.Status(routes+id, func(o map[string]any) { kubetest.SetStatus(o, "ResolvedRefs", "False", "BackendNotFound", 1) })
		}
	}
	noPods := func(w *world) {
		w.Delete(services + "shop")
		w.Delete("/api/v1/namespaces/shop/pods/shop-a-1")
		w.Delete("/api/v1/namespaces/shop/pods/shop-b-1")
	}
	for name, tt := range map[string]struct {
		world  func(*testing.T) *world
		change func(*world)
		err    string
		logged string
	}{
		"by manifests": {slotWorld, unserved, "", "nothing serves yet, so that a deployment may still bring it"},
		"by steps":     {gatewayWorld, unserved, "", "Service shop/shop-a does not exist: its part of the traffic is answered with an error; nothing is served there"},
		"Istio, steps": {istioWorld, noPods, "", "Service shop/shop does not exist: no traffic can be sent to it; nothing is served there"},
		"the other has": {gatewayWorld, func(w *world) {
			unserved(w)
			w.Create(kubetest.Service("shop-b", nil))
			w.Create(kubetest.EndpointSlice("shop-b", "10.77.0.2"))
		}, "Service shop/shop-a does not exist", ""},
		"Istio, pods": {istioWorld, func(w *world) { w.Delete(services + "shop") }, "Service shop/shop does not exist", ""},
	} {
		w := tt.world(t)
		tt.change(w)
		b := w.bundle(t)
		err := b.Check(t.Context())
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v, want %q", name, err, tt.err)
			}
			continue
		}
		seen := look(t, b.Router.(*traffic.Router))
		if _, settled := b.Router.Settled(t.Context(), seen.Weights(), nil); err != nil || settled != nil || seen.Parts[0].Unfit != nil {
			t.Errorf("%s: %v, %v, %v", name, err, settled, seen.Parts[0].Unfit)
		}
		if logged := strings.Join(*w.logged, "\n"); !strings.Contains(logged, tt.logged) {
			t.Errorf("%s: logged %s, want %q", name, logged, tt.logged)
		}
	}
}

// TestMixedInTheMiddle: a selector that somebody makes wider in the middle of a
// rollout is seen, and what stable's Service chooses of the candidate's pods
// keeps a return from its end.
func TestMixedInTheMiddle(t *testing.T) {
	const endpoints = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/shop-"
	apart := func(w *world) {
		for _, slot := range []string{"a", "b"} {
			w.chooses("shop-"+slot, "app", "shop", "manent.io/track", slot)
		}
	}
	subsets := func(a map[string]any) func(*world) {
		return func(w *world) {
			w.spec("/apis/networking.istio.io/v1/namespaces/shop/destinationrules/shop", func(spec map[string]any) {
				spec["subsets"].([]any)[0].(map[string]any)["labels"] = a
			})
		}
	}
	for name, tt := range map[string]struct {
		world   func(*testing.T) *world
		change  func(*world)
		unfit   string
		percent float64
	}{
		"stable's selector": {gatewayWorld, func(w *world) {
			w.chooses("shop-a", "app", "shop")
			w.Create(kubetest.EndpointSlice("shop-a", "10.77.0.1", "10.77.0.2", "10.77.0.3", "10.77.0.4"))
		}, "Service shop-a chooses pods by app=shop and Service shop-b by app=shop,manent.io/track=b", 50},
		"candidate's selector": {gatewayWorld, func(w *world) {
			w.chooses("shop-b", "app", "shop")
			w.Create(kubetest.EndpointSlice("shop-b", "10.77.0.1", "10.77.0.2", "10.77.0.3"))
		}, "what the one gets reaches pods of the other slot too", 0},
		"no pod of it yet": {gatewayWorld, func(w *world) { w.chooses("shop-a", "app", "shop"); w.Delete(endpoints + "b-1") }, "Service shop-a chooses pods by app=shop", 0},
		"endpoints by hand": {gatewayWorld, func(w *world) {
			w.chooses("shop-a")
			w.Create(kubetest.EndpointSlice("shop-a", "10.77.0.1", "10.77.0.2"))
		}, "1 endpoints are ready in both slots", 50},
		"one address, both by hand": {gatewayWorld, func(w *world) {
			w.chooses("shop-a")
			w.chooses("shop-b")
			w.Create(kubetest.EndpointSlice("shop-a", "10.77.0.2"))
		}, "", 0},
		"one host, other ports": {gatewayWorld, func(w *world) {
			w.Create(kubetest.EndpointSlice("shop-a", "10.77.0.2"))
			w.Edit(endpoints+"a-1", "x", func(o map[string]any) {
				o["ports"], o["spec"] = []any{map[string]any{"port": 9090.0}}, 1
			})
		}, "", 0},
		"a subset":        {istioWorld, subsets(map[string]any{"app": "shop"}), "subset a chooses pods by app=shop and subset b by app=shop,manent.io/track=b", 50},
		"the same subset": {istioWorld, subsets(map[string]any{"manent.io/track": "b"}), "reaches pods of the other slot too", 100},
	} {
		t.Run(name, func(t *testing.T) {
			w := tt.world(t)
			if w.settings["http_route"] != nil {
				apart(w)
			}
			r := w.router(t)
			move(t, r, 25)
			more, _, _ := r.Plan(state.SlotB, 50, 0.5, look(t, r))
			tt.change(w)
			seen := look(t, r)
			part := seen.Parts[0]
			if tt.unfit == "" {
				if part.Unfit != nil || len(part.Foreign) > 0 {
					t.Errorf("unfit %v, foreign %v", part.Unfit, part.Foreign)
				}
				in, err := r.Settled(t.Context(), seen.Weights(), nil)
				if said := strings.Contains(strings.Join(*w.logged, "\n"), "by Service shop-a and Service shop-b, which have no selector"); !in || err != nil || said != strings.HasSuffix(name, "by hand") {
					t.Errorf("before a rollout: in force %v, %v, logged %q", in, err, *w.logged)
				}
				return
			}
			want(t, part.Unfit, providers.Invalid, tt.unfit, "manent.io/track")
			if _, err := r.Write(t.Context(), slots, more, seen); err == nil || !providers.KindOf(err).Definite() {
				t.Errorf("a share was raised: %v", err)
			}
			move(t, r, 0)
			foreign := look(t, r).Parts[0].Foreign
			if tt.percent == 0 != (len(foreign) == 0) || foreign["pods of slot b that are chosen for slot a too, by a selector to be corrected"] != tt.percent {
				t.Errorf("foreign %v after the return, want %v %%", foreign, tt.percent)
			}
		})
	}
	w := slotWorld(t) // what the deployment makes anew need not be right before
	apart(w)
	w.chooses("shop-b", "app", "shop")
	b := w.bundle(t)
	if part := look(t, b.Router.(*traffic.Router)).Parts[0]; part.Unfit != nil || b.Check(t.Context()) != nil {
		t.Errorf("unfit %v, check %v", part.Unfit, b.Check(t.Context()))
	}
}

// TestServersClock: an API server whose clock is ahead holds up neither a
// return nor a share, also when one server says what another wrote.
func TestServersClock(t *testing.T) {
	for name, tt := range map[string]struct {
		ahead  time.Duration // of the one that answers
		stamps time.Duration // of the one that recorded the change, more than that
		back   bool
		again  bool // each look is of another call, which finds the part as wanted
	}{
		"an hour":                {time.Hour, 0, true, false},
		"an hour, a share":       {time.Hour, 0, false, false},
		"an hour, entered again": {time.Hour, 0, true, true},
		"a quarter of one":       {15 * time.Minute, 0, false, true},
		"one of two servers":     {0, time.Hour, true, false},
		"one of two, a share":    {0, 15 * time.Minute, false, false},
		"both, not by so much":   {15 * time.Minute, 15 * time.Minute, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := gatewayWorld(t)
			w.settings["http_route"], w.settings["settle"] = "web", "5s"
			var passed atomic.Int64 // seconds, on both clocks
			since := func() time.Duration { return time.Duration(passed.Load()) * time.Second }
			r := w.at(t, func() time.Time { return time.Now().Add(since() - tt.ahead) })
			w.faulty.Next = handler(func(rw http.ResponseWriter, req *http.Request) {
				rw.Header().Set("Date", time.Now().Add(since()).UTC().Format(http.TimeFormat))
				w.ServeHTTP(rw, req)
			})
			share := 25.0
			if move(t, r, share); tt.back { // a person brings all back, then the return finds it done
				share = 0
				w.Edit(routes+"web", "kubectl-edit", func(o map[string]any) { setWeights(o, "rules", "backendRefs", 100, 0) })
			}
			w.Status(routes+"web", func(o map[string]any) {
				for _, f := range o["metadata"].(map[string]any)["managedFields"].([]any) {
					f.(map[string]any)["time"] = time.Now().Add(tt.stamps).UTC().Format(time.RFC3339)
				}
			})
			to, receipt := move(t, r, share)
			for in := false; !in; passed.Add(1) {
				var err error
				if tt.again {
					to, receipt = move(t, r, share)
				}
				if in, err = r.Settled(t.Context(), to, receipt); err != nil {
					t.Fatal(err)
				}
				if took := since(); took > 80*time.Second || in && took < 4*time.Second {
					t.Fatalf("in force %v after %v", in, took)
				}
			}
		})
	}
}

package kubernetes

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/plugin/kubernetes/traffic"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// rule is one more rule of a route, or entry of a VirtualService.
func rule(at int, entry map[string]any) func(map[string]any) {
	return func(o map[string]any) {
		spec := o["spec"].(map[string]any)
		list := "rules"
		if spec["http"] != nil {
			list = "http"
		}
		all := spec[list].([]any)
		spec[list] = append(append(append([]any{}, all[:at]...), entry), all[at:]...)
	}
}

// subset is an http entry with one destination.
func subset(name string, destination map[string]any) map[string]any {
	return map[string]any{"name": name, "match": []any{map[string]any{"uri": map[string]any{"prefix": "/" + name}}}, "route": []any{map[string]any{"destination": destination}}}
}

// TestEdited: what somebody makes of a route in the middle of a rollout keeps
// no return from its end, and no share is raised on it.
func TestEdited(t *testing.T) {
	only := func(slot string) map[string]any {
		return map[string]any{"name": "admin", "matches": []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": "/admin"}}}, "backendRefs": []any{map[string]any{"name": "shop-" + slot, "port": 80.0}}}
	}
	type kind struct {
		*world
		router *traffic.Router
		path   string
		route  map[string]any
	}
	worlds := map[bool]kind{} // one server and one connection for each dialect
	for istio, k := range map[bool]kind{false: {world: gatewayWorld(t), path: routes + "web"}, true: {world: istioWorld(t), path: virtual + "shop"}} {
		k.settings[map[bool]string{false: "http_route", true: "virtual_service"}[istio]] = k.path[strings.LastIndex(k.path, "/")+1:]
		k.route, k.router = k.Object(k.path), k.world.router(t)
		worlds[istio] = k
	}
	for name, tt := range map[string]struct {
		istio   bool
		edit    func(map[string]any)
		rules   string
		words   string
		b       float64 // largest share of slot b before the return
		foreign string  // what takes traffic after it
	}{
		"a rule to stable":    {false, rule(0, only("a")), "", "rule 0 (admin) sends to slot a only", 25, ""},
		"a rule to candidate": {false, rule(3, only("b")), "", "rule 3 (admin) sends to slot b only", 100, ""},
		"a slot twice": {false, func(o map[string]any) {
			rule := o["spec"].(map[string]any)["rules"].([]any)[1].(map[string]any)
			rule["backendRefs"] = append(rule["backendRefs"].([]any), map[string]any{"name": "shop-b", "port": 8080.0, "weight": 0.0})
		}, "", "names slot b of shop twice", 25, ""},
		"a rule without its name": {false, func(o map[string]any) {
			delete(o["spec"].(map[string]any)["rules"].([]any)[2].(map[string]any), "name")
		}, "rest", `no rule named "rest"`, 25, ""},
		"a rule without stable": {false, func(o map[string]any) {
			rule := o["spec"].(map[string]any)["rules"].([]any)[2].(map[string]any)
			rule["backendRefs"] = rule["backendRefs"].([]any)[1:]
		}, "", "rule 2 (rest) sends to slot b only", 100, ""},
		"the Service itself":    {false, rule(0, map[string]any{"backendRefs": []any{map[string]any{"name": "shop", "port": 80.0}}}), "", "sends to shop itself", 25, "shop in rule 0"},
		"an entry to stable":    {true, rule(0, subset("health", map[string]any{"host": "shop", "subset": "a"})), "", "rule 0 (health) sends to slot a only", 25, ""},
		"an entry to candidate": {true, rule(0, subset("beta", map[string]any{"host": "shop", "subset": "b"})), "", "rule 0 (beta) sends to slot b only", 100, ""},
		"an entry of tcp": {true, func(o map[string]any) {
			o["spec"].(map[string]any)["tcp"] = []any{map[string]any{"route": []any{map[string]any{"destination": map[string]any{"host": "shop", "subset": "b"}}}}}
		}, "", "tcp entry 0 sends to a slot of shop", 100, ""},
		"a mirror": {false, func(o map[string]any) {
			o["spec"].(map[string]any)["rules"].([]any)[2].(map[string]any)["filters"] = []any{map[string]any{"type": "RequestMirror", "requestMirror": map[string]any{"backendRef": map[string]any{"name": "shop-b", "port": 80.0}}}}
		}, "", "rule 2 (rest) mirrors its requests to shop-b", 25, "shop-b by a mirror of rule 2 (rest), which is to be taken out"},
		"a mirror of a subset": {true, func(o map[string]any) {
			o["spec"].(map[string]any)["http"].([]any)[2].(map[string]any)["mirror"] = map[string]any{"host": "shop", "subset": "b"}
		}, "", "rule 2 mirrors its requests to shop subset b", 25, "shop subset b by a mirror of rule 2, which is to be taken out"},
		"the host without subset": {true, rule(0, subset("api", map[string]any{"host": "shop"})), "", "http entry 0 (api) sends to shop itself", 25, "shop in rule 0 (api)"},
	} {
		t.Run(name, func(t *testing.T) {
			k := worlds[tt.istio]
			w, r, path := k.world, k.router, k.path
			w.Create(k.route)
			writes := w.Writes()
			if tt.rules != "" {
				w.settings["rules"] = tt.rules
				r = w.router(t)
				delete(w.settings, "rules")
			}
			before := look(t, r)
			move(t, r, 25)
			more, _, _ := r.Plan(state.SlotB, 50, 0.5, before)
			w.Edit(path, "kubectl-edit", tt.edit)

			seen := look(t, r)
			part := seen.Parts[0]
			want(t, part.Unfit, providers.KindOf(part.Unfit), tt.words)
			if part.Shares[state.SlotB] != tt.b || len(part.Foreign) > 0 != (tt.foreign != "") {
				t.Errorf("shares %v, foreign %v", part.Shares, part.Foreign)
			}
			_, _, err := r.Plan(state.SlotB, 50, 0.5, seen)
			want(t, err, providers.KindOf(part.Unfit), tt.words)
			_, err = r.Write(t.Context(), slots, more, seen) // planned before
			want(t, err, providers.Invalid, tt.words)
			if _, err := r.Target(t.Context(), slots, state.SlotB, router.Match{Header: "x", Value: "1"}, true); err == nil || !strings.Contains(err.Error(), tt.words) {
				t.Errorf("testers: %v, want %q", err, tt.words)
			}
			if n := w.Writes() - writes; n != 1 {
				t.Errorf("%d writes, want that of the first share", n)
			}
			returned(t, r, tt.foreign)
		})
	}
}

// returned brings all traffic back to slot a, and sees it.
func returned(t *testing.T, r *traffic.Router, foreign string) {
	t.Helper()
	back, receipt := move(t, r, 0)
	if ok, err := r.Settled(t.Context(), back, receipt); !ok || err != nil {
		t.Errorf("return in force: %v, %v", ok, err)
	}
	if again, err := r.Write(t.Context(), slots, back, look(t, r)); err != nil || again["web at"]+again["shop at"] != "" {
		t.Errorf("again: %v, %v, want nothing written", again, err)
	}
	seen := look(t, r)
	part := seen.Parts[0]
	if !router.SameParts(seen.Weights(), back) || part.Shares[state.SlotB] != 0 || foreign == "" && part.Shares[state.SlotA] != 100 {
		t.Errorf("after the return weights %v, shares %v", part.Weights, part.Shares)
	}
	if _, takes := part.Foreign[foreign]; takes != (foreign != "") {
		t.Errorf("after the return foreign %v, want %q", part.Foreign, foreign)
	}
	if _, err := r.Target(t.Context(), slots, state.SlotB, router.Match{Header: "x", Value: "1"}, false); err != nil {
		t.Errorf("testers off: %v", err)
	}
}

// TestAskedAtOnce: a slow API server is asked for all that a call needs at the
// same time; one after the other would not fit into a call.
func TestAskedAtOnce(t *testing.T) {
	for _, tt := range []struct {
		world    func(*testing.T) *world
		together []string // last parts of what is asked for at the same time
	}{
		{gatewayWorld, []string{"httproutes/web", "httproutes/api", "services/shop-a", "services/shop-b"}},
		{istioWorld, []string{"virtualservices/shop", "virtualservices/mesh", "services/shop", "destinationrules/shop"}},
	} {
		w := tt.world(t)
		var mu sync.Mutex
		met, waiting := make(chan struct{}), map[string]bool{}
		w.faulty.Next = handler(func(rw http.ResponseWriter, req *http.Request) {
			parts := strings.Split(req.URL.Path, "/")
			what := strings.Join(parts[len(parts)-2:], "/")
			for _, one := range tt.together {
				if what != one {
					continue
				}
				mu.Lock()
				if waiting[what] = true; len(waiting) == len(tt.together) {
					close(met)
					waiting["all"] = true
				}
				mu.Unlock()
				select {
				case <-met:
				case <-time.After(5 * time.Second):
					t.Errorf("%s was asked for alone", what)
				}
			}
			w.ServeHTTP(rw, req)
		})
		look(t, w.router(t))
		if !waiting["all"] {
			t.Errorf("asked for %v, want %v", waiting, tt.together)
		}
	}
}

// TestServiceToBeMade: with Istio, the first deployment brings the Service.
func TestServiceToBeMade(t *testing.T) {
	w := istioWorld(t)
	w.Delete("/api/v1/namespaces/shop/services/shop")
	w.settings["manifests"] = "deploy"
	r := w.router(t)
	seen := look(t, r)
	if units := seen.Parts[0].Units; len(units) != 2 || units[state.SlotA]+units[state.SlotB] != 0 {
		t.Errorf("units %v, want none in both slots", units)
	}
	if ok, err := r.Settled(t.Context(), seen.Weights(), nil); !ok || err != nil {
		t.Errorf("before the first release: %v, %v", ok, err)
	}
	more, _, _ := r.Plan(state.SlotB, 25, 0.5, seen)
	_, err := r.Write(t.Context(), slots, more, seen)
	want(t, err, providers.Unavailable, "nothing in slot b is ready")
}

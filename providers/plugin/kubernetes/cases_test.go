package kubernetes

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/kubernetes/kubetest"
	"github.com/manent/action/providers/plugin/kubernetes/traffic"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// want checks an error's kind and that it, or its hint, has these words.
func want(t *testing.T, err error, kind providers.Kind, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %v", kind)
	}
	text := err.Error() + "\nhint: " + providers.HintOf(err)
	if providers.KindOf(err) != kind {
		t.Errorf("kind %v, want %v: %s", providers.KindOf(err), kind, text)
	}
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("error without %q: %s", w, text)
		}
	}
	if strings.Contains(text, kubetest.Token) {
		t.Error("the error tells the token")
	}
}

// readErr is what a rollout meets before it begins: the error of a reading, of
// its first part, of what is looked at beside, or of the plan.
func readErr(t *testing.T, r *traffic.Router) error {
	t.Helper()
	seen, err := r.Read(t.Context(), slots)
	if err == nil {
		err = seen.Err()
	}
	if err == nil {
		_, err = r.Settled(t.Context(), seen.Weights(), nil)
	}
	if err == nil {
		_, _, err = r.Plan(state.SlotB, 25, 0.5, seen)
	}
	return err
}

func TestSettings(t *testing.T) {
	for name, tt := range map[string]struct {
		settings map[string]any
		err      string
	}{
		"no service":               {map[string]any{"http_route": "web"}, `"service" is missing`},
		"wrong service":            {map[string]any{"service": "Shop", "http_route": "web"}, `service "Shop"`},
		"both":                     {map[string]any{"service": "shop", "http_route": "web", "virtual_service": "web"}, "both http_route and virtual_service"},
		"neither":                  {map[string]any{"service": "shop"}, "neither http_route nor virtual_service"},
		"a route twice":            {map[string]any{"service": "shop", "http_route": "web, web"}, `http_route: "web" is empty or there twice`},
		"no name":                  {map[string]any{"service": "shop", "virtual_service": "web", "rules": []any{""}}, `rules: "" is empty`},
		"subsets of Gateway API":   {map[string]any{"service": "shop", "http_route": "web", "destination_rule": "shop"}, `destination_rule "shop" without virtual_service`},
		"gateways of Istio":        {map[string]any{"service": "shop", "virtual_service": "web", "gateways": "edge"}, "gateways with virtual_service"},
		"silence of Istio":         {map[string]any{"service": "shop", "virtual_service": "web", "settle_timeout": "2m"}, "settle_timeout with virtual_service"},
		"conflicts of nothing":     {map[string]any{"service": "shop", "http_route": "web", "force_conflicts": true}, "force_conflicts without manifests"},
		"manifests elsewhere":      {map[string]any{"service": "shop", "http_route": "web", "manifests": "../shop"}, `"../shop" leads out of the workspace`},
		"manifests of the machine": {map[string]any{"service": "shop", "http_route": "web", "manifests": "/shop"}, `"/shop" leads out of the workspace`},

		"no timeout":  {map[string]any{"service": "shop", "http_route": "web", "timeout": "0s"}, "timeout 0s"},
		"settle":      {map[string]any{"service": "shop", "virtual_service": "web", "settle": "-1s"}, "settle -1s"},
		"settle long": {map[string]any{"service": "shop", "http_route": "web", "settle_timeout": "10m"}, "expected at most 9m0s together"},
	} {
		_, err := Spec().Build(providers.Env{}, tt.settings)
		if strings.Contains(tt.err, "with") && providers.HintOf(err) == "" || name == "neither" && !strings.Contains(providers.HintOf(err), "name the HTTPRoute") {
			t.Errorf("%s: %v without a hint", name, err)
		}
		if providers.KindOf(err) != providers.Invalid || err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %q", name, err, tt.err)
		}
	}
}

func TestPlanUnits(t *testing.T) {
	seen := router.Reading{Parts: []router.Part{{PartWeights: state.PartWeights{ID: "web"}}}}
	for _, tt := range []struct {
		dialect string
		share   float64
		a, b    float64
		got     float64
	}{
		{"http_route", 5, 95, 5, 5}, {"http_route", 0.5, 9950, 50, 0.5}, {"http_route", 33.33, 6667, 3333, 33.33}, {"http_route", 100, 0, 100, 100},
		{"virtual_service", 5, 95, 5, 5}, {"virtual_service", 12.4, 88, 12, 12},
	} {
		bundle, err := Spec().Build(providers.Env{}, map[string]any{"service": "shop", tt.dialect: "web"})
		if err != nil {
			t.Fatal(err)
		}
		parts, got, err := bundle.Router.(router.Planner).Plan(state.SlotB, tt.share, 0.5, seen)
		if err != nil || got != tt.got || !router.Same(parts[0].Weights, map[string]float64{"a": tt.a, "b": tt.b}) {
			t.Errorf("%s %v %%: %v, %v, %v", tt.dialect, tt.share, parts, got, err)
		}
	}
	bundle, _ := Spec().Build(providers.Env{}, map[string]any{"service": "shop", "virtual_service": "web"})
	_, _, err := bundle.Router.(router.Planner).Plan(state.SlotB, 0.4, 0.5, seen)
	want(t, err, providers.Invalid, "multiple of 1")
}

func TestReading(t *testing.T) {
	w := gatewayWorld(t)
	w.Edit(routes+"web", "argocd-controller", func(o map[string]any) { setWeights(o, "rules", "backendRefs", 80, 20) })
	seen := look(t, w.router(t))
	p := seen.Parts[0]
	if p.ID != "web" || p.Shares[state.SlotB] != 20 || p.Units[state.SlotA] != 1 || p.Units[state.SlotB] != 2 || p.Pending || p.Revision == "" {
		t.Errorf("part %+v", p)
	}
	if !strings.HasPrefix(p.By, "argocd-controller at ") {
		t.Errorf("changed by %q", p.By)
	}
	// One rule that differs is drift for whoever compares.
	w.Edit(routes+"web", "kubectl-edit", func(o map[string]any) {
		rule := o["spec"].(map[string]any)["rules"].([]any)[1].(map[string]any)
		rule["backendRefs"].([]any)[1].(map[string]any)["weight"] = 50.0
	})
	if again := look(t, w.router(t)).Parts[0]; router.Same(again.Weights, p.Weights) || again.Shares[state.SlotB] < 38 {
		t.Errorf("part %+v after one rule was changed", again)
	}
}

// TestOneRuleDiffers: rules that differ are written over only by who has seen it.
func TestOneRuleDiffers(t *testing.T) {
	w := gatewayWorld(t)
	r := w.router(t)
	before := look(t, r)
	w.Edit(routes+"web", "kubectl-edit", func(o map[string]any) {
		rule := o["spec"].(map[string]any)["rules"].([]any)[2].(map[string]any)
		rule["backendRefs"].([]any)[0].(map[string]any)["weight"] = 1.0
	})
	wish, _, _ := r.Plan(state.SlotB, 25, 0.5, before)
	_, err := r.Write(t.Context(), slots, wish, before)
	want(t, err, providers.Conflict, "a of rule 2 (rest)", "last changed by kubectl-edit at ")
	if _, err := r.Write(t.Context(), slots, wish, look(t, r)); err != nil {
		t.Fatal(err)
	}
	if got := look(t, r).Weights(); !router.SameParts(got, wish) {
		t.Errorf("weights %v, want %v", got, wish)
	}
}

func TestForeignAppearsBeforeWrite(t *testing.T) {
	w := gatewayWorld(t)
	r := w.router(t)
	before := look(t, r)
	wish, _, _ := r.Plan(state.SlotB, 25, 0.5, before)
	w.Edit(routes+"api", "flux", func(o map[string]any) {
		rule := o["spec"].(map[string]any)["rules"].([]any)[0].(map[string]any)
		rule["backendRefs"].([]any)[2].(map[string]any)["weight"] = 100.0
	})
	_, err := r.Write(t.Context(), slots, wish, before)
	want(t, err, providers.Conflict, "old", "last changed by flux")
	if w.Writes() != 0 {
		t.Errorf("%d writes beside a conflict", w.Writes())
	}
	seen := look(t, r)
	if p := seen.Parts[1]; p.Foreign["old"] != 100 || p.Shares[state.SlotA] != 50 {
		t.Errorf("part %+v", p)
	}
	if _, err := r.Write(t.Context(), slots, wish, seen); err != nil {
		t.Errorf("a return keeps foreign entries and writes: %v", err)
	}
}

// TestRefusedBySchema: the API server says 422 for a failed test and for a
// wrong document; reading again tells which.
func TestRefusedBySchema(t *testing.T) {
	w := gatewayWorld(t)
	w.settings["http_route"] = "web"
	w.Mutate(func(o map[string]any) { // as if the CRD of this cluster were another
		o["spec"].(map[string]any)["rules"].([]any)[1].(map[string]any)["backendRefs"].([]any)[1].(map[string]any)["weight"] = -3.0
	})
	r := w.router(t)
	seen := look(t, r)
	wish, _, _ := r.Plan(state.SlotB, 25, 0.5, seen)
	_, err := r.Write(t.Context(), slots, wish, seen)
	want(t, err, providers.Invalid, "status 422", "Invalid value: -3")
}

func TestChangedByWebhook(t *testing.T) {
	w := gatewayWorld(t)
	w.Mutate(func(o map[string]any) { setWeights(o, "rules", "backendRefs", 100, 0) })
	r := w.router(t)
	seen := look(t, r)
	wish, _, _ := r.Plan(state.SlotB, 25, 0.5, seen)
	_, err := r.Write(t.Context(), slots, wish, seen)
	want(t, err, providers.Invalid, "stored weights map[a:100 b:0]", "admission webhook")
}

// TestOthersWriteAllTheTime: changes of the spec beside the weights are no
// drift, but there is an end to trying.
func TestOthersWriteAllTheTime(t *testing.T) {
	w := gatewayWorld(t)
	r := w.router(t)
	seen := look(t, r)
	wish, _, _ := r.Plan(state.SlotB, 25, 0.5, seen)
	n := 0.0
	busy := func(times float64) {
		next := w.faulty.Next
		w.faulty.Next = handler(func(rw http.ResponseWriter, req *http.Request) {
			if kubetest.IsWrite(req) && n < times {
				n++
				w.Edit(routes+"web", "operator", func(o map[string]any) { o["spec"].(map[string]any)["hostnames"] = []any{n} })
			}
			next.ServeHTTP(rw, req)
		})
	}
	busy(4)
	if _, err := r.Write(t.Context(), slots, wish, seen); err != nil {
		t.Errorf("4 foreign changes: %v", err)
	}
	busy(100)
	more, _, _ := r.Plan(state.SlotB, 50, 0.5, seen)
	_, err := r.Write(t.Context(), slots, more, look(t, r))
	want(t, err, providers.Conflict, "5 times in a row")
	if _, err := r.Target(t.Context(), slots, state.SlotB, router.Match{Header: "x", Value: "1"}, true); !providers.IsConflict(err) {
		t.Errorf("testers: %v, want a conflict", err)
	}
}

type handler func(http.ResponseWriter, *http.Request)

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h(w, r) }

func TestLeastRights(t *testing.T) {
	for _, tt := range []struct {
		world          func(*testing.T) *world
		verb, resource string
		words          string
	}{
		{gatewayWorld, "get", "httproutes", `{apiGroups: ["gateway.networking.k8s.io"], resources: ["httproutes"], verbs: [get]} in a Role of namespace shop`},
		{gatewayWorld, "patch", "httproutes", `resources: ["httproutes"], verbs: [patch]}`},
		{gatewayWorld, "get", "services", `{apiGroups: [""], resources: ["services"], verbs: [get]}`},
		{gatewayWorld, "list", "endpointslices", `{apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: [list]}`},
		{istioWorld, "patch", "virtualservices", `{apiGroups: ["networking.istio.io"], resources: ["virtualservices"], verbs: [patch]}`},
		{istioWorld, "get", "destinationrules", `resources: ["destinationrules"], verbs: [get]}`},
		{istioWorld, "list", "pods", `{apiGroups: [""], resources: ["pods"], verbs: [list]}`},
	} {
		t.Run(tt.verb+" "+tt.resource, func(t *testing.T) {
			w := tt.world(t)
			r := w.router(t)
			seen := look(t, r)
			w.Deny(func(verb, resource string) bool { return verb == tt.verb && resource == tt.resource })
			err := readErr(t, r)
			if tt.verb == "patch" {
				wish, _, _ := r.Plan(state.SlotB, 25, 0.5, seen)
				_, err = r.Write(t.Context(), slots, wish, seen)
			}
			want(t, err, providers.Denied, "status 403", "allow it in RBAC: ", tt.words)
		})
	}
}

func TestMissing(t *testing.T) {
	for name, tt := range map[string]struct {
		world  func(*testing.T) *world
		change func(w *world)
		kind   providers.Kind
		words  []string
	}{
		"route":           {gatewayWorld, func(w *world) { w.Delete(routes + "web") }, providers.NotFound, []string{`"web" not found`, "HTTPRoute web was looked for in namespace shop", "route_namespace"}},
		"route's slots":   {gatewayWorld, func(w *world) { w.settings["service"] = "cart" }, providers.NotFound, []string{"names both slots of cart", "cart-a with weight 100"}},
		"Gateway API":     {gatewayWorld, func(w *world) { w.Serve("gateway.networking.k8s.io") }, providers.NotFound, []string{"find API gateway.networking.k8s.io", "custom resource definitions"}},
		"its version":     {gatewayWorld, func(w *world) { w.Serve("gateway.networking.k8s.io", "v1alpha2") }, providers.NotFound, []string{"serves versions [v1alpha2]"}},
		"context":         {gatewayWorld, func(w *world) { w.settings["context"] = "prod" }, providers.Invalid, []string{`no context "prod"`, `["test"]`}},
		"DestinationRule": {istioWorld, func(w *world) { w.Delete(virtual[:len(virtual)-len("virtualservices/")] + "destinationrules/shop") }, providers.NotFound, []string{"subsets a and b"}},
		"a subset": {istioWorld, func(w *world) {
			w.Edit(virtual[:len(virtual)-len("virtualservices/")]+"destinationrules/shop", "kubectl", func(o map[string]any) {
				spec := o["spec"].(map[string]any)
				spec["subsets"] = spec["subsets"].([]any)[:1]
			})
		}, providers.Invalid, []string{"no subset b", "destinationrules shop/shop"}},
		"Service": {istioWorld, func(w *world) { w.Delete("/api/v1/namespaces/shop/services/shop") }, providers.NotFound, []string{"Service shop/shop does not exist", "create it"}},
		"Service of one slot": {istioWorld, func(w *world) {
			w.Edit("/api/v1/namespaces/shop/services/shop", "kubectl", func(o map[string]any) {
				o["spec"].(map[string]any)["selector"] = map[string]any{"app": "shop", "manent.io/track": "a"}
			})
		}, providers.Invalid, []string{"chooses pods by manent.io/track=a, and none of subset b", "take manent.io/track out"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := tt.world(t)
			tt.change(w)
			want(t, readErr(t, w.router(t)), tt.kind, tt.words...)
		})
	}
}

func TestCapacity(t *testing.T) {
	const services, slices = "/api/v1/namespaces/shop/services/", "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/"
	w := gatewayWorld(t)
	unit := func(slot state.Slot) any {
		units, known := look(t, w.router(t)).Parts[0].Units[slot]
		if !known {
			return "unknown"
		}
		return units
	}
	w.Edit(slices+"shop-b-1", "x", func(o map[string]any) {
		endpoints := o["endpoints"].([]any)
		endpoints[0].(map[string]any)["conditions"] = map[string]any{"ready": false}
		endpoints[1].(map[string]any)["conditions"] = map[string]any{} // nobody knows: taken as ready, says the API
		o["spec"] = 1
	})
	if got := unit(state.SlotB); got != 1 {
		t.Errorf("one of two endpoints ready: %v units", got)
	}
	w.Delete(slices + "shop-b-1")
	if got := unit(state.SlotB); got != 0 {
		t.Errorf("no endpoints: %v units", got)
	}
	w.Delete(services + "shop-b")
	if got := unit(state.SlotB); got != 0 {
		t.Errorf("no Service: %v units", got)
	}
	w.Edit(services+"shop-a", "x", func(o map[string]any) { o["spec"].(map[string]any)["type"] = "ExternalName" })
	if got := unit(state.SlotA); got != "unknown" {
		t.Errorf("ExternalName: %v units", got)
	}

	i := istioWorld(t)
	i.Edit("/api/v1/namespaces/shop/pods/shop-a-1", "x", func(o map[string]any) {
		o["metadata"].(map[string]any)["deletionTimestamp"] = "2026-11-30T10:00:00Z"
		o["spec"] = map[string]any{}
	})
	for n := range 150 {
		i.Create(kubetest.Pod("b"+strings.Repeat("x", n+1), map[string]any{"app": "shop", "manent.io/track": "b"}))
	}
	if got := look(t, i.router(t)).Parts[0].Units; got[state.SlotA] != 0 || got[state.SlotB] != 151 {
		t.Errorf("units %v, want none of a and 151 of b", got)
	}
	i.Edit("/api/v1/namespaces/shop/services/shop", "x", func(o map[string]any) { delete(o["spec"].(map[string]any), "selector") })
	if got := look(t, i.router(t)).Parts[0].Units; len(got) != 0 {
		t.Errorf("units %v of a Service without selector, want unknown", got)
	}
}

func TestWriteRefusesWhatItCannotSay(t *testing.T) {
	w := gatewayWorld(t)
	r := w.router(t)
	seen := look(t, r)
	for _, weights := range []map[string]float64{{"a": 0, "b": 0}, {"a": 99.5, "b": 0.5}, {"a": 50, "c": 50}} {
		_, err := r.Write(t.Context(), slots, []state.PartWeights{{ID: "web", Weights: weights}}, seen)
		want(t, err, providers.Invalid, "weight")
	}
	unread := router.Reading{Parts: []router.Part{{PartWeights: state.PartWeights{ID: "web"}, Err: errors.New("lost")}}}
	_, err := r.Write(t.Context(), slots, []state.PartWeights{{ID: "web", Weights: map[string]float64{"a": 75, "b": 25}}}, unread)
	want(t, err, providers.Unavailable, "nothing to compare with")
	if w.Patches() != 0 {
		t.Errorf("%d patches were sent", w.Patches())
	}
}

func TestRouteNamespace(t *testing.T) {
	w := gatewayWorld(t)
	w.settings["http_route"], w.settings["namespace"] = "web", "prod"
	want(t, readErr(t, w.router(t)), providers.NotFound, "httproutes prod/web")
	w.settings["route_namespace"] = "shop"
	want(t, readErr(t, w.router(t)), providers.NotFound, "none of its 3 rules names both slots") // their Services are of shop
	w.Edit(routes+"web", "kubectl", func(o map[string]any) {
		for _, rule := range o["spec"].(map[string]any)["rules"].([]any)[1:] {
			for _, ref := range rule.(map[string]any)["backendRefs"].([]any) {
				ref.(map[string]any)["namespace"] = "prod"
			}
		}
	})
	if got := look(t, w.router(t)).Parts[0]; got.Shares[state.SlotA] != 100 || got.Units[state.SlotA] != 0 {
		t.Errorf("part %+v", got)
	}
}

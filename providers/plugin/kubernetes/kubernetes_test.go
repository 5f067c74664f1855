package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/kubernetes/kubetest"
	"github.com/manent/action/providers/plugin/kubernetes/traffic"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/state"
)

const (
	routes  = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes/"
	virtual = "/apis/networking.istio.io/v1/namespaces/shop/virtualservices/"
)

// world is a fake cluster and what reaches it.
type world struct {
	*kubetest.Fake
	faulty   *routertest.Faulty
	settings map[string]any
	env      providers.Env
	logged   *[]string

	url       string
	authority []byte
}

func newWorld(t *testing.T, settings map[string]any, objects ...map[string]any) *world {
	t.Helper()
	w := &world{Fake: kubetest.NewFake(t, objects...), settings: settings, logged: new([]string)}
	w.faulty = &routertest.Faulty{Next: w.Fake, IsWrite: kubetest.IsWrite, Refuse: kubetest.Refuse}
	server := httptest.NewTLSServer(w.faulty)
	t.Cleanup(server.Close)
	w.url, w.authority = server.URL, kubetest.Authority(server)
	w.settings["service"] = "shop"
	w.settings["kubeconfig"] = kubetest.Kubeconfig(t, w.url, kubetest.Token, w.authority)
	w.env.Log = func(format string, args ...any) { *w.logged = append(*w.logged, fmt.Sprintf(format, args...)) }
	return w
}

// router is a new instance, as another process would make it.
func (w *world) router(t *testing.T) *traffic.Router { return w.at(t, time.Now) }

// at is one with another clock.
func (w *world) at(t *testing.T, now func() time.Time) *traffic.Router {
	t.Helper()
	bundle, err := assemble(w.env, settingsOf(t, w.settings), now)
	if err != nil {
		t.Fatal(err)
	}
	return bundle.Router.(*traffic.Router)
}

// settingsOf decodes a settings block.
func settingsOf(t *testing.T, block map[string]any) Settings {
	t.Helper()
	spec := providers.Define(name, "", func(_ providers.Env, s Settings) (Settings, error) { return s, nil })
	s, err := spec.Build(providers.Env{}, block)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var slots = state.Slots{A: state.Release{Version: "1"}, B: state.Release{Version: "2"}, Candidate: state.SlotB}

// noRollout is what a reading is told before one begins.
var noRollout = state.Slots{A: state.Release{Version: "1"}}

// gatewayWorld has two routes: one with three rules, two of them managed, and
// one with a foreign backend of weight 0.
func gatewayWorld(t *testing.T) *world {
	return newWorld(t, map[string]any{"http_route": "web, api", "settle": "0s"},
		kubetest.HTTPRoute("web",
			map[string]any{"name": "static", "matches": []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": "/static"}}}, "backendRefs": []any{map[string]any{"name": "cdn", "port": 80}}},
			map[string]any{"matches": []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": "/v2"}}}, "filters": []any{map[string]any{"type": "URLRewrite", "urlRewrite": map[string]any{"hostname": "v2.example.net"}}}, "backendRefs": kubetest.Refs()},
			map[string]any{"name": "rest", "backendRefs": kubetest.Refs(), "timeouts": map[string]any{"request": "3s"}}),
		kubetest.HTTPRoute("api", map[string]any{"backendRefs": append(kubetest.Refs(), map[string]any{"name": "old", "port": 80, "weight": 0})}),
		kubetest.Service("shop-a", nil), kubetest.Service("shop-b", nil),
		kubetest.EndpointSlice("shop-a", "10.77.0.1"), kubetest.EndpointSlice("shop-b", "10.77.0.2", "10.77.0.3"),
	)
}

func istioWorld(t *testing.T) *world {
	app := func(slot string) map[string]any { return map[string]any{"app": "shop", "manent.io/track": slot} }
	return newWorld(t, map[string]any{"virtual_service": "shop, mesh", "settle": "0s"},
		kubetest.VirtualService("shop",
			map[string]any{"match": []any{map[string]any{"uri": map[string]any{"prefix": "/static"}}}, "route": []any{map[string]any{"destination": map[string]any{"host": "cdn"}}}},
			map[string]any{"name": "v2", "match": []any{map[string]any{"uri": map[string]any{"prefix": "/v2"}}}, "rewrite": map[string]any{"uri": "/"}, "route": kubetest.Destinations()},
			map[string]any{"route": kubetest.Destinations(), "retries": map[string]any{"attempts": 2}}),
		kubetest.VirtualService("mesh", map[string]any{"route": kubetest.Destinations()}),
		kubetest.DestinationRule(), kubetest.Service("shop", map[string]any{"app": "shop"}),
		kubetest.Pod("shop-a-1", app("a")), kubetest.Pod("shop-b-1", app("b")), kubetest.Pod("other", map[string]any{"app": "other"}),
	)
}

// harness is the suite's view of a world with two parts.
func (w *world) harness(t *testing.T, root, list, refs string, parts ...string) routertest.Harness {
	r := w.router(t)
	h := routertest.Harness{
		Router: r, Again: func() router.Router { return w.router(t) }, Slots: slots, Traits: settingsOf(t, w.settings).Traits(),
		Secret: kubetest.Token, Writes: w.Writes, Touch: w.Touch,
		Foreign: func(part int) {
			w.Edit(root+parts[part], "kubectl-edit", func(o map[string]any) { setWeights(o, list, refs, 63, 37) })
		},
		Unowned: func() string { return w.unowned(root, list, refs, parts...) },
	}
	w.faulty.Fill(&h)
	return h
}

// setWeights sets the weights of all entries that have both slots.
func setWeights(o map[string]any, list, refs string, a, b float64) {
	for _, rule := range o["spec"].(map[string]any)[list].([]any) {
		all := rule.(map[string]any)[refs].([]any)
		if len(all) > 1 {
			all[0].(map[string]any)["weight"], all[1].(map[string]any)["weight"] = a, b
		}
	}
}

// unowned is the text of all documents without what manent may change.
func (w *world) unowned(root, list, refs string, parts ...string) string {
	var out strings.Builder
	for _, part := range parts {
		o := w.Object(root + part)
		setWeights(o, list, refs, 0, 0)
		data, _ := json.Marshal(o["spec"])
		out.Write(append(data, '\n'))
	}
	return out.String()
}

func TestGatewayConformance(t *testing.T) {
	routertest.Run(t, func(t *testing.T) routertest.Harness {
		w := gatewayWorld(t)
		h := w.harness(t, routes, "rules", "backendRefs", "web", "api")
		h.Hold = w.Hold
		return h
	})
}

func TestIstioConformance(t *testing.T) {
	routertest.Run(t, func(t *testing.T) routertest.Harness {
		return istioWorld(t).harness(t, virtual, "http", "route", "shop", "mesh")
	})
}

// TestIstioHeld is the suite's part about what is accepted and not in force,
// with a settle time that a frozen clock does not reach.
func TestIstioHeld(t *testing.T) {
	w := istioWorld(t)
	w.settings["settle"] = "30s"
	now := time.Now().Add(time.Hour)
	r := w.at(t, func() time.Time { return now })
	want, receipt := move(t, r, 25)
	for _, step := range []struct {
		after time.Duration
		in    bool
	}{{0, false}, {29 * time.Second, false}, {30 * time.Second, true}} {
		now = now.Add(step.after)
		got, err := r.Settled(t.Context(), want, receipt)
		if err != nil || got != step.in {
			t.Errorf("after %v: settled %v, %v, want %v", step.after, got, err, step.in)
		}
		now = now.Add(-step.after)
	}
}

// move reads, plans and writes a share of slot b.
func move(t *testing.T, r *traffic.Router, share float64) ([]state.PartWeights, state.Receipt) {
	t.Helper()
	seen := look(t, r)
	want, _, err := r.Plan(state.SlotB, share, 0.5, seen)
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := r.Write(t.Context(), slots, want, seen)
	if err != nil {
		t.Fatal(err)
	}
	return want, receipt
}

func look(t *testing.T, r *traffic.Router) router.Reading {
	t.Helper()
	seen, err := r.Read(t.Context(), slots)
	if err == nil {
		err = seen.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

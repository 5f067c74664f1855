//go:build peers

package kubernetes

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/api/kubernetes/kubetest"
	"github.com/manent/action/providers/plugin/kubernetes/traffic"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/state"
)

// shared is the one cluster of this test binary.
var shared = sync.OnceValues(func() (*kubetest.Cluster, error) {
	c, err := kubetest.Start()
	if err != nil {
		return nil, err
	}
	if err = c.Install(kubetest.GatewayAPI, "HTTPRoute"); err == nil {
		err = c.Install(kubetest.Istio, "VirtualService", "DestinationRule")
	}
	if err != nil {
		c.Stop()
	}
	return c, err
})

// started says whether shared was used, so that the end of the tests does not
// begin a cluster.
var started atomic.Bool

func TestMain(m *testing.M) {
	code := m.Run()
	if started.Load() {
		if c, err := shared(); err == nil {
			c.Stop()
		}
	}
	os.Exit(code)
}

func aCluster(t *testing.T) *kubetest.Cluster {
	t.Helper()
	started.Store(true)
	c, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// peer is a namespace of the real API server, a way to it that can be
// disturbed, and a router that has only the rights that the docs name.
type peer struct {
	*kubetest.Space
	faulty   *routertest.Faulty
	settings map[string]any
	writes   atomic.Int32
	held     atomic.Bool
	routes   []map[string]any
}

func newPeer(t *testing.T, settings map[string]any, routes []map[string]any, beside ...map[string]any) *peer {
	t.Helper()
	p := &peer{Space: aCluster(t).Space(t, append(routes, beside...)...), settings: settings, routes: routes}
	p.faulty = &routertest.Faulty{Next: p.forward(t), IsWrite: kubetest.IsWrite, Refuse: kubetest.Refuse}
	server := httptest.NewTLSServer(p.faulty)
	t.Cleanup(server.Close)
	settings["service"], settings["namespace"] = "shop", p.Name
	settings["kubeconfig"] = kubetest.Kubeconfig(t, server.URL, kubetest.CI, kubetest.Authority(server))
	var all []string
	for _, rules := range settingsOf(t, settings).Role() {
		all = append(all, api.Lines(rules)...)
	}
	p.Allow(all...)
	return p
}

// forward hands requests to the API server, counts the weights that it took,
// and lets the controller look after each.
func (p *peer) forward(t *testing.T) http.Handler {
	t.Helper()
	target, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(p.Authority)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}}
	t.Cleanup(proxy.Transport.(*http.Transport).CloseIdleConnections)
	return handler(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer := httptest.NewRecorder()
		proxy.ServeHTTP(answer, r)
		if r.Method == http.MethodPatch && answer.Code == http.StatusOK {
			if strings.Contains(string(body), `/weight","value"`) {
				p.writes.Add(1)
			}
			p.observe()
		}
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}

// observe is what a Gateway API controller does after a change.
func (p *peer) observe() {
	for _, r := range p.routes {
		if r["kind"] == "HTTPRoute" && !p.held.Load() {
			p.Accept(r)
		}
	}
}

func (p *peer) router(t *testing.T) *traffic.Router {
	t.Helper()
	bundle, err := Spec().Build(providers.Env{Log: t.Logf}, p.settings)
	if err != nil {
		t.Fatal(err)
	}
	return bundle.Router.(*traffic.Router)
}

func peerGateway(t *testing.T) *peer {
	path := func(value string) []any {
		return []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": value}}}
	}
	p := newPeer(t, map[string]any{"http_route": "web, api", "settle": "0s"}, []map[string]any{
		kubetest.HTTPRoute("web",
			map[string]any{"name": "static", "matches": path("/static"), "backendRefs": []any{map[string]any{"name": "cdn", "port": 80}}},
			map[string]any{"matches": path("/v2"), "backendRefs": kubetest.Refs(), "filters": []any{map[string]any{"type": "RequestHeaderModifier", "requestHeaderModifier": map[string]any{"set": []any{map[string]any{"name": "x-v", "value": "2"}}}}}},
			map[string]any{"name": "rest", "backendRefs": kubetest.Refs(), "timeouts": map[string]any{"request": "3s"}}),
		kubetest.HTTPRoute("api", map[string]any{"backendRefs": append(kubetest.Refs(), map[string]any{"name": "old", "port": 80, "weight": 0})}),
	}, kubetest.Service("shop-a", nil), kubetest.Service("shop-b", nil),
		kubetest.EndpointSlice("shop-a", "10.77.0.1"), kubetest.EndpointSlice("shop-b", "10.77.0.2"))
	p.observe()
	return p
}

func peerIstio(t *testing.T) *peer {
	app := func(slot string) map[string]any { return map[string]any{"app": "shop", "manent.io/track": slot} }
	return newPeer(t, map[string]any{"virtual_service": "shop, mesh", "settle": "0s"}, []map[string]any{
		kubetest.VirtualService("shop",
			map[string]any{"match": []any{map[string]any{"uri": map[string]any{"prefix": "/v2"}}}, "rewrite": map[string]any{"uri": "/"}, "route": kubetest.Destinations()},
			map[string]any{"route": kubetest.Destinations(), "retries": map[string]any{"attempts": 2}}),
		kubetest.VirtualService("mesh", map[string]any{"route": kubetest.Destinations()}),
	}, kubetest.DestinationRule(), kubetest.Service("shop", map[string]any{"app": "shop"}), kubetest.Pod("shop-a-1", app("a")), kubetest.Pod("shop-b-1", app("b")))
}

// lists are the names of rules and backends of a route's kind.
func lists(route map[string]any) (rules, refs string) {
	if route["kind"] == "HTTPRoute" {
		return "rules", "backendRefs"
	}
	return "http", "route"
}

func (p *peer) harness(t *testing.T) routertest.Harness {
	r := p.router(t)
	rules, refs := lists(p.routes[0])
	h := routertest.Harness{
		Router: r, Again: func() router.Router { return p.router(t) }, Slots: slots, Traits: settingsOf(t, p.settings).Traits(), Secret: kubetest.CI,
		Writes: func() int { return int(p.writes.Load()) },
		Touch: func() {
			for _, route := range p.routes {
				p.touch(route)
			}
		},
		Foreign: func(part int) {
			p.Edit(p.routes[part], "kubectl-edit", func(o map[string]any) { setWeights(o, rules, refs, 63, 37) })
			p.observe()
		},
		Unowned: func() string {
			var out strings.Builder
			for _, route := range p.routes {
				o := p.Get(route)
				setNumbers(o, rules, refs)
				data, _ := json.Marshal(o["spec"])
				out.Write(append(data, '\n'))
			}
			return out.String()
		},
	}
	if rules == "rules" {
		h.Hold = func() func() {
			p.held.Store(true)
			return func() { p.held.Store(false); p.observe() }
		}
	}
	p.faulty.Fill(&h)
	return h
}

func setNumbers(o map[string]any, rules, refs string) { setWeights(o, rules, refs, 0, 0) }

// touch writes a status: the revision changes, and no generation.
func (p *peer) touch(route map[string]any) {
	if route["kind"] == "HTTPRoute" {
		p.Accept(route, func(o map[string]any) {
			kubetest.SetStatus(o, "Programmed", "True", fmt.Sprintf("Seen%d", p.writes.Add(0)), 1)
		})
		return
	}
	p.Edit(route, "istiod", func(o map[string]any) {
		o["metadata"].(map[string]any)["annotations"] = map[string]any{"touched": "yes"}
	})
}

func TestPeersGatewayConformance(t *testing.T) {
	t.Parallel()
	routertest.Run(t, func(t *testing.T) routertest.Harness { return peerGateway(t).harness(t) })
}

func TestPeersIstioConformance(t *testing.T) {
	t.Parallel()
	routertest.Run(t, func(t *testing.T) routertest.Harness { return peerIstio(t).harness(t) })
}

// weightsOf reads the weights of all managed rules past the router.
func weightsOf(p *peer, route map[string]any) []state.PartWeights {
	rules, refs := lists(route)
	var out []state.PartWeights
	for i, rule := range p.Get(route)["spec"].(map[string]any)[rules].([]any) {
		all, _ := rule.(map[string]any)[refs].([]any)
		if len(all) < 2 {
			continue
		}
		w := map[string]float64{}
		for j, slot := range []string{"a", "b"} {
			n, _ := all[j].(map[string]any)["weight"].(int64)
			w[slot] = float64(n)
		}
		out = append(out, state.PartWeights{ID: fmt.Sprint(i), Weights: w})
	}
	return out
}

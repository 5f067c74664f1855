//go:build peers

package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/manent/action/providers/api/haproxy/haproxytest"
	"github.com/manent/action/state"
)

const byHAProxy = `
secrets: [{name: dataplane, ref: "env:DATAPLANE"}]
targets:
  - {host: one, labels: {slot: a, server: web1}}
  - {host: two, labels: {slot: b, server: web2}}
rollout:
  traffic: {steps: [5, 50, 100], bake: 2s, maxBake: 1m, finalBake: 2s}
  providers:
    prometheus: {url: "$PROMETHEUS"}
  health:
    interval: 500ms
    grace: 20s
    metrics:
      - {name: errors, query: 'sum(rate(http_requests_total{slot="{track}",code="500"}[2s])) / sum(rate(http_requests_total{slot="{track}"}[2s]))', max: 0.02}
traffic:
  router:
    provider: haproxy
    settings: {dataplane_urls: "$LB1, $LB2", backend: shop, credentials_secret: dataplane, member: "{label.server}"}
`

// haproxies brings up two real ones in front of the service. Clients use the
// first.
func (s *shop) haproxies() (apis []*haproxytest.API, fronts []string) {
	s.t.Helper()
	shop := []string{"balance roundrobin"}
	for name, url := range map[string]string{"web1": s.a.url, "web2": s.b.url} {
		weight := map[string]string{"web1": "100", "web2": "0"}[name]
		shop = append(shop, "server "+name+" "+strings.TrimPrefix(url, "http://")+" weight "+weight)
	}
	for _, name := range []string{"LB1", "LB2"} {
		api, process := haproxytest.StartProcess(s.t, "v3", shop...)
		apis, fronts = append(apis, api), append(fronts, "http://"+process.Address)
		s.vars[name] = api.URL
	}
	s.front = fronts[0]
	s.env = append(s.env, "DATAPLANE="+haproxytest.User+":"+haproxytest.Password)
	s.prometheus()
	s.repository()
	s.configure(head + byHAProxy)
	return apis, fronts
}

// slotOf counts the answers of one instance by slot.
func slotOf(t *testing.T, front string, n int) map[string]int {
	t.Helper()
	got := map[string]int{}
	for range n {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		got[resp.Header.Get("X-Slot")]++
	}
	return got
}

// A whole rollout over two real HAProxies loses no request.
func TestPeersHAProxyPromoted(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	_, fronts := s.haproxies()
	visitors := s.crowd(150)
	s.exits(0, "run", "--version", "2.0")
	visitors.stop().unbroken(t)
	s.servesOnly("b")
	if got := slotOf(t, fronts[1], 20); got["b"] != 20 {
		t.Errorf("the second instance gives %v", got)
	}
	doc, _ := s.status()
	if doc.Rollout.Status != state.Completed || doc.Passes[0].Serving != state.SlotB {
		t.Errorf("ended as %s, with slot %s serving", doc.Rollout.Status, doc.Passes[0].Serving)
	}
}

// One of two instances does not answer in the middle of a rollout: nothing is
// raised, a return takes the other one back and says that it is unfinished,
// and the same command finishes it later. No request is lost.
func TestPeersHAProxyOneUnreachable(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	apis, fronts := s.haproxies()
	visitors := s.crowd(150)
	s.exits(0, "run", "--version", "2.0", "--until", "gate@traffic@5")
	heal := apis[1].Doom(func(haproxytest.Call) haproxytest.Fate { return haproxytest.Lost })
	code := 2
	for code == 2 { // until the first reading is due
		code = s.start("run", "--version", "2.0", "--no-wait").wait()
	}
	if code != 5 {
		t.Errorf("a reading with one instance away ended with %d, want 5", code)
	}
	if got := slotOf(t, fronts[0], 40); got["b"] > 4 {
		t.Errorf("the first instance gives %v, want the share of before", got)
	}
	s.exits(6, "revert", "--version", "2.0", "--no-wait")
	if first, second := slotOf(t, fronts[0], 40), slotOf(t, fronts[1], 200); first["a"] != 40 || second["b"] == 0 {
		t.Errorf("the instances give %v and %v, want the first returned", first, second)
	}
	heal()
	s.exits(0, "revert", "--version", "2.0")
	for _, front := range fronts {
		if got := slotOf(t, front, 40); got["a"] != 40 {
			t.Errorf("an instance gives %v after the return", got)
		}
	}
	visitors.stop().unbroken(t)
}

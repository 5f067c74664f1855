//go:build peers

package kubernetes

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/api/kubernetes/kubetest"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/state"
)

// inside is set in the process that has a network of its own.
const inside = "MANENT_TEST_NETWORK"

// TestPeersTraffic runs TestInside in a network namespace: the API server
// takes no loopback address as an endpoint, and nobody else's network is
// touched this way.
func TestPeersTraffic(t *testing.T) {
	t.Parallel()
	const network = `ip link set lo up && for n in 1 2; do ip addr add 10.77.0.$n/32 dev lo; done && exec "$@"`
	cmd := exec.CommandContext(t.Context(), "unshare", "--net", "--map-root-user", "sh", "-c", network, "sh", os.Args[0],
		"-test.v", "-test.run=^TestInside$/./^(shares|load|suite)$/^(traffic_follows_the_weights|testers_reach_the_candidate)$")
	cmd.Env = append(os.Environ(), inside+"=yes")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// edge is a real Gateway API data plane, Traefik, in front of two backends.
type edge struct {
	cluster *kubetest.Cluster
	client  *http.Client
}

const address = "127.0.0.1:8000" // free in a network of our own

func TestInside(t *testing.T) {
	if os.Getenv(inside) == "" {
		return
	}
	c, err := kubetest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	if err := c.Install(kubetest.GatewayAPI); err != nil {
		t.Fatal(err)
	}
	e := &edge{cluster: c, client: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	for n, slot := range []string{"a", "b"} {
		backend(t, fmt.Sprintf("10.77.0.%d:8080", n+1), slot)
	}
	if err := c.Traefik(address); err != nil {
		t.Fatal(err)
	}
	t.Run("rollout", func(t *testing.T) {
		t.Run("shares", func(t *testing.T) { exactShares(t, e.world(t)) }) // alone: a new route begins new rounds in all
	})
	t.Run("together", func(t *testing.T) {
		t.Run("suite", func(t *testing.T) {
			t.Parallel()
			routertest.Run(t, func(t *testing.T) routertest.Harness { return e.world(t).harness(t) })
		})
		t.Run("load", func(t *testing.T) { t.Parallel(); underLoad(t, e.world(t)) })
	})
}

// backend answers with the name of its slot.
func backend(t *testing.T, address, slot string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, slot) })}
	go func() { _ = server.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = server.Close() })
}

// lane is one namespace's route through the edge.
type lane struct {
	*peer
	host   string
	client *http.Client
}

func (e *edge) world(t *testing.T) *lane {
	t.Helper()
	space := e.cluster.Space(t)
	l := &lane{host: space.Name + ".example.net", client: e.client}
	route := kubetest.HTTPRoute("web",
		map[string]any{"matches": []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": "/v2"}}}, "backendRefs": kubetest.Refs()},
		map[string]any{"backendRefs": kubetest.Refs()})
	route["spec"].(map[string]any)["hostnames"] = []any{l.host}
	l.peer = &peer{Space: space, settings: map[string]any{"http_route": "web", "settle": "2s", "service": "shop", "namespace": space.Name}, routes: []map[string]any{route}}
	l.held.Store(true) // the controller is a real one
	for _, o := range []map[string]any{
		kubetest.Service("shop-a", nil), kubetest.Service("shop-b", nil),
		kubetest.EndpointSlice("shop-a", "10.77.0.1"), kubetest.EndpointSlice("shop-b", "10.77.0.2"),
		kubetest.Gateway("edge", 8000), route,
	} {
		space.Create(o)
	}
	l.settings["kubeconfig"] = kubetest.Kubeconfig(t, e.cluster.URL, kubetest.CI, e.cluster.Authority)
	var all []string
	for _, rules := range settingsOf(t, l.settings).Role() {
		all = append(all, api.Lines(rules)...)
	}
	l.Allow(all...)
	l.answers(t)
	return l
}

// answers waits until the data plane knows a new route.
func (l *lane) answers(t *testing.T) {
	t.Helper()
	began := time.Now()
	for {
		_, err := l.get(t.Context(), "/", nil)
		if err == nil {
			return
		}
		if time.Since(began) > 20*time.Second {
			t.Fatal(err)
		}
		select {
		case <-t.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// settled waits until the router says so, and returns how long that took.
func (l *lane) settled(t *testing.T, want []state.PartWeights, receipt state.Receipt) time.Duration {
	t.Helper()
	began := time.Now()
	for time.Since(began) < 20*time.Second {
		ok, err := l.router(t).Settled(t.Context(), want, receipt)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			return time.Since(began)
		}
		select {
		case <-t.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Errorf("%v not in force within 20 s", want)
	return 0
}

// get sends one request and says who answered.
func (l *lane) get(ctx context.Context, path string, header map[string]string) (state.Slot, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return "", err
	}
	req.Host = l.host
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, body)
	}
	return state.Slot(body), err
}

func (l *lane) serve(t *testing.T, n int, path string, header map[string]string) map[state.Slot]int {
	t.Helper()
	got := map[state.Slot]int{}
	for range n {
		slot, err := l.get(t.Context(), path, header)
		if err != nil {
			t.Fatal(err)
		}
		got[slot]++
	}
	return got
}

func (l *lane) harness(t *testing.T) routertest.Harness {
	r := l.router(t)
	return routertest.Harness{
		Router: r, Again: func() router.Router { return l.router(t) }, Slots: slots, Traits: settingsOf(t, l.settings).Traits(), Patience: 20 * time.Second,
		Foreign: func(int) {
			l.Edit(l.routes[0], "kubectl", func(o map[string]any) { setWeights(o, "rules", "backendRefs", 63, 37) })
		},
		Serve: func(n int) map[state.Slot]int { return l.serve(t, n, "/", nil) },
		Probe: func(a router.Access) state.Slot {
			slot, err := l.get(t.Context(), "/v2/x", a.Header)
			if err != nil {
				t.Fatal(err)
			}
			return slot
		},
	}
}

// exactShares: Traefik deals requests in turns, so that a share is exact over
// a whole round. Both managed rules have it.
func exactShares(t *testing.T, l *lane) {
	for _, share := range []float64{1, 25, 99, 0} {
		want, receipt := move(t, l.router(t), share)
		took := l.settled(t, want, receipt)
		for _, path := range []string{"/", "/v2/x"} {
			if got := l.serve(t, 200, path, nil); float64(got[state.SlotB]) != 2*share {
				t.Errorf("%v %% on %s: %d of 200 requests to b", share, path, got[state.SlotB])
			}
		}
		t.Logf("%v %%: in force after %v", share, took.Round(time.Millisecond))
	}
}

// underLoad moves traffic up, with testers, and back, and retires the
// candidate, while many clients ask.
func underLoad(t *testing.T, l *lane) {
	ctx, stop := context.WithCancel(t.Context())
	var all, failed atomic.Int64
	var first atomic.Value
	var clients sync.WaitGroup
	for i := range 8 {
		path := []string{"/", "/v2/x"}[i%2]
		clients.Go(func() {
			for ctx.Err() == nil {
				_, err := l.get(ctx, path, nil)
				if ctx.Err() != nil {
					return
				}
				select {
				case <-ctx.Done():
				case <-time.After(4 * time.Millisecond):
				}
				all.Add(1)
				if err != nil {
					failed.Add(1)
					first.CompareAndSwap(nil, err.Error())
				}
			}
		})
	}
	match := router.Match{Header: "x-canary", Value: "always"}
	access, err := l.router(t).Target(t.Context(), slots, state.SlotB, match, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, share := range []float64{5, 100, 0} {
		want, receipt := move(t, l.router(t), share)
		l.settled(t, want, receipt)
		for _, path := range []string{"/", "/v2/x"} {
			if got := l.serve(t, 20, path, access.Header); got[state.SlotB] != 20 {
				t.Errorf("%v %%: testers on %s reached %v", share, path, got)
			}
		}
		within(t, share, l.serve(t, 200, "/", nil)[state.SlotB], 200)
	}
	if _, err := l.router(t).Target(t.Context(), slots, state.SlotB, match, false); err != nil {
		t.Fatal(err)
	}
	l.settled(t, look(t, l.router(t)).Weights(), nil)
	if got := l.serve(t, 20, "/", access.Header); got[state.SlotA] != 20 {
		t.Errorf("without testers: %v", got)
	}
	l.Edit(kubetest.EndpointSlice("shop-b"), "manent", func(o map[string]any) { o["endpoints"] = []any{} }) // the candidate is retired
	for began := time.Now(); time.Since(began) < 500*time.Millisecond; {
		if got := l.serve(t, 20, "/", access.Header); got[state.SlotA] != 20 {
			t.Errorf("after the retirement: %v", got)
		}
	}
	stop()
	clients.Wait()
	t.Logf("%d requests beside the counted ones, %d failed", all.Load(), failed.Load())
	if failed.Load() > 0 || all.Load() < 500 {
		t.Errorf("%d of %d requests failed: %v", failed.Load(), all.Load(), first.Load())
	}
}

// within: other clients take turns too, so that a count has chance in it; it
// leaves five standard deviations less than once in a million runs.
func within(t *testing.T, share float64, got, n int) {
	t.Helper()
	mean, deviation := share/100*float64(n), math.Sqrt(float64(n)*share/100*(1-share/100))
	if off := math.Abs(float64(got) - mean); off > 5*deviation {
		t.Errorf("%v %%: %d of %d requests, expected %.0f ± %.0f", share, got, n, mean, 5*deviation)
	}
}

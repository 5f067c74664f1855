//go:build peers

package haproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/haproxy/haproxytest"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/state"
)

// peers are real HAProxies in front of the same applications, each behind a
// stand-in for its Data Plane API.
type peers struct {
	*world
	processes []*haproxytest.Process
	client    *http.Client
}

// startPeers has two servers in slot a, with all traffic, and one in slot b.
func startPeers(t *testing.T, version string, instances int) *peers {
	t.Helper()
	return peersOf(t, version, instances, haproxytest.StartApps(t, "web1", "web2", "web3"))
}

func peersOf(t *testing.T, version string, instances int, apps map[string]string) *peers {
	t.Helper()
	shop := []string{"balance roundrobin"}
	for _, server := range []string{"web1 weight 100", "web2 weight 100", "web3 weight 0"} {
		name, options, _ := strings.Cut(server, " ")
		shop = append(shop, fmt.Sprintf("server %s %s check inter 2000 %s", name, apps[name], options))
	}
	p := &peers{
		world: &world{
			targets:  []providers.Target{target("a", "web1"), target("a", "web2"), target("b", "web3")},
			settings: map[string]any{"backend": "shop", "credentials_secret": "dataplane", "api_version": version},
		},
		client: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	}
	t.Cleanup(p.client.CloseIdleConnections)
	var urls []string
	for range instances {
		api, process := haproxytest.StartProcess(t, version, shop...)
		p.apis, p.processes = append(p.apis, api), append(p.processes, process)
		urls, p.names = append(urls, api.URL), append(p.names, strings.TrimPrefix(api.URL, "http://"))
	}
	p.settings["dataplane_urls"] = urls
	return p
}

// get sends a request to an instance and says which server answered.
func (p *peers) get(ctx context.Context, instance int) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.processes[instance].Address+"/", nil)
	if err != nil {
		return "", err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, body)
	}
	return string(body), err
}

// serve counts n requests by server.
func (p *peers) serve(t *testing.T, instance, n int) map[string]int {
	t.Helper()
	got := map[string]int{}
	for range n {
		server, err := p.get(t.Context(), instance)
		if err != nil {
			t.Fatal(err)
		}
		got[server]++
	}
	return got
}

// share moves to a share and sees it in force.
func (p *peers) share(t *testing.T, share float64) []state.PartWeights {
	t.Helper()
	r := p.router(t)
	seen := read(t, r)
	want := plan(t, r, share, seen)
	receipt, err := r.Write(t.Context(), candidateB(), want, seen)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := p.router(t).Settled(t.Context(), want, receipt); !ok || err != nil {
		t.Fatalf("at %v %%: settled %v, %v", share, ok, err)
	}
	return want
}

func TestPeersConformance(t *testing.T) {
	apps := haproxytest.StartApps(t, "web1", "web2", "web3")
	routertest.Run(t, func(t *testing.T) routertest.Harness {
		p := peersOf(t, "v3", 1, apps)
		h := harness(t, p.world)
		h.Hold = nil // for one in memory only
		h.Foreign = func(part int) { p.apis[part].SetWeight("shop", "web3", 13) }
		h.Serve = func(n int) map[state.Slot]int {
			got := map[state.Slot]int{}
			for server, count := range p.serve(t, 0, n) {
				got[p.slotOf(server)] += count
			}
			return got
		}
		return h
	})
}

// Round robin is exact from the first request after a change on: no server is
// off by more than what is left of the round before.
func TestPeersShareIsExact(t *testing.T) {
	for _, version := range []string{"v2", "v3"} {
		t.Run(version, func(t *testing.T) {
			p := startPeers(t, version, 1)
			for _, share := range []float64{1, 10, 50, 37.5, 100, 0, 50, 0} {
				want, total := p.share(t, share), 0.0
				for _, w := range want[0].Weights {
					total += w
				}
				for _, n := range []int{40, int(total)} {
					got := p.serve(t, 0, n)
					t.Logf("at %v %%: %v of %d requests, weights %v", share, got, n, want[0].Weights)
					for server, w := range want[0].Weights {
						should := float64(n) * w / total
						if off := math.Abs(float64(got[server]) - should); off > 2 || w == 0 && off != 0 {
							t.Errorf("at %v %%: %d of %d requests on %s, want %.1f", share, got[server], n, server, should)
						}
					}
				}
			}
		})
	}
}

// A rollout, with a reload in its middle, and its return, on two instances
// under 2,000 requests a second: not one fails, and each share is what it
// should be.
func TestPeersNoFailedRequest(t *testing.T) {
	const rate = 2000
	p := startPeers(t, "v3", 2)
	l := &load{got: map[string]int{}}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	began := time.Now()
	wg.Go(func() { l.run(ctx, p, rate) })
	for _, share := range []float64{5, 25, 50, 100, 50, 0} {
		p.share(t, share)
		if share == 50 {
			for _, a := range p.apis {
				a.Reload()
			}
		}
		wait(t, 100*time.Millisecond) // for those on their way
		l.since()
		wait(t, time.Second)
		got := l.since()
		all := got["web1"] + got["web2"] + got["web3"]
		if off := math.Abs(100*float64(got["web3"])/float64(all) - share); all == 0 || off > 2 || (share == 0 || share == 100) && off != 0 {
			t.Errorf("at %v %%: %v", share, got)
		}
	}
	stop()
	wg.Wait()
	took := time.Since(began).Seconds()
	t.Logf("%d requests in %.1f s, %.0f a second (wanted %d), %d on a connection that had just been closed and sent again, %d failed",
		l.sent.Load(), took, float64(l.sent.Load())/took, rate, l.again.Load(), l.failed.Load())
	if l.failed.Load() > 0 {
		t.Errorf("%d of %d requests failed, first: %v", l.failed.Load(), l.sent.Load(), l.first)
	}
	if l.sent.Load() < 500 {
		t.Errorf("only %d requests were sent", l.sent.Load())
	}
}

// One of two instances does not answer: no share is raised, what it serves
// stays, the other one is returned, and all is well when it is back.
func TestPeersOneUnreachable(t *testing.T) {
	p := startPeers(t, "v3", 2)
	p.share(t, 50)
	heal := p.apis[1].Doom(func(haproxytest.Call) haproxytest.Fate { return haproxytest.Lost })
	r := p.router(t)
	seen, err := r.Read(t.Context(), candidateB())
	if err != nil || seen.Parts[0].Err != nil || providers.KindOf(seen.Parts[1].Err) != providers.Unknown || seen.Parts[1].Err == nil {
		t.Fatalf("reading %+v, %v", seen, err)
	}
	back := plan(t, r, 0, seen)
	_, err = r.Write(t.Context(), candidateB(), back, seen)
	wantKind(t, err, providers.Unknown, "compare on "+p.names[1])
	if first, second := p.serve(t, 0, 40), p.serve(t, 1, 40); first["web3"] != 0 || second["web3"] < 19 || second["web3"] > 21 {
		t.Errorf("requests %v and %v, want all of the first on slot a, and half of the second", first, second)
	}
	if _, err := r.Settled(t.Context(), back, nil); err == nil {
		t.Error("settled with an instance that does not answer")
	}
	heal()
	if _, err := r.Write(t.Context(), candidateB(), back, read(t, r)); err != nil {
		t.Fatal(err)
	}
	if second := p.serve(t, 1, 40); second["web3"] != 0 {
		t.Errorf("requests %v after the return", second)
	}
}

// What a person does at the stats socket is seen, and so is a file that
// HAProxy would refuse.
func TestPeersByHand(t *testing.T) {
	p := startPeers(t, "v2", 1)
	want := p.share(t, 50)
	p.apis[0].Command("set weight shop/web3 200")
	r := p.router(t)
	seen := read(t, r)
	if part := seen.Parts[0]; !part.Pending || math.Abs(part.Shares[state.SlotB]-100*200/300.0) > 1e-9 || !router.SameParts(seen.Weights(), want) {
		t.Errorf("after a weight set at run time: %+v", part)
	}
	p.apis[0].Command("set weight shop/web3 100")
	p.apis[0].Command("set server shop/web2 state maint")
	if part := read(t, r).Parts[0]; part.Units[state.SlotA] != 1 || math.Abs(part.Shares[state.SlotB]-200/3.0) > 1e-9 {
		t.Errorf("with web2 in maintenance: %+v", part)
	}
	p.apis[0].Command("set server shop/web2 state ready")
	p.apis[0].Edit(func(s string) string {
		return strings.Replace(s, "backend shop\n", "backend shop\n  no-such-word\n", 1)
	})
	p.apis[0].Set(haproxytest.Modes{Reloads: true})
	seen = read(t, r)
	_, err := r.Write(t.Context(), candidateB(), plan(t, r, 100, seen), seen)
	wantKind(t, err, providers.Invalid, "unknown keyword 'no-such-word'")
	if got := p.serve(t, 0, 40); got["web3"] < 19 || got["web3"] > 21 {
		t.Errorf("requests %v, want what was before", got)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		t.Error("it was waited for in vain")
	}
}

//go:build peers

package nginx

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/host/sshdtest"
	"github.com/manent/action/providers/api/nginx/nginxtest"
	"github.com/manent/action/providers/api/nginx/split"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/state"
)

// peer is a real NGINX with what manent generate nginx prints, and an
// application in each slot.
type peer struct {
	*nginxtest.Nginx
	a, b     *nginxtest.Backend
	settings map[string]any
	client   *http.Client
}

// newPeer starts one with all traffic on slot a.
func newPeer(t *testing.T, mode string, workers int) *peer {
	t.Helper()
	p := &peer{
		Nginx: nginxtest.New(t, workers),
		a:     nginxtest.StartBackend(t, "a", nil), b: nginxtest.StartBackend(t, "b", nil),
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}},
	}
	p.settings = map[string]any{
		"include_file": p.Path("manent/split.conf"), "mode": mode, "slot_a": p.a.Address, "slot_b": p.b.Address,
		"nginx_command": p.Command, "status_url": "http://" + p.Status + "/manent_status",
	}
	g := p.generate(t)
	p.Write("manent/split.conf", g.Initial)
	p.Write("conf.d/once.conf", p.Adapt(g.Once))
	p.Start()
	return p
}

func (p *peer) generate(t *testing.T) Generated {
	t.Helper()
	g, err := Generate(p.settings, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (p *peer) router(t *testing.T) *Router {
	t.Helper()
	built, err := Spec().Build(providers.Env{}, p.settings)
	if err != nil {
		t.Fatal(err)
	}
	return built.(*Router)
}

// edit changes the managed file by hand and reloads.
func (p *peer) edit(change func(string) string) {
	p.Write("manent/split.conf", change(p.Read("manent/split.conf")))
	p.Run("-s", "reload")
}

// get sends one request over a connection of its own and says who answered.
func (p *peer) get(header map[string]string) (state.Slot, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+p.Address+"/", nil)
	if err != nil {
		return "", err
	}
	for name, value := range header {
		req.Header.Set(name, value)
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
	return state.Slot(body), err
}

// serve sends n requests of different users.
func (p *peer) serve(t *testing.T, n int) map[state.Slot]int {
	t.Helper()
	got := map[state.Slot]int{}
	for i := range n {
		slot, err := p.get(map[string]string{"X-User-Id": fmt.Sprintf("user-%d", i)})
		if err != nil {
			t.Fatal(err)
		}
		got[slot]++
	}
	return got
}

// move sets the candidate's share and waits until it is in force.
func (p *peer) move(t *testing.T, slots state.Slots, share float64) {
	t.Helper()
	r := p.router(t)
	seen, err := r.Read(t.Context(), slots)
	if err = errors.Join(err, seen.Err()); err != nil {
		t.Fatal(err)
	}
	want, got, err := r.Plan(slots.Candidate, share, 0, seen)
	if err != nil || got != share {
		t.Fatalf("plan %v %%: %v, %v", share, got, err)
	}
	receipt, err := r.Write(t.Context(), slots, want, seen)
	if err != nil {
		t.Fatal(err)
	}
	p.settled(t, want, receipt)
}

func (p *peer) settled(t *testing.T, want []state.PartWeights, receipt state.Receipt) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; {
		ok, err := p.router(t).Settled(t.Context(), want, receipt)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v not in force within 10 s", want)
		}
	}
}

// randomRollout has the candidate in slot b and a salt that no run had before.
func randomRollout(t *testing.T) state.Slots {
	slots := candidateB()
	slots.B.Ref = state.Ref{state.RefRollout: rand.Text()}
	t.Logf("rollout %s", slots.B.Ref[state.RefRollout])
	return slots
}

func TestPeersConformanceLocal(t *testing.T) {
	for _, mode := range []string{split.Hashed, split.Weighted} {
		t.Run(mode, func(t *testing.T) {
			routertest.Run(t, func(t *testing.T) routertest.Harness {
				p := newPeer(t, mode, 2)
				return routertest.Harness{
					Router: p.router(t), Again: func() router.Router { return p.router(t) },
					Slots: randomRollout(t), Traits: Spec().Traits,
					Foreign: func(int) { p.edit(func(s string) string { return p.byHand(t, s, 13) }) },
					Touch:   func() { p.edit(func(s string) string { return s + "# looked at\n" }) },
					Serve:   func(n int) map[state.Slot]int { return p.serve(t, n) },
					Probe: func(a router.Access) state.Slot {
						slot, err := p.get(a.Header)
						if err != nil {
							t.Error(err)
						}
						return slot
					},
					Unowned: func() string { return p.Read("nginx.conf") + p.Read("conf.d/once.conf") },
				}
			})
		})
	}
}

// byHand adapts the addresses of byHand to this peer.
func (p *peer) byHand(t *testing.T, text string, share int) string {
	text = byHand(t, text, share)
	text = strings.ReplaceAll(text, "10.0.0.1:80 ", p.a.Address+" ")
	return strings.ReplaceAll(text, "10.0.0.2:80 ", p.b.Address+" ")
}

// Two instances behind two sshds. As both are on one machine, each gets the
// paths and addresses of its own in place of the common ones.
func TestPeersConformanceSSH(t *testing.T) {
	routertest.Run(t, func(t *testing.T) routertest.Harness { return sshHarness(t, split.Hashed) })
}

func sshHarness(t *testing.T, mode string) routertest.Harness {
	peers := map[string]*peer{"lb1": newPeer(t, mode, 2), "lb2": newPeer(t, mode, 2)}
	daemons := map[string]*sshdtest.Server{"lb1": sshdtest.Start(t), "lb2": sshdtest.Start(t)}
	common := settings(mode, map[string]any{"slot_a": peers["lb1"].a.Address, "slot_b": peers["lb1"].b.Address})
	g, err := Generate(common, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range peers {
		p.Write("manent/split.conf", g.Initial)
		p.Run("-s", "reload")
	}
	start := func() router.Router {
		built, err := Spec().Build(providers.Env{}, common)
		if err != nil {
			t.Fatal(err)
		}
		r := built.(*Router)
		r.open = func(ctx context.Context, name string) (host.Host, error) {
			h, err := open(ctx, daemons[name])
			return &elsewhere{Host: h, peer: peers[name]}, err
		}
		return r
	}
	return routertest.Harness{
		Router: start(), Again: start, Slots: randomRollout(t), Traits: Spec().Traits,
		Secret: strings.Split(daemons["lb1"].Key, "\n")[2],
		Foreign: func(part int) {
			p := peers[[]string{"lb1", "lb2"}[part]]
			p.edit(func(s string) string { return peers["lb1"].byHand(t, s, 13) })
		},
		Serve: func(n int) map[state.Slot]int { return peers["lb2"].serve(t, n) },
		Down:  func(part int) func() { return daemons[[]string{"lb1", "lb2"}[part]].Down() },
	}
}

// open logs in.
func open(ctx context.Context, d *sshdtest.Server) (host.Host, error) {
	env := providers.Env{Secret: func(context.Context, string) (providers.Secret, error) { return providers.NewSecret(d.Key), nil }}
	return host.Open(ctx, env, host.Access{User: d.User, Port: 22, Key: "key", KnownHosts: d.KnownHosts}, d.Address)
}

// elsewhere is a machine where what settings name is another peer's.
type elsewhere struct {
	host.Host
	peer *peer
}

func (e *elsewhere) Run(ctx context.Context, c host.Command) (host.Result, error) {
	command := host.Quote(e.peer.Command...)
	for i, arg := range c.Args {
		if i > 3 {
			arg = strings.ReplaceAll(arg, managed, e.peer.Path("manent/split.conf"))
			c.Args[i] = strings.Replace(arg, "nginx -", command+" -", 1)
		}
	}
	return e.Host.Run(ctx, c)
}

func (e *elsewhere) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return e.Host.Dial(ctx, network, e.peer.Status)
}

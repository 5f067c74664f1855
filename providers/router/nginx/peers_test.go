//go:build peers

package nginx

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/accesslog"
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
	g, err := Generate(p.settings)
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
	req, err := http.NewRequest(http.MethodGet, "http://"+p.Address+"/", nil)
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
	g, err := Generate(common)
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

// The share of requests is exact in mode weight, over all workers.
func TestPeersWeightIsExact(t *testing.T) {
	p := newPeer(t, split.Weighted, 2)
	for share, n := range map[float64]int{10: 1000, 0.5: 400, 37.5: 400, 100: 100, 0: 100} {
		p.move(t, candidateB(), share)
		want := int(math.Round(float64(n) * share / 100))
		if got := p.serve(t, n); got[state.SlotB] != want || got[state.SlotA] != n-want {
			t.Errorf("at %v %%: %v of %d requests, want exactly %d on b", share, got, n, want)
		}
	}
}

// The share of users in mode split_clients lies where a correct build leaves
// it out once in a million runs.
func TestPeersHashedShare(t *testing.T) {
	p := newPeer(t, split.Hashed, 2)
	const n = 4000
	slots := randomRollout(t)
	for _, share := range []float64{1, 5, 50} {
		p.move(t, slots, share)
		low, high := binomialInterval(n, share/100, 1e-6)
		got := p.serve(t, n)
		t.Logf("at %v %%: %d of %d users, interval %d–%d", share, got[state.SlotB], n, low, high)
		if got[state.SlotB] < low || got[state.SlotB] > high || got[state.SlotA]+got[state.SlotB] != n {
			t.Errorf("at %v %%: %v of %d users, want %d to %d on b", share, got, n, low, high)
		}
	}
}

// binomialInterval holds a binomial variable but for probability out, half of
// it on either side.
func binomialInterval(n int, p, out float64) (low, high int) {
	logs := func(k int) float64 {
		lg := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
		return lg(n) - lg(k) - lg(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log(1-p)
	}
	for below := 0.0; ; low++ {
		if below += math.Exp(logs(low)); below > out/2 {
			break
		}
	}
	high = n
	for above := 0.0; ; high-- {
		if above += math.Exp(logs(high)); above > out/2 {
			break
		}
	}
	return low, high
}

// Users that the candidate has it keeps as its share grows; anonymous users
// are not all in one slot; testers go where their header says.
func TestPeersUsersStay(t *testing.T) {
	p := newPeer(t, split.Hashed, 2)
	slots, last := randomRollout(t), map[string]state.Slot{}
	for _, share := range []float64{1, 5, 25, 50, 100} {
		p.move(t, slots, share)
		grew := 0
		for i := range 600 {
			user := fmt.Sprintf("user-%d", i)
			slot, err := p.get(map[string]string{"X-User-Id": user})
			if err != nil {
				t.Fatal(err)
			}
			if last[user] == state.SlotB && slot != state.SlotB {
				t.Fatalf("at %v %%: %s went back to %s", share, user, slot)
			}
			if slot == state.SlotB && last[user] != state.SlotB {
				grew++
			}
			last[user] = slot
		}
		if grew == 0 {
			t.Errorf("at %v %%: nobody came to the candidate", share)
		}
	}
	p.move(t, slots, 50)
	anonymous := map[state.Slot]int{}
	for i := range 200 {
		slot, err := p.get(map[string]string{"User-Agent": fmt.Sprintf("browser/%d", i)})
		if err != nil {
			t.Fatal(err)
		}
		anonymous[slot]++
	}
	if low, high := binomialInterval(200, 0.5, 1e-6); anonymous[state.SlotB] < low || anonymous[state.SlotB] > high {
		t.Errorf("%v of 200 anonymous users, want about half", anonymous)
	}
}

func TestPeersTesters(t *testing.T) {
	for _, mode := range []string{split.Hashed, split.Weighted} {
		t.Run(mode, func(t *testing.T) {
			p := newPeer(t, mode, 1)
			slots := randomRollout(t)
			ask := func(value string) state.Slot {
				slot, err := p.get(map[string]string{"X-Canary": value})
				if err != nil {
					t.Fatal(err)
				}
				return slot
			}
			if got := ask("always"); got != state.SlotA {
				t.Errorf("before testers are on, always reaches %s", got)
			}
			if _, err := p.router(t).Target(t.Context(), slots, state.SlotB, router.Match{Value: "always"}, true); err != nil {
				t.Fatal(err)
			}
			for _, share := range []float64{0, 50, 100} {
				p.move(t, slots, share)
				for range 6 {
					if always, never := ask("always"), ask("never"); always != state.SlotB || never != state.SlotA {
						t.Errorf("at %v %%: always reaches %s, never %s", share, always, never)
					}
				}
			}
			p.move(t, slots, 0.01)
			if _, err := p.router(t).Target(t.Context(), slots, state.SlotB, router.Match{Value: "always"}, false); err != nil {
				t.Fatal(err)
			}
			p.move(t, slots, 0)
			if got := ask("always"); got != state.SlotA {
				t.Errorf("after testers are off, always reaches %s", got)
			}
		})
	}
}

// Weights move under load, clients without keep-alive: no request fails. A
// connection that was reset before any answer is tried once more, as browsers
// do, and counted.
func TestPeersNoFailedRequest(t *testing.T) {
	for _, mode := range []string{split.Hashed, split.Weighted} {
		t.Run(mode, func(t *testing.T) {
			p := newPeer(t, mode, 2)
			ctx, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			var mu sync.Mutex
			sent, resets, failures := 0, 0, []error(nil)
			for i := range 4 {
				wg.Go(func() {
					for n := 0; ctx.Err() == nil; n++ {
						header := map[string]string{"X-User-Id": fmt.Sprintf("user-%d-%d", i, n)}
						_, err := p.get(header)
						reset := errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)
						if reset {
							_, err = p.get(header)
						}
						mu.Lock()
						sent++
						if reset {
							resets++
						}
						if err != nil {
							failures = append(failures, err)
						}
						mu.Unlock()
					}
				})
			}
			slots := randomRollout(t)
			for range 4 {
				for _, share := range []float64{1, 5, 25, 50, 100, 0} {
					p.move(t, slots, share)
				}
			}
			stop()
			wg.Wait()
			t.Logf("%d requests over 24 reloads, %d resets retried, %d failed", sent, resets, len(failures))
			if len(failures) > 0 {
				t.Errorf("%d of %d requests failed, first: %v", len(failures), sent, failures[0])
			}
			if sent < 200 {
				t.Errorf("only %d requests were sent", sent)
			}
		})
	}
}

// What NGINX refuses is not left in place, and the reason is told.
func TestPeersRefusedIsRestored(t *testing.T) {
	p := newPeer(t, split.Hashed, 1)
	before := p.Read("manent/split.conf")
	p.Write("conf.d/other.conf", "server { listen 127.0.0.1:1; no_such_directive on; }\n")
	r, slots := p.router(t), randomRollout(t)
	seen, err := r.Read(t.Context(), slots)
	if err != nil {
		t.Fatal(err)
	}
	want, _, _ := r.Plan(state.SlotB, 25, 0, seen)
	_, err = r.Write(t.Context(), slots, want, seen)
	if providers.KindOf(err) != providers.Invalid || !strings.Contains(err.Error(), `unknown directive "no_such_directive"`) {
		t.Errorf("error %v of kind %v, want Invalid with the words of NGINX", err, providers.KindOf(err))
	}
	if got := p.Read("manent/split.conf"); got != before {
		t.Errorf("the file became\n%s", got)
	}
	if err := os.Remove(p.Path("conf.d/other.conf")); err != nil {
		t.Fatal(err)
	}
	p.move(t, slots, 25)
}

// The connection is cut while nginx -t runs, which then refuses: the old file
// comes back all the same.
func TestPeersCutInTheMiddle(t *testing.T) {
	tests := []struct {
		name    string
		refuses bool
	}{{"refused", true}, {"accepted", false}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPeer(t, split.Hashed, 1)
			daemon := sshdtest.Start(t)
			before := p.Read("manent/split.conf")
			there, goOn := p.Path("there"), p.Path("go-on")
			for _, fifo := range []string{there, goOn} {
				if err := syscall.Mkfifo(fifo, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p.Write("slow-nginx", `#!/bin/sh
for arg; do
	if [ "$arg" = -t ]; then echo >`+there+`; read -r x <`+goOn+`; fi
done
exec `+host.Quote(p.Command...)+` "$@"
`)
			p.settings["nginx_command"] = []string{"sh", p.Path("slow-nginx")}
			r, slots := p.router(t), randomRollout(t)
			r.open = func(ctx context.Context, _ string) (host.Host, error) { return open(ctx, daemon) }
			seen, err := r.Read(t.Context(), slots)
			if err = errors.Join(err, seen.Err()); err != nil {
				t.Fatal(err)
			}
			want, _, _ := r.Plan(state.SlotB, 25, 0, seen)
			if tt.refuses {
				p.Write("conf.d/other.conf", "no_such_directive on;\n")
			}
			done := make(chan error, 1)
			go func() {
				_, err := r.Write(t.Context(), slots, want, seen)
				done <- err
			}()
			if _, err := os.ReadFile(there); err != nil { // nginx -t has begun
				t.Fatal(err)
			}
			daemon.Cut()
			if err := <-done; providers.KindOf(err) != providers.Unknown || !strings.Contains(err.Error(), "lost") {
				t.Errorf("error %v of kind %v, want Unknown", err, providers.KindOf(err))
			}
			if got := p.Read("manent/split.conf"); got == before {
				t.Error("the new file was not in place while it was tested")
			}
			if err := os.WriteFile(goOn, []byte("\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			// Read waits for the lock, and so for the end of what goes on alone.
			again := p.router(t)
			seen, err = again.Read(t.Context(), slots)
			if err = errors.Join(err, seen.Err()); err != nil {
				t.Fatal(err)
			}
			if got := p.Read("manent/split.conf"); (got == before) != tt.refuses {
				t.Errorf("refused %v, the file is\n%s", tt.refuses, got)
			}
			if seen.Parts[0].Pending {
				t.Error("the write is unfinished")
			}
			if !tt.refuses {
				p.settled(t, want, nil)
			}
		})
	}
}

// Accepted is not in force: without a reload the workers serve the old file.
func TestPeersProof(t *testing.T) {
	p := newPeer(t, split.Hashed, 2)
	p.settings["reload_command"] = "true"
	r, slots := p.router(t), randomRollout(t)
	seen, err := r.Read(t.Context(), slots)
	if err != nil {
		t.Fatal(err)
	}
	want, _, _ := r.Plan(state.SlotB, 100, 0, seen)
	receipt, err := r.Write(t.Context(), slots, want, seen)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := r.Settled(t.Context(), want, receipt); ok || err != nil {
		t.Errorf("settled without a reload: %v, %v", ok, err)
	}
	p.Run("-s", "reload")
	p.settled(t, want, receipt)
	if got := p.serve(t, 50); got[state.SlotB] != 50 {
		t.Errorf("settled at 100 %%, yet %v of 50", got)
	}
}

// Right after the proof no request meets an old worker.
func TestPeersNothingOldAfterProof(t *testing.T) {
	p := newPeer(t, split.Hashed, 4)
	slots := randomRollout(t)
	for range 10 {
		for share, slot := range map[float64]state.Slot{100: state.SlotB, 0: state.SlotA} {
			p.move(t, slots, share)
			if got := p.serve(t, 40); got[slot] != 40 {
				t.Errorf("settled at %v %%, yet %v of 40", share, got)
			}
		}
	}
}

func TestPeersDriftByHand(t *testing.T) {
	p := newPeer(t, split.Hashed, 1)
	slots := randomRollout(t)
	p.move(t, slots, 5)
	r := p.router(t)
	before, err := r.Read(t.Context(), slots)
	if err != nil {
		t.Fatal(err)
	}
	p.edit(func(s string) string { return strings.Replace(s, "5.00%", "50%", 1) })
	seen, err := r.Read(t.Context(), slots)
	if err = errors.Join(err, seen.Err()); err != nil {
		t.Fatal(err)
	}
	if got := seen.Parts[0].Weights; !router.Same(got, map[string]float64{"a": 50, "b": 50}) {
		t.Errorf("weights %v, want 50 and 50", got)
	}
	want, _, _ := r.Plan(state.SlotB, 25, 0, before)
	_, err = r.Write(t.Context(), slots, want, before)
	if !providers.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}
	if _, err = r.Write(t.Context(), slots, want, seen); err != nil {
		t.Errorf("a write that knows of the drift: %v", err)
	}
}

// Before the first release no slot serves; the first one gets everything.
func TestPeersFirstRelease(t *testing.T) {
	for _, mode := range []string{split.Hashed, split.Weighted} {
		t.Run(mode, func(t *testing.T) {
			p := newPeer(t, mode, 1)
			p.edit(func(string) string { return p.generate(t).Empty })
			slots := randomRollout(t)
			seen, err := p.router(t).Read(t.Context(), slots)
			if err = errors.Join(err, seen.Err()); err != nil {
				t.Fatal(err)
			}
			if seen.Share(state.SlotA) != 0 || seen.Share(state.SlotB) != 0 {
				t.Errorf("shares %v before the first release", seen.Parts[0].Shares)
			}
			// The reload is asynchronous, and nobody writes who could prove it.
			for end := time.Now().Add(10 * time.Second); ; {
				if _, err := p.get(nil); err != nil && strings.Contains(err.Error(), "status 503") {
					break
				} else if time.Now().After(end) {
					t.Fatalf("a request before the first release: %v, want status 503", err)
				}
			}
			p.move(t, slots, 100)
			if got := p.serve(t, 20); got[state.SlotB] != 20 {
				t.Errorf("%v of 20 after the first release", got)
			}
		})
	}
}

// The log tells which slot a request was for and how it fared there, also if
// the other slot answered in the end.
func TestPeersLog(t *testing.T) {
	for _, mode := range []string{split.Hashed, split.Weighted} {
		t.Run(mode, func(t *testing.T) {
			p := newPeer(t, mode, 1)
			slots := randomRollout(t)
			p.move(t, slots, 50)
			p.serve(t, 100)
			alive := p.logged(t, 100)
			if a, b := alive["a 200"], alive["b 200"]; a != int(p.a.Served.Load()) || b != int(p.b.Served.Load()) || a+b != 100 {
				t.Errorf("logged %v, the slots served %d and %d", alive, p.a.Served.Load(), p.b.Served.Load())
			}
			p.b.Stop()
			for i := range 100 {
				_, err := p.get(map[string]string{"X-User-Id": fmt.Sprintf("user-%d", i)})
				if mode == split.Weighted && err != nil {
					t.Errorf("a request for a dead candidate was not answered by the stable: %v", err)
				}
			}
			dead := p.logged(t, 200)
			if got := dead["b 502"]; got == 0 || got+dead["a 200"]-alive["a 200"] != 100 || dead["b 200"] != alive["b 200"] {
				t.Errorf("logged %v, then with a dead candidate %v", alive, dead)
			}
		})
	}
}

// logged counts the lines of the log by track and status. A line is written
// after the answer, so it waits for n lines.
func (p *peer) logged(t *testing.T, n int) map[string]int {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); strings.Count(p.Read("logs/manent.log"), "\n") < n; {
		if time.Now().After(end) {
			t.Fatalf("no %d lines in the log within 10 s", n)
		}
	}
	parse, err := accesslog.JSON(accesslog.Fields{Time: "time", Status: "status", Track: "track", Duration: "request_time", Unit: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for line := range strings.Lines(p.Read("logs/manent.log")) {
		entry, err := parse([]byte(line))
		if err != nil || !entry.Timed || time.Since(entry.At) > time.Minute {
			t.Fatalf("line %q: %+v, %v", line, entry, err)
		}
		var fields struct{ Key string }
		if err := json.Unmarshal([]byte(line), &fields); err != nil || !strings.HasPrefix(fields.Key, "user-") {
			t.Fatalf("line %q: key %q, %v", line, fields.Key, err)
		}
		count[fmt.Sprintf("%s %d", entry.Track, entry.Status)]++
	}
	return count
}

// A long request of an old worker does not hinder the proof, and is answered.
func TestPeersLongRequest(t *testing.T) {
	p := newPeer(t, split.Hashed, 1)
	begun, goOn := make(chan struct{}), make(chan struct{})
	p.a.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-goOn
		_, _ = w.Write([]byte("a"))
	})
	answer := make(chan error, 1)
	go func() {
		slot, err := p.get(nil)
		if err == nil && slot != state.SlotA {
			err = fmt.Errorf("slot %s", slot)
		}
		answer <- err
	}()
	<-begun
	p.move(t, randomRollout(t), 100)
	close(goOn)
	if err := <-answer; err != nil {
		t.Errorf("the request that was on its way: %v", err)
	}
}

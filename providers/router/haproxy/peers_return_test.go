//go:build peers

package haproxy

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/haproxy/haproxytest"
	"github.com/manent/action/state"
)

// awaitForce looks until it is in force: a return may have needed a reload.
func (p *peers) awaitForce(t *testing.T, want []state.PartWeights, receipt state.Receipt) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; wait(t, 20*time.Millisecond) {
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

// A return takes the candidate's last request, whatever cannot be seen and
// whatever somebody did at run time.
func TestPeersReturn(t *testing.T) {
	apps := haproxytest.StartApps(t, "web1", "web2", "web3")
	tests := map[string]struct {
		share float64
		do    func(p *peers) (heal func())
	}{
		"socket away": {50, func(p *peers) func() {
			p.apis[0].Set(haproxytest.Modes{NoRuntime: true})
			return func() { p.apis[0].Set(haproxytest.Modes{}) }
		}},
		"statistics hang": {50, func(p *peers) func() {
			p.settings["timeout"] = "1s"
			return p.apis[0].Doom(on("/stats/native", haproxytest.Hang))
		}},
		"a page of runtime": {50, func(p *peers) func() { return p.apis[0].Doom(on("/runtime/backends/shop/servers", haproxytest.Page)) }},
		"candidate raised at the socket": {25, func(p *peers) func() {
			p.apis[0].Command("set weight shop/web3 256")
			return func() {}
		}},
		"stable lowered at the socket": {50, func(p *peers) func() {
			p.apis[0].Command("set weight shop/web1 1")
			return func() {}
		}},
		"candidate without weight raised at the socket": {0, func(p *peers) func() {
			p.apis[0].Command("set weight shop/web3 100")
			return func() {}
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := peersOf(t, "v3", 1, apps)
			p.share(t, tt.share)
			heal := tt.do(p)
			if got := p.serve(t, 0, 40); got["web3"] == 0 {
				t.Fatalf("requests %v before the return, nothing to take away", got)
			}
			seen := read(t, p.router(t))
			if !seen.Parts[0].Pending || seen.Parts[0].Unfit == nil && seen.Parts[0].By == "" {
				t.Errorf("%+v, want it pending and told", seen.Parts[0])
			}
			want, receipt, err := back(t, p.router(t))
			if err != nil {
				t.Fatal(err)
			}
			heal()
			p.awaitForce(t, want, receipt)
			if got := p.serve(t, 0, 100); got["web3"] != 0 || got["web1"] != 50 {
				t.Errorf("requests %v after the return, want half on each stable server", got)
			}
			if part := read(t, p.router(t)).Parts[0]; part.Pending || part.By != "" || part.Shares[state.SlotA] != 100 {
				t.Errorf("after the return: %+v", part)
			}
		})
	}
}

// An instance that is away keeps no other one from its return.
func TestPeersReturnOneAway(t *testing.T) {
	p := startPeers(t, "v3", 2)
	p.share(t, 50)
	heal := p.apis[0].Doom(func(haproxytest.Call) haproxytest.Fate { return haproxytest.Lost })
	if _, _, err := back(t, p.router(t)); providers.KindOf(err) != providers.Unknown || err == nil {
		t.Errorf("a return with one away: %v", err)
	}
	if got := p.serve(t, 1, 40); got["web3"] != 0 {
		t.Errorf("requests %v on the one that answers", got)
	}
	heal()
	want, receipt, err := back(t, p.router(t))
	if err != nil {
		t.Fatal(err)
	}
	p.awaitForce(t, want, receipt)
	if got := p.serve(t, 0, 40); got["web3"] != 0 {
		t.Errorf("requests %v on the one that came back", got)
	}
}

// A server of the candidate that was renamed takes traffic by its new name: a
// return brings back what is known, and the rest is told as it is, until
// somebody takes that out.
func TestPeersReturnRenamed(t *testing.T) {
	p := startPeers(t, "v3", 1)
	p.share(t, 50)
	p.apis[0].Edit(func(s string) string { return strings.Replace(s, "server web3 ", "server web3new ", 1) })
	p.apis[0].Reload()
	if _, _, err := back(t, p.router(t)); err != nil {
		t.Fatal(err)
	}
	part := read(t, p.router(t)).Parts[0]
	got := p.serve(t, 0, 300)
	if off := math.Abs(part.Foreign["web3new"] - 100*float64(got["web3"])/300); part.Foreign["web3new"] == 0 || off > 1 || part.Shares[state.SlotA] == 100 {
		t.Errorf("%+v with requests %v, want what the renamed server takes as foreign", part, got)
	}
	p.apis[0].SetWeight("shop", "web3new", 0)
	if part := read(t, p.router(t)).Parts[0]; len(part.Foreign) != 0 || part.Shares[state.SlotA] != 100 {
		t.Errorf("once it is out: %+v", part)
	}
}

// Servers of the candidate that come up bring its share to what was asked for.
func TestPeersCandidateComesUp(t *testing.T) {
	p := startPeers(t, "v3", 1)
	p.targets = []providers.Target{target("a", "web1"), target("b", "web2"), target("b", "web3")}
	p.apis[0].SetWeight("shop", "web2", 0)
	p.apis[0].Command("set server shop/web3 state maint")
	p.share(t, 20)
	if got := p.serve(t, 0, 100); got["web2"] < 10 || got["web2"] > 12 {
		t.Errorf("requests %v, want about 11 on the one that is up", got)
	}
	p.apis[0].Command("set server shop/web3 state ready")
	if got := p.serve(t, 0, 100); got["web1"] < 79 || got["web1"] > 81 {
		t.Errorf("requests %v, want 20 on both", got)
	}
}

// HAProxy sends requests to a backup when no other server has weight.
func TestPeersBackupServes(t *testing.T) {
	p := startPeers(t, "v3", 1)
	p.targets = []providers.Target{target("a", "web1"), target("b", "web3")}
	p.apis[0].Edit(func(s string) string {
		before, after, _ := strings.Cut(s, "server web2 ")
		return before + "server web2 " + strings.Replace(after, "\n", " backup\n", 1)
	})
	p.apis[0].Reload()
	if part := read(t, p.router(t)).Parts[0]; len(part.Foreign) != 0 || part.Shares[state.SlotA] != 100 {
		t.Errorf("with web1 up: %+v", part)
	}
	p.apis[0].Command("set server shop/web1 state maint")
	part, got := read(t, p.router(t)).Parts[0], p.serve(t, 0, 20)
	if got["web2"] != 20 || part.Foreign["web2"] != 100 || part.Shares[state.SlotA] != 0 {
		t.Errorf("with web1 out: %+v, requests %v", part, got)
	}
}

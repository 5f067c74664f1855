package haproxy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/haproxy/haproxytest"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// three has two servers in a, one in b.
func three(t *testing.T, a string) *world {
	return newWorld(t, "v3", 1, configuration("web1 weight 100"+a, "web2 weight 100", "web3 weight 0"), target("a", "web1"), target("a", "web2"), target("b", "web3"))
}

// A return is complete when the candidate has nothing: neither an agent of a
// stable server, nor what HAProxy does not run, nor what only it has keeps it.
func TestWhatKeepsNoReturn(t *testing.T) {
	tests := map[string]struct {
		agent bool
		do    func(w *world)
		want  bool
	}{
		"an agent gives less": {true, func(w *world) { w.memory[0].Effective("shop", "web1", 30) }, true},
		"a line of the stable not loaded": {false, func(w *world) {
			w.apis[0].Edit(func(s string) string { return s + "  server web4 10.0.0.4:8080 check weight 100\n" })
			w.targets = append(w.targets, target("a", "web4"))
		}, true},
		"a line of the candidate not loaded": {false, func(w *world) {
			w.apis[0].Edit(func(s string) string { return s + "  server web4 10.0.0.4:8080 check weight 0\n" })
			w.targets = append(w.targets, target("b", "web4"))
		}, true},
		"the stable's line is gone": {false, func(w *world) {
			w.apis[0].Edit(func(s string) string { return strings.Replace(s, "server web2 10", "server gone 10", 1) })
		}, true},
		"the candidate's line is gone": {false, func(w *world) {
			w.apis[0].Edit(func(s string) string { return strings.Replace(s, "server web3 10", "server gone 10", 1) })
		}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := three(t, map[bool]string{true: " agent-check agent-port 9"}[tt.agent])
			move(t, w.router(t), 50)
			tt.do(w)
			r := w.router(t)
			want, receipt, err := back(t, r)
			if err != nil {
				t.Fatal(err)
			}
			if ok, err := r.Settled(t.Context(), want, receipt); ok != tt.want || err != nil {
				t.Errorf("settled %v, %v, want %v", ok, err, tt.want)
			}
			p := read(t, r).Parts[0]
			if p.Pending == tt.want || (p.Shares[state.SlotB] == 0) != tt.want {
				t.Errorf("pending %v, shares %v", p.Pending, p.Shares)
			}
			writes := w.apis[0].Writes()
			if _, _, err := back(t, r); err != nil || w.apis[0].Writes() != writes {
				t.Errorf("%v, and %d writes more by another try", err, w.apis[0].Writes()-writes)
			}
		})
	}
}

// An agent is no hand: it is warned of, and a share begins. An agent of the
// candidate that gives it traffic is one that keeps a return.
func TestAgents(t *testing.T) {
	w := three(t, " agent-check agent-port 9")
	w.apis[0].Command("set weight shop/web1 30")
	r := w.router(t)
	seen := read(t, r)
	plan(t, r, 50, seen)
	if log := strings.Join(w.logged, "\n"); !strings.Contains(log, "server web1 has agent-check") || seen.Parts[0].By != "" {
		t.Errorf("logged %q, by %q", log, seen.Parts[0].By)
	}
	w = newWorld(t, "v3", 1, configuration("web1 weight 100", "web2 weight 0 agent-check agent-port 9"), target("a", "web1"), target("b", "web2"))
	r = w.router(t)
	move(t, r, 50)
	w.apis[0].Command("set weight shop/web2 60")
	want, receipt, err := back(t, r)
	w.apis[0].Command("set weight shop/web2 60") // again
	if ok, err2 := r.Settled(t.Context(), want, receipt); ok || err != nil || err2 != nil {
		t.Errorf("settled %v, %v, %v while the agent gives the candidate traffic", ok, err, err2)
	}
	if _, _, err := back(t, r); err != nil || w.memory[0].Weights("shop")["web2"] != 0 {
		t.Errorf("%v, in force %v: its weight was not taken once more", err, w.memory[0].Weights("shop"))
	}
}

// What an agent sets after a return is no hand either, be it on the server's
// line or in default-server.
func TestAgentAfterAReturn(t *testing.T) {
	for where, line := range map[string]string{"server": " agent-check agent-port 9", "default-server": ""} {
		w := three(t, line)
		if line == "" {
			w.apis[0].Edit(func(s string) string {
				return strings.Replace(s, "  balance roundrobin\n", "  balance roundrobin\n  default-server agent-check agent-port 9\n", 1)
			})
		}
		r := w.router(t)
		move(t, r, 50)
		want, receipt, err := back(t, r)
		w.apis[0].Command("set weight shop/web1 30")
		if ok, err2 := r.Settled(t.Context(), want, receipt); !ok || err != nil || err2 != nil {
			t.Errorf("%s: settled %v, %v, %v, want it complete", where, ok, err, err2)
		}
		writes := w.apis[0].Writes()
		if _, _, err := back(t, r); err != nil || w.apis[0].Writes() != writes {
			t.Errorf("%s: %v, and %d writes more by another try", where, err, w.apis[0].Writes()-writes)
		}
	}
}

// A reload that an earlier try of a return needed, and that failed, is no
// matter once everything is in force.
func TestReloadFailedBefore(t *testing.T) {
	w := pair(t, "v3", 1)
	r := w.router(t)
	move(t, r, 50)
	w.apis[0].Set(haproxytest.Modes{Reloads: true, FailReloads: true})
	want, receipt, err := back(t, r)
	ok, settledErr := r.Settled(t.Context(), want, receipt)
	if err != nil || ok || len(receipt) == 0 {
		t.Errorf("%v, receipt %v, settled %v, %v with nothing in force", err, receipt, ok, settledErr)
	}
	w.apis[0].Set(haproxytest.Modes{})
	if _, _, err := back(t, r); err != nil {
		t.Fatal(err)
	}
	if ok, err := r.Settled(t.Context(), want, receipt); !ok || err != nil {
		t.Errorf("settled %v, %v by the receipt of the try before", ok, err)
	}
}

// A share whose weights somebody overrode at the socket is brought into force
// by its write again, when the caller saw that and wants it.
func TestShareFromTheSocket(t *testing.T) {
	for name, commands := range map[string][]string{
		"candidate raised": {"set weight shop/web3 200"}, "candidate at nothing": {"set weight shop/web3 0"},
		"stable lowered": {"set weight shop/web1 0", "set weight shop/web2 1"}, "both": {"set weight shop/web1 250", "set weight shop/web3 7"},
	} {
		t.Run(name, func(t *testing.T) {
			w := three(t, "")
			r := w.router(t)
			want := move(t, r, 25)
			asked, set := read(t, r), w.memory[0].Weights("shop")
			for _, c := range commands {
				w.apis[0].Command(c)
			}
			seen, writes := read(t, r), w.apis[0].Writes()
			if _, err := r.Write(t.Context(), candidateB(), want, asked); err != nil || w.apis[0].Writes() != writes {
				t.Errorf("%v, %d writes by a caller who saw nothing of it", err, w.apis[0].Writes()-writes)
			}
			most := seen.Share(state.SlotB)
			w.apis[0].Doom(func(haproxytest.Call) haproxytest.Fate {
				if b, all := shareOf(w, w.memory[0].Weights("shop")); all == 0 || 100*b/all > max(most, 25)+1e-9 {
					t.Errorf("%v in force on the way", w.memory[0].Weights("shop"))
				}
				return haproxytest.Done
			})
			receipt, err := r.Write(t.Context(), candidateB(), want, seen)
			if err != nil {
				t.Fatal(err)
			}
			if ok, err := r.Settled(t.Context(), want, receipt); !ok || err != nil {
				t.Errorf("settled %v, %v", ok, err)
			}
			if diff := cmp.Diff(set, w.memory[0].Weights("shop")); diff != "" {
				t.Errorf("in force (-want +got):\n%s", diff)
			}
		})
	}
}

// What a person has approved is overwritten by a first share, at the socket too.
func TestApproved(t *testing.T) {
	w := three(t, "")
	r := w.router(t)
	w.apis[0].Command("set weight shop/web2 0")
	seen := read(t, r)
	_, _, err := r.Plan(state.SlotB, 25, 0.5, seen)
	wantKind(t, err, providers.Invalid, "web2 with 0, configured 100")
	if hint := providers.HintOf(err); !strings.Contains(hint, "needs weight 0 in its line too") {
		t.Errorf("hint %q", hint)
	}
	seen.Approved = true
	want := plan(t, r, 25, seen)
	if _, err := r.Write(t.Context(), candidateB(), want, seen); err != nil {
		t.Fatal(err)
	}
	if got := w.memory[0].Weights("shop"); got["web2"] != 99 || got["web3"] != 66 {
		t.Errorf("in force %v", got)
	}
}

// A stable server that is down, or runs with weight 0, stands for nobody: the
// candidate keeps its weight until one that takes traffic has some.
func TestNeverZero(t *testing.T) {
	for name, commands := range map[string][]string{
		"down after a try that was cut off": {"set server shop/web1 health down"},
		"in maintenance":                    {"set server shop/web1 state maint"},
		"weight 0 at the socket":            {"set weight shop/web1 0"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "v3", 1, configuration("web1 weight 100", "web2 weight 0", "web3 weight 100", "web4 weight 100"),
				target("a", "web1"), target("a", "web2"), target("b", "web3"), target("b", "web4"))
			for _, c := range commands {
				w.apis[0].Command(c)
			}
			w.apis[0].Doom(func(haproxytest.Call) haproxytest.Fate {
				in := w.memory[0].Weights("shop")
				if name != "weight 0 at the socket" {
					in["web1"] = 0
				}
				if b, all := shareOf(w, in); all == 0 {
					t.Errorf("%v takes traffic, %v of it the candidate's", in, b)
				}
				return haproxytest.Done
			})
			r := w.router(t)
			want, receipt, err := back(t, r)
			if err != nil {
				t.Fatal(err)
			}
			if ok, err := r.Settled(t.Context(), want, receipt); !ok || err != nil {
				t.Errorf("settled %v, %v", ok, err)
			}
		})
	}
}

// What is wrong with another server's weight keeps a share at most; with a
// member's, nobody knows what is configured.
func TestWeightUnknown(t *testing.T) {
	for name, tt := range map[string]struct {
		line  string
		known bool
	}{
		"another's": {"  server old 10.0.0.9:8080 backup\n", true}, "a member's": {"  server web4 10.0.0.9:8080 check\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := three(t, "")
			move(t, w.router(t), 50)
			w.apis[0].Edit(func(s string) string { return s + tt.line })
			w.targets = append(w.targets, target("a", "web4"))
			w.apis[0].Doom(on("/backends/shop", haproxytest.Page))
			r := w.router(t)
			seen, err := r.Read(t.Context(), candidateB())
			if p := seen.Parts[0]; err != nil || (p.Err == nil) != tt.known || tt.known && (p.Unfit == nil || p.Weights["web3"] != 100) {
				t.Fatalf("%v, %+v", err, seen.Parts)
			}
			if tt.known {
				want := router.Reading{Parts: seen.Parts}
				if _, err := r.Write(t.Context(), candidateB(), plan(t, r, 0, want), seen); err != nil {
					t.Errorf("a return: %v", err)
				}
			}
		})
	}
}

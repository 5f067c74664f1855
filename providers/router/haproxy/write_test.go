package haproxy

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/haproxy/haproxytest"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// A change elsewhere in the configuration is met with another try; one that
// goes on and on is a conflict, and nothing is written.
func TestOtherVersions(t *testing.T) {
	w := pair(t, "v3", 1)
	r := w.router(t)
	w.apis[0].Set(haproxytest.Modes{Conflicts: tries - 1})
	at(t, r, move(t, r, 25))
	seen := read(t, r)
	w.apis[0].Set(haproxytest.Modes{Conflicts: 100})
	_, err := r.Write(t.Context(), candidateB(), plan(t, r, 50, seen), seen)
	wantKind(t, err, providers.Conflict, "the configuration changed 5 times")
	at(t, r, seen.Weights())
}

// Where HAProxy does not take a weight at run time, the API reloads it: the
// share is in force when the last reload is over.
func TestReloads(t *testing.T) {
	for _, version := range []string{"v2", "v3"} {
		t.Run(version, func(t *testing.T) {
			w := pair(t, version, 1)
			w.apis[0].Set(haproxytest.Modes{Reloads: true})
			r := w.router(t)
			seen := read(t, r)
			want := plan(t, r, 25, seen)
			receipt, err := r.Write(t.Context(), candidateB(), want, seen)
			if err != nil || receipt[w.names[0]] != "2026-11-30-2" {
				t.Fatalf("receipt %v, %v, want the second reload's id", receipt, err)
			}
			if ok, err := w.router(t).Settled(t.Context(), want, receipt); !ok || err != nil {
				t.Errorf("settled %v, %v", ok, err)
			}
			if ok, err := r.Settled(t.Context(), want, state.Receipt{w.names[0]: "2025-01-01-9"}); !ok || err != nil {
				t.Errorf("settled %v, %v with a reload that nobody remembers", ok, err)
			}
		})
	}
}

// A reload that is still to come is waited for before the next server is
// written, and is not "in force" at the end.
func TestReloadPending(t *testing.T) {
	w := pair(t, "v3", 1)
	w.apis[0].Set(haproxytest.Modes{Reloads: true, Held: true})
	r := w.router(t)
	seen := read(t, r)
	want := plan(t, r, 100, seen)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	receipt, err := r.Write(ctx, candidateB(), want, seen)
	wantKind(t, err, providers.Unknown, "reload 2026-11-30-1: it has not ended yet, the rest is not written")
	if got := w.memory[0].Weights("shop"); got["web1"] != 100 {
		t.Errorf("in force %v: the stable went before the candidate had come", got)
	}
	if ok, err := r.Settled(t.Context(), want, receipt); ok || err != nil {
		t.Errorf("settled %v, %v", ok, err)
	}
	w.apis[0].Release()
	again := w.router(t)
	w.apis[0].Set(haproxytest.Modes{Reloads: true, Held: true})
	receipt, err = again.Write(t.Context(), candidateB(), want, seen)
	if err != nil || receipt[w.names[0]] != "2026-11-30-2" {
		t.Fatalf("receipt %v, %v", receipt, err)
	}
	if ok, err := again.Settled(t.Context(), want, receipt); ok || err != nil {
		t.Errorf("settled %v, %v with a reload in progress", ok, err)
	}
	w.apis[0].Release()
	if ok, err := again.Settled(t.Context(), want, receipt); !ok || err != nil {
		t.Errorf("settled %v, %v", ok, err)
	}
}

// A reload that HAProxy refuses is a failure with its words; the API has put
// the last good file back.
func TestReloadFails(t *testing.T) {
	w := pair(t, "v3", 1)
	w.apis[0].Edit(func(s string) string { return s + "broken line\n" })
	w.apis[0].Set(haproxytest.Modes{Reloads: true})
	r := w.router(t)
	seen := read(t, r)
	want := plan(t, r, 25, seen)
	_, err := r.Write(t.Context(), candidateB(), want, seen)
	wantKind(t, err, providers.Invalid, `reload 2026-11-30-1: HAProxy refused the configuration, and the Data Plane API put the last good one back: [ALERT] config : unknown keyword "broken"`)
	if providers.HintOf(err) == "" {
		t.Error("no hint")
	}
	at(t, r, seen.Weights())
	if got := w.memory[0].Weights("shop"); got["web1"] != 100 || got["web2"] != 0 {
		t.Errorf("in force %v", got)
	}
	if ok, err := r.Settled(t.Context(), want, state.Receipt{w.names[0]: "2026-11-30-1"}); ok || err != nil {
		t.Errorf("settled %v, %v", ok, err)
	}
}

// Without HAProxy's socket nothing is known of the running servers: no share
// is raised, nothing is in force, and a return is made all the same.
func TestLostSocket(t *testing.T) {
	for _, version := range []string{"v2", "v3"} {
		t.Run(version, func(t *testing.T) {
			w := pair(t, version, 1)
			r := w.router(t)
			move(t, r, 50)
			w.apis[0].Set(haproxytest.Modes{NoRuntime: true})
			seen := read(t, r)
			if p := seen.Parts[0]; p.Units != nil || !p.Pending || p.Shares[state.SlotB] != 50 {
				t.Errorf("%+v, want the configured share, pending, and no count of servers", p)
			}
			_, _, err := r.Plan(state.SlotB, 75, 0.5, seen)
			wantKind(t, err, providers.Unavailable, "no data")
			if hint := providers.HintOf(err); !strings.Contains(hint, "stats socket") {
				t.Errorf("hint %q", hint)
			}
			back := plan(t, r, 0, seen)
			receipt, err := r.Write(t.Context(), candidateB(), back, seen)
			if err != nil {
				t.Fatalf("a return: %v", err)
			}
			if ok, err := r.Settled(t.Context(), back, receipt); ok || providers.KindOf(err) != providers.Unavailable {
				t.Errorf("settled %v, %v", ok, err)
			}
			w.apis[0].Set(haproxytest.Modes{})
			if ok, err := r.Settled(t.Context(), back, receipt); !ok || err != nil {
				t.Errorf("settled %v, %v once it is back", ok, err)
			}
		})
	}
}

// watch notes what is in force at every call of the API.
type watch struct {
	mu   sync.Mutex
	seen []map[string]int
}

// A rollout and its return, killed at any write and gone on with by another
// process: between two calls the candidate never has more than before and
// after, and something is always in service.
func TestEveryStateOnTheWay(t *testing.T) {
	shares := []float64{0, 5, 25, 60, 100, 0}
	for cut := 0; cut <= 6; cut++ {
		t.Run(fmt.Sprintf("cut %d", cut), func(t *testing.T) {
			text := configuration("web1 weight 100", "web2 weight 100", "web3 weight 100", "web4 weight 0", "web5 weight 0")
			w := newWorld(t, "v3", 1, text, target("a", "web1"), target("a", "web2"), target("a", "web3"), target("b", "web4"), target("b", "web5"))
			for k, share := range shares[1:] {
				r := w.router(t)
				seen := read(t, r)
				want, got, err := r.Plan(state.SlotB, share, 0.5, seen)
				if err != nil {
					t.Fatal(err)
				}
				var saw watch
				heal := w.apis[0].Doom(func(c haproxytest.Call) haproxytest.Fate {
					saw.mu.Lock()
					defer saw.mu.Unlock()
					saw.seen = append(saw.seen, w.memory[0].Weights("shop"))
					if cut > 0 && c.Number >= cut {
						return haproxytest.Lost
					}
					return haproxytest.Done
				})
				_, err = r.Write(t.Context(), candidateB(), want, seen)
				heal()
				if err != nil { // another process finds it half written
					next := w.router(t)
					now := read(t, next)
					if !router.Between(now.Parts[0].Weights, seen.Parts[0].Weights, want[0].Weights) {
						t.Errorf("found %v, not between %v and %v", now.Weights(), seen.Weights(), want)
					}
					heal = w.apis[0].Doom(func(haproxytest.Call) haproxytest.Fate {
						saw.mu.Lock()
						defer saw.mu.Unlock()
						saw.seen = append(saw.seen, w.memory[0].Weights("shop"))
						return haproxytest.Done
					})
					if _, err := next.Write(t.Context(), candidateB(), want, now); err != nil {
						t.Fatal(err)
					}
					heal()
				}
				most := math.Max(seen.Share(state.SlotB), got)
				for _, weights := range saw.seen {
					b, all := shareOf(w, weights)
					if all == 0 || 100*b/all > most+1e-9 {
						t.Errorf("from %v to %v %%: %v in force on the way", shares[k], share, weights)
					}
				}
				at(t, w.router(t), want)
			}
		})
	}
}

func shareOf(w *world, weights map[string]int) (b, all float64) {
	for server, weight := range weights {
		all += float64(weight)
		if w.slotOf(server) == state.SlotB {
			b += float64(weight)
		}
	}
	return b, all
}

// A write that fails on one instance goes on with the next; what is done is
// kept, what failed is told, and a second call does the rest.
func TestFailureInTheMiddle(t *testing.T) {
	for name, status := range map[string]int{"500": 500, "429": 429, "403": 403} {
		t.Run(name, func(t *testing.T) {
			w := pair(t, "v3", 3)
			r := w.router(t)
			seen := read(t, r)
			want := plan(t, r, 25, seen)
			w.apis[1].Answer(func(c haproxytest.Call) int {
				if c.Write && c.Number == 2 {
					return status
				}
				return 0
			})
			_, err := r.Write(t.Context(), candidateB(), want, seen)
			wantKind(t, err, map[int]providers.Kind{500: providers.Unavailable, 429: providers.Throttled, 403: providers.Denied}[status], "write on "+w.names[1])
			now := read(t, r)
			for k, p := range now.Parts {
				done := router.Same(p.Weights, want[k].Weights)
				if done != (k != 1) || !router.Between(p.Weights, seen.Parts[k].Weights, want[k].Weights) {
					t.Errorf("part %d has %v", k, p.Weights)
				}
			}
			w.apis[1].Answer(nil)
			if _, err := w.router(t).Write(t.Context(), candidateB(), want, seen); err != nil {
				t.Fatal(err)
			}
			at(t, r, want)
		})
	}
}

// What cannot be a weight, or is nobody's server, is refused before anything
// is read.
func TestRefusedWeights(t *testing.T) {
	w := pair(t, "v3", 1)
	r := w.router(t)
	for _, weights := range []map[string]float64{{"web1": 257, "web2": 0}, {"web1": 1.5, "web2": 1}, {"web1": -1, "web2": 1}, {"web1": math.NaN(), "web2": 1}, {"other": 1}} {
		_, err := r.Write(t.Context(), candidateB(), []state.PartWeights{{ID: w.names[0], Weights: weights}}, read(t, r))
		text := "expected a whole number from 0 to 256"
		if weights["other"] > 0 {
			text = "weight 1 of other, which is no target's"
		}
		wantKind(t, err, providers.Invalid, text)
	}
	if w.apis[0].Writes() != 0 {
		t.Error("something was written")
	}
}

// A server that has gone takes no traffic: that of the candidate hinders no
// return, that of the stable does.
func TestServerGone(t *testing.T) {
	for _, gone := range []string{"web2", "web1"} {
		w := pair(t, "v3", 1)
		r := w.router(t)
		move(t, r, 50)
		w.apis[0].Edit(func(s string) string { return strings.Replace(s, "server "+gone+" 10", "server x"+gone+" 10", 1) })
		w.apis[0].Reload()
		seen := read(t, r)
		back := plan(t, r, 0, seen)
		_, err := r.Write(t.Context(), candidateB(), back, seen)
		if gone == "web2" {
			if err != nil {
				t.Errorf("a return without the candidate's server: %v", err)
			}
			continue
		}
		wantKind(t, err, providers.NotFound, "backend shop has no server web1")
	}
}

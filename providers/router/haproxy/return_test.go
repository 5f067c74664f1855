package haproxy

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/haproxy/haproxytest"
	"github.com/manent/action/providers/httpx"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// back returns part by part, as the runner does, and says what failed.
func back(t *testing.T, r *Router) ([]state.PartWeights, state.Receipt, error) {
	t.Helper()
	seen, err := r.Read(t.Context(), candidateB())
	if err != nil {
		t.Fatal(err)
	}
	want, receipts, problems := plan(t, r, 0, seen), state.Receipt{}, []error(nil)
	for k, p := range seen.Parts {
		if p.Err != nil {
			problems = append(problems, p.Err)
			continue
		}
		receipt, err := r.Write(t.Context(), candidateB(), want[k:k+1], router.Reading{Parts: []router.Part{p}})
		problems = append(problems, err)
		for id, reload := range receipt {
			receipts[id] = reload
		}
	}
	return want, receipts, errors.Join(problems...)
}

// on gives calls a fate whose path ends so.
func on(end string, fate haproxytest.Fate) func(haproxytest.Call) haproxytest.Fate {
	return func(c haproxytest.Call) haproxytest.Fate {
		if !c.Write && strings.HasSuffix(c.Path, end) {
			return fate
		}
		return haproxytest.Done
	}
}

// Whatever else than the configured weights cannot be seen: no share is raised,
// and a return is made.
func TestOnlyWeightsAreSeen(t *testing.T) {
	fates := map[string]haproxytest.Fate{"hangs": haproxytest.Hang, "a page": haproxytest.Page, "redirected": haproxytest.Away, "cut off": haproxytest.Short, "400": -1}
	for end, dark := range map[string]bool{"/runtime/backends/shop/servers": true, "/stats/native": true, "/stick_rules": false, "/backends/shop": false} {
		for name, fate := range fates {
			t.Run(strings.TrimPrefix(end, "/")+" "+name, func(t *testing.T) {
				t.Parallel()
				w := pair(t, "v3", 2)
				move(t, w.router(t), 25)
				if w.apis[0].Doom(on(end, fate)); fate < 0 {
					w.apis[0].Doom(func(haproxytest.Call) haproxytest.Fate { return haproxytest.Done })
					w.apis[0].Answer(func(c haproxytest.Call) int { return map[bool]int{true: 400}[strings.HasSuffix(c.Path, end)] })
				}
				r := w.router(t)
				if fate == haproxytest.Hang {
					r = slow(t, w)
				}
				seen := read(t, r)
				p := seen.Parts[0]
				if p.Unfit == nil || p.Pending != dark || p.Weights["web2"] != 33 || p.Shares[state.SlotB] != 25 || (p.Units == nil) != dark || seen.Parts[1].Unfit != nil {
					t.Fatalf("%+v, want it unfit with its weights, and the other one fit", seen.Parts)
				}
				if k := providers.KindOf(p.Unfit); k.Definite() && (fate != -1 || dark) {
					t.Errorf("%v is of kind %v, nobody could tell", p.Unfit, k)
				}
				if _, _, err := r.Plan(state.SlotB, 50, 0.5, seen); err == nil {
					t.Error("a share is raised on it")
				}
				if _, _, err := back(t, r); err != nil {
					t.Errorf("a return: %v", err)
				}
				for k := range w.memory {
					if got := w.memory[k].Weights("shop"); got["web2"] != 0 || got["web1"] == 0 {
						t.Errorf("in force on %d: %v", k, got)
					}
				}
			})
		}
	}
}

// What answers in the place of the API has not said that there is no backend,
// that nobody may log in, nor that there is a conflict.
func TestSomethingInFront(t *testing.T) {
	for name, fate := range map[string]haproxytest.Fate{"a page": haproxytest.Page, "redirected": haproxytest.Away} {
		t.Run(name, func(t *testing.T) {
			w := pair(t, "v3", 1)
			r := w.router(t)
			seen := read(t, r)
			want := plan(t, r, 25, seen)
			heal := w.apis[0].Doom(func(c haproxytest.Call) haproxytest.Fate {
				if c.Path == "/login" {
					t.Error("a redirect was followed")
				}
				return fate
			})
			now, err := r.Read(t.Context(), candidateB())
			wantKind(t, errors.Join(err, now.Err()), providers.Unavailable, "not an answer of the Data Plane API")
			if hint := providers.HintOf(now.Err()); !strings.Contains(hint, "dataplane_urls") {
				t.Errorf("hint %q", hint)
			}
			ok, err := r.Settled(t.Context(), want, nil)
			if wantKind(t, err, providers.Unavailable, "not an answer"); ok {
				t.Error("settled")
			}
			heal()
			w.apis[0].Doom(func(c haproxytest.Call) haproxytest.Fate { return map[bool]haproxytest.Fate{true: fate}[c.Write] })
			_, err = r.Write(t.Context(), candidateB(), want, seen)
			wantKind(t, err, providers.Unavailable, "not an answer")
		})
	}
}

// slowly serves an API by calls that each take some time.
type slowly struct {
	apis map[string]http.Handler
	took time.Duration
}

func (s slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(s.took):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	rec := httptest.NewRecorder()
	s.apis[r.URL.Host].ServeHTTP(rec, r)
	return rec.Result(), nil
}

// With an API that takes 6 s for a call, a reading and a proof take that, of
// however many instances; the write of a return reads once, and the first it
// writes is the candidate.
func TestSlowAPI(t *testing.T) {
	w := newWorld(t, "v3", 2, configuration("web1 weight 97", "web2 weight 3"), target("a", "web1"), target("b", "web2"))
	w.settings["timeout"] = "8s"
	r, transport := w.router(t), slowly{map[string]http.Handler{}, 6 * time.Second}
	for k, a := range w.apis {
		transport.apis[w.names[k]] = a
	}
	read(t, r) // its channels are made outside of the bubble
	synctest.Test(t, func(t *testing.T) {
		if err := r.connect(httpx.Options{Timeout: 8 * time.Second, Deadline: 8 * time.Second, Transport: transport}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		lap := func(what string, most time.Duration) {
			t.Helper()
			if took := time.Since(began); took > most {
				t.Errorf("%s took %v, want at most %v", what, took, most)
			}
			began = time.Now()
		}
		seen := read(t, r)
		lap("reading", 6*time.Second)
		want := plan(t, r, 0, seen)
		for k := range want {
			if _, err := r.Write(t.Context(), candidateB(), want[k:k+1], router.Reading{Parts: seen.Parts[k : k+1]}); err != nil {
				t.Fatal(err)
			}
			lap("writing", 18*time.Second)
		}
		if ok, err := r.Settled(t.Context(), want, nil); !ok || err != nil {
			t.Errorf("settled %v, %v", ok, err)
		}
		lap("proving", 6*time.Second)
	})
}

// What somebody set at the stats socket is told, stops a first share that would
// undo it, and is no longer in force after a return.
func TestReturnFromTheSocket(t *testing.T) {
	tests := map[string]struct {
		share   float64
		command string
		said    string
		refused bool
		b       float64 // share in force before the return
	}{
		"candidate raised":       {25, "set weight shop/web3 256", "web3 with 256, configured 66", false, 100 * 256 / 454.0},
		"stable lowered":         {50, "set weight shop/web1 7", "web1 with 7, configured 50", false, 100 * 100 / 157.0},
		"candidate of no weight": {0, "set weight shop/web3 100", "web3 with 100, configured 0", false, 100 / 3.0},
		"stable taken out":       {0, "set weight shop/web2 0", "web2 with 0, configured 100", true, 0},
	}
	for name, tt := range tests {
		for _, version := range []string{"v2", "v3"} {
			t.Run(name+" "+version, func(t *testing.T) {
				w := newWorld(t, version, 1, configuration("web1 weight 100", "web2 weight 100", "web3 weight 0"), target("a", "web1"), target("a", "web2"), target("b", "web3"))
				r := w.router(t)
				want := move(t, r, tt.share)
				w.apis[0].Command(tt.command)
				seen := read(t, r)
				p := seen.Parts[0]
				if off := p.Shares[state.SlotB] - tt.b; off > 1e-9 || off < -1e-9 || !p.Pending || !strings.Contains(p.By, tt.said) || !router.SameParts(seen.Weights(), want) {
					t.Errorf("%+v, want %v %%, pending, by %q", p, tt.b, tt.said)
				}
				_, _, err := r.Plan(state.SlotB, 60, 5, seen)
				if tt.refused {
					wantKind(t, err, providers.Invalid, tt.said)
				} else if err != nil {
					t.Error(err)
				}
				want, receipt, err := back(t, r)
				if err != nil {
					t.Fatal(err)
				}
				if ok, err := r.Settled(t.Context(), want, receipt); !ok || err != nil {
					t.Errorf("settled %v, %v", ok, err)
				}
				if diff := cmp.Diff(map[string]int{"web1": 100, "web2": 100, "web3": 0}, w.memory[0].Weights("shop")); diff != "" {
					t.Errorf("in force after the return (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// A server of the candidate that somebody renamed is in neither slot: while it
// takes traffic it is foreign. One that HAProxy still runs by its old name is
// not in force as the configuration is.
func TestRenamed(t *testing.T) {
	for _, loaded := range []bool{true, false} {
		w := pair(t, "v3", 1)
		r := w.router(t)
		move(t, r, 50)
		w.apis[0].Edit(func(s string) string { return strings.Replace(s, "server web2 10", "server web2new 10", 1) })
		if loaded {
			w.apis[0].Reload()
		}
		want, receipt, err := back(t, r)
		if err != nil {
			t.Fatal(err)
		}
		p := read(t, r).Parts[0]
		if loaded && (p.Foreign["web2new"] != 50 || p.Shares[state.SlotA] != 50) || !loaded && (!p.Pending || p.Shares[state.SlotB] != 50) || p.Unfit == nil {
			t.Errorf("loaded %v: %+v", loaded, p)
		}
		if ok, err := r.Settled(t.Context(), want, receipt); ok != loaded || err != nil {
			t.Errorf("loaded %v: settled %v, %v", loaded, ok, err)
		}
	}
}

// A backup serves when nobody else does.
func TestBackupServes(t *testing.T) {
	text := configuration("web1 weight 100", "web2 weight 0", "spare weight 9 backup", "reserve weight 0 backup")
	w := newWorld(t, "v3", 1, text, target("a", "web1"), target("b", "web2"))
	r := w.router(t)
	for command, want := range map[string]map[string]float64{"health up": nil, "health down": {"spare": 100}} {
		w.apis[0].Command("set server shop/web1 " + command)
		p := read(t, r).Parts[0]
		if diff := cmp.Diff(want, p.Foreign); diff != "" || p.Shares[state.SlotA] != map[bool]float64{true: 100}[want == nil] {
			t.Errorf("%s: shares %v, foreign (-want +got):\n%s", command, p.Shares, diff)
		}
	}
	w.apis[0].Set(haproxytest.Modes{NoRuntime: true})
	w.apis[0].SetWeight("shop", "web1", 0)
	if got := read(t, r).Parts[0].Foreign; got["spare"] != 100 {
		t.Errorf("foreign %v by the configuration alone", got)
	}
}

// A share that is set while servers of the candidate are down is not more than
// was asked for when they come up.
func TestCandidateComesUp(t *testing.T) {
	w := newWorld(t, "v3", 1, configuration("web1 weight 100", "web2 weight 0", "web3 weight 0", "web4 weight 0"),
		target("a", "web1"), target("b", "web2"), target("b", "web3"), target("b", "web4"))
	for _, server := range []string{"web3", "web4"} {
		w.apis[0].Command("set server shop/" + server + " health down")
	}
	r := w.router(t)
	move(t, r, 5)
	if got := read(t, r).Parts[0].Shares[state.SlotB]; got <= 0 || got > 2 {
		t.Errorf("share %v with one of three up, want a third of 5", got)
	}
	for _, server := range []string{"web3", "web4"} {
		w.apis[0].Command("set server shop/" + server + " health up")
	}
	if got := read(t, r).Parts[0].Shares[state.SlotB]; got != 5 {
		t.Errorf("share %v once all are up, want 5", got)
	}
}

// A server of the serving slot that somebody drained is not put back.
func TestTakenOut(t *testing.T) {
	w := newWorld(t, "v3", 1, configuration("web1 weight 100", "web2 weight 0", "web3 weight 0"), target("a", "web1"), target("a", "web2"), target("b", "web3"))
	r := w.router(t)
	_, _, err := r.Plan(state.SlotB, 5, 0.5, read(t, r))
	wantKind(t, err, providers.Invalid, "haproxy: plan on "+w.names[0]+": slot a serves, and of its servers web2 has weight 0, web1 has 100")
	if hint := providers.HintOf(err); !strings.Contains(hint, "needs weight 0") {
		t.Errorf("hint %q", hint)
	}
	plan(t, r, 0, read(t, r))
}

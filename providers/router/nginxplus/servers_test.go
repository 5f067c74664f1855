package nginxplus

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/nginxplus/nginxplustest"
	"github.com/manent/action/providers/httpx"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// Servers that do not get requests are not up. A share counts those of the
// serving slot that are, and all of its own: one that comes up later makes it
// no larger than it was to be.
func TestServersDown(t *testing.T) {
	for name, change := range map[string]func(*nginxplustest.Server){
		"unavail":   func(s *nginxplustest.Server) { s.State = "unavail" },
		"checking":  func(s *nginxplustest.Server) { s.State = "checking" },
		"unhealthy": func(s *nginxplustest.Server) { s.State = "unhealthy" },
		"new state": func(s *nginxplustest.Server) { s.State = "resting" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.nginx[0].Edit("10.0.1.1:8080", change)
			w.nginx[0].Edit("10.0.2.3:8080", change)
			if diff := cmp.Diff(map[state.Slot]int{"a": 1, "b": 2}, read(t, w.router(t)).Parts[0].Units); diff != "" {
				t.Errorf("units (-want +got):\n%s", diff)
			}
			w.nginx[0].Edit("10.0.2.3:8080", func(s *nginxplustest.Server) { s.Drain, s.Weight = false, 7 })
			if got := read(t, w.router(t)).Parts[0].Weights; got["10.0.2.3:8080"] != 7 || got["10.0.2.1:8080"] != 0 {
				t.Errorf("weights %v, want that of a server that is down, and 0 of one that drains", got)
			}
			w.nginx[0].Edit("10.0.2.3:8080", func(s *nginxplustest.Server) { s.Drain = true })
			w.move(t, 20)
			w.nginx[0].Edit("10.0.2.3:8080", func(s *nginxplustest.Server) { s.State, s.Down = "", false })
			for i, p := range read(t, w.router(t)).Parts {
				if p.Shares["b"] != 20 {
					t.Errorf("instance %d: shares %v with units %v, want 20 %%", i, p.Shares, p.Units)
				}
			}
		})
	}
	t.Run("a whole slot", func(t *testing.T) {
		w := newWorld(t)
		for _, address := range slots()[state.SlotB] {
			w.nginx[1].Edit(address, func(s *nginxplustest.Server) { s.State = "unhealthy" })
		}
		r := w.router(t)
		seen := read(t, r)
		if _, _, err := r.Plan(state.SlotB, 25, 0.5, seen); err != nil || seen.Parts[1].Units[state.SlotB] != 0 {
			t.Errorf("%v, %v up: a candidate that is not up yet is planned for, and waited for", err, seen.Parts[1].Units)
		}
		if _, _, err := r.Plan(state.SlotB, 0, 0.5, seen); err != nil {
			t.Errorf("a return: %v", err)
		}
	})
	t.Run("all but the candidate", func(t *testing.T) {
		w := newWorld(t)
		w.move(t, 50)
		for _, address := range slots()[state.SlotA] {
			w.nginx[0].Edit(address, func(s *nginxplustest.Server) { s.State = "unavail" })
		}
		w.move(t, 0)
		if got := read(t, w.router(t)).Parts[0].Weights["10.0.2.1:8080"]; got != 0 {
			t.Errorf("weight %v after a return, want 0", got)
		}
	})
}

func TestForeign(t *testing.T) {
	w := newWorld(t)
	w.nginx[0].Edit("10.0.9.2:8080", func(s *nginxplustest.Server) { s.Drain, s.Weight = false, 2 })
	p := read(t, w.router(t)).Parts[0]
	if diff := cmp.Diff(map[string]float64{"10.0.9.2:8080": 2}, p.Foreign); diff != "" || p.Shares["a"] != 50 {
		t.Errorf("shares %v, foreign (-want +got):\n%s", p.Shares, diff)
	}
	if p := read(t, w.router(t)).Parts[1]; len(p.Foreign) != 0 {
		t.Errorf("foreign %v at the other instance: backups, and what drains or is down, get nothing", p.Foreign)
	}
	for text, takes := range map[string]bool{"unavail": false, "checking": false, "unhealthy": false, "down": false, "resting": true, "a name without an address": false} {
		w.nginx[0].Edit("10.0.9.2:8080", func(s *nginxplustest.Server) { s.State = text })
		if strings.Contains(text, "name") {
			w.nginx[0].Edit("10.0.9.2:8080", func(s *nginxplustest.Server) { s.Address, s.Only = "gone.example.com:8080", true })
		}
		p := read(t, w.router(t)).Parts[0]
		if (len(p.Foreign) > 0) != takes || (p.Shares["a"] < 100) != takes {
			t.Errorf("%s: shares %v, foreign %v", text, p.Shares, p.Foreign)
		}
		if strings.Contains(text, "name") {
			w.nginx[0].Edit("gone.example.com:8080", func(s *nginxplustest.Server) { s.Address, s.Only = "10.0.9.2:8080", false })
		}
	}
	w.unseen(http.NotFound)
	if p := read(t, w.router(t)).Parts[0]; len(p.Foreign) != 1 || p.Shares["a"] != 50 {
		t.Errorf("shares %v, foreign %v where no state can be seen", p.Shares, p.Foreign)
	}
}

// A server that got another address in the middle of a rollout is no target's
// any more, and still has the candidate's weight.
func TestRenamed(t *testing.T) {
	w := newWorld(t)
	w.move(t, 25)
	weight := w.nginx[0].Server("10.0.2.2:8080").Weight
	w.nginx[0].Edit("10.0.2.2:8080", func(s *nginxplustest.Server) { s.Address = "10.0.7.7:8080" })
	p := read(t, w.router(t)).Parts[0]
	if diff := cmp.Diff(map[string]float64{"10.0.7.7:8080": float64(weight)}, p.Foreign); diff != "" {
		t.Errorf("foreign (-want +got):\n%s", diff)
	}
	wantKind(t, p.Unfit, providers.NotFound, "no server 10.0.2.2:8080")
	w.move(t, 0)
	if p = read(t, w.router(t)).Parts[0]; p.Shares["a"] > 99 || len(p.Foreign) != 1 {
		t.Errorf("shares %v, foreign %v: what is no target's still takes traffic", p.Shares, p.Foreign)
	}
}

// What somebody took out of the slot that serves is not put back by a first
// share; a return goes on, and so does what manent itself wrote.
func TestTakenOut(t *testing.T) {
	for text, change := range map[string]func(*nginxplustest.Server){
		"slot a serves, and of its servers 10.0.1.2:8080 drains":         func(s *nginxplustest.Server) { s.Drain = true },
		"slot a serves, and of its servers 10.0.1.2:8080 is marked down": func(s *nginxplustest.Server) { s.Down = true },
	} {
		t.Run(text, func(t *testing.T) {
			w := newWorld(t)
			w.nginx[1].Edit("10.0.1.2:8080", change)
			r := w.router(t)
			seen := read(t, r)
			for _, share := range []float64{5, 100} {
				_, _, err := r.Plan(state.SlotB, share, 0.5, seen)
				wantKind(t, err, providers.Invalid, text)
				if providers.HintOf(err) == "" {
					t.Error("no remedy")
				}
			}
			w.move(t, 0)
			if w.patches() == 0 && !strings.Contains(text, "down") {
				t.Error("a return left it as it was")
			}
		})
	}
	w := newWorld(t)
	w.move(t, 25)
	w.nginx[0].Edit("10.0.1.2:8080", func(s *nginxplustest.Server) { s.Drain = true })
	if p := read(t, w.router(t)).Parts[0]; p.Unfit != nil {
		t.Errorf("in the middle of a rollout it is drift: %v", p.Unfit)
	}
	w.move(t, 100)
	if p := read(t, w.router(t)).Parts[0]; p.Unfit != nil {
		t.Errorf("after a rollout: %v", p.Unfit)
	}
}

// The weights are known, the servers' state is not: no share, and a return.
func TestUnseen(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"page":      func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("<html>log in</html>")) },
		"not found": http.NotFound,
		"no peers":  func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("{}")) },
		"denied":    func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "no", http.StatusForbidden) },
		"lost":      func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			want := w.move(t, 25)
			w.unseen(answer)
			r := w.router(t)
			seen := read(t, r)
			if p := seen.Parts[0]; !router.SameParts(seen.Weights(), want) || p.Unfit == nil || !p.Pending || p.Units != nil || p.Shares["b"] != 25 {
				t.Errorf("got %+v", p)
			}
			if _, _, err := r.Plan(state.SlotB, 50, 0.5, seen); err == nil {
				t.Error("a share is not refused")
			}
			if ok, err := r.Settled(t.Context(), want, nil); ok || err == nil {
				t.Errorf("a share is settled: %v, %v", ok, err)
			}
			back := w.move(t, 0)
			if ok, err := r.Settled(t.Context(), back, nil); !ok || err != nil {
				t.Errorf("a return is settled: %v, %v", ok, err)
			}
			if !w.nginx[1].Server("10.0.2.1:8080").Drain {
				t.Error("the candidate still takes traffic")
			}
		})
	}
}

// Without the servers' state a look takes no longer than its caller has, and
// what a name stands for may not be known.
func TestUnseenFor(t *testing.T) {
	t.Run("no answer", func(t *testing.T) {
		w := newWorld(t)
		w.unseen(func(http.ResponseWriter, *http.Request) { <-t.Context().Done() })
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		seen, err := w.router(t).Read(ctx, candidateB())
		if err != nil || seen.Err() != nil || seen.Parts[0].Unfit == nil || len(seen.Parts[0].Weights) != 5 {
			t.Errorf("got %+v, %v", seen.Parts, err)
		}
	})
	t.Run("what a name stands for", func(t *testing.T) {
		w := newWorld(t)
		w.nginx[0].Edit("10.0.2.1:8080", func(s *nginxplustest.Server) { s.Address, s.Name = "10.0.7.7:8080", s.Address })
		if p := read(t, w.router(t)).Parts[0]; p.Unfit != nil {
			t.Error(p.Unfit)
		}
		w.unseen(http.NotFound)
		seen, err := w.router(t).Read(t.Context(), candidateB())
		if err != nil || seen.Parts[0].Err == nil || seen.Parts[1].Err != nil {
			t.Errorf("got %+v, %v: what is 10.0.2.1 is not known at the first", seen.Parts, err)
		}
	})
}

func (w *world) unseen(answer http.HandlerFunc) {
	next := w.faulty.Next
	w.faulty.Next = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/upstreams/app/") {
			answer(rw, r)
			return
		}
		next.ServeHTTP(rw, r)
	})
}

// A name may stand for several addresses, by the domain name of a server with
// resolve, or as it was resolved when NGINX read its configuration.
func TestResolved(t *testing.T) {
	w := newWorld(t)
	child := func(id int, address string, parent int) nginxplustest.Server {
		s := nginxplustest.Add(id, address, 1)
		s.Parent, s.Host = parent, "blue.internal"
		return s
	}
	holder := nginxplustest.Add(0, "blue.internal:8080", 1)
	holder.Only = true
	static := nginxplustest.Add(3, "10.1.0.1:8080", 1)
	static.Name, static.Drain = "green.internal:8080", true
	second := static
	second.ID, second.Address = 4, "10.1.0.2:8080"
	n := nginxplustest.New(t, holder, child(1, "10.0.0.1:8080", 0), child(2, "10.0.0.2:8080", 0), static, second)
	n.User, n.Password = "manent", secret
	w.faulty.Next = n

	s := w.settings()
	s.URLs = s.URLs[:1]
	e := env()
	e.Targets = []providers.Target{
		{Host: "blue.internal", Port: 8080, Labels: map[string]string{"slot": "a"}},
		{Host: "green.internal", Port: 8080, Labels: map[string]string{"slot": "b"}},
	}
	r, err := New(e, s, httpx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	seen := read(t, r)
	if diff := cmp.Diff(map[state.Slot]int{"a": 2, "b": 2}, seen.Parts[0].Units); diff != "" {
		t.Errorf("units (-want +got):\n%s", diff)
	}
	want, _, err := r.Plan(state.SlotB, 10, 0.5, seen)
	if err == nil {
		_, err = r.Write(t.Context(), candidateB(), want, seen)
	}
	if err != nil {
		t.Fatal(err)
	}
	for address, weight := range map[string]int{"blue.internal:8080": 99, "10.0.0.1:8080": 99, "10.0.0.2:8080": 99, "10.1.0.1:8080": 11, "10.1.0.2:8080": 11} {
		if got := n.Server(address); got.Weight != weight || got.Drain {
			t.Errorf("%s has weight %d, drain %v, want %d", address, got.Weight, got.Drain, weight)
		}
	}
	n.Edit("10.1.0.1:8080", func(s *nginxplustest.Server) { s.Weight = 60 })
	if got := read(t, r).Parts[0].Weights["green.internal:8080"]; got != 60 {
		t.Errorf("weight %v, want the larger of the candidate's addresses", got)
	}
	n.Edit("10.1.0.1:8080", func(s *nginxplustest.Server) { s.Weight = 11 })
	n.Edit("10.0.0.2:8080", func(s *nginxplustest.Server) { s.Weight = 1 })
	seen = read(t, r)
	if got := seen.Parts[0].Weights["blue.internal:8080"]; got != 1 {
		t.Errorf("weight %v, want the smaller of stable's addresses", got)
	}
	if ok, err := r.Settled(t.Context(), want, nil); ok || err != nil || !seen.Parts[0].Pending {
		t.Errorf("settled %v, %v, pending %v with one address that differs", ok, err, seen.Parts[0].Pending)
	}
	if _, err := r.Write(t.Context(), candidateB(), want, seen); err != nil || n.Server("10.0.0.2:8080").Weight != 99 {
		t.Errorf("a write that was cut off between two addresses is not finished: %v", err)
	}
}

func TestSRV(t *testing.T) {
	w := newWorld(t)
	w.nginx[0].Edit("10.0.2.1:8080", func(s *nginxplustest.Server) { s.SRV = true })
	r := w.router(t)
	seen := read(t, r)
	want, _, err := r.Plan(state.SlotB, 10, 0.5, seen)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Write(t.Context(), candidateB(), want, seen)
	wantKind(t, err, providers.Invalid, "UpstreamServerWeightImmutable hint: SRV records")
}

package nginxplus

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/nginxplus/nginxplustest"
	"github.com/manent/action/providers/httpx"
	"github.com/manent/action/state"
)

// Servers that do not get requests are not up, and the share is made of those
// that do.
func TestServersDown(t *testing.T) {
	for name, change := range map[string]func(*nginxplustest.Server){
		"down":      func(s *nginxplustest.Server) { s.Down = true },
		"unavail":   func(s *nginxplustest.Server) { s.State = "unavail" },
		"checking":  func(s *nginxplustest.Server) { s.State = "checking" },
		"unhealthy": func(s *nginxplustest.Server) { s.State = "unhealthy" },
		"new state": func(s *nginxplustest.Server) { s.State = "resting" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.nginx[0].Edit("10.0.1.1:8080", change)
			w.nginx[0].Edit("10.0.2.3:8080", change)
			r := w.router(t)
			seen := read(t, r)
			if diff := cmp.Diff(map[state.Slot]int{"a": 1, "b": 2}, seen.Parts[0].Units); diff != "" {
				t.Errorf("units (-want +got):\n%s", diff)
			}
			w.move(t, 20)
			seen = read(t, r)
			for i, p := range seen.Parts {
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
		_, _, err := r.Plan(state.SlotB, 25, 0.5, seen)
		wantKind(t, err, providers.Invalid, "slot b has no server up")
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
	if p := read(t, w.router(t)).Parts[1]; p.Foreign != nil {
		t.Errorf("foreign %v at the other instance: backups, and what drains or is down, get nothing", p.Foreign)
	}
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
	n.Edit("10.0.0.2:8080", func(s *nginxplustest.Server) { s.Weight = 1 })
	seen = read(t, r)
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

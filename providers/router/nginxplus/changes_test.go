package nginxplus

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/nginxplus/nginxplustest"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/state"
)

// A reload discards what the API changed, unless there is a state file.
func TestReload(t *testing.T) {
	for name, keep := range map[string]bool{"discards": false, "state file": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.nginx[0].Keep, w.nginx[1].Keep = keep, keep
			want := w.move(t, 100)
			w.nginx[1].Reload()
			seen := read(t, w.router(t))
			if got := router.SameParts(want, seen.Weights()); got != keep {
				t.Errorf("the weights are the same: %v, want %v: %v", got, keep, seen.Weights())
			}
			if keep {
				return
			}
			_, err := w.router(t).Write(t.Context(), candidateB(), w.plan(t, 50), seenAs(want))
			wantKind(t, err, providers.Conflict, "hint: somebody else moved the weights, or the system went back to older ones")
			if n := w.nginx[0].Changes(); n != 5 {
				t.Errorf("%d changes at the first instance, want none after the 5 of the first write", n)
			}
		})
	}
}

func (w *world) plan(t *testing.T, share float64) []state.PartWeights {
	t.Helper()
	r := w.router(t)
	want, _, err := r.Plan(state.SlotB, share, 0.5, read(t, r))
	if err != nil {
		t.Fatal(err)
	}
	return want
}

func seenAs(parts []state.PartWeights) router.Reading {
	var out router.Reading
	for _, p := range parts {
		out.Parts = append(out.Parts, router.Part{PartWeights: p})
	}
	return out
}

// A reload between the look and the write gave the ids to others.
func TestSwappedIDs(t *testing.T) {
	w := newWorld(t)
	r := w.router(t)
	seen := read(t, r)
	want := w.plan(t, 25)
	h := harness(t, w)
	h.Sneak(func() { w.nginx[0].Swap("10.0.1.1:8080", "10.0.2.1:8080") })
	_, err := r.Write(t.Context(), candidateB(), want, seen)
	wantKind(t, err, providers.Conflict, "NGINX was reloaded meanwhile")
	if n := w.nginx[0].Changes(); n != 1 {
		t.Errorf("%d changes after the first hit another server, want it to be the last", n)
	}
}

// A hand that writes at the same time is found by the reading after the write.
func TestRace(t *testing.T) {
	w := newWorld(t)
	r := w.router(t)
	seen := read(t, r)
	want := w.plan(t, 25)
	h := harness(t, w)
	h.Sneak(func() {
		w.nginx[0].Edit("10.0.2.2:8080", func(s *nginxplustest.Server) { s.Weight, s.Drain = 99, false })
	})
	// What is changed first is the stable slot, so that 10.0.2.2 is written
	// later: the hand's change is overwritten, and nobody can know.
	if _, err := r.Write(t.Context(), candidateB(), want, seen); err != nil {
		t.Errorf("a change that was overwritten: %v", err)
	}
	w.move(t, 0)
	seen = read(t, r)
	h.Sneak(func() {
		w.nginx[0].Edit("10.0.1.1:8080", func(s *nginxplustest.Server) { s.Drain = true })
	})
	back := w.plan(t, 0)
	back[0].Weights["10.0.2.1:8080"] = 5 // only this one is written
	_, err := r.Write(t.Context(), candidateB(), back[:1], seen)
	wantKind(t, err, providers.Conflict, "read after the write")
}

// On the way from one share to another the candidate never has more than the
// larger of the two, and somebody always serves.
func TestOnTheWay(t *testing.T) {
	shares := []float64{0, 5, 25, 50, 100, 25, 0, 100, 0}
	w := newWorld(t)
	before, plain := 0.0, w.faulty.Next
	for _, share := range shares {
		w.faulty.Next = watch(t, w, plain, max(before, share))
		w.move(t, share)
		before = share
	}
}

func watch(t *testing.T, w *world, next http.Handler, most float64) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(rw, r)
		if r.Method != http.MethodPatch {
			return
		}
		for _, n := range w.nginx {
			var all []router.Server
			for slot, addresses := range slots() {
				for _, a := range addresses {
					s := n.Server(a)
					weight := s.Weight
					if s.Drain {
						weight = 0
					}
					all = append(all, router.Server{Slot: slot, Up: true, Weight: weight})
				}
			}
			got := router.ShareOf(all, state.SlotB)
			if got > most+0.5 {
				t.Errorf("the candidate has %v %% on the way, expected at most %v %%", got, most)
			}
			if n.Request() == "" {
				t.Error("nobody serves")
			}
		}
	})
}

// One instance that does not answer keeps nobody from being returned.
func TestReturnReachesTheRest(t *testing.T) {
	w := newWorld(t)
	w.move(t, 50)
	h := harness(t, w)
	up := h.Down(0)
	r := w.router(t)
	seen, err := r.Read(t.Context(), candidateB())
	if err != nil {
		t.Fatal(err)
	}
	want, _, err := r.Plan(state.SlotB, 0, 0.5, seen)
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := r.Write(t.Context(), candidateB(), want, seen)
	wantKind(t, err, providers.Unknown, "")
	if len(receipt) != 1 || receipt[seen.Parts[1].ID] == "" {
		t.Errorf("receipt %v, want one for the second", receipt)
	}
	up()
	if got := read(t, r); got.Parts[1].Shares["b"] != 0 || got.Parts[0].Shares["b"] != 50 {
		t.Errorf("shares %v and %v, want only the second returned", got.Parts[0].Shares, got.Parts[1].Shares)
	}
	_, err = r.Write(t.Context(), candidateB(), want, seen)
	wantKind(t, err, providers.Unavailable, "could not be read before")
	if _, err = r.Write(t.Context(), candidateB(), want, read(t, r)); err != nil {
		t.Error(err)
	}
}

func TestReach(t *testing.T) {
	r := newWorld(t).router(t)
	for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
		for _, share := range []float64{0, 1, 5, 50, 99, 100} {
			if _, err := r.Reach(slot, share, 0.5); err != nil {
				t.Errorf("%v %% of %s: %v", share, slot, err)
			}
		}
	}
	_, err := r.Reach(state.SlotB, 0.1, 0.01)
	wantKind(t, err, providers.Invalid, "the smallest share here is 0.5825 %")
}

// A write that is cut off at any of its calls, or whose answer is lost there,
// leaves what the next one goes on from, in whichever direction.
func TestCutOffAnywhere(t *testing.T) {
	for n := 1; n <= 10; n++ {
		t.Run(fmt.Sprint("lost ", n), func(t *testing.T) { cutOff(t, cut, n, 25) })
		t.Run(fmt.Sprint("unanswered ", n), func(t *testing.T) { cutOff(t, mute, n, 0) })
	}
}

func cut(h routertest.Harness, n int) func()  { return h.Cut(n) }
func mute(h routertest.Harness, n int) func() { return h.Mute(n) }

// cutOff disturbs a write of 25 % and lets the next process write then.
func cutOff(t *testing.T, disturb func(routertest.Harness, int) func(), n int, then float64) {
	w := newWorld(t)
	r := w.router(t)
	seen, want := read(t, r), w.plan(t, 25)
	heal := disturb(harness(t, w), n)
	_, err := r.Write(t.Context(), candidateB(), want, seen)
	heal()
	wantKind(t, err, providers.Unknown, "")
	now := read(t, r)
	now.Approved = true // what a write of the engine's left, it says so
	for i, p := range now.Parts {
		if !router.Between(p.Weights, seen.Parts[i].Weights, want[i].Weights) || p.Shares["b"] > 25 {
			t.Errorf("part %d has weights %v, shares %v", i, p.Weights, p.Shares)
		}
	}
	r = w.router(t)
	if want, _, err = r.Plan(state.SlotB, then, 0.5, now); err == nil {
		_, err = r.Write(t.Context(), candidateB(), want, now)
	}
	if err != nil {
		t.Fatalf("the next process: %v", err)
	}
	if got := read(t, r).Weights(); !router.SameParts(got, want) {
		t.Errorf("weights %v, want %v", got, want)
	}
}

package f5

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/f5/f5test"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// slowly answers each call after a time, without a network. What reaches it is
// carried out, also when its caller has gone.
type slowly struct {
	takes time.Duration
	next  http.Handler
}

func (s *slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(s.takes):
	case <-r.Context().Done():
	}
	answer := httptest.NewRecorder()
	s.next.ServeHTTP(answer, r)
	return answer.Result(), r.Context().Err()
}

// Each call of a return ends in the 20 s that it has where every call of the
// device takes seconds; what is left to do then is said.
func TestSlowReturn(t *testing.T) {
	for name, tt := range map[string]struct {
		takes time.Duration
		ratio int // of slot a before
		group string
	}{
		"4 s":             {4 * time.Second, 50, ""},
		"5 s, group":      {5 * time.Second, 50, "pair"},
		"from 100 %, 4 s": {4 * time.Second, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t) // its server's goroutines must not be among those that wait for time to pass
			w.Group = tt.group
			w.set(state.SlotB, 100)
			w.set(state.SlotA, tt.ratio)
			w.Do(func() {
				for _, m := range w.Members {
					m.Ratio = max(m.Ratio, 1)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				r := w.router(t, map[string]any{"management_url": "https://bigip.example.com"})
				r.carry = &slowly{takes: tt.takes, next: w.BigIP}
				var err error
				if r.api, err = r.client(); err != nil {
					t.Fatal(err)
				}
				limit := func(do func(context.Context) error) {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					defer cancel()
					began := time.Now()
					if err := do(ctx); err != nil || time.Since(began) > 20*time.Second {
						t.Errorf("after %v: %v", time.Since(began), err)
					}
				}
				var seen router.Reading
				limit(func(ctx context.Context) (err error) { seen, err = r.Read(ctx, candidateB); return err })
				if seen.Err() != nil {
					t.Fatal(seen.Err())
				}
				back, _, err := r.Plan(state.SlotB, 0, 0.5, seen)
				if err != nil {
					t.Fatal(err)
				}
				var receipt state.Receipt
				limit(func(ctx context.Context) (err error) { receipt, err = r.Write(ctx, candidateB, back, seen); return err })
				limit(func(ctx context.Context) error {
					ok, err := r.Settled(ctx, back, receipt)
					if !ok {
						t.Error("not settled")
					}
					return err
				})
				if got := w.serve(50); got[state.SlotA] != 50 || w.Commits > 0 {
					t.Errorf("%v were served, %d transactions", got, w.Commits)
				}
				if w.Live() > 0 {
					t.Errorf("%d tokens are left", w.Live())
				}
			})
		})
	}
}

// On a device that does not deal the traffic no share is raised. A return is
// written there and sent to the group, unless a peer may be ahead, and counts
// only where the group has it.
func TestStandby(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*world)
		group   string
		settled bool
		syncs   int
	}{
		"in sync":          {func(*world) {}, "pair", true, 1},
		"behind":           {func(w *world) { w.Status, w.Behind = "Changes Pending", true }, "pair", false, 0},
		"status unseen":    {func(w *world) { w.Forbid = "/mgmt/tm/cm/sync-status" }, "pair", false, 0},
		"sync fails":       {func(w *world) { w.SyncSays = "01071a6b:3: peer is disconnected" }, "pair", false, 0},
		"nobody sends it":  {func(*world) {}, "", false, 0},
		"failover unseen":  {func(w *world) { w.Forbid = "/mgmt/tm/cm/device" }, "", false, 0},
		"unseen, in sync":  {func(w *world) { w.Forbid = "/mgmt/tm/cm/device" }, "pair", true, 1},
		"forced offline":   {func(w *world) { w.Failover = "forced-offline" }, "pair", true, 1},
		"active and alone": {func(w *world) { w.Failover = "active" }, "", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Failover, w.Group = "standby", tt.group
			w.set(state.SlotB, 100)
			tt.change(w)
			r := w.router(t, nil)
			part := w.read(t, r)
			active := w.Failover == "active"
			if part.Err != nil || part.Pending == active || (part.Unfit == nil) != active || part.Weights["10.0.0.4:80"] != 100 {
				t.Errorf("got %+v", part)
			}
			seen := router.Reading{Parts: []router.Part{part}}
			back, _, err := r.Plan(state.SlotB, 0, 0.5, seen)
			if err != nil {
				t.Fatal(err)
			}
			receipt, err := r.Write(t.Context(), candidateB, back, seen)
			if err != nil || !w.Members[3].Disabled || w.Syncs != tt.syncs {
				t.Errorf("a return: %v, member %+v, %d syncs", err, w.Members[3], w.Syncs)
			}
			ok, err := r.Settled(t.Context(), back, receipt)
			if ok != tt.settled || ok != (err == nil) {
				t.Errorf("settled %v, %v", ok, err)
			}
			want := []state.PartWeights{{ID: part.ID, Weights: part.Weights}}
			if _, err = r.Write(t.Context(), candidateB, want, router.Reading{Parts: []router.Part{w.read(t, r)}}); (err == nil) != active {
				t.Errorf("a share: %v", err)
			}
		})
	}
}

// A name that means several members: a return takes all of the candidate's
// out, and puts none of somebody else's in.
func TestSeveralMembers(t *testing.T) {
	other := func(address string, disabled bool) *f5test.Member {
		return &f5test.Member{Name: address + ":81", Partition: "Common", Address: address, Ratio: 9, Disabled: disabled, Monitor: "up"}
	}
	w := newWorld(t)
	w.set(state.SlotB, 100)
	w.Members = append(w.Members, other("10.0.0.4", false), other("10.0.0.1", true), other("10.0.0.2", false))
	r := w.router(t, map[string]any{"member": "{host}"})
	part := w.read(t, r)
	if part.Err != nil || part.Unfit == nil || part.Servers[state.SlotB] != 3 || len(part.Foreign) > 0 {
		t.Fatalf("got %+v", part)
	}
	seen := router.Reading{Parts: []router.Part{part}}
	back, _, err := r.Plan(state.SlotB, 0, 0.5, seen)
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := r.Write(t.Context(), candidateB, back, seen)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := r.Settled(t.Context(), back, receipt); !ok || err != nil {
		t.Errorf("settled %v, %v", ok, err)
	}
	out := func(i int) bool { return w.Members[i].Disabled }
	if !out(3) || !out(6) || !out(7) || out(8) || out(0) || w.Members[8].Ratio != 100 {
		t.Errorf("members %+v", w.Members)
	}
	if part = w.read(t, r); !router.SameParts([]state.PartWeights{part.PartWeights}, back) || part.Shares[state.SlotA] != 100 {
		t.Errorf("weights %v, shares %v", part.Weights, part.Shares)
	}
	w.Members[8].Ratio = 1
	if ok, _ := r.Settled(t.Context(), back, receipt); ok {
		t.Error("settled with one member of stable that is not as written")
	}
}

// The answer to a commit is a proxy's: nobody can say what became of it, so
// that it is looked for.
func TestCommitBehindProxy(t *testing.T) {
	for name, carried := range map[string]bool{"carried out": true, "never came": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.router(t, nil)
			want, seen := w.plan(t, r, 25)
			w.faulty.Next = http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
				if !f5test.IsWrite(req) {
					w.ServeHTTP(rw, req)
					return
				}
				if carried {
					w.ServeHTTP(httptest.NewRecorder(), req)
				}
				http.Error(rw, "<html>gateway timeout</html>", http.StatusGatewayTimeout)
			})
			_, err := r.Write(t.Context(), candidateB, want, seen)
			if carried && (err != nil || w.Commits != 1) {
				t.Errorf("%v after %d changes", err, w.Commits)
			}
			if !carried {
				refused(t, err, providers.Unknown, "outcome was not told", "")
			}
		})
	}
}

// A return disables the candidate also where the user may do no more.
func TestReturnOfOperator(t *testing.T) {
	w := newWorld(t)
	w.set(state.SlotA, 95)
	w.set(state.SlotB, 5)
	w.Role = "operator"
	r := w.router(t, nil)
	back, seen := w.plan(t, r, 0)
	_, err := r.Write(t.Context(), candidateB, back, seen)
	refused(t, err, providers.Denied, "may not change ratio", "role manager")
	if got := w.serve(50); got[state.SlotA] != 50 {
		t.Errorf("%v were served", got)
	}
}

// A device that does not put the members into the pool's answer.
func TestPlainPool(t *testing.T) {
	w := newWorld(t)
	w.Plain = true
	part := w.read(t, w.router(t, nil))
	if part.Err != nil || part.Unfit != nil || len(part.Weights) != 5 || !slices.Contains(w.Requests(), "GET /mgmt/tm/ltm/pool/~Common~shop/members") {
		t.Errorf("got %+v", part)
	}
}

// The commit of a share whose outcome was not told lands late: a return is not
// complete before, and goes on after.
func TestLateCommit(t *testing.T) {
	w := newWorld(t)
	r := w.router(t, nil)
	want, seen := w.plan(t, r, 50)
	w.Looks = 3
	w.faulty.Next = http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if !f5test.IsWrite(req) || !strings.Contains(req.URL.Path, "transaction") {
			w.ServeHTTP(rw, req)
			return
		}
		w.ServeHTTP(httptest.NewRecorder(), req)
		http.Error(rw, "<html>gateway timeout</html>", http.StatusGatewayTimeout)
	})
	_, err := r.Write(t.Context(), candidateB, want, seen)
	refused(t, err, providers.Unknown, "outcome was not told", "")
	settled, looks := false, 0
	for ; !settled && looks < 10; looks++ {
		back, seen := w.plan(t, r, 0)
		receipt, err := r.Write(t.Context(), candidateB, back, seen)
		if err == nil {
			settled, err = r.Settled(t.Context(), back, receipt)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := w.serve(50); !settled || w.Commits != 1 || got[state.SlotA] != 50 || !w.heard("in state VALIDATING, may still change pool /Common/shop") {
		t.Errorf("settled %v after %d looks, %d commits, %v were served, said %q", settled, looks, w.Commits, got, w.said)
	}
}

// Somebody's transaction keeps a return from being complete while it may change
// the pool. What is only begun, and for members alone, is taken away.
func TestTransactionsOfOthers(t *testing.T) {
	pool, member := "/mgmt/tm/ltm/pool/~Common~shop", "/mgmt/tm/ltm/pool/~Common~shop/members/~Common~10.0.0.4:80"
	for name, tt := range map[string]struct {
		state       string
		paths       []string
		first, then bool // settled
	}{
		"none of the pool":      {"VALIDATING", []string{pool + "2/members/x", "/mgmt/tm/ltm/virtual/~Common~vs"}, true, true},
		"the pool":              {"VALIDATING", []string{"/mgmt/tm/ltm/virtual/~Common~vs", pool + "?ver=17.1.0"}, false, false},
		"a member":              {"COMPLETING", []string{member}, false, false},
		"not told":              {"VALIDATING", nil, false, false},
		"a new state":           {"RESTING", []string{member}, false, false},
		"begun":                 {"STARTED", []string{member, member}, false, true},
		"begun, and for others": {"STARTED", []string{member, pool + "2"}, false, false},
		"begun, the pool":       {"STARTED", []string{pool}, false, false},
		"begun, nothing in it":  {"STARTED", nil, true, true},
		"ended":                 {"FAILED", []string{member}, true, true},
	} {
		w := newWorld(t)
		w.Looks = 1000
		w.Begun(tt.state, tt.paths...)
		r := w.router(t, nil)
		back, seen := w.plan(t, r, 0)
		receipt, err := r.Write(t.Context(), candidateB, back, seen)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []bool{tt.first, tt.then} {
			if ok, err := r.Settled(t.Context(), back, receipt); ok != want || err != nil {
				t.Errorf("%s: settled %v at look %d, %v", name, ok, i+1, err)
			}
		}
		w.front("/mgmt/tm/transaction", http.StatusOK)
		if ok, err := r.Settled(t.Context(), back, receipt); ok || providers.KindOf(err) != providers.Unknown {
			t.Errorf("behind a page: settled %v, %v", ok, err)
		}
	}
}

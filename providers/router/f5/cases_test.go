package f5

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/f5/f5test"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

func (w *world) read(t *testing.T, r *Router) router.Part {
	t.Helper()
	seen, err := r.Read(t.Context(), candidateB)
	if err != nil || len(seen.Parts) != 1 {
		t.Fatalf("read: %v, %v", seen, err)
	}
	return seen.Parts[0]
}

// plan is a share of slot b for what is read.
func (w *world) plan(t *testing.T, r *Router, share float64) ([]state.PartWeights, router.Reading) {
	t.Helper()
	seen, err := r.Read(t.Context(), candidateB)
	if err == nil {
		err = seen.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	want, _, err := r.Plan(state.SlotB, share, 0.5, seen)
	if err != nil {
		t.Fatal(err)
	}
	return want, seen
}

// refused checks an error's kind, text and hint.
func refused(t *testing.T, err error, kind providers.Kind, text, hint string) {
	t.Helper()
	if err == nil || providers.KindOf(err) != kind || !strings.Contains(err.Error(), text) || !strings.Contains(providers.HintOf(err), hint) {
		t.Errorf("got %v of kind %v, hint %q, expected %q of kind %v, hint %q", err, providers.KindOf(err), providers.HintOf(err), text, kind, hint)
	}
	if err != nil && strings.Count(err.Error(), "f5: ") != 1 {
		t.Errorf("%q, expected the provider's name once", err)
	}
}

func TestSettings(t *testing.T) {
	w := newWorld(t)
	for name, tt := range map[string]struct {
		more map[string]any
		text string
	}{
		"plain http":            {map[string]any{"management_url": "http://bigip.example.com"}, "management_url"},
		"a path":                {map[string]any{"management_url": "https://bigip.example.com/mgmt"}, "expected https://HOST"},
		"no pool":               {map[string]any{"pool": ""}, "pool"},
		"pool with partition":   {map[string]any{"pool": "/Common/shop"}, "without the partition"},
		"partition":             {map[string]any{"partition": "a/b"}, "partition"},
		"no credentials":        {map[string]any{"credentials_secret": ""}, "credentials_secret"},
		"argument in the group": {map[string]any{"sync_group": "pair force-full-load-push"}, "sync_group"},
		"ca_file outside":       {map[string]any{"ca_file": "../ca.pem"}, "ca_file"},
		"pinned_for":            {map[string]any{"pinned_for": "-1s"}, "pinned_for"},
		"timeout":               {map[string]any{"timeout": "20s"}, "timeout"},
		"member":                {map[string]any{"member": "{name}"}, "member"},
		"unknown":               {map[string]any{"allow_http": true}, "allow_http"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Spec().Build(w.env(), w.settings(tt.more))
			refused(t, err, providers.Invalid, tt.text, "")
		})
	}
	for _, more := range []map[string]any{
		{"management_url": "https://192.0.2.1:8443/", "partition": "Tenant", "pool": "App/web_pool", "sync_group": "/Common/pair"}, {"ca_file": "ca.pem"},
	} {
		if _, err := Spec().Build(w.env(), w.settings(more)); err != nil {
			t.Errorf("%v: %v", more, err)
		}
	}
}

// What makes shares impossible is found by reading and planning, and keeps
// nobody from bringing all traffic back.
func TestUnfit(t *testing.T) {
	for name, tt := range map[string]struct {
		change     func(*world)
		more       map[string]any
		kind       providers.Kind
		text, hint string
	}{
		"mode ignores ratios": {func(w *world) { w.Mode = "round-robin" }, nil, providers.Invalid, "loadBalancingMode round-robin", "ratio-member"},
		"ratio of nodes":      {func(w *world) { w.Mode = "ratio-node" }, nil, providers.Invalid, "loadBalancingMode ratio-node", "ratio-member"},
		"missing members": {
			func(w *world) {
				w.Members = append(w.Members[:3:3], w.Members[4:]...)
				w.Members[1].Name = "other:80"
				w.Members[1].Address = "10.0.0.99"
			},
			nil, providers.NotFound, "no member web2:80, 10.0.0.4:80, expected", "ADDRESS:PORT",
		},
		"priority groups": {func(w *world) { w.MinActive = 1; w.Members[4].Priority = 10 }, nil, providers.Invalid, "highest priority group", "same priority group"},
		"persistence": {
			func(w *world) {
				w.Virtuals = []map[string]any{
					{"fullPath": "/Common/other", "pool": "/Common/else", "persist": []any{map[string]any{"name": "cookie"}}},
					{"fullPath": "/Common/vs", "pool": "/Common/shop", "persist": []any{map[string]any{"name": "cookie", "partition": "Common", "tmDefault": "yes"}}},
				}
			}, nil, providers.Invalid, "virtual server /Common/vs has persistence cookie", "pinned_for",
		},
		"fallback persistence": {
			func(w *world) {
				w.Virtuals = []map[string]any{{"fullPath": "/Common/vs", "pool": "/Common/shop", "fallbackPersistence": "/Common/source_addr"}}
			}, nil, providers.Invalid, "persistence /Common/source_addr", "pinned_for",
		},
		"standby":     {func(w *world) { w.Failover, w.Group = "standby", "pair" }, map[string]any{"sync_group": "pair"}, providers.Unavailable, "bigip1.example.com is standby", "active device"},
		"not in sync": {func(w *world) { w.Status, w.Group = "Changes Pending", "pair" }, map[string]any{"sync_group": "pair"}, providers.Unavailable, "group pair is not in sync: Changes Pending", "bring the group in sync"},
		"peer is away": {func(w *world) {
			w.Status, w.Group, w.SyncSays = "Disconnected", "pair", "01071a6b:3: peer is disconnected"
		}, map[string]any{"sync_group": "pair"}, providers.Unavailable, "not in sync: Disconnected", "bring the group in sync"},
		"may not save": {func(w *world) { w.SaveSays, w.MinActive, w.Members[4].Priority = "Error: access denied", 1, 10 }, nil, providers.Invalid, "highest priority group", ""},
		"several members": {
			func(w *world) {
				w.Members[5].Address, w.Members[5].Ratio, w.Members[5].Disabled = "10.0.0.4", 7, false
			},
			map[string]any{"member": "{host}"}, providers.Invalid, "10.0.0.4 could be 10.0.0.4:80 or 10.9.9.9:80", `"{host}:{port}"`,
		},
		"several of stable": {func(w *world) { w.Members[5].Address = "10.0.0.1" }, map[string]any{"member": "{host}"}, providers.Invalid, "10.0.0.1 could be 10.0.0.1:80 or 10.9.9.9:80", ""},
		"same member": {
			func(w *world) {
				w.Members = w.Members[1:]
				w.Members[0].Address, w.Members[0].Name = "10.0.0.1", "web2:80"
			},
			nil, providers.Invalid, "10.0.0.1:80 and web2:80 are both member web2:80", "targets",
		},
		"transactions unseen":    {func(w *world) { w.Forbid = "/mgmt/tm/transaction" }, nil, providers.Denied, "list transactions", "role manager"},
		"virtual servers unseen": {func(w *world) { w.Forbid = "/mgmt/tm/ltm/virtual" }, nil, providers.Denied, "read virtual servers", "role manager"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.targets[1].Host = "web2"
			r := w.router(t, tt.more)
			w.set(state.SlotB, 100) // in the middle of a rollout
			w.Do(func() { tt.change(w) })
			part := w.read(t, r)
			if part.Err != nil {
				t.Fatal(part.Err)
			}
			seen := router.Reading{Parts: []router.Part{part}}
			for _, share := range []float64{25, 100} {
				_, _, err := r.Plan(state.SlotB, share, 0.5, seen)
				refused(t, err, tt.kind, tt.text, tt.hint)
			}
			back, got, err := r.Plan(state.SlotB, 0, 0.5, seen)
			if err != nil || got != 0 {
				t.Fatalf("return: %v, %v", got, err)
			}
			receipt, err := r.Write(t.Context(), candidateB, back, seen)
			if err != nil {
				t.Fatalf("return: %v", err)
			}
			if ok, err := r.Settled(t.Context(), back, receipt); !ok || err != nil {
				t.Errorf("return: settled %v, %v", ok, err)
			}
			if got := w.serve(50); got[state.SlotA] != 50 {
				t.Errorf("after a return %v were served, expected slot a alone", got)
			}
		})
	}
}

// A pool that lost its mode between read and write, or after, is found then.
func TestUnfitLater(t *testing.T) {
	w := newWorld(t)
	r := w.router(t, nil)
	want, seen := w.plan(t, r, 25)
	w.Do(func() { w.Mode = "round-robin" })
	_, err := r.Write(t.Context(), candidateB, want, seen)
	refused(t, err, providers.Invalid, "round-robin", "ratio-member")
	w.Do(func() { w.Mode = "ratio-member" })
	if _, err := r.Write(t.Context(), candidateB, want, seen); err != nil {
		t.Fatal(err)
	}
	w.Do(func() { w.Mode = "round-robin" })
	ok, err := r.Settled(t.Context(), want, nil)
	refused(t, err, providers.Invalid, "round-robin", "ratio-member")
	if part := w.read(t, r); ok || part.Shares[state.SlotB] != 40 || !router.Same(part.Weights, want[0].Weights) {
		t.Errorf("settled %v, shares %v, expected that round-robin gives two of five members 40 %%", ok, part.Shares)
	}
}

// Members of a slot that are all down keep nobody from going back to it, and
// priority groups that are not activated from nothing.
func TestFit(t *testing.T) {
	w := newWorld(t)
	w.Members[4].Priority = 10
	r := w.router(t, nil)
	if _, seen := w.plan(t, r, 25); seen.Parts[0].Unfit != nil {
		t.Error(seen.Parts[0].Unfit)
	}
	w.Do(func() {
		for _, m := range w.Members[:3] {
			m.Monitor = "down"
		}
	})
	want, seen := w.plan(t, r, 0)
	if seen.Parts[0].Units[state.SlotA] != 0 || want[0].Weights["10.0.0.1:80"] != 100 || want[0].Weights["10.0.0.4:80"] != 0 {
		t.Errorf("units %v, planned %v", seen.Parts[0].Units, want)
	}
	_, _, err := r.Plan(state.SlotB, 25, 0.5, seen)
	refused(t, err, providers.Invalid, "slot a has no server up", "")
}

// What a person set is accepted, and said.
func TestPinned(t *testing.T) {
	w := newWorld(t)
	w.Virtuals = []map[string]any{{"fullPath": "/Common/vs", "pool": "/Common/shop", "persist": []any{map[string]any{"name": "cookie"}}}}
	r := w.router(t, map[string]any{"pinned_for": "1h"})
	if part := w.read(t, r); part.Unfit != nil || !w.heard("shares are those of new clients") || r.PinnedFor() != time.Hour {
		t.Errorf("unfit %v, said %q", part.Unfit, w.said)
	}
}

func TestRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		change     func(*world)
		more       map[string]any
		kind       providers.Kind
		text, hint string
	}{
		"no pool":        {func(*world) {}, map[string]any{"pool": "else"}, providers.NotFound, "(/Common/else) was not found", "partition"},
		"token limit":    {func(w *world) { w.Tokens = make([]string, f5test.MaxTokens) }, nil, providers.Throttled, "maximum active login tokens", "/mgmt/shared/authz/tokens/"},
		"wrong password": {func(*world) {}, map[string]any{"credentials_secret": "wrong"}, providers.Denied, "Authentication failed", "user:password"},
		"no colon":       {func(*world) {}, map[string]any{"credentials_secret": "shapeless"}, providers.Invalid, "user:password", "colon"},
		"no such secret": {func(*world) {}, map[string]any{"credentials_secret": "none"}, providers.NotFound, "no such secret", ""},
		"always busy":    {func(w *world) { w.Busy = 1000 }, nil, providers.Unavailable, "active asynchronous task", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tt.change(w)
			r := w.router(t, tt.more)
			env := w.env().Secret
			r.env.Secret = func(ctx context.Context, name string) (providers.Secret, error) {
				switch name {
				case "wrong":
					return providers.NewSecret("manent:not-it"), nil
				case "shapeless":
					return providers.NewSecret("hunter22hunter22"), nil
				case "none":
					return providers.Secret{}, &providers.Fault{Kind: providers.NotFound, Err: errors.New("no such secret")}
				}
				return env(ctx, name)
			}
			part := w.read(t, r)
			refused(t, part.Err, tt.kind, tt.text, tt.hint)
			if len(part.Weights) > 0 || part.Shares != nil {
				t.Errorf("weights %v, shares %v beside an error", part.Weights, part.Shares)
			}
			_, err := r.Write(t.Context(), candidateB, []state.PartWeights{{ID: part.ID, Weights: map[string]float64{r.members[0].Name: 1}}}, router.Reading{Parts: []router.Part{part}})
			refused(t, err, tt.kind, tt.text, tt.hint)
			ok, err := r.Settled(t.Context(), nil, nil)
			refused(t, err, tt.kind, tt.text, tt.hint)
			if ok || w.Commits > 0 {
				t.Errorf("settled %v, %d changes", ok, w.Commits)
			}
		})
	}
}

// Members that take no traffic do not count, and one that was forced offline
// stays so.
func TestUnits(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*f5test.Member)
		units  int
		share  float64 // of slot b, with ratio 100 everywhere
	}{
		"up":               {func(*f5test.Member) {}, 2, 40},
		"no monitor":       {func(m *f5test.Member) { m.Monitor = "unchecked" }, 2, 40},
		"down":             {func(m *f5test.Member) { m.Monitor = "down" }, 1, 25},
		"checking":         {func(m *f5test.Member) { m.Monitor = "checking" }, 1, 25},
		"forced offline":   {func(m *f5test.Member) { m.Forced = true }, 1, 25},
		"node is disabled": {func(m *f5test.Member) { m.Parent = true }, 1, 25},
		"disabled":         {func(m *f5test.Member) { m.Disabled = true }, 2, 25},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.router(t, nil)
			w.set(state.SlotB, 100)
			tt.change(w.Members[4])
			part := w.read(t, r)
			if w := part.Weights["[2001:db8::5]:80"]; w != 100 && name != "disabled" || w != 0 && name == "disabled" {
				t.Errorf("weight %v", w)
			}
			if part.Units[state.SlotA] != 3 || part.Units[state.SlotB] != tt.units || part.Shares[state.SlotB] != tt.share {
				t.Errorf("units %v, shares %v, expected %d and %v", part.Units, part.Shares, tt.units, tt.share)
			}
			forced := w.Members[4].Forced
			want, seen := w.plan(t, r, 50)
			if _, err := r.Write(t.Context(), candidateB, want, seen); err != nil {
				t.Fatal(err)
			}
			if w.Members[4].Forced != forced || forced && !w.heard("forced offline") {
				t.Errorf("member %+v, said %q", *w.Members[4], w.said)
			}
			w.Do(func() { w.Members[4].Forced, w.Members[4].Parent, w.Members[4].Monitor = false, false, "up" })
			if part := w.read(t, r); part.Shares[state.SlotB] < 49.5 || part.Shares[state.SlotB] > 50.5 {
				t.Errorf("shares %v, expected 50 %% when all members are up", part.Shares)
			}
		})
	}
}

// A member of which the statistics say nothing may be up or not.
func TestNoStatistics(t *testing.T) {
	w := newWorld(t)
	w.Uncounted = "10.0.0.4:80"
	w.set(state.SlotB, 100)
	part := w.read(t, w.router(t, nil))
	if part.Err != nil || !part.Pending || part.Units != nil || part.Weights["10.0.0.4:80"] != 100 || part.Shares[state.SlotB] != 40 {
		t.Errorf("got %+v", part)
	}
	if providers.KindOf(part.Unfit) != providers.Unknown || !strings.Contains(part.Unfit.Error(), "no statistics of member 10.0.0.4:80") {
		t.Errorf("unfit %v", part.Unfit)
	}
}

// What somebody took out of the slot that serves is not put back by a first
// share.
func TestTakenOut(t *testing.T) {
	for text, change := range map[string]func(*f5test.Member){
		"10.0.0.3:80 is disabled (session user-disabled)": func(m *f5test.Member) { m.Disabled = true },
		"10.0.0.3:80 is forced offline (state user-down)": func(m *f5test.Member) { m.Disabled, m.Forced = true, true },
	} {
		w := newWorld(t)
		r := w.router(t, nil)
		change(w.Members[2])
		seen := router.Reading{Parts: []router.Part{w.read(t, r)}}
		_, _, err := r.Plan(state.SlotB, 10, 0.5, seen)
		refused(t, err, providers.Invalid, text, "put these back")
		if _, _, err := r.Plan(state.SlotB, 0, 0.5, seen); err != nil {
			t.Errorf("%s: a return: %v", text, err)
		}
		seen.Approved = true
		if _, _, err := r.Plan(state.SlotB, 10, 0.5, seen); err != nil {
			t.Errorf("%s: approved: %v", text, err)
		}
	}
	w := newWorld(t)
	r := w.router(t, nil)
	for _, share := range []float64{25, 100, 0, 50, 100} { // what manent wrote
		want, seen := w.plan(t, r, share)
		if _, err := r.Write(t.Context(), candidateB, want, seen); err != nil || seen.Parts[0].Unfit != nil {
			t.Errorf("%v %%: %v, unfit %v", share, err, seen.Parts[0].Unfit)
		}
	}
}

// A user that may only read is found before anything is written.
func TestReadOnly(t *testing.T) {
	w := newWorld(t)
	w.Role = "guest"
	part := w.read(t, w.router(t, nil))
	if part.Err != nil || providers.KindOf(part.Unfit) != providers.Denied || w.made() != 1 {
		t.Errorf("got %v, unfit %v, %d logins", part.Err, part.Unfit, w.made())
	}
}

func (w *world) made() int { return w.Live() + w.Deleted }

// One of two things may be behind an answer that is none of the device's.
func TestFront(t *testing.T) {
	for path, unreadable := range map[string]bool{
		"/mgmt/shared/authn/login": true, "/mgmt/tm/ltm/pool/~Common~shop": true, "/mgmt/tm/cm/device": false,
		"/mgmt/tm/ltm/pool/~Common~shop/members/stats": false, "/mgmt/tm/ltm/virtual": false, "/mgmt/tm/transaction": false,
		"/mgmt/tm/ltm/pool/~Common~shop/members/~Common~manent.invalid:1": false,
	} {
		for status, kind := range map[int]providers.Kind{200: providers.Unknown, 302: providers.Unavailable, 401: providers.Unavailable, 404: providers.Unavailable} {
			w := newWorld(t)
			w.set(state.SlotB, 100)
			w.front(path, status)
			r := w.router(t, nil)
			part := w.read(t, r)
			problem := part.Err
			if !unreadable {
				problem = part.Unfit
			}
			if (part.Err != nil) != unreadable || problem == nil || providers.KindOf(problem) != kind || status != 200 && !strings.Contains(providers.HintOf(problem), "login page") {
				t.Errorf("%s with %d: %v, unfit %v", path, status, part.Err, part.Unfit)
			}
			if part.Err != nil {
				continue
			}
			seen := router.Reading{Parts: []router.Part{part}}
			back, _, err := r.Plan(state.SlotB, 0, 0.5, seen)
			if err == nil {
				_, err = r.Write(t.Context(), candidateB, back, seen)
			}
			if got := w.serve(50); err != nil || got[state.SlotA] != 50 {
				t.Errorf("%s with %d: a return: %v, then %v were served", path, status, err, got)
			}
		}
	}
}

// front is a proxy that answers some calls itself.
func (w *world) front(path string, status int) {
	w.faulty.Next = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			w.ServeHTTP(rw, r)
			return
		}
		rw.Header().Set("Location", "/my.policy")
		rw.WriteHeader(status)
		_, _ = rw.Write([]byte("<html>please log in</html>"))
	})
}

// A page is no member that was changed.
func TestChangeBehindPage(t *testing.T) {
	w := newWorld(t)
	w.set(state.SlotB, 100)
	r := w.router(t, nil)
	back, seen := w.plan(t, r, 0)
	w.front("/mgmt/tm/ltm/pool/~Common~shop/members/~Common~10.0.0.4:80", http.StatusOK)
	_, err := r.Write(t.Context(), candidateB, back, seen)
	refused(t, err, providers.Unknown, "change member 10.0.0.4:80", "")
}

func TestForeign(t *testing.T) {
	w := newWorld(t)
	w.Members[5].Disabled = false
	for name, tt := range map[string]struct {
		change func(*f5test.Member)
		takes  bool
	}{
		"down": {func(m *f5test.Member) { m.Monitor = "down" }, false}, "forced offline": {func(m *f5test.Member) { m.Forced = true }, false},
		"node is disabled": {func(m *f5test.Member) { m.Parent = true }, false}, "no monitor": {func(m *f5test.Member) { m.Monitor = "unchecked" }, true},
		"checking": {func(m *f5test.Member) { m.Monitor = "checking" }, true}, "new state": {func(m *f5test.Member) { m.Monitor = "resting" }, true},
	} {
		was := *w.Members[5]
		tt.change(w.Members[5])
		part := w.read(t, w.router(t, nil))
		if (len(part.Foreign) > 0) != tt.takes || (part.Shares[state.SlotA] < 100) != tt.takes {
			t.Errorf("%s: foreign %v, shares %v", name, part.Foreign, part.Shares)
		}
		*w.Members[5] = was
	}
	part := w.read(t, w.router(t, nil))
	if !maps.Equal(part.Foreign, map[string]float64{"10.9.9.9:80": 100}) || part.Shares[state.SlotA] != 75 {
		t.Errorf("foreign %v, shares %v", part.Foreign, part.Shares)
	}
	w.Do(func() { w.Members[3].Disabled = false })
	want := map[string]float64{"10.0.0.1:80": 100, "10.0.0.2:80": 100, "10.0.0.3:80": 100, "10.0.0.4:80": 100, "[2001:db8::5]:80": 0}
	if part := w.read(t, w.router(t, nil)); !router.Same(part.Weights, want) {
		t.Errorf("weights %v, expected %v", part.Weights, want)
	}
}

// A name without a port will do while it means one member.
func TestMemberWithoutPort(t *testing.T) {
	w := newWorld(t)
	part := w.read(t, w.router(t, map[string]any{"member": "{host}"}))
	if part.Err != nil || part.Unfit != nil || part.Weights["10.0.0.2"] != 100 || len(part.Weights) != 5 {
		t.Errorf("weights %v, %v, %v", part.Weights, part.Err, part.Unfit)
	}
}

func TestReach(t *testing.T) {
	r := newWorld(t)
	f := r.router(t, nil)
	if _, err := f.Reach(state.SlotB, 25, 0.5); err != nil {
		t.Error(err)
	}
	_, err := f.Reach(state.SlotB, 0.1, 0.05)
	refused(t, err, providers.Invalid, "weights 1 to 100", "the smallest share here is 0.66")
	env := r.env()
	env.Targets = nil
	built, err := Spec().Build(env, r.settings(nil))
	if err != nil {
		t.Fatal(err)
	}
	_, err = built.Read(t.Context(), candidateB)
	refused(t, err, providers.Invalid, "no targets", "slot: a")
}

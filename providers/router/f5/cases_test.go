package f5

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/f5/f5test"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/providers/router/routertest"
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
			if _, err := r.Write(t.Context(), candidateB, back, seen); err != nil {
				t.Fatalf("return: %v", err)
			}
			if ok, err := r.Settled(t.Context(), back, nil); !ok || err != nil {
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
		"standby":         {func(w *world) { w.Failover = "standby" }, nil, providers.Unavailable, "bigip1.example.com is standby", "active device"},
		"forced offline":  {func(w *world) { w.Failover = "forced-offline" }, nil, providers.Unavailable, "is forced-offline", "active device"},
		"no pool":         {func(*world) {}, map[string]any{"pool": "else"}, providers.NotFound, "(/Common/else) was not found", "partition"},
		"token limit":     {func(w *world) { w.Tokens = make([]string, f5test.MaxTokens) }, nil, providers.Throttled, "maximum active login tokens", "/mgmt/shared/authz/tokens/"},
		"wrong password":  {func(*world) {}, map[string]any{"credentials_secret": "wrong"}, providers.Denied, "Authentication failed", "user:password"},
		"no colon":        {func(*world) {}, map[string]any{"credentials_secret": "shapeless"}, providers.Invalid, "user:password", "colon"},
		"no such secret":  {func(*world) {}, map[string]any{"credentials_secret": "none"}, providers.NotFound, "no such secret", ""},
		"always busy":     {func(w *world) { w.Busy = 1000 }, nil, providers.Unavailable, "active asynchronous task", ""},
		"several members": {func(w *world) { w.Members[5].Address = "10.0.0.1" }, map[string]any{"member": "{host}"}, providers.Invalid, "10.0.0.1 could be 10.0.0.1:80 or 10.9.9.9:80", `"{host}:{port}"`},
		"same member": {
			func(w *world) {
				w.Members = w.Members[1:]
				w.Members[0].Address = "10.0.0.1"
				w.Members[0].Name = "10.0.0.2:80"
			},
			nil, providers.Invalid, "10.0.0.1:80 and 10.0.0.2:80 are both member 10.0.0.2:80", "targets",
		},
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
			_, err := r.Write(t.Context(), candidateB, []state.PartWeights{{ID: part.ID, Weights: map[string]float64{"10.0.0.1:80": 1}}}, router.Reading{Parts: []router.Part{part}})
			refused(t, err, tt.kind, tt.text, tt.hint)
			ok, err := r.Settled(t.Context(), nil, nil)
			refused(t, err, tt.kind, tt.text, tt.hint)
			if ok || w.Commits > 0 {
				t.Errorf("settled %v, %d changes", ok, w.Commits)
			}
		})
	}
}

// What is refused on the way leaves everything as it was, the tokens deleted.
func TestWriteRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change     func(*world)
		kind       providers.Kind
		text, hint string
	}{
		"operator":            {func(w *world) { w.Role = "operator" }, providers.Denied, "Access Denied", "role manager on the pool's partition"},
		"guest":               {func(w *world) { w.Role = "guest" }, providers.Denied, "Authorization failed", "role manager"},
		"failed":              {func(w *world) { w.FailWith = "01070734:3: Configuration error" }, providers.Invalid, "nothing was changed: 01070734:3", "/var/log/ltm"},
		"failed later":        {func(w *world) { w.FailWith, w.Looks = "01070734:3: Configuration error", 3 }, providers.Invalid, "state FAILED, nothing was changed", ""},
		"failed at once":      {func(w *world) { w.FailWith, w.FailAtOnce = "01070734:3: Configuration error", true }, providers.Invalid, "transaction failed:01070734", ""},
		"denied at commit":    {func(w *world) { w.FailWith = "01070822:3: Access Denied: no" }, providers.Denied, "Access Denied", "role manager"},
		"transaction is gone": {func(w *world) { w.Expire = true }, providers.Unavailable, "was not found", "try again"},
		"completed in vain":   {func(w *world) { w.Ignore = true }, providers.Unknown, "members are as before", "AS3"},
		"busy for a while":    {func(w *world) { w.Busy = 3 }, providers.Unknown, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.router(t, nil)
			want, seen := w.plan(t, r, 25)
			w.Do(func() { tt.change(w) })
			receipt, err := r.Write(t.Context(), candidateB, want, seen)
			if tt.text == "" {
				if err != nil || receipt["/Common/shop"] == "" {
					t.Errorf("got %v, %v, expected that it is tried again", receipt, err)
				}
				return
			}
			refused(t, err, tt.kind, tt.text, tt.hint)
			if now := w.read(t, r); !router.Same(now.Weights, seen.Parts[0].Weights) || w.Commits > 0 {
				t.Errorf("weights %v, expected %v as before", now.Weights, seen.Parts[0].Weights)
			}
			if w.Live() > 0 {
				t.Errorf("%d tokens are left", w.Live())
			}
			w.Do(func() { w.Role, w.FailWith, w.FailAtOnce, w.Expire, w.Ignore = "manager", "", false, false, false })
			if _, err := r.Write(t.Context(), candidateB, want, seen); err != nil {
				t.Errorf("after it was put right: %v", err)
			}
		})
	}
}

func TestWriteChecksWhatIsWanted(t *testing.T) {
	part := "/Common/shop"
	for name, tt := range map[string]struct {
		want   state.PartWeights
		expect router.Reading
		kind   providers.Kind
		text   string
	}{
		"another part":   {state.PartWeights{ID: "/Common/else"}, router.Reading{}, providers.NotFound, "expected /Common/shop"},
		"half a ratio":   {state.PartWeights{ID: part, Weights: map[string]float64{"10.0.0.1:80": 0.5}}, router.Reading{}, providers.Invalid, "whole number"},
		"negative":       {state.PartWeights{ID: part, Weights: map[string]float64{"10.0.0.1:80": -1}}, router.Reading{}, providers.Invalid, "whole number"},
		"unknown member": {state.PartWeights{ID: part, Weights: map[string]float64{"10.0.0.77:80": 5}}, router.Reading{}, providers.NotFound, "no member 10.0.0.77:80"},
		"nothing seen":   {state.PartWeights{ID: part, Weights: map[string]float64{"10.0.0.1:80": 5}}, router.Reading{}, providers.Conflict, "has weights"},
		"seen with error": {
			state.PartWeights{ID: part, Weights: map[string]float64{"10.0.0.1:80": 5}},
			router.Reading{Parts: []router.Part{{PartWeights: state.PartWeights{ID: part}, Err: errors.New("x")}}}, providers.Unavailable, "nothing to compare with",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, err := w.router(t, nil).Write(t.Context(), candidateB, []state.PartWeights{tt.want}, tt.expect)
			refused(t, err, tt.kind, tt.text, "")
			if w.Commits > 0 {
				t.Error("something was changed")
			}
		})
	}
}

// One transaction, a PATCH for each member and nothing else that writes; the
// ratio of a member that goes out stays.
func TestWrite(t *testing.T) {
	w := newWorld(t)
	w.Group = "pair"
	r := w.router(t, nil)
	want, seen := w.plan(t, r, 25)
	before := len(w.Requests())
	if _, err := r.Write(t.Context(), candidateB, want, seen); err != nil {
		t.Fatal(err)
	}
	var writes []string
	for _, call := range w.Requests()[before:] {
		if !strings.HasPrefix(call, "GET ") {
			writes = append(writes, call)
		}
	}
	pool := "PATCH /mgmt/tm/ltm/pool/~Common~shop/members/~Common~"
	expected := []string{
		"POST /mgmt/tm/transaction", pool + "10.0.0.1:80", pool + "web2:80", pool + "10.0.0.3:80", pool + "10.0.0.4:80", pool + "2001:db8::5.80",
		"PATCH /mgmt/tm/transaction/1389812352", "POST /mgmt/tm/cm", "POST /mgmt/tm/sys/config",
	}
	slices.Sort(expected[1:6])
	slices.Sort(writes[1:6])
	if !slices.Equal(writes, expected) {
		t.Errorf("writes\n%q, expected\n%q", writes, expected)
	}
	if w.Commits != 1 || w.Unsaved || w.Status != "In Sync" {
		t.Errorf("%d changes, unsaved %v, group %s", w.Commits, w.Unsaved, w.Status)
	}
	ratio := w.Members[3].Ratio
	back, seen := w.plan(t, r, 0)
	if _, err := r.Write(t.Context(), candidateB, back, seen); err != nil {
		t.Fatal(err)
	}
	if m := w.Members[3]; !m.Disabled || m.Ratio != ratio {
		t.Errorf("member %+v, expected it disabled, with ratio %d as before", *m, ratio)
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
			if part := w.read(t, r); part.Shares[state.SlotB] < 49.5 || part.Shares[state.SlotB] > 50.5 {
				t.Errorf("shares %v, expected 50 %% with the members that are up", part.Shares)
			}
		})
	}
}

func TestForeign(t *testing.T) {
	w := newWorld(t)
	w.Members[5].Disabled = false
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

// Somebody who writes in the moment between comparing and writing, or right
// after, is found by reading again.
func TestRace(t *testing.T) {
	w := newWorld(t)
	r := w.router(t, nil)
	want, seen := w.plan(t, r, 25)
	w.Do(func() { w.After = func() { w.Members[3].Ratio = 77 } })
	_, err := r.Write(t.Context(), candidateB, want, seen)
	refused(t, err, providers.Conflict, "expected", "somebody else")
	var drifted *router.ErrDrifted
	if !errors.As(err, &drifted) || drifted.Seen["10.0.0.4:80"] != 77 || drifted.Part != "/Common/shop" {
		t.Errorf("got %+v", drifted)
	}
}

func TestSync(t *testing.T) {
	for name, tt := range map[string]struct {
		change     func(*world)
		settled    bool
		kind       providers.Kind
		text, hint string
		said       string
	}{
		"in sync":        {func(*world) {}, true, 0, "", "", ""},
		"under way":      {func(w *world) { w.SyncTook = 5 }, false, 0, "", "", "pair is not in sync: Syncing"},
		"others pending": {func(w *world) { w.Status = "Changes Pending" }, true, 0, "", "", "whatever is pending is sent with it: Changes Pending"},
		"status unseen":  {func(w *world) { w.Forbid = "/mgmt/tm/cm/sync-status" }, false, 0, "", "", "is sent with this change"},
		"peer away":      {func(w *world) { w.SyncSays = "01071a6b:3: peer is disconnected" }, false, providers.Unavailable, "peer is disconnected", "Device Management", ""},
		"may not sync":   {func(w *world) { w.SyncSays = "01070822:3: Access Denied" }, false, providers.Denied, "Access Denied", "Device Management", ""},
		"may not save":   {func(w *world) { w.SaveSays = "Error: access denied" }, false, providers.Denied, "save configuration", "save_config", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Group = "pair"
			r := w.router(t, nil)
			want, seen := w.plan(t, r, 25)
			tt.change(w)
			_, err := r.Write(t.Context(), candidateB, want, seen)
			if tt.text != "" {
				refused(t, err, tt.kind, tt.text, tt.hint)
				if part := w.read(t, r); !router.Same(part.Weights, want[0].Weights) {
					t.Errorf("weights %v, expected that the active device has them", part.Weights)
				}
				w.Do(func() { w.SyncSays, w.SaveSays = "", "" })
				_, err = r.Write(t.Context(), candidateB, want, seen)
				tt.settled = true
			}
			if err != nil {
				t.Fatal(err)
			}
			ok, err := r.Settled(t.Context(), want, nil)
			if ok != tt.settled || (err != nil) != (w.Forbid != "") {
				t.Errorf("settled %v, %v, expected %v", ok, err, tt.settled)
			}
			if tt.said != "" && !w.heard(tt.said) {
				t.Errorf("said %q, expected %q", w.said, tt.said)
			}
			if w.Commits != 1 || w.Unsaved || w.Syncs < 1 {
				t.Errorf("%d changes, %d syncs, unsaved %v", w.Commits, w.Syncs, w.Unsaved)
			}
		})
	}
}

func TestNotSettled(t *testing.T) {
	for name, tt := range map[string]struct {
		status     string
		kind       providers.Kind
		text, hint string
	}{
		"pending":      {"Changes Pending", 0, "", ""},
		"initial":      {"Awaiting Initial Sync", 0, "", ""},
		"disconnected": {"Disconnected", providers.Unavailable, "device group pair is not in sync: Disconnected", "Device Management"},
		"new word":     {"Sync Failure", providers.Unavailable, "Sync Failure", "Device Management"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Group, w.Status = "pair", tt.status
			r := w.router(t, nil)
			_, seen := w.plan(t, r, 0)
			ok, err := r.Settled(t.Context(), seen.Weights(), nil)
			if ok || (err == nil) != (tt.text == "") {
				t.Errorf("settled %v, %v", ok, err)
			}
			if err != nil {
				refused(t, err, tt.kind, tt.text, tt.hint)
			}
		})
	}
	w := newWorld(t)
	r := w.router(t, map[string]any{"sync_group": "nobody"})
	_, seen := w.plan(t, r, 0)
	_, err := r.Settled(t.Context(), seen.Weights(), nil)
	refused(t, err, providers.NotFound, "device group (/Common/nobody) was not found", "sync_group")
}

// The token goes also when the caller has gone.
func TestTokenAfterCancel(t *testing.T) {
	w := newWorld(t)
	var h routertest.Harness
	w.faulty.Fill(&h)
	r := w.router(t, nil)
	want, seen := w.plan(t, r, 25)
	heal := h.Hang(routertest.Writes)
	defer heal()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := r.Write(ctx, candidateB, want, seen)
	refused(t, err, providers.Unknown, "no answer", "")
	if w.Live() > 0 || w.Deleted == 0 {
		t.Errorf("%d tokens are left, %d deleted", w.Live(), w.Deleted)
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
	if err := f.Reach(state.SlotB, 25, 0.5); err != nil {
		t.Error(err)
	}
	refused(t, f.Reach(state.SlotB, 0.1, 0.05), providers.Invalid, "weights 1 to 100", "the smallest share here is 0.66")
	env := r.env()
	env.Targets = nil
	built, err := Spec().Build(env, r.settings(nil))
	if err != nil {
		t.Fatal(err)
	}
	_, err = built.Read(t.Context(), candidateB)
	refused(t, err, providers.Invalid, "no targets", "slot: a")
}

// A token that ends in the middle is replaced once, and the call made again:
// the device says that it was not carried out.
func TestTokenExpires(t *testing.T) {
	w := newWorld(t)
	var h routertest.Harness
	w.faulty.Fill(&h)
	r := w.router(t, nil)
	want, seen := w.plan(t, r, 25)
	h.Sneak(func() { w.Do(func() { w.Tokens = nil }) })
	if _, err := r.Write(t.Context(), candidateB, want, seen); err != nil {
		t.Fatal(err)
	}
	if w.Commits != 1 || w.Live() > 0 {
		t.Errorf("%d changes, %d tokens are left", w.Commits, w.Live())
	}
}

// A device that takes longer than the timeout may have done it or not.
func TestSlow(t *testing.T) {
	for _, on := range []routertest.Calls{routertest.Reads, routertest.Writes} {
		w := newWorld(t)
		var h routertest.Harness
		w.faulty.Fill(&h)
		r := w.router(t, nil)
		want, seen := w.plan(t, r, 25)
		r.settings.Timeout = 30 * time.Millisecond
		var err error
		if r.api, err = r.client(); err != nil {
			t.Fatal(err)
		}
		heal := h.Hang(on)
		_, err = r.Write(t.Context(), candidateB, want, seen)
		refused(t, err, providers.Unknown, "no answer within 30ms", "")
		heal()
		if _, err := w.router(t, nil).Write(t.Context(), candidateB, want, seen); err != nil || w.Commits != 1 || w.Live() > 0 {
			t.Errorf("again: %v, %d changes, %d tokens are left", err, w.Commits, w.Live())
		}
	}
}

// The change was made and its answer lost: the next process finds it, changes
// nothing, and does what was left to do.
func TestAnswerLost(t *testing.T) {
	w := newWorld(t)
	w.Group = "pair"
	var h routertest.Harness
	w.faulty.Fill(&h)
	r := w.router(t, nil)
	want, seen := w.plan(t, r, 25)
	heal := h.Mute(1)
	_, err := r.Write(t.Context(), candidateB, want, seen)
	heal()
	if err == nil || providers.KindOf(err).Definite() || w.Commits != 1 || !w.Unsaved || w.Status == "In Sync" {
		t.Fatalf("%v, %d changes, unsaved %v, group %s", err, w.Commits, w.Unsaved, w.Status)
	}
	if _, err := w.router(t, nil).Write(t.Context(), candidateB, want, seen); err != nil {
		t.Fatal(err)
	}
	if w.Commits != 1 || w.Unsaved || w.Status != "In Sync" {
		t.Errorf("%d changes, unsaved %v, group %s", w.Commits, w.Unsaved, w.Status)
	}
}

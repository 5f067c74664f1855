package f5

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/state"
)

// What is refused on the way leaves everything as it was, the tokens deleted.
func TestWriteRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change     func(*world)
		kind       providers.Kind
		text, hint string
	}{
		"operator":             {func(w *world) { w.Role = "operator" }, providers.Denied, "Access Denied", "role manager on the pool's partition"},
		"guest":                {func(w *world) { w.Role = "guest" }, providers.Denied, "Authorization failed", "role manager"},
		"failed":               {func(w *world) { w.FailWith = "01070734:3: Configuration error" }, providers.Invalid, "nothing was changed: 01070734:3", "/var/log/ltm"},
		"failed later":         {func(w *world) { w.FailWith, w.Looks = "01070734:3: Configuration error", 3 }, providers.Invalid, "state FAILED, nothing was changed", ""},
		"failed at once":       {func(w *world) { w.FailWith, w.FailAtOnce = "01070734:3: Configuration error", true }, providers.Invalid, "transaction failed:01070734", ""},
		"denied at commit":     {func(w *world) { w.FailWith = "01070822:3: Access Denied: no" }, providers.Denied, "Access Denied", "role manager"},
		"denied at once":       {func(w *world) { w.FailWith, w.FailAtOnce = "01070822:3: Access Denied: no", true }, providers.Denied, "Access Denied", "role manager"},
		"forgotten and done":   {func(w *world) { w.Forget, w.Looks = true, 1 }, providers.Unknown, "", ""},
		"forgotten and failed": {func(w *world) { w.Forget, w.Looks, w.FailWith = true, 1, "x" }, providers.Unknown, "sent, its outcome could not be read", ""},
		"transaction is gone":  {func(w *world) { w.Expire = true }, providers.Unavailable, "was not found", "try again"},
		"completed in vain":    {func(w *world) { w.Ignore = true }, providers.Unknown, "members are as before", "AS3"},
		"busy for a while":     {func(w *world) { w.Busy = 3 }, providers.Unknown, "", ""},
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
			w.Do(func() {
				w.Role, w.FailWith, w.FailAtOnce, w.Expire, w.Forget, w.Ignore = "manager", "", false, false, false, false
			})
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
		"unknown member": {state.PartWeights{ID: part, Weights: map[string]float64{"10.0.0.77:80": 5}}, router.Reading{}, providers.Invalid, "weight 5 of 10.0.0.77:80, which is no target's"},
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

// One transaction, a PATCH for each member that changes and nothing else that writes; the
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
		"POST /mgmt/tm/transaction", pool + "10.0.0.4:80", pool + "2001:db8::5.80",
		"PATCH /mgmt/tm/transaction/1389812352", "POST /mgmt/tm/cm", "POST /mgmt/tm/sys/config",
	}
	slices.Sort(writes[1:3])
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
		"others pending": {func(w *world) { w.Status = "Changes Pending" }, true, 0, "", "", "is sent with this change: device group pair is not in sync: Changes Pending"},
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

package kubernetes

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/kubernetes/kubetest"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// late is a status that was written so long after now.
func late(by time.Duration, status func(map[string]any)) func(map[string]any) {
	return func(o map[string]any) {
		status(o)
		fields := o["metadata"].(map[string]any)["managedFields"].([]any)
		fields[0].(map[string]any)["time"] = time.Now().Add(by).UTC().Format(time.RFC3339)
	}
}

// TestReturnNeedsNoMore: with what serves unknown or gone, the candidate gets
// nothing more, and all traffic can go back.
func TestReturnNeedsNoMore(t *testing.T) {
	const endpoints = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/shop-b-1"
	for name, tt := range map[string]struct {
		world  func(*testing.T) *world
		breaks func(*world)
		kind   providers.Kind
		words  string
	}{
		"no rights any more": {gatewayWorld, func(w *world) {
			w.Deny(func(_, resource string) bool { return resource == "endpointslices" })
		}, providers.Denied, "endpointslices"},
		"no endpoint":        {gatewayWorld, func(w *world) { w.Delete(endpoints) }, providers.Unavailable, "nothing in slot b is ready"},
		"no DestinationRule": {istioWorld, func(w *world) { w.Delete("/apis/networking.istio.io/v1/namespaces/shop/destinationrules/shop") }, providers.NotFound, "destination_rule"},
	} {
		t.Run(name, func(t *testing.T) {
			w := tt.world(t)
			r := w.router(t)
			move(t, r, 25)
			tt.breaks(w)
			seen := look(t, r)
			more, _, _ := r.Plan(state.SlotB, 50, 0.5, seen)
			_, err := r.Write(t.Context(), slots, more, seen)
			want(t, err, tt.kind, tt.words)
			if w.Writes() != 2 {
				t.Errorf("%d writes, want those of the first share", w.Writes())
			}
			back, receipt := move(t, r, 0)
			if ok, err := r.Settled(t.Context(), back, receipt); !ok || err != nil {
				t.Errorf("return in force: %v, %v", ok, err)
			}
		})
	}
}

// TestInForce: what the controllers say, and what their silence means, at a
// time after the write.
func TestInForce(t *testing.T) {
	const generation = 2.0
	says := func(condition, status, reason string, observed float64) func(map[string]any) {
		return func(o map[string]any) {
			kubetest.SetStatus(o, "Accepted", "True", "Accepted", observed)
			kubetest.SetStatus(o, "ResolvedRefs", "True", "ResolvedRefs", observed)
			kubetest.SetStatus(o, condition, status, reason, observed)
		}
	}
	noB := func(w *world) { w.Delete("/api/v1/namespaces/shop/services/shop-b") }
	noA := func(w *world) { w.Delete("/api/v1/namespaces/shop/services/shop-a") }
	const soon, longAfter = time.Second, 2 * time.Minute
	tests := []struct {
		name   string
		share  float64
		status func(map[string]any)
		world  func(*world)
		after  time.Duration // since the write; 0: nobody knows of a write
		in     bool
		err    string
		logged string
		settle string
	}{
		{name: "reported, proxies on their way", share: 25, status: says("Accepted", "True", "Accepted", generation), after: soon, settle: "10s"},
		{name: "reported, proxies have followed", share: 25, status: says("Accepted", "True", "Accepted", generation), after: 11 * time.Second, settle: "10s", in: true},
		{name: "reported late", share: 25, status: late(5*time.Second, says("Accepted", "True", "Accepted", generation)), after: 11 * time.Second, settle: "10s"},
		{name: "reported late, then followed", share: 25, status: late(5*time.Second, says("Accepted", "True", "Accepted", generation)), after: 17 * time.Second, settle: "10s", in: true},
		{name: "status written all the time", share: 25, status: late(59*time.Second, says("Accepted", "True", "Accepted", generation)), after: longAfter, settle: "10s", in: true},
		{name: "at once", share: 25, status: says("Accepted", "True", "Accepted", generation), after: soon, in: true},
		{name: "not yet observed", share: 25, status: says("Accepted", "True", "Accepted", generation-1), after: soon},
		{name: "never observed", share: 25, status: says("Accepted", "True", "Accepted", generation-1), after: longAfter, in: true, logged: "did not report generation 2 within 1m0s"},
		{name: "never any status", share: 25, status: func(o map[string]any) { delete(o, "status") }, after: longAfter, in: true, logged: "Gateway edge did not report"},
		{name: "refused, perhaps of before", share: 25, status: says("Accepted", "False", "NotAllowedByListeners", generation), after: soon},
		{name: "refused", share: 25, status: says("Accepted", "False", "NotAllowedByListeners", generation), after: longAfter, err: "NotAllowedByListeners: said by the test"},
		{name: "refused long ago and silent since", share: 25, status: says("Accepted", "False", "NotAllowedByListeners", generation-1), after: longAfter, err: "NotAllowedByListeners"},
		{name: "refused before any write", share: 25, status: says("Accepted", "False", "NotAllowedByListeners", generation), err: "NotAllowedByListeners"},
		{name: "in part", share: 25, status: says("PartiallyInvalid", "True", "UnsupportedValue", generation), after: longAfter, err: "UnsupportedValue"},
		{name: "idle slot without Service", share: 0, status: says("ResolvedRefs", "False", "BackendNotFound", generation), world: noB, in: true, logged: "the slot without traffic"},
		{name: "slot with traffic without Service", share: 25, status: says("ResolvedRefs", "False", "BackendNotFound", generation), world: noB, after: longAfter, err: "create the Service shop-b"},
		{name: "stable without Service", share: 25, status: says("ResolvedRefs", "False", "BackendNotFound", generation), world: noA, err: "create the Service shop-a"},
		{name: "another backend", share: 25, status: says("ResolvedRefs", "False", "BackendNotFound", generation), after: longAfter, err: "BackendNotFound"},
		{name: "no reference grant", share: 25, status: says("ResolvedRefs", "False", "RefNotPermitted", generation), world: noB, after: longAfter, err: "RefNotPermitted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := gatewayWorld(t)
			w.settings["http_route"] = "web"
			if tt.settle != "" {
				w.settings["settle"] = tt.settle
			}
			w.Hold()
			shift := tt.after
			if shift == 0 {
				shift = -time.Hour // the last change is as young as can be
			}
			r := w.at(t, func() time.Time { return time.Now().Add(shift) })
			move(t, r, 50) // the generation is 2 with any share
			w.Edit(routes+"web", "manent", func(o map[string]any) {
				o["metadata"].(map[string]any)["generation"] = generation - 1
				setWeights(o, "rules", "backendRefs", 100-tt.share, tt.share)
			})
			w.Status(routes+"web", tt.status)
			if tt.world != nil {
				tt.world(w)
			}
			receipt := state.Receipt{"web at": time.Now().Format(time.RFC3339Nano)}
			if tt.after == 0 {
				receipt = nil
			}
			in, err := r.Settled(t.Context(), look(t, r).Weights(), receipt)
			switch {
			case tt.err != "":
				want(t, err, providers.Invalid, tt.err)
			case err != nil:
				t.Errorf("error %v", err)
			}
			if in != tt.in {
				t.Errorf("in force %v, want %v", in, tt.in)
			}
			if tt.logged != "" && !slices.ContainsFunc(*w.logged, func(line string) bool { return strings.Contains(line, tt.logged) }) {
				t.Errorf("logged %q, want %q", *w.logged, tt.logged)
			}
		})
	}
}

// TestPendingEnds: a controller that never reports does not keep a part
// pending for ever, which would keep a version from its retirement.
func TestPendingEnds(t *testing.T) {
	w := gatewayWorld(t)
	w.Silence()
	shift := time.Duration(0)
	r := w.at(t, func() time.Time { return time.Now().Add(shift) })
	move(t, r, 25)
	if !look(t, r).Parts[0].Pending {
		t.Error("not pending although nobody has seen the change")
	}
	shift = 2 * time.Minute
	if look(t, r).Parts[0].Pending {
		t.Error("pending for ever")
	}
}

func TestTargetWaits(t *testing.T) {
	w := gatewayWorld(t)
	release := w.Hold()
	clock := time.Now()
	r := w.at(t, func() time.Time { clock = clock.Add(2 * time.Second); return clock })
	match := router.Match{Header: "x-canary", Value: "always"}
	if _, err := r.Target(t.Context(), slots, state.SlotB, match, true); err != nil {
		t.Fatal(err)
	}
	if len(*w.logged) != 2 || !strings.Contains((*w.logged)[0], "not known to be in force after 15s") {
		t.Errorf("logged %q, want a line for each route", *w.logged)
	}
	release()
	*w.logged = nil
	access, err := r.Target(t.Context(), slots, state.SlotB, match, true)
	if err != nil || len(*w.logged) != 0 || access.Header["x-canary"] != "always" {
		t.Errorf("access %v, %v, logged %q", access, err, *w.logged)
	}
	if w.Patches() != 2 {
		t.Errorf("%d patches, want one for each route", w.Patches())
	}
	for _, bad := range []router.Match{{Header: "x canary", Value: "1"}, {Header: "x", Value: ""}, {Header: "x", Value: "a\nb"}} {
		_, err := r.Target(t.Context(), slots, state.SlotB, bad, true)
		want(t, err, providers.Invalid, "expected the name of a header")
	}
}

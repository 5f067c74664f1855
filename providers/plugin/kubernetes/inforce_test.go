package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/kubernetes/kubetest"
	"github.com/manent/action/providers/plugin/kubernetes/traffic"
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
	noPort := func(w *world) {
		w.Edit("/api/v1/namespaces/shop/services/shop-b", "kubectl", func(o map[string]any) {
			o["spec"].(map[string]any)["ports"] = []any{map[string]any{"port": 8080.0}}
		})
	}
	message := func(status func(map[string]any), text string) func(map[string]any) {
		return func(o map[string]any) {
			status(o)
			conditions := o["status"].(map[string]any)["parents"].([]any)[0].(map[string]any)["conditions"].([]any)
			for _, c := range conditions {
				if c := c.(map[string]any); strings.HasPrefix(fmt.Sprint(c["reason"]), "Unsupported") {
					c["message"] = text
				}
			}
		}
	}
	second := func(status func(map[string]any), reason string) func(map[string]any) { // one more parent, which says no with a reason
		return func(o map[string]any) {
			status(o)
			inner := map[string]any{"name": "inner"}
			spec := o["spec"].(map[string]any)
			spec["parentRefs"] = append(spec["parentRefs"].([]any), inner)
			said := map[string]any{"type": "Accepted", "status": "True", "reason": "Accepted", "observedGeneration": generation}
			if reason != "" {
				said["status"], said["reason"] = "False", reason
			}
			parents := o["status"].(map[string]any)
			parents["parents"] = append(parents["parents"].([]any), map[string]any{"parentRef": inner, "conditions": []any{said,
				map[string]any{"type": "ResolvedRefs", "status": "True", "reason": "ResolvedRefs", "observedGeneration": generation}}})
		}
	}
	beside := func(condition, status string, observed float64) func(map[string]any) { // an entry of another controller for the same parent
		return func(o map[string]any) {
			says("Accepted", "True", "Accepted", generation)(o)
			parents := o["status"].(map[string]any)
			parents["parents"] = append(parents["parents"].([]any), map[string]any{"controllerName": "example.net/other", "parentRef": map[string]any{"name": "edge"},
				"conditions": []any{map[string]any{"type": condition, "status": status, "reason": "NoMatchingParent", "observedGeneration": observed}}})
		}
	}
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
		{name: "a former controller's no, soon", share: 25, status: beside("Accepted", "False", generation-1), after: soon},
		{name: "a former controller's no", share: 25, status: beside("Accepted", "False", generation-1), after: longAfter, in: true, logged: "another controller has accepted this one"},
		{name: "another controller's no", share: 25, status: beside("Accepted", "False", generation), after: longAfter, err: "NoMatchingParent"},
		{name: "a controller of policies", share: 25, status: beside("example.net/Affected", "True", generation), after: soon, in: true},
		{name: "idle slot without Service", share: 0, status: says("ResolvedRefs", "False", "BackendNotFound", generation), world: noB, in: true, logged: "the slot without traffic"},
		{name: "slot with traffic without Service", share: 25, status: says("ResolvedRefs", "False", "BackendNotFound", generation), world: noB, after: longAfter, err: "create the Service shop-b"},
		{name: "stable without Service", share: 25, status: says("ResolvedRefs", "False", "BackendNotFound", generation), world: noA, err: "create the Service shop-a"},
		{name: "another backend", share: 25, status: says("ResolvedRefs", "False", "BackendNotFound", generation), after: longAfter, in: true, logged: "a backend of somebody else"},
		{name: "another backend, before any write", share: 25, status: says("ResolvedRefs", "False", "BackendNotFound", generation), in: true, logged: "a backend of somebody else"},
		{name: "another backend, soon", share: 25, status: says("ResolvedRefs", "False", "BackendNotFound", generation), after: soon},
		{name: "another backend, soon after a return", share: 0, status: says("ResolvedRefs", "False", "BackendNotFound", generation), after: soon, in: true, logged: "a backend of somebody else"},
		{name: "another backend's kind", share: 25, status: says("ResolvedRefs", "False", "InvalidKind", generation), after: longAfter, in: true, logged: "a backend of somebody else"},
		{name: "another backend's reference grant", share: 25, status: says("ResolvedRefs", "False", "RefNotPermitted", generation), after: longAfter, in: true, logged: "a backend of somebody else"},
		{name: "two reasons in one", share: 25, status: says("ResolvedRefs", "False", "RefNotPermitted", generation), world: noB, after: longAfter, err: "create the Service shop-b"},
		{name: "our port", share: 25, status: says("ResolvedRefs", "False", "BackendNotFound", generation), world: noPort, after: longAfter, err: "shop-b has not each of the ports [80]"},
		{name: "our port, no traffic", share: 0, status: says("ResolvedRefs", "False", "BackendNotFound", generation), world: noPort, after: longAfter, in: true, logged: "the slot without traffic"},
		{name: "ours by its message", share: 25, status: message(says("ResolvedRefs", "False", "UnsupportedProtocol", generation), "shop/shop-b: not spoken here"), after: longAfter, err: "see the Service shop-b"},
		{name: "whose it is cannot be seen", share: 25, status: says("ResolvedRefs", "False", "UnsupportedProtocol", generation), after: longAfter, err: "UnsupportedProtocol"},
		{name: "whose it is cannot be seen in a return", share: 0, status: says("ResolvedRefs", "False", "UnsupportedProtocol", generation), after: soon, in: true, logged: "cannot be seen"},
		{name: "a return that is not accepted", share: 0, status: says("Accepted", "False", "UnsupportedValue", generation), after: longAfter, err: "UnsupportedValue"},
		{name: "a return on a parent that takes no route", share: 0, status: says("Accepted", "False", "NotAllowedByListeners", generation), after: longAfter, in: true, logged: "serves nobody by it"},
		{name: "a return on one that took none before either", share: 0, status: says("Accepted", "False", "NoMatchingListenerHostname", generation-1), after: longAfter, in: true, logged: "serves nobody by it"},
		{name: "a return that another parent refuses", share: 0, status: second(says("Accepted", "False", "NotAllowedByListeners", generation), "UnsupportedValue"), after: longAfter, err: "Gateway inner: Accepted is not so, UnsupportedValue"},
		{name: "a return that another parent takes", share: 0, status: second(says("Accepted", "False", "NotAllowedByListeners", generation), ""), after: longAfter, in: true, logged: "Gateway edge: Accepted is not so"},
		{name: "a return that is not accepted, soon", share: 0, status: says("Accepted", "False", "NotAllowedByListeners", generation), after: soon},
		{name: "a return with dropped rules", share: 0, status: message(says("PartiallyInvalid", "True", "UnsupportedValue", generation), "Dropped Rule 2"), after: soon, in: true, logged: "in any case"},
		{name: "a return that falls back", share: 0, status: message(says("PartiallyInvalid", "True", "UnsupportedValue", generation), "Fall Back: rule 2"), after: longAfter, err: "Fall Back"},
	}
	// One server and one connection for all with a settle time: each costs more
	// than the rest of a case.
	worlds, routers, shift := map[string]*world{}, map[string]*traffic.Router{}, time.Duration(0)
	for _, settle := range []string{"", "10s"} {
		w := gatewayWorld(t)
		if w.settings["http_route"] = "web"; settle != "" {
			w.settings["settle"] = settle
		}
		w.Hold()
		worlds[settle], routers[settle] = w, w.at(t, func() time.Time { return time.Now().Add(shift) })
	}
	begin := map[string]map[string]any{}
	for _, path := range []string{routes + "web", "/api/v1/namespaces/shop/services/shop-a", "/api/v1/namespaces/shop/services/shop-b"} {
		begin[path] = worlds[""].Object(path)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, r := worlds[tt.settle], routers[tt.settle]
			for _, o := range begin {
				w.Create(o)
			}
			*w.logged = nil
			if shift = tt.after; shift == 0 {
				shift = -time.Hour // the last change is as young as can be
			}
			move(t, r, 50) // the generation is 2 with any share
			w.Edit(routes+"web", "manent", func(o map[string]any) {
				o["metadata"].(map[string]any)["generation"] = generation - 1
				setWeights(o, "rules", "backendRefs", 100-tt.share, tt.share)
			})
			w.Status(routes+"web", tt.status)
			if tt.world != nil {
				tt.world(w)
			}
			receipt := state.Receipt{"web": "2", "web at": time.Now().Format(time.RFC3339Nano)}
			if tt.share == 0 {
				receipt["web gone"] = "b"
			}
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

// TestEnteredAgain: a step that is entered again and again, one look each time,
// comes to its end all the same, with a controller that never reports and with
// a settle time, and the answer to its first write may have been lost.
func TestEnteredAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		world    func(*testing.T) *world
		settings map[string]any
		lost     bool
		most     time.Duration
	}{
		"silent controller":       {gatewayWorld, map[string]any{"http_route": "web", "settle_timeout": "3m"}, false, 4 * time.Minute},
		"silent, the answer lost": {gatewayWorld, map[string]any{"http_route": "web", "settle_timeout": "3m"}, true, 4 * time.Minute},
		"settle time":             {istioWorld, map[string]any{"virtual_service": "shop", "settle": "3m"}, false, 4 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w := tt.world(t)
			w.Silence()
			maps.Copy(w.settings, tt.settings)
			began := time.Now()
			clock := began
			now := func() time.Time { return clock }
			seen := look(t, w.at(t, now))
			to, _, _ := w.at(t, now).Plan(state.SlotB, 25, 0.5, seen)
			kept := state.Receipt{}
			for in := false; !in; clock = clock.Add(37 * time.Second) {
				if tt.lost && clock.Equal(began) {
					if _, err := w.at(t, now).Write(t.Context(), slots, to, seen); err != nil {
						t.Fatal(err)
					}
				}
				receipt, err := w.at(t, now).Write(t.Context(), slots, to, seen)
				if err != nil {
					t.Fatal(err)
				}
				maps.Copy(kept, receipt)
				for _, r := range []state.Receipt{receipt, kept} { // the runner keeps them; nothing may depend on it
					if in, err = w.at(t, now).Settled(t.Context(), to, r); err != nil {
						t.Fatal(err)
					}
				}
				if took := clock.Sub(began); took > tt.most || in && took < 170*time.Second {
					t.Fatalf("after %v: in force %v", took, in)
				}
			}
			if w.Writes() != 1 {
				t.Errorf("%d writes, want 1", w.Writes())
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
	var looks atomic.Int64 // each takes two seconds
	began := time.Now()
	r := w.at(t, func() time.Time { return began.Add(2 * time.Second * time.Duration(looks.Add(1))) })
	match := router.Match{Header: "x-canary", Value: "always"}
	if _, err := r.Target(t.Context(), slots, state.SlotB, match, true); err != nil {
		t.Fatal(err)
	}
	if len(*w.logged) != 2 || !strings.Contains((*w.logged)[0], "not known to be in force after 10s") {
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

package f5

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/f5/f5test"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/state"
)

var candidateB = state.Slots{A: state.Release{Version: "1"}, B: state.Release{Version: "2"}, Candidate: state.SlotB}

// world is a device behind a handler that can disturb it.
type world struct {
	*f5test.BigIP
	url     string
	faulty  *routertest.Faulty
	targets []providers.Target

	mu   sync.Mutex
	said []string
}

// newWorld has three members in slot a, two in slot b of which one is IPv6,
// and a disabled one of somebody else.
func newWorld(t *testing.T) *world {
	member := func(name, address string, disabled bool) *f5test.Member {
		return &f5test.Member{Name: name, Partition: "Common", Address: address, Ratio: 100, Disabled: disabled, Monitor: "up"}
	}
	w := &world{BigIP: f5test.New(t,
		member("10.0.0.1:80", "10.0.0.1", false), member("web2:80", "10.0.0.2", false), member("10.0.0.3:80", "10.0.0.3", false),
		member("10.0.0.4:80", "10.0.0.4", true), member("2001:db8::5.80", "2001:db8::5", true),
		member("10.9.9.9:80", "10.9.9.9", true),
	)}
	for i, host := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "2001:db8::5"} {
		slot := "a"
		if i > 2 {
			slot = "b"
		}
		w.targets = append(w.targets, providers.Target{Host: host, Port: 80, Labels: map[string]string{"slot": slot}})
	}
	w.faulty = &routertest.Faulty{Next: w.BigIP, IsWrite: f5test.IsWrite, Refuse: f5test.Refuse}
	server := httptest.NewServer(w.faulty)
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

func (w *world) settings(more map[string]any) map[string]any {
	s := map[string]any{"management_url": w.url, "pool": "shop", "credentials_secret": "bigip", "member": "{host}:{port}"}
	if w.Group != "" {
		s["sync_group"] = w.Group
	}
	maps.Copy(s, more)
	return s
}

func (w *world) env() providers.Env {
	return providers.Env{
		Targets: w.targets,
		Secret: func(context.Context, string) (providers.Secret, error) {
			return providers.NewSecret(f5test.User + ":" + f5test.Password + "\n"), nil
		},
		Log: func(format string, args ...any) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.said = append(w.said, fmt.Sprintf(format, args...))
		},
	}
}

// router makes one, as a new process would.
func (w *world) router(t *testing.T, more map[string]any) *Router {
	t.Helper()
	built, err := Spec().Build(w.env(), w.settings(more))
	if err != nil {
		t.Fatal(err)
	}
	r := built.(*Router)
	r.pause = time.Millisecond
	if r.api, err = r.client(); err != nil {
		t.Fatal(err)
	}
	return r
}

// heard reports whether the log has something.
func (w *world) heard(part string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.said, func(line string) bool { return strings.Contains(line, part) })
}

func (w *world) serve(n int) map[state.Slot]int {
	got := map[state.Slot]int{}
	for name, requests := range w.Serve(n) {
		slot := state.SlotA
		if name == "10.0.0.4:80" || name == "2001:db8::5.80" {
			slot = state.SlotB
		}
		got[slot] += requests
	}
	return got
}

// set is somebody at the device's console.
func (w *world) set(slot state.Slot, ratio int) {
	w.Do(func() {
		for i, m := range w.Members[:5] {
			if (i > 2) == (slot == state.SlotB) {
				m.Ratio, m.Disabled = ratio, ratio == 0
			}
		}
	})
}

// unowned is all of the device that the router has no business with.
func (w *world) unowned() string {
	var out []byte
	w.Do(func() {
		others := *w.Members[5]
		kept := make([]f5test.Member, 0, 5)
		for _, m := range w.Members[:5] {
			one := *m
			one.Ratio, one.Disabled = 0, false
			kept = append(kept, one)
		}
		out, _ = json.Marshal([]any{others, kept, w.Mode, w.MinActive, w.Virtuals, w.Failover})
	})
	return string(out)
}

func (w *world) harness(t *testing.T) routertest.Harness {
	h := routertest.Harness{
		Router: w.router(t, nil), Again: func() router.Router { return w.router(t, nil) }, Slots: candidateB, Traits: Spec().Traits,
		Foreign: func(int) { w.set(state.SlotB, 33) },
		Writes:  func() (n int) { w.Do(func() { n = w.Commits + w.Changes }); return n },
		PerPart: -1, // a return is no transaction
		Touch:   func() { w.Do(func() { w.Members[5].Connections++ }) },
		Unowned: w.unowned,
		Serve:   w.serve,
		Secret:  f5test.Password,
	}
	if w.Group != "" {
		h.Hold = func() func() {
			w.Do(func() { w.SyncTook = 1000 })
			return func() { w.Do(func() { w.SyncTook, w.Status = 0, "In Sync" }) }
		}
	}
	w.faulty.Fill(&h)
	return h
}

func TestConformance(t *testing.T) {
	for name, change := range map[string]func(*world){
		"alone":                        func(*world) {},
		"group, slow, flat statistics": func(w *world) { w.Group, w.Looks, w.FlatStats = "pair", 2, true },
	} {
		t.Run(name, func(t *testing.T) {
			routertest.Run(t, func(t *testing.T) routertest.Harness {
				w := newWorld(t)
				change(w)
				h := w.harness(t)
				t.Cleanup(func() { w.tokensGone(t) })
				return h
			})
		})
	}
}

// tokensGone checks that what was logged in was logged out, unless the test
// kept the router from the device, or cut off the answer with the token.
func (w *world) tokensGone(t *testing.T) {
	if n := w.Live(); n > 0 && !w.heard("the token ends by itself") && !strings.HasSuffix(t.Name(), "/read_cut_off") {
		t.Errorf("%d tokens are left", n)
	}
}

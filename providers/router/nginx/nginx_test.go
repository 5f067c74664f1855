package nginx

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/host/hosttest"
	"github.com/manent/action/providers/api/nginx/split"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/state"
)

// settings of the tests; more replaces.
func settings(mode string, more map[string]any) map[string]any {
	s := map[string]any{
		"include_file": managed, "mode": mode, "slot_a": []any{"10.0.0.1:80", "10.0.0.1:81"}, "slot_b": "10.0.0.2:80",
		"lb_hosts": "lb1, lb2", "ssh_user": "deploy", "ssh_key_secret": "key", "known_hosts": "lb1 ssh-ed25519 AAAA",
	}
	for key, value := range more {
		s[key] = value
	}
	return s
}

func candidateB() state.Slots {
	return state.Slots{
		A: state.Release{Version: "1.0"}, Candidate: state.SlotB,
		B: state.Release{Version: "1.1", Ref: state.Ref{state.RefRollout: "r-1"}},
	}
}

// world is some instances in memory.
type world struct {
	names []string
	nginx map[string]*fakeNginx

	mu     sync.Mutex
	writes int                                    // replacements that arrived
	fate   func(hosttest.Call, int) hosttest.Fate // with the number of the replacement
	sneak  func()
}

func newWorld(content string, names ...string) *world {
	w := &world{names: names, nginx: map[string]*fakeNginx{}}
	for _, name := range names {
		w.nginx[name] = newFakeNginx(content)
		w.nginx[name].machine.Fate = w.decide
	}
	return w
}

func (w *world) decide(c hosttest.Call) hosttest.Fate {
	w.mu.Lock()
	if c.Kind == "replace" {
		w.writes++
	}
	sneak, fate, n := w.sneak, w.fate, w.writes
	if c.Kind == "replace" {
		w.sneak = nil
	}
	w.mu.Unlock()
	if sneak != nil && c.Kind == "replace" {
		sneak()
	}
	if fate == nil {
		return hosttest.Done
	}
	return fate(c, n)
}

// doom sets the fate of calls until the returned function is called; n counts
// replacements from now.
func (w *world) doom(fate func(c hosttest.Call, n int) hosttest.Fate) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes, w.fate = 0, fate
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.fate = nil
	}
}

// router makes one, as a new process would.
func (w *world) router(t *testing.T, settings map[string]any) *Router {
	t.Helper()
	built, err := Spec().Build(providers.Env{}, settings)
	if err != nil {
		t.Fatal(err)
	}
	r := built.(*Router)
	r.open = func(_ context.Context, name string) (host.Host, error) {
		if name == "" {
			name = "local"
		}
		n, ok := w.nginx[name]
		if !ok {
			return nil, &providers.Fault{Op: "ssh to " + name, Kind: providers.Unavailable, Err: errors.New("no such host")}
		}
		return &n.machine, nil
	}
	return r
}

func initial(t *testing.T, settings map[string]any) string {
	t.Helper()
	g, err := Generate(settings, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g.Initial
}

func TestConformance(t *testing.T) {
	for _, mode := range []string{split.Hashed, split.Weighted} {
		t.Run(mode, func(t *testing.T) {
			routertest.Run(t, func(t *testing.T) routertest.Harness { return harness(t, settings(mode, nil)) })
		})
	}
}

func harness(t *testing.T, settings map[string]any) routertest.Harness {
	w := newWorld(initial(t, settings), "lb1", "lb2")
	edit := func(part int, change func(string) string) {
		w.nginx[w.names[part]].machine.Edit(managed, func(b []byte) []byte { return []byte(change(string(b))) })
	}
	return routertest.Harness{
		Router: w.router(t, settings), Again: func() router.Router { return w.router(t, settings) },
		Slots: candidateB(), Traits: Spec().Traits,
		Foreign: func(part int) { edit(part, func(s string) string { return byHand(t, s, 13) }) },
		Touch: func() {
			for i := range w.names {
				edit(i, func(s string) string { return s + "# looked at by somebody\n" })
			}
		},
		Writes: func() int { return w.nginx["lb1"].writes + w.nginx["lb2"].writes },
		Hold: func() func() {
			for _, n := range w.nginx {
				n.held = true
			}
			return func() {
				for _, n := range w.nginx {
					n.release()
				}
			}
		},
		Sneak: func(change func()) { w.sneak = change },
		Serve: func(n int) map[state.Slot]int {
			got := map[state.Slot]int{}
			for i := range n {
				got[w.nginx["lb1"].request(fmt.Sprintf("user-%d", i), nil)]++
			}
			return got
		},
		Probe: func(a router.Access) state.Slot { return w.nginx["lb2"].request("tester", a.Header) },
		Down: func(part int) func() {
			m := &w.nginx[w.names[part]].machine
			m.Fate = func(hosttest.Call) hosttest.Fate { return hosttest.Down }
			return func() { m.Fate = w.decide }
		},
		Hang: func(on routertest.Calls) func() { return w.doom(ofKind(on, hosttest.Hang)) },
		Cut:  func(n int) func() { return w.doom(fromWrite(n, hosttest.Lost)) },
		Mute: func(n int) func() { return w.doom(fromWrite(n, hosttest.Mute)) },
		Late: func(n int) (func(), func()) {
			return w.doom(fromWrite(n, hosttest.Late)), func() {
				for _, n := range w.nginx {
					n.machine.Land()
				}
			}
		},
		Shorten: func(on routertest.Calls) func() { return w.doom(ofKind(on, hosttest.Short)) },
	}
}

// fromWrite gives the n-th replacement a fate and loses everything after it.
func fromWrite(n int, fate hosttest.Fate) func(hosttest.Call, int) hosttest.Fate {
	return func(c hosttest.Call, now int) hosttest.Fate {
		switch {
		case c.Kind == "replace" && now == n:
			return fate
		case now >= n:
			return hosttest.Lost
		}
		return hosttest.Done
	}
}

func ofKind(on routertest.Calls, fate hosttest.Fate) func(hosttest.Call, int) hosttest.Fate {
	return func(c hosttest.Call, _ int) hosttest.Fate {
		if (c.Kind == "replace") == (on == routertest.Writes) {
			return fate
		}
		return hosttest.Done
	}
}

// byHand changes the candidate's share in a managed file as a person would.
func byHand(t *testing.T, text string, share int) string {
	t.Helper()
	changed := text
	switch {
	case strings.Contains(text, "% b;"):
		before, _, _ := strings.Cut(text, "% b;")
		changed = before[:strings.LastIndex(before, " ")] + fmt.Sprintf(" %d%% b;", share) + text[len(before)+len("% b;"):]
	case strings.Contains(text, "    * a;"):
		changed = strings.Replace(text, "    * a;", fmt.Sprintf("    %d%% b;\n    * a;", share), 1)
	case strings.Contains(text, "    zone"):
		begin, end := strings.Index(text, "    server"), strings.Index(text, "    keepalive")
		changed = text[:begin] + fmt.Sprintf("    server 10.0.0.1:80 weight=%d;\n    server 10.0.0.2:80 weight=%d;\n", 100-share, share) + text[end:]
	}
	if changed == text {
		t.Fatalf("nothing to change by hand in\n%s", text)
	}
	return changed
}

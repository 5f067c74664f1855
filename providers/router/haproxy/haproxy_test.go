package haproxy

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/haproxy/haproxytest"
	"github.com/manent/action/providers/httpx"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/state"
)

// configuration is a backend with these servers ("web1 weight 100").
func configuration(servers ...string) string {
	text := "global\ndefaults\n  mode http\nbackend other\n  server web1 127.0.0.1:1 weight 7\nbackend shop\n  balance roundrobin\n"
	for i, s := range servers {
		name, options, _ := strings.Cut(s, " ")
		text += fmt.Sprintf("  server %s 10.0.0.%d:8080 check maxconn 50 %s\n", name, i+1, options)
	}
	return text
}

// world is some instances in memory, and the targets of two slots.
type world struct {
	names    []string
	apis     []*haproxytest.API
	memory   []*haproxytest.Memory
	targets  []providers.Target
	settings map[string]any
	logged   []string
}

func target(slot, host string) providers.Target {
	return providers.Target{Host: host, Port: 8080, Labels: map[string]string{"slot": slot}}
}

// newWorld has a server for each target.
func newWorld(t *testing.T, version string, instances int, text string, targets ...providers.Target) *world {
	t.Helper()
	w := &world{targets: targets, settings: map[string]any{"backend": "shop", "credentials_secret": "dataplane", "api_version": version, "timeout": "1s"}}
	var urls []any
	for range instances {
		api, memory := haproxytest.InMemory(t, version, text)
		w.apis, w.memory = append(w.apis, api), append(w.memory, memory)
		urls, w.names = append(urls, api.URL), append(w.names, strings.TrimPrefix(api.URL, "http://"))
	}
	w.settings["dataplane_urls"] = urls
	return w
}

// pair has one server in each slot.
func pair(t *testing.T, version string, instances int) *world {
	return newWorld(t, version, instances, configuration("web1 weight 100", "web2 weight 0"), target("a", "web1"), target("b", "web2"))
}

// router makes one, as a new process would.
func (w *world) router(t *testing.T) *Router {
	t.Helper()
	env := providers.Env{
		Targets: w.targets,
		Secret: func(context.Context, string) (providers.Secret, error) {
			return providers.NewSecret(haproxytest.User + ":" + haproxytest.Password), nil
		},
		Log: func(format string, args ...any) { w.logged = append(w.logged, fmt.Sprintf(format, args...)) },
	}
	built, err := Spec().Build(env, w.settings)
	if err != nil {
		t.Fatal(err)
	}
	r := built.(*Router)
	if err := r.connect(httpx.Options{Timeout: r.settings.Timeout, Deadline: r.settings.Timeout, Retries: -1}); err != nil {
		t.Fatal(err)
	}
	return r
}

func candidateB() state.Slots {
	return state.Slots{A: state.Release{Version: "1.0"}, B: state.Release{Version: "1.1"}, Candidate: state.SlotB}
}

func TestConformance(t *testing.T) {
	for _, version := range []string{"v2", "v3"} {
		for _, instances := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s %d", version, instances), func(t *testing.T) {
				routertest.Run(t, func(t *testing.T) routertest.Harness { return harness(t, pair(t, version, instances)) })
			})
		}
	}
}

// Slots of unlike size.
func TestConformanceUnlike(t *testing.T) {
	routertest.Run(t, func(t *testing.T) routertest.Harness {
		return harness(t, newWorld(t, "v3", 2, configuration("web1 weight 100", "web2 weight 100", "web3 weight 100", "web4 weight 0"),
			target("a", "web1"), target("a", "web2"), target("a", "web3"), target("b", "web4")))
	})
}

func harness(t *testing.T, w *world) routertest.Harness {
	all := func(f func(i int) func()) func() {
		var undo []func()
		for i := range w.apis {
			undo = append(undo, f(i))
		}
		return func() {
			for _, u := range undo {
				u()
			}
		}
	}
	doom := func(fate func(haproxytest.Call) haproxytest.Fate) func() {
		return all(func(i int) func() { return w.apis[i].Doom(fate) })
	}
	return routertest.Harness{
		Router: w.router(t), Again: func() router.Router { return w.router(t) },
		Slots: candidateB(), Traits: Spec().Traits, Secret: haproxytest.Password, PerPart: -1,
		Foreign: func(part int) { w.apis[part].SetWeight("shop", w.targets[len(w.targets)-1].Host, 13) },
		Touch: func() {
			for _, a := range w.apis {
				a.Touch()
			}
		},
		Writes: func() int {
			n := 0
			for _, a := range w.apis {
				n += a.Writes()
			}
			return n
		},
		Hold:  func() func() { return all(func(i int) func() { return w.memory[i].Hold() }) },
		Sneak: func(change func()) { w.apis[0].Sneak(change) },
		Serve: func(n int) map[state.Slot]int {
			got := map[state.Slot]int{}
			for range n {
				got[w.slotOf(w.memory[0].Request("shop"))]++
			}
			return got
		},
		Unowned: func() string {
			text := w.apis[0].Text()
			return weightOrVersion.ReplaceAllString(text, "")
		},
		Down: func(part int) func() {
			return w.apis[part].Doom(func(haproxytest.Call) haproxytest.Fate { return haproxytest.Lost })
		},
		Hang: func(on routertest.Calls) func() { return doom(when(on, haproxytest.Hang)) },
		Cut:  func(n int) func() { return w.fromWrite(n, haproxytest.Lost) },
		Mute: func(n int) func() { return w.fromWrite(n, haproxytest.Mute) },
		Late: func(n int) (func(), func()) {
			return w.fromWrite(n, haproxytest.Late), func() {
				for _, a := range w.apis {
					a.Land()
				}
			}
		},
		Shorten: func(on routertest.Calls) func() { return doom(when(on, haproxytest.Short)) },
		Status: func(code int, on routertest.Calls) {
			for _, a := range w.apis {
				a.Answer(func(c haproxytest.Call) int {
					if on&routertest.Reads != 0 && !c.Write || on&routertest.Writes != 0 && c.Write {
						return code
					}
					return 0
				})
			}
		},
	}
}

var weightOrVersion = regexp.MustCompile(` weight \d+|# _version=\d+`)

func (w *world) slotOf(server string) state.Slot {
	for _, t := range w.targets {
		if t.Host == server {
			return state.Slot(t.Labels["slot"])
		}
	}
	return ""
}

func when(on routertest.Calls, fate haproxytest.Fate) func(haproxytest.Call) haproxytest.Fate {
	return func(c haproxytest.Call) haproxytest.Fate {
		if c.Write == (on == routertest.Writes) {
			return fate
		}
		return haproxytest.Done
	}
}

// fromWrite gives the n-th write, counted over all instances, a fate, and
// loses everything after it.
func (w *world) fromWrite(n int, fate haproxytest.Fate) func() {
	var count atomic.Int64 // instances are written one after the other
	var undo []func()
	for _, a := range w.apis {
		undo = append(undo, a.Doom(func(c haproxytest.Call) haproxytest.Fate {
			now := int(count.Load())
			if c.Write {
				now = int(count.Add(1))
			}
			switch {
			case c.Write && now == n:
				return fate
			case now >= n:
				return haproxytest.Lost
			}
			return haproxytest.Done
		}))
	}
	return func() {
		for _, u := range undo {
			u()
		}
	}
}

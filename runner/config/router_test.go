package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
)

// TestTestersFitTheRouter has a plugin that brings its own router, once of
// each sort.
func TestTestersFitTheRouter(t *testing.T) {
	tests := []struct {
		name, goesBy, testers, want string
	}{
		{"header for header", "header", `{header: "x-canary: always"}`, ""},
		{"both for header", "header", `{header: "x-canary: always", tag: c}`, ""},
		{"tag for header", "header", `{tag: c}`, "router slots goes by testers.header, which is missing"},
		{"tag for tag", "tag", `{tag: c}`, ""},
		{"header for tag", "tag", `{header: "x-canary: always"}`, "router slots goes by testers.tag, which is missing"},
		{"a router that cannot", "", `{tag: c}`, "router slots cannot route testers"},
		{"neither", "tag", `{}`, "testers has neither header nor tag"},
		{"a name only", "header", `{header: "x-canary:"}`, `expected "name: value"`},
		{"two lines", "header", `{header: "x: a\r\ny: b"}`, `expected "name: value"`},
		{"a space in the name", "header", `{header: "x canary: a"}`, `expected "name: value"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cat := testCatalog()
			cat.Plugins = Put(cat.Plugins, PluginEntry{Entry: Entry{Name: "slots", InBuild: true}, Router: &RouterTraits{Testers: tt.goesBy}})
			text := "plugin: {name: slots}\nrollout: {traffic: {steps: [100], testers: " + tt.testers + "}}"
			_, problems := Parse(Source{"p.yml", []byte(text)}, nil, Options{Anonymous: true, Catalog: cat})
			if found := fmt.Sprint(problems); (tt.want == "") != (len(problems) == 0) || len(problems) > 1 || !strings.Contains(found, tt.want) {
				t.Errorf("problems %s, want %q", found, tt.want)
			}
		})
	}
}

func TestRouterOfPrefersTheEnvironments(t *testing.T) {
	cat := testCatalog()
	pinned := func(map[string]any) time.Duration { return time.Hour }
	cat.Plugins = Put(cat.Plugins, PluginEntry{Entry: Entry{Name: "slots", InBuild: true}, Router: &RouterTraits{Step: 5, Pinned: pinned}})
	own := Config{Plugin: Provider{Name: "slots"}}
	if name, traits, ok := cat.RouterOf(own); name != "slots" || traits.Step != 5 || !ok || cat.PinnedFor(own) != time.Hour {
		t.Errorf("the plugin's: %s %+v %v", name, traits, ok)
	}
	both := Config{Plugin: Provider{Name: "slots"}, Traffic: Network{Router: &Router{Provider: "proxy"}}}
	if name, traits, ok := cat.RouterOf(both); name != "proxy" || traits.Step != 0.01 || !ok || cat.PinnedFor(both) != 0 {
		t.Errorf("both: %s %+v %v", name, traits, ok)
	}
	for _, none := range []Config{{}, {Plugin: Provider{Name: "exec"}}, {Plugin: Provider{Name: "nothing"}}} {
		if name, _, ok := cat.RouterOf(none); ok || cat.PinnedFor(none) != 0 {
			t.Errorf("%+v has router %q", none.Plugin, name)
		}
	}
}

// TestSlotsOnTargets has a router that cannot give less than 10 %.
func TestSlotsOnTargets(t *testing.T) {
	const hosts = "targets: [{host: x, labels: {slot: a}}, {host: y, labels: {slot: b}}]\n"
	reach := func(_ map[string]any, targets []Target, slot string, share, _ float64) (float64, string, error) {
		if targets[0].Host == "nobody" {
			return 0, "give it one", errors.New("nobody has no port")
		}
		if len(targets) == 2 && slot == "b" && share == 5 {
			return 0, "the smallest share here is 10 %", errors.New("5 % is out of reach")
		}
		return max(share, 10), "", nil
	}
	unreachable := strings.Replace(hosts, "host: x", "host: nobody", 1) // is not asked for what has no name
	instead := "instead: x"
	tests := []struct{ name, targets, settings, steps, want string }{
		{"both slots", hosts, "", "[10, 100]", ""},
		{"out of reach", hosts, "", "[5, 100]", "p.yml:4:29: rollout.traffic.steps[0]: with slot b as the candidate: 5 % is out of reach"},
		{"more than asked", hosts, "", "[6, 100]", "rollout.traffic.steps[0]: warning: with slot a as the candidate 6 % will be 10 %"},
		{"no slot b", "targets: [{host: x, labels: {slot: a}}]\n", "", "[10, 100]", "no target has the label slot: b, and router balancer moves traffic between targets unless it has instead"},
		{"no targets", "", "", "[10, 100]", "no target has the label slot: a"},
		{"settings do not fit the targets", unreachable, "", "[10, 100]", "traffic.router.settings: nobody has no port"},
		{"a member of what is nothing", unreachable, `member: "{foo}{foo}"`, "[10, 100]", "traffic.router.settings.member: unknown placeholder {foo}, expected"},
		{"a member by a label", unreachable, `member: "{label.rack}"`, "[10, 100]", `traffic.router.settings.member: targets nobody, y have no label rack, which member "{label.rack}" needs`},
		{"a member by a port", unreachable, `member: "{host}:{port}"`, "[10, 100]", `traffic.router.settings.member: targets nobody, y have no port, which member`},
		{"a member twice", unreachable, "member: web", "[10, 100]", `traffic.router.settings.member: targets nobody and y are both member "web"`},
		{"a member without a name", unreachable, `member: ""`, "[10, 100]", "traffic.router.settings.member: member is empty, expected"},
		{"a member by its host", hosts, `member: "{host}"`, "[10, 100]", ""},
		{"settings instead", "", instead, "[5, 100]", ""},
		{"settings and other targets", "targets: [{host: x}]\n", instead, "[5, 100]", ""},
		{"settings and targets", hosts, instead, "[10, 100]", "traffic.router.settings.instead: instead and targets with a label slot both say where the slots are"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cat := testCatalog()
			cat.Routers = Put(cat.Routers, RouterEntry{
				Entry:        Entry{Name: "balancer", InBuild: true, Fields: []providers.Field{{Name: "instead", Type: "string"}, {Name: "member", Type: "string"}}},
				RouterTraits: RouterTraits{OnTargets: true, Instead: []string{"instead"}, Reach: reach},
			})
			text := tt.targets + "plugin: {name: exec, settings: {deploy: ./deploy.sh}}\ntraffic: {router: {provider: balancer, settings: {" + tt.settings + "}}}\nrollout: {traffic: {steps: " + tt.steps + "}}"
			_, problems := Parse(Source{"p.yml", []byte(text)}, nil, Options{Anonymous: true, Catalog: cat})
			if found := fmt.Sprint(problems); (found == "[]") != (tt.want == "") || !strings.Contains(found, tt.want) {
				t.Errorf("problems %s, want %q", found, tt.want)
			}
		})
	}
}

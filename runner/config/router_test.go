package config

import (
	"strings"
	"testing"
	"time"
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
			err := problems.Err()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("problems %v, want %q", err, tt.want)
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

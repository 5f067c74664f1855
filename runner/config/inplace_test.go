package config

import (
	"strings"
	"testing"
)

// TestPluginInPlace has a plugin that updates the targets of a slot, with a
// router that knows nothing of targets.
func TestPluginInPlace(t *testing.T) {
	tests := []struct{ name, targets, strategy, want string }{
		{"both slots", "[{host: x, labels: {slot: a}}, {host: y, labels: {slot: b}}]", "traffic: {steps: [100]}", ""},
		{"no label", "[{host: x, labels: {slot: a}}, {host: y, labels: {slot: b}}, {host: z}]", "traffic: {steps: [100]}", "2 of 3 targets have a label slot"},
		{"another label", "[{host: x, labels: {slot: a}}, {host: y, labels: {slot: b}}, {host: z, labels: {slot: c}}]", "traffic: {steps: [100]}", `slot is "c", expected a or b`},
		{"no labels", "[{host: x}, {host: y}]", "traffic: {steps: [100]}", "no target has the label slot: a, and plugin copier"},
		{"no slot b", "[{host: x, labels: {slot: a}}]", "traffic: {steps: [100]}", "no target has the label slot: b, and plugin copier"},
		{"no targets", "[]", "traffic: {steps: [100]}", "no target has the label slot: a, and plugin copier"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cat := testCatalog()
			cat.Plugins = Put(cat.Plugins, PluginEntry{Entry: Entry{Name: "copier", InBuild: true}, InPlace: true})
			cat.Routers = Put(cat.Routers, RouterEntry{Entry: Entry{Name: "groups", InBuild: true}})
			text := "targets: " + tt.targets + "\nplugin: {name: copier}\ntraffic: {router: {provider: groups}}\nrollout: {" + tt.strategy + "}"
			_, problems := Parse(Source{"p.yml", []byte(text)}, nil, Options{Anonymous: true, Catalog: cat})
			err := problems.Err()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("problems %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("the router says it once", func(t *testing.T) {
		cat := testCatalog()
		cat.Plugins = Put(cat.Plugins, PluginEntry{Entry: Entry{Name: "copier", InBuild: true}, InPlace: true})
		cat.Routers = Put(cat.Routers, RouterEntry{Entry: Entry{Name: "balancer", InBuild: true}, RouterTraits: RouterTraits{OnTargets: true}})
		text := "targets: [{host: x, labels: {slot: a}}]\nplugin: {name: copier}\ntraffic: {router: {provider: balancer}}\nrollout: {traffic: {steps: [100]}}"
		_, problems := Parse(Source{"p.yml", []byte(text)}, nil, Options{Anonymous: true, Catalog: cat})
		if len(problems) != 1 || !strings.Contains(problems[0].Message, "no target has the label slot: b, and router balancer") {
			t.Errorf("problems %v, expected one, of the router", problems)
		}
	})
}

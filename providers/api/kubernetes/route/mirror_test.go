package route

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/manent/action/state"
)

// TestMirrors: a copy of requests reaches a version that has no share.
func TestMirrors(t *testing.T) {
	gateway := func(filter string) string {
		return `[{"name":"m",` + refs(100, 0) + `,"filters":[{"type":"RequestMirror","requestMirror":{` + filter + `}}]}]`
	}
	istio := func(rest string) string { return `[{"name":"m",` + destinations(100, 0) + `,` + rest + `}]` }
	only := Names{Service: "shop", Namespace: "shop", Rules: []string{"web"}}
	for _, tt := range []struct {
		name, list, entries string
		names               Names
		foreign             string  // that reaches slot b
		weight              float64 // of it
		unfit               string
		strays, sends       string // to slot b
	}{
		{name: "to slot b", list: "rules", entries: gateway(`"backendRef":{"name":"shop-b"}`), foreign: "shop-b by a mirror of rule 0 (m)", weight: 100, unfit: "rule 0 (m) mirrors its requests to shop-b", sends: "rule 0 (m) mirrors to shop-b"},
		{name: "to slot a", list: "rules", entries: gateway(`"backendRef":{"name":"shop-a"}`), unfit: "mirrors its requests to shop-a"},
		{name: "a part of them", list: "rules", entries: gateway(`"backendRef":{"name":"shop-b"},"percent":5`), foreign: "shop-b", weight: 5, unfit: "shop-b", sends: "shop-b"},
		{name: "a fraction of them", list: "rules", entries: gateway(`"backendRef":{"name":"shop-b"},"fraction":{"numerator":1,"denominator":8}`), foreign: "shop-b", weight: 12.5, unfit: "shop-b", sends: "shop-b"},
		{name: "none of them", list: "rules", entries: gateway(`"backendRef":{"name":"shop-b"},"percent":0`)},
		{name: "to the Service itself", list: "rules", entries: gateway(`"backendRef":{"name":"shop"}`), foreign: "shop by a mirror", weight: 100, unfit: "mirrors its requests to shop,"},
		{name: "to somebody else", list: "rules", entries: gateway(`"backendRef":{"name":"audit"}`)},
		{name: "of one backend", list: "rules", entries: `[{"backendRefs":[{"name":"shop-a","weight":1,"filters":[{"requestMirror":{"backendRef":{"name":"shop-b"}}}]},{"name":"shop-b","weight":0}]}]`, foreign: "shop-b by a mirror of rule 0", weight: 100, unfit: "shop-b", sends: "shop-b"},
		{name: "of somebody else's rule", list: "rules", entries: `[{` + refs(100, 0) + `},{"backendRefs":[{"name":"cdn"}],"filters":[{"requestMirror":{"backendRef":{"name":"shop-b"}}}]}]`, foreign: "rule 1", weight: 100, unfit: "rule 1", sends: "rule 1"},
		{name: "of a rule that is left out", list: "rules", entries: `[{"name":"web",` + refs(100, 0) + `},{"backendRefs":[{"name":"cdn"}],"filters":[{"requestMirror":{"backendRef":{"name":"shop-b"}}}]}]`, names: only, foreign: "rule 1", weight: 100, strays: "rule 1 mirrors to shop-b", sends: "rule 1"},
		{name: "when all traffic is there", list: "rules", entries: `[{` + refs(0, 100) + `,"filters":[{"requestMirror":{"backendRef":{"name":"shop-b"}}}]}]`, unfit: "shop-b", sends: "rule 0 sends to slot b, rule 0 mirrors to shop-b"},
		{name: "a subset", list: "http", entries: istio(`"mirror":{"host":"shop","subset":"b"}`), foreign: "shop subset b by a mirror of rule 0 (m)", weight: 100, unfit: "shop subset b", sends: "shop subset b"},
		{name: "a subset, in part", list: "http", entries: istio(`"mirror":{"host":"shop","subset":"b"},"mirrorPercentage":{"value":0.5}`), foreign: "shop subset b", weight: 0.5, unfit: "shop subset b", sends: "b"},
		{name: "a subset, in the old way", list: "http", entries: istio(`"mirror":{"host":"shop","subset":"b"},"mirror_percent":7`), foreign: "shop subset b", weight: 7, unfit: "shop subset b", sends: "b"},
		{name: "a subset, none", list: "http", entries: istio(`"mirror":{"host":"shop","subset":"b"},"mirrorPercentage":{}`)},
		{name: "the host", list: "http", entries: istio(`"mirror":{"host":"shop.shop.svc.cluster.local"}`), foreign: "shop.shop.svc.cluster.local by a mirror", weight: 100, unfit: "mirrors"},
		{name: "several", list: "http", entries: istio(`"mirrors":[{"destination":{"host":"audit"}},{"destination":{"host":"shop","subset":"b"},"percentage":{"value":20}}]`), foreign: "shop subset b", weight: 20, unfit: "shop subset b", sends: "b"},

		{name: "a rule that is left out", list: "rules", entries: `[{"name":"web",` + refs(100, 0) + `},{"name":"old","backendRefs":[{"name":"shop-b"}]}]`, names: only, foreign: "slot b in rule 1 (old)", weight: 100, strays: "rule 1 (old) sends to slot b", sends: "rule 1 (old)"},
		{name: "one with both slots", list: "rules", entries: `[{"name":"web",` + refs(100, 0) + `},{"name":"old",` + refs(30, 10) + `}]`, names: only, foreign: "slot b in rule 1 (old)", weight: 25, strays: "rule 1 (old) sends to slot b", sends: "rule 1 (old)"},
		{name: "one to the other slot", list: "rules", entries: `[{"name":"web",` + refs(100, 0) + `},{"name":"old","backendRefs":[{"name":"shop-a"}]}]`, names: only},
		{name: "one of them when all traffic is there", list: "http", entries: `[{"name":"web",` + destinations(0, 100) + `},{"route":[{"destination":{"host":"shop","subset":"b"}}]}]`, names: only, strays: "rule 1 sends to slot b", sends: "rule 0 (web) sends to slot b, rule 1"},
		{name: "testers", list: "rules", entries: `[{` + refs(100, 0) + `},{"name":"manent-testers-shop-0","backendRefs":[{"name":"shop-b","weight":1}]}]`, sends: "rule 1 (manent-testers-shop-0) sends to slot b"},
	} {
		if tt.names.Service == "" {
			tt.names = shop
		}
		s, err := readers[tt.list](document(t, tt.list, tt.entries), tt.names)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		found := s.Foreign(state.SlotB)
		keys := slices.Collect(maps.Keys(found))
		if tt.foreign == "" && len(keys) > 0 || tt.foreign != "" && (len(keys) != 1 || !strings.HasPrefix(keys[0], tt.foreign) && !strings.Contains(keys[0], tt.foreign) || found[keys[0]] != tt.weight) {
			t.Errorf("%s: foreign %v, want %s with %v", tt.name, found, tt.foreign, tt.weight)
		}
		if before := s.Foreign(""); len(before) > 0 {
			t.Errorf("%s: foreign %v without a candidate", tt.name, before)
		}
		if unfit := s.Unfit(); (unfit != nil) != (tt.unfit != "") || unfit != nil && !strings.Contains(unfit.Error(), tt.unfit) {
			t.Errorf("%s: unfit %v, want %q", tt.name, unfit, tt.unfit)
		}
		for what, got := range map[string][2]string{"strays": {strings.Join(s.Strays(state.SlotB), ", "), tt.strays}, "sends": {strings.Join(s.Sends(state.SlotB), ", "), tt.sends}} {
			if (got[0] == "") != (got[1] == "") || !strings.Contains(got[0], got[1]) {
				t.Errorf("%s: %s %q, want %q", tt.name, what, got[0], got[1])
			}
		}
	}
}

package nginx

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/nginx/split"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// onTargets are settings without servers, and targets that are the same ones.
func onTargets(mode string) (map[string]any, []providers.Target) {
	s := settings(mode, nil)
	delete(s, "slot_a")
	delete(s, "slot_b")
	target := func(host string, port int, slot string) providers.Target {
		return providers.Target{Host: host, Port: port, Labels: map[string]string{"slot": slot, "address": host + ":9000"}}
	}
	return s, []providers.Target{target("10.0.0.1", 80, "a"), target("10.0.0.2", 80, "b"), target("10.0.0.1", 81, "a")}
}

// Targets with a label slot are the servers, as if slot_a and slot_b had them.
func TestTargetsAreServers(t *testing.T) {
	for _, mode := range []string{split.Hashed, split.Weighted} {
		t.Run(mode, func(t *testing.T) {
			bare, targets := onTargets(mode)
			got, err := Generate(bare, targets)
			if err != nil {
				t.Fatal(err)
			}
			want, err := Generate(settings(mode, nil), nil)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	s, targets := onTargets(split.Weighted)
	s["member"] = "{label.address}"
	targets = targets[:2]
	got, err := Generate(s, targets)
	if err != nil || !strings.Contains(got.Once+got.Initial, "10.0.0.1:9000") || strings.Contains(got.Once+got.Initial, "10.0.0.1:80") {
		t.Errorf("by label: %v\n%s\n%s", err, got.Once, got.Initial)
	}
}

func TestTargetsRefused(t *testing.T) {
	bare, targets := onTargets(split.Hashed)
	noPort := []providers.Target{{Host: "x", Labels: map[string]string{"slot": "a"}}, targets[1]}
	named := []providers.Target{{Host: "x", Port: 80, Labels: map[string]string{"slot": "a"}}, targets[1]}
	for name, tt := range map[string]struct {
		more    map[string]any
		targets []providers.Target
		text    string
	}{
		"both":              {map[string]any{"slot_a": "10.0.0.1:80", "slot_b": "10.0.0.2:80"}, targets, "leave one of both out"},
		"one slot only":     {map[string]any{"slot_a": "10.0.0.1:80"}, nil, "slot_b"},
		"no port":           {nil, noPort, "target x has no port"},
		"no slot b":         {nil, targets[:1], "no target has the label slot: b"},
		"no targets":        {nil, nil, "slot_a [] and slot_b []"},
		"by name in weight": {map[string]any{"mode": "weight"}, named, "x:80"},
		"member":            {map[string]any{"member": "{hots}"}, targets, "{hots}"},
		"placeholder only":  {map[string]any{"member": "{label.address};"}, targets, "10.0.0.1:9000;"},
	} {
		t.Run(name, func(t *testing.T) {
			s := maps.Clone(bare)
			maps.Copy(s, tt.more)
			_, err := Generate(s, tt.targets)
			wantKind(t, err, providers.Invalid, tt.text)
		})
	}
}

// Settings may be checked before targets are known; nothing is written then.
func TestNoServersYet(t *testing.T) {
	bare, _ := onTargets(split.Hashed)
	w := newWorld(initial(t, settings(split.Hashed, nil)), "lb1", "lb2")
	r := w.router(t, bare)
	_, err := r.Write(t.Context(), candidateB(), shares(5), router.Reading{})
	wantKind(t, err, providers.Invalid, "slot_a [] and slot_b []")
	if _, err = r.Target(t.Context(), candidateB(), state.SlotB, router.Match{Value: "yes"}, true); err == nil {
		t.Error("testers were set without servers")
	}
	if w.nginx["lb1"].writes != 0 {
		t.Error("something was written")
	}
}

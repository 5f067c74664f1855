package router

import (
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/state"
)

func TestMembers(t *testing.T) {
	target := func(host string, port int, labels ...string) providers.Target {
		t := providers.Target{Host: host, Port: port, Labels: map[string]string{}}
		for _, l := range labels {
			name, value, _ := strings.Cut(l, "=")
			t.Labels[name] = value
		}
		return t
	}
	web1, web2 := target("web1", 80, "slot=a", "node=n1"), target("web2", 81, "slot=b", "node=n2")
	tests := []struct {
		name, template string
		targets        []providers.Target
		want, err      string
	}{
		{"host", "{host}", []providers.Target{web1, web2}, "a=web1 b=web2", ""},
		{"host and port", "{host}:{port}", []providers.Target{web1, web2}, "a=web1:80 b=web2:81", ""},
		{"label", "srv_{label.node}", []providers.Target{web1, web2}, "a=srv_n1 b=srv_n2", ""},
		{"IPv6", "{host}:{port}", []providers.Target{target("2001:db8::1", 80, "slot=a"), web2}, "a=[2001:db8::1]:80 b=web2:81", ""},
		{"IPv6 alone", "{host}", []providers.Target{target("2001:db8::1", 80, "slot=a"), web2}, "a=2001:db8::1 b=web2", ""},
		{"others are left out", "{host}", []providers.Target{web1, target("db", 0), target("x", 0, "slot=c"), web2}, "a=web1 b=web2", ""},
		{"no port", "{host}:{port}", []providers.Target{web1, target("web2", 0, "slot=b")}, "", "target web2 has no port"},
		{"no label", "{label.rack}", []providers.Target{web1, web2}, "", "target web1 has no label rack"},
		{"unknown placeholder", "{name}", []providers.Target{web1, web2}, "", "{name}, expected {host}"},
		{"empty", "", []providers.Target{web1, web2}, "", "member is empty"},
		{"twice", "web", []providers.Target{web1, web2}, "", `web1 and web2 are both member "web"`},
		{"no slot b", "{host}", []providers.Target{web1}, "", "no target has the label slot: b"},
		{"none", "{host}", nil, "", "no target has the label slot: a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			members, err := Members(tt.template, tt.targets)
			var got []string
			for _, m := range members {
				got = append(got, string(m.Slot)+"="+m.Name)
				if m.Slot != state.Slot(m.Target.Labels["slot"]) {
					t.Errorf("member %s is of slot %s, its target of %s", m.Name, m.Slot, m.Target.Labels["slot"])
				}
			}
			if tt.err == "" && (err != nil || strings.Join(got, " ") != tt.want) {
				t.Errorf("got %q, %v, expected %q", got, err, tt.want)
			}
			if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("got %q, %v, expected the error %q", got, err, tt.err)
			}
		})
	}
}

// As many of a slot are in service as up says.
func TestSolveMembers(t *testing.T) {
	members := []Member{{Name: "a1", Slot: state.SlotA}, {Name: "a2", Slot: state.SlotA}, {Name: "b1", Slot: state.SlotB}}
	for _, tt := range []struct {
		up   map[state.Slot]int
		b, a float64
	}{
		{nil, 100, 50},
		{map[state.Slot]int{state.SlotA: 1, state.SlotB: 1}, 100, 100},
	} {
		got, share, err := SolveMembers(members, tt.up, state.SlotB, 50, 0.5, Units{Least: 1, Most: 100})
		if err != nil || share != 50 || got["a1"] != tt.a || got["a2"] != tt.a || got["b1"] != tt.b {
			t.Errorf("with %v up: %v, %v %%, %v", tt.up, got, share, err)
		}
	}
	_, _, err := SolveMembers(members, map[state.Slot]int{state.SlotA: 2}, state.SlotB, 50, 0.5, Units{Least: 1, Most: 100})
	if providers.KindOf(err) != providers.Invalid {
		t.Errorf("with no server of slot b up: %v, expected that it is refused", err)
	}
}

package router

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/state"
)

// DefaultMember is the setting member of a router with slots on targets.
const DefaultMember = "{host}"

// Member is a target with a label slot: a or slot: b, by the name that the
// router's system has for it.
type Member struct {
	Name   string
	Slot   state.Slot
	Target providers.Target
}

var inMember = regexp.MustCompile(`\{[^{}]*\}`)

// Members names the targets of both slots by a template such as {host},
// {host}:{port} or {label.<name>}. An IPv6 address before a colon gets
// brackets. Targets without a slot are left out. It refuses a slot without a
// target, a name that is there twice, and what the template needs and a target
// lacks.
func Members(template string, targets []providers.Target) ([]Member, error) {
	var out []Member
	hosts, count := map[string]string{}, map[state.Slot]int{}
	for _, t := range targets {
		slot := state.Slot(t.Labels["slot"])
		if slot.Other() == "" {
			continue
		}
		name, err := memberName(template, t)
		if err != nil {
			return nil, err
		}
		if other, twice := hosts[name]; twice {
			return nil, fmt.Errorf("targets %s and %s are both member %q of %q", other, t.Host, name, template)
		}
		hosts[name] = t.Host
		count[slot]++
		out = append(out, Member{Name: name, Slot: slot, Target: t})
	}
	for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
		if count[slot] == 0 {
			return nil, fmt.Errorf("no target has the label slot: %s", slot)
		}
	}
	return out, nil
}

func memberName(template string, t providers.Target) (string, error) {
	var problem error
	name := inMember.ReplaceAllStringFunc(template, func(found string) string {
		label, isLabel := strings.CutPrefix(found[1:len(found)-1], "label.")
		value := t.Labels[label]
		switch {
		case found == "{host}":
			return t.Host
		case found == "{port}":
			if t.Port == 0 {
				problem = fmt.Errorf("target %s has no port, which member %q needs", t.Host, template)
			}
			return strconv.Itoa(t.Port)
		case !isLabel:
			problem = fmt.Errorf("member %q: %s, expected {host}, {port} or {label.<name>}", template, found)
		case value == "":
			problem = fmt.Errorf("target %s has no label %s, which member %q needs", t.Host, label, template)
		}
		return value
	})
	if ip, err := netip.ParseAddr(t.Host); err == nil && ip.Is6() && strings.Contains(template, "{host}:") {
		name = strings.Replace(name, t.Host+":", "["+t.Host+"]:", 1)
	}
	if problem == nil && name == "" {
		problem = errors.New("member is empty, expected " + DefaultMember + ", {host}:{port} or {label.<name>}")
	}
	return name, problem
}

// SolveMembers is Solve for members that all get the weight of their slot. Of
// each slot up says how many servers are in service, nil for one a member;
// which ones does not matter. There are more than members where a name stands
// for several servers.
func SolveMembers(members []Member, up map[state.Slot]int, slot state.Slot, share, tolerance float64, units Units) (map[string]float64, float64, error) {
	if up == nil {
		up = map[state.Slot]int{}
		for _, m := range members {
			up[m.Slot]++
		}
	}
	// A server of each slot that is down shows the slot's weight.
	servers := []Server{{ID: "a", Slot: state.SlotA}, {ID: "b", Slot: state.SlotB}}
	for s, n := range up {
		for i := range n {
			servers = append(servers, Server{ID: fmt.Sprint(s, i), Slot: s, Up: true})
		}
	}
	weights, got, err := Solve(servers, slot, share, tolerance, units)
	if err != nil {
		return nil, 0, err
	}
	out := make(map[string]float64, len(members))
	for _, m := range members {
		out[m.Name] = float64(weights[string(m.Slot)])
	}
	return out, got, nil
}

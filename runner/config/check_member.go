package config

import (
	"fmt"
	"strconv"
	"strings"
)

// member checks the placeholders of a member's name, and that every target
// has what it is made of. Each is said once.
func (c *checker) member(path, text string) (ok bool) {
	ok = true
	for _, name := range placeholdersIn(text) {
		label, isLabel := strings.CutPrefix(name, "label.")
		lacks, what := lacking(c.cfg.Targets, name), name
		switch {
		case name != "host" && name != "port" && !isLabel:
			c.wrong(path, didYouMean(name, []string{"host", "port"}), "unknown placeholder {%s}, expected {host}, {port} or {label.<name>}", name)
		case len(lacks) == 0:
			continue
		default:
			if isLabel {
				what = "label " + label
			}
			c.wrong(path, "", "%s no %s, which member %s needs", have(lacks), what, show(text))
		}
		ok = false
	}
	return ok
}

// lacking are the targets without what a placeholder stands for.
func lacking(targets []Target, name string) []string {
	var out []string
	for _, t := range targets {
		if t.fill(name) == "" {
			out = append(out, t.Host)
		}
	}
	return out
}

// have names some targets, the first few of many.
func have(hosts []string) string {
	const few = 5
	switch more := len(hosts) - few; {
	case len(hosts) == 1:
		return "target " + hosts[0] + " has"
	case more > 0:
		return fmt.Sprintf("targets %s and %d more have", strings.Join(hosts[:few], ", "), more)
	}
	return "targets " + strings.Join(hosts, ", ") + " have"
}

// distinct checks that no two targets are the same member.
func (c *checker) distinct(path, text string) bool {
	hosts := map[string]string{}
	for _, t := range c.cfg.Targets {
		name := placeholder.ReplaceAllStringFunc(text, func(found string) string { return t.fill(found[1 : len(found)-1]) })
		if name == "" {
			c.wrong(path, "", "member is empty, expected {host}, {host}:{port} or {label.<name>}")
			return false
		}
		if other, twice := hosts[name]; twice {
			c.wrong(path, "", "targets %s and %s are both member %s, expected a name for each", other, t.Host, show(name))
			return false
		}
		hosts[name] = t.Host
	}
	return true
}

// fill is what stands for a placeholder of a member's name, "" for nothing.
func (t Target) fill(name string) string {
	switch label, isLabel := strings.CutPrefix(name, "label."); {
	case isLabel:
		return t.Labels[label]
	case name == "host":
		return t.Host
	case name == "port" && t.Port != 0:
		return strconv.Itoa(t.Port)
	}
	return ""
}

func placeholdersIn(text string) []string {
	var names []string
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

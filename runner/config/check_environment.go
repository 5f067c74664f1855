package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/manent/action/providers"
)

// identity takes project, application and environment from the file's path,
// where it has them, and refuses names that say something else.
func (c *checker) identity(file string, anonymous bool) {
	p, a, e, fromPath := FromPath(file)
	for _, part := range []struct {
		key, path string
		value     *string
	}{
		{"project", p, &c.cfg.Project}, {"application", a, &c.cfg.Application}, {"environment", e, &c.cfg.Environment},
	} {
		switch {
		case fromPath && *part.value == "":
			*part.value = part.path
		case fromPath && *part.value != part.path:
			c.wrong(part.key, "leave the key out", "found %s, but the file's path says %s", show(*part.value), show(part.path))
		}
		if *part.value == "" && !anonymous {
			c.wrong(part.key, "name it, or put the file at envconfig/<project>/<application>/<environment>.yml", "%s is missing", part.key)
		}
		if *part.value != "" {
			if err := keyName(*part.value); err != nil {
				c.wrong(part.key, "", "%v", err)
			}
		}
	}
}

// names checks the lists of named things.
func (c *checker) names() {
	c.unique("clusters", namesIn(c.cfg.Clusters, func(x Cluster) string { return x.Name }))
	c.unique("secrets", namesIn(c.cfg.Secrets, func(x Secret) string { return x.Name }))
	c.unique("rollout.waves", namesIn(c.cfg.Rollout.Waves, func(x Wave) string { return x.Name }))
	c.unique("rollout.health.metrics", namesIn(c.cfg.Rollout.Health.Metrics, func(x Metric) string { return x.Name }))
	c.unique("rollout.health.probes", namesIn(c.cfg.Rollout.Health.Probes, func(x Probe) string { return x.Name }))
	c.unique("rollout.health.alarms", namesIn(c.cfg.Rollout.Health.Alarms, func(x Alarm) string { return x.Name }))
}

func (c *checker) state() {
	address := c.cfg.State
	scheme, rest, _ := strings.Cut(address, ":")
	forms := "git, git:<url or remote>, s3://bucket/prefix?region=…&endpoint=…, file:<dir>"
	if _, ok := Lookup(c.cat.Stores, scheme); !ok {
		c.wrong("state", "expected "+forms, "the address begins with no known store")
		return
	}
	if _, ok := known(c, c.cat.Stores, "store", scheme, "state"); !ok {
		return
	}
	u, err := url.Parse(rest)
	if err == nil && u.User != nil {
		if _, has := u.User.Password(); has || scheme == "s3" {
			c.wrong("state", "give credentials to git itself, or in the environment", "the address carries credentials")
		}
	}
	switch {
	case scheme == "s3" && (err != nil || u.Host == ""):
		c.wrong("state", "expected s3://bucket/prefix?region=…", "the address names no bucket")
	case scheme == "file" && rest == "":
		c.wrong("state", "expected file:<dir>", "the address names no directory")
	case scheme == "git" && address != "git" && rest == "":
		c.wrong("state", "expected git, or git:<url or remote>", "the address names no remote")
	}
}

func (c *checker) plugin() {
	if c.cfg.Plugin.Name == "" {
		if c.given("plugin") {
			c.missing("plugin.name", "")
		}
		return
	}
	known(c, c.cat.Plugins, "plugin", c.cfg.Plugin.Name, "plugin.name")
	if e, ok := Lookup(c.cat.Plugins, c.cfg.Plugin.Name); ok && e.InPlace && c.cfg.Rollout.Strategy == "traffic" {
		c.inPlace()
	}
}

// inPlace checks that both slots have targets. A router on targets says so
// itself, and what is wrong with single labels is said with the targets.
func (c *checker) inPlace() {
	if r := c.cfg.Traffic.Router; r != nil {
		if e, ok := Lookup(c.cat.Routers, r.Provider); ok && e.OnTargets {
			return
		}
	}
	for _, slot := range []string{"a", "b"} {
		if !slices.ContainsFunc(c.cfg.Targets, func(t Target) bool { return t.Labels["slot"] == slot }) {
			c.wrong("targets", fmt.Sprintf("give the label slot: %s to the targets of that slot", slot),
				"no target has the label slot: %s, and plugin %s updates the targets of one slot", slot, c.cfg.Plugin.Name)
		}
	}
}

func (c *checker) commands() {
	first := map[string]int{}
	for i, s := range c.cfg.Steps {
		path := fmt.Sprintf("steps[%d]", i)
		if !c.missing(path+".name", s.Name) {
			if err := CommandName(s.Name); err != nil {
				c.wrong(path+".name", "", "%v", err)
			} else if j, twice := first[s.Name]; twice {
				c.wrong(path+".name", "", "%s is taken by steps[%d]", show(s.Name), j)
			} else {
				first[s.Name] = i
			}
		}
		c.missing(path+".run", s.Run)
		if s.Timeout == 0 {
			c.wrong(path+".timeout", "", "timeout is 0, expected the longest time the command may take")
		}
	}
}

// environment checks targets and clusters.
func (c *checker) environment() {
	first := map[string]int{}
	slotted := 0
	for i, t := range c.cfg.Targets {
		path := fmt.Sprintf("targets[%d]", i)
		address := fmt.Sprintf("%s:%d", t.Host, t.Port)
		switch j, twice := first[address]; {
		case c.missing(path+".host", t.Host):
		case strings.ContainsAny(t.Host, " \t\r\n/@?#\"'`$\\"):
			c.wrong(path+".host", "", "%s is not a host name or address", show(t.Host))
		case twice:
			c.wrong(path+".host", "", "%s is taken by targets[%d]", show(address), j)
		default:
			first[address] = i
		}
		if t.Port < 0 || t.Port > 65535 {
			c.wrong(path+".port", "", "port is %d, expected 1 to 65535", t.Port)
		}
		if slot, has := t.Labels["slot"]; has {
			slotted++
			if slot != "a" && slot != "b" {
				c.wrong(path+".labels.slot", "", "slot is %s, expected a or b", show(slot))
			}
		}
	}
	if slotted > 0 && slotted < len(c.cfg.Targets) && c.cfg.Rollout.Strategy == "traffic" {
		c.wrong("targets", "give each target a label slot: a or slot: b", "%d of %d targets have a label slot, expected all", slotted, len(c.cfg.Targets))
	}
}

func (c *checker) callbacks() {
	c.feature(FeatureCallbacks, "callbacks", "callbacks", len(c.cfg.Callbacks) > 0)
	for i, cb := range c.cfg.Callbacks {
		path := fmt.Sprintf("callbacks[%d]", i)
		if !c.missing(path+".url", cb.URL) {
			if u, err := providers.CheckURL(cb.URL, true); err != nil {
				c.wrong(path+".url", "", "%v", err)
			} else if u.Scheme != "https" {
				c.wrong(path+".url", "", "%s is plain http, expected https", show(cb.URL))
			}
		}
		if len(cb.Events) == 0 {
			c.wrong(path+".events", "one or more of step, paused, failed, completed", "events is missing")
		}
	}
}

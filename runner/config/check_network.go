package config

import (
	"fmt"
	"strings"
)

// network checks router and pool against the rest.
func (c *checker) network() {
	if r := c.cfg.Traffic.Router; r != nil {
		c.router(*r)
	}
	if c.cfg.Traffic.Pool != nil {
		c.feature(FeaturePools, "traffic.pool", "pools", true)
		c.pool(*c.cfg.Traffic.Pool)
	}
}

func (c *checker) router(r Router) {
	known(c, c.cat.Routers, "router", r.Provider, "traffic.router.provider")
	if len(c.cfg.Rollout.Waves) > 0 {
		c.wrong("traffic.router", "leave the router out and name a plugin that brings one, or leave the waves out",
			"waves with a router of the environment: it moves the traffic of all of it at once")
	}
	named := true
	if member, ok := r.Settings["member"].(string); ok {
		const path = "traffic.router.settings.member"
		named = c.member(path, member) && c.distinct(path, member)
	}
	if e, ok := Lookup(c.cat.Routers, r.Provider); ok && e.OnTargets {
		c.onTargets(r, e, named)
	}
}

// onTargets checks that both slots have targets, and that they can share the
// traffic as planned; or that the slots are in one place only. Without names
// for the members nothing more can be said.
func (c *checker) onTargets(r Router, e RouterEntry, named bool) {
	slots := map[string]int{}
	for _, t := range c.cfg.Targets {
		slots[t.Labels["slot"]]++
	}
	for _, name := range e.Instead {
		if _, given := r.Settings[name]; !given {
			continue
		}
		if slots["a"]+slots["b"] > 0 {
			c.wrong("traffic.router.settings."+name, "leave out either "+strings.Join(e.Instead, " and ")+", or the label slot of the targets",
				"%s and targets with a label slot both say where the slots are", name)
		}
		return
	}
	for _, slot := range []string{"a", "b"} {
		if slots[slot] == 0 {
			c.wrong("targets", fmt.Sprintf("give the label slot: %s to the targets of that slot", slot),
				"no target has the label slot: %s, and router %s moves traffic between targets%s", slot, r.Provider, orElse(e.Instead))
			return
		}
	}
	if e.Reach == nil || !named {
		return
	}
	// Nothing is out of reach here but what cannot work with these targets.
	if _, hint, err := e.Reach(r.Settings, c.cfg.Targets, "a", 0, 100); err != nil {
		c.wrong("traffic.router.settings", hint, "%v", err)
		return
	}
	for i, share := range c.cfg.Rollout.Traffic.Steps {
		for _, slot := range []string{"a", "b"} {
			got, hint, err := e.Reach(r.Settings, c.cfg.Targets, slot, share, c.cfg.Tolerance(share))
			if err != nil {
				c.wrong(fmt.Sprintf("rollout.traffic.steps[%d]", i), hint, "with slot %s as the candidate: %v", slot, err)
				break
			}
			if FarAbove(got, share) {
				c.warn(fmt.Sprintf("rollout.traffic.steps[%d]", i), "set rollout.traffic.shareTolerance to what may be missed, or take a share that the servers' weights can give",
					"with slot %s as the candidate %v %% will be %.3g %%", slot, share, got)
			}
		}
	}
}

// FarAbove reports whether the share that a router really gives is to be told:
// within the tolerance a small share may become several times what was asked.
func FarAbove(got, share float64) bool { return got > 1.5*share }

// orElse names the settings that would do instead of targets.
func orElse(settings []string) string {
	if len(settings) == 0 {
		return ""
	}
	return " unless it has " + strings.Join(settings, " and ")
}

func (c *checker) pool(p Pool) {
	known(c, c.cat.Pools, "pool", p.Provider, "traffic.pool.provider")
	switch {
	case c.cfg.Rollout.Strategy == "traffic":
		c.wrong("traffic.pool", "leave it out, or use strategy waves", "a pool with strategy traffic: a pool is for targets that are updated in place")
	case len(c.cfg.Rollout.Waves) == 0:
		c.wrong("traffic.pool", "give rollout.waves", "a pool without waves: all targets would be drained together")
	}
	c.member("traffic.pool.member", p.Member)
	if p.PollInterval == 0 {
		c.wrong("traffic.pool.poll_interval", "", "poll_interval is 0, expected a time between two looks")
	}
	if p.PollInterval > p.DrainTimeout {
		c.warn("traffic.pool.drain_timeout", "", "drain_timeout %s is shorter than poll_interval %s: there is one look", p.DrainTimeout, p.PollInterval)
	}
	c.capacity(p)
}

// capacity checks that a batch can ever be taken out.
func (c *checker) capacity(p Pool) {
	healthy, ok := ParseAmount(p.MinHealthy)
	if !ok {
		c.wrong("traffic.pool.min_healthy", "", "min_healthy is %s, expected a number of members such as 1, or a percentage such as 66%%", show(p.MinHealthy))
		return
	}
	batch, ok := ParseAmount(c.cfg.Rollout.MaxUnavailable)
	total := len(c.cfg.Targets)
	if !ok || total == 0 {
		return
	}
	largest := 0
	parts, _ := c.cfg.Parts()
	for _, part := range parts {
		largest = max(largest, min(batch.AtMost(len(part.Targets)), len(part.Targets)))
	}
	if free := total - healthy.AtLeast(total); free < largest {
		c.wrong("traffic.pool.min_healthy", "", "min_healthy %s of %d targets leaves %d to take out, but a batch has %d", p.MinHealthy, total, max(0, free), largest)
	}
}

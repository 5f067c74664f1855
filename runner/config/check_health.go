package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/manent/action/providers"
)

func (c *checker) health() {
	const path = "rollout.health"
	h, t := c.cfg.Rollout.Health, c.cfg.Rollout.Traffic
	if h.Interval == 0 {
		c.wrong(path+".interval", "", "interval is 0, expected the time between two readings")
	}
	if t.Bake > 0 && h.Interval > t.Bake {
		c.warn(path+".interval", "", "interval %s is longer than bake %s: a stage has one reading", h.Interval, t.Bake)
	}
	if h.FailureLimit < 0 {
		c.wrong(path+".failureLimit", "", "failureLimit is %d, expected 0 or more", h.FailureLimit)
	}
	if a := h.Analysis; a != nil {
		c.score(path+".analysis.pass", a.Pass)
		c.score(path+".analysis.marginal", a.Marginal)
		if a.Pass == 0 {
			c.wrong(path+".analysis.pass", "", "pass is 0, expected above 0: a score of nothing would pass")
		}
		if a.Marginal > a.Pass {
			c.wrong(path+".analysis.marginal", "", "marginal %v is above pass %v", a.Marginal, a.Pass)
		}
	}
	for name := range c.cfg.Rollout.Providers {
		known(c, c.cat.Metrics, "metric system", name, "rollout.providers."+name)
	}
}

func (c *checker) score(path string, v float64) {
	if v < 0 || v > 100 {
		c.wrong(path, "", "%s is %v, expected 0 to 100", last(path), v)
	}
}

// probes checks what is requested from the candidate.
func (c *checker) probes() {
	allowed := []string{"host", "port", "application", "environment", "version", "track", "wave", "project"}
	for i, p := range c.cfg.Rollout.Health.Probes {
		path := fmt.Sprintf("rollout.health.probes[%d]", i)
		for _, name := range placeholdersIn(p.URL) {
			switch {
			case !slices.Contains(allowed, name):
				c.wrong(path+".url", didYouMean(name, allowed), "unknown placeholder {%s}, expected one of {%s}", name, strings.Join(allowed, "}, {"))
			case name == "wave" && len(c.cfg.Rollout.Waves) == 0:
				c.wrong(path+".url", "", "{wave} has no value without waves")
			case (name == "host" || name == "port") && len(c.cfg.Targets) == 0 && !c.tagged():
				c.wrong(path+".url", "list the targets, or write the host", "{%s} has no value without targets", name)
			}
		}
		c.probeURL(path, p)
		if p.Status < 100 || p.Status > 599 {
			c.wrong(path+".status", "", "status is %d, expected 100 to 599", p.Status)
		}
		if p.Timeout == 0 {
			c.wrong(path+".timeout", "", "timeout is 0, expected the longest time for an answer")
		}
	}
}

// tagged reports whether the candidate has an address of its own, which then
// is {host}.
func (c *checker) tagged() bool {
	_, router, _ := c.cat.RouterOf(*c.cfg)
	return router.Testers == "tag"
}

func (c *checker) probeURL(path string, p Probe) {
	if c.missing(path+".url", p.URL) {
		return
	}
	// {port} stands where only digits may; any word does for the others.
	sample := strings.ReplaceAll(p.URL, "{port}", "1")
	sample = placeholder.ReplaceAllString(sample, "placeholder")
	if _, err := providers.CheckURL(sample, true); err != nil {
		c.wrong(path+".url", "expected https://HOST/…", "%v", err)
		return
	}
	if _, err := providers.CheckURL(sample, p.AllowHTTP); err != nil {
		c.wrong(path+".url", "use https, or set allowHTTP: true", "%s is plain http to another machine", show(p.URL))
	}
}

func (c *checker) alarms() {
	c.feature(FeatureAlarms, "rollout.health.alarms", "alarms", len(c.cfg.Rollout.Health.Alarms) > 0)
	for i, a := range c.cfg.Rollout.Health.Alarms {
		path := fmt.Sprintf("rollout.health.alarms[%d]", i)
		known(c, c.cat.Metrics, "metric system", a.Provider, path+".provider")
		c.missing(path+".alarm", a.Alarm)
	}
}

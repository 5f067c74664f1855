package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func (c *checker) rollout() {
	r := c.cfg.Rollout
	if r.Strategy == "waves" {
		c.waveStrategy()
	}
	if c.cfg.Rollback.Enabled && r.Strategy == "traffic" {
		c.warn("rollback.enabled", "leave it out", "rollback has no effect: strategy traffic returns without it")
	}
	if r.ApprovalTimeout == 0 {
		c.wrong("rollout.approvalTimeout", "", "approvalTimeout is 0, every approval would count as rejected at once")
	}
	if r.OrphanAfter == 0 {
		c.wrong("rollout.orphanAfter", "", "orphanAfter is 0, every rollout would be returned between two calls")
	}
	if _, ok := ParseAmount(r.MaxUnavailable); !ok {
		c.wrong("rollout.maxUnavailable", "", "maxUnavailable is %s, expected a number of targets such as 1, or a percentage such as 25%%", show(r.MaxUnavailable))
	}
	c.freezes()
}

// waveStrategy is about what strategy waves does without.
func (c *checker) waveStrategy() {
	path, hint := "rollout.strategy", ""
	if !c.given(path) {
		path, hint = "rollout", "give rollout.traffic for strategy traffic"
	}
	if !slices.Contains(c.cat.Features, FeatureWaves) {
		c.add(Absent, path, hint, "strategy waves: not in this build")
	}
	if c.given("rollout.traffic") {
		c.warn("rollout.traffic", "", "rollout.traffic has no effect with strategy waves")
	}
	if c.cfg.Traffic.Router != nil && len(c.cfg.Rollout.Waves) == 0 {
		c.warn("traffic.router", "", "traffic.router has no effect with strategy waves")
	}
	if strings.HasPrefix(c.cfg.Rollout.OnFailure, "rollback") && !c.cfg.Rollback.Enabled {
		c.wrong("rollout.onFailure", "set rollback.enabled: true", "onFailure is %s, but rollback is not enabled", c.cfg.Rollout.OnFailure)
	}
}

func (c *checker) freezes() {
	parts, _ := c.cfg.Parts()
	for i, f := range c.cfg.Rollout.Freezes {
		path := fmt.Sprintf("rollout.freezes[%d]", i)
		switch {
		case f.From.IsZero():
			c.wrong(path+".from", "", "from is missing")
		case f.To.IsZero():
			c.wrong(path+".to", "", "to is missing")
		case !f.From.Before(f.To):
			c.wrong(path+".to", "", "to is not after from")
		}
		if f.Region != "" && !slices.ContainsFunc(parts, func(p Part) bool { return p.Region == f.Region }) {
			c.wrong(path+".region", "leave region out, which freezes all", "no pass is in region %s alone, so the freeze would not hold anything", f.Region)
		}
	}
}

// traffic checks shares and waits.
func (c *checker) traffic() {
	if c.cfg.Rollout.Strategy != "traffic" {
		return
	}
	t := c.cfg.Rollout.Traffic
	c.shares(t.Steps)
	if t.MaxBake < t.Bake {
		c.wrong("rollout.traffic.maxBake", "", "maxBake is %s, expected at least bake, %s", t.MaxBake, t.Bake)
	}
	if s := t.ShareTolerance; s != nil && (*s < 0 || *s >= 100) {
		c.wrong("rollout.traffic.shareTolerance", "", "shareTolerance is %v, expected 0 to below 100 points", *s)
	}
	c.testers(t.Testers)
	if t.Replicas != "" {
		c.replicas()
	}
	if pinned := Duration(c.cat.PinnedFor(*c.cfg)); pinned > t.ScaleDownDelay {
		c.warn("rollout.traffic.scaleDownDelay", fmt.Sprintf("expected at least %s", pinned),
			"scaleDownDelay is %s, but clients stay on their slot for %s; the replaced version is kept that long", t.ScaleDownDelay, pinned)
	}
	if c.routerless() {
		c.wrong("rollout.strategy", "name one in traffic.router, or a plugin that brings one", "strategy traffic has no router")
	}
}

// routerless reports whether it is certain that nothing splits traffic.
func (c *checker) routerless() bool {
	p, known := Lookup(c.cat.Plugins, c.cfg.Plugin.Name)
	return c.cfg.Traffic.Router == nil && (known && p.router(c.cfg.Plugin.Settings) == nil || c.cfg.Plugin.Name == "")
}

func (c *checker) shares(steps []float64) {
	const path = "rollout.traffic.steps"
	switch {
	case len(steps) == 0:
		c.wrong(path, "for example [5, 25, 100]; [100] is blue/green", "steps is missing")
		return
	case len(steps) > 20:
		c.wrong(path, "", "%d steps, expected at most 20", len(steps))
	}
	_, router, _ := c.cat.RouterOf(*c.cfg)
	before, end := 0.0, len(steps)-1
	for i, s := range steps {
		at := fmt.Sprintf("%s[%d]", path, i)
		tolerance := c.cfg.Tolerance(s)
		switch got, ok := Reachable(s, router.Step, tolerance); {
		case s <= 0 || s > 100:
			c.wrong(at, "", "share %v, expected more than 0 and at most 100", s)
		case math.Abs(s*1e4-math.Round(s*1e4)) > 1e-6:
			c.wrong(at, "", "share %v, expected at most 4 decimals", s)
		case s <= before:
			c.wrong(at, "", "share %v follows %v, expected rising shares", s, before)
		case i == end && s != 100:
			c.wrong(at, "", "the last share is %v, expected 100", s)
		case !ok && tolerance >= 0:
			c.wrong(at, fmt.Sprintf("use a multiple of %v, or a larger shareTolerance", router.Step),
				"the router cannot reach %v %%: the nearest is %v %%, the tolerance %v points", s, got, tolerance)
		}
		before = max(before, s)
	}
}

var headerForm = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+:[ \t]*[!-~]([ -~]*[!-~])?[ \t]*$")

// testers checks that what is given is what the router goes by.
func (c *checker) testers(t *Testers) {
	if t == nil {
		return
	}
	const path = "rollout.traffic.testers"
	if t.Header != "" && !headerForm.MatchString(t.Header) {
		c.wrong(path+".header", `for example "x-canary: always"`, `header is %s, expected "name: value"`, show(t.Header))
	}
	name, router, ok := c.cat.RouterOf(*c.cfg)
	switch {
	case t.Header == "" && t.Tag == "":
		c.wrong(path, "", "testers has neither header nor tag")
	case !ok || !c.routerInBuild():
	case router.Testers == "":
		c.wrong(path, "leave testers out", "router %s cannot route testers", name)
	case router.Testers == "header" && t.Header == "":
		c.wrong(path, "", "router %s goes by testers.header, which is missing", name)
	case router.Testers == "tag" && t.Tag == "":
		c.wrong(path, "", "router %s goes by testers.tag, which is missing", name)
	}
}

func (c *checker) routerInBuild() bool {
	if r := c.cfg.Traffic.Router; r != nil {
		e, _ := Lookup(c.cat.Routers, r.Provider)
		return e.InBuild
	}
	e, _ := Lookup(c.cat.Plugins, c.cfg.Plugin.Name)
	return e.InBuild
}

func (c *checker) replicas() {
	e, ok := Lookup(c.cat.Plugins, c.cfg.Plugin.Name)
	scales := c.cat.Scales(*c.cfg)
	switch {
	case c.cfg.Plugin.Name == "":
		c.wrong("rollout.traffic.replicas", "leave it out", "replicas needs a plugin that can scale, there is no plugin")
	case ok && e.Scales && !scales:
		c.wrong("rollout.traffic.replicas", "leave it out, or give the settings that scale", "plugin %s cannot scale with its settings", e.Name)
	case ok && !scales:
		c.wrong("rollout.traffic.replicas", "leave it out", "plugin %s cannot scale", e.Name)
	}
}

// approvals checks approvalsBetween: "0", a share but the last, a wave but the
// last.
func (c *checker) approvals() {
	allowed := c.allowedApprovals()
	seen := map[string]bool{}
	for i, a := range c.cfg.Rollout.ApprovalsBetween {
		path := fmt.Sprintf("rollout.approvalsBetween[%d]", i)
		switch {
		case seen[a]:
			c.wrong(path, "", "%s is given twice", show(a))
		case slices.Contains(allowed, a):
		case c.isLast(a):
			c.wrong(path, "", "%s is the last: nothing follows that could be approved", show(a))
		default:
			c.wrong(path, c.approvalHint(a, allowed), "unknown step %s", show(a))
		}
		seen[a] = true
	}
}

func (c *checker) allowedApprovals() []string {
	var allowed []string
	r := c.cfg.Rollout
	if r.Strategy == "traffic" {
		allowed = append(allowed, "0")
		for _, s := range r.Traffic.Steps[:max(0, len(r.Traffic.Steps)-1)] {
			allowed = append(allowed, ShareText(s))
		}
	}
	for _, w := range r.Waves[:max(0, len(r.Waves)-1)] {
		allowed = append(allowed, w.Name)
	}
	slices.Sort(allowed)
	return slices.Compact(allowed)
}

func (c *checker) isLast(a string) bool {
	r := c.cfg.Rollout
	return r.Strategy == "traffic" && a == "100" || len(r.Waves) > 0 && r.Waves[len(r.Waves)-1].Name == a
}

func (c *checker) approvalHint(a string, allowed []string) string {
	if len(allowed) == 0 {
		return "there is nothing in between to approve, leave it out"
	}
	if s, err := strconv.ParseFloat(strings.TrimSuffix(a, "%"), 64); err == nil && slices.Contains(allowed, ShareText(s)) {
		return fmt.Sprintf("write %q", ShareText(s))
	}
	return "expected one of " + strings.Join(allowed, ", ")
}

func (c *checker) waves() {
	c.feature(FeatureWaves, "rollout.waves", "waves", len(c.cfg.Rollout.Waves) > 0)
	for i, w := range c.cfg.Rollout.Waves {
		path := fmt.Sprintf("rollout.waves[%d].select", i)
		if c.missing(path, w.Select) {
			continue
		}
		if _, err := ParseSelector(w.Select); err != nil {
			c.wrong(path, `for example "region=eu-1" or "region!=eu-1, canary=true"`, "found %v", err)
		}
	}
	_, issues := c.cfg.Parts()
	for _, i := range issues {
		c.wrong(i.Path, i.Hint, "%s", i.Message)
	}
}

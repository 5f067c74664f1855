package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/manent/action/providers"
)

// checker finds the contradictions of a configuration that reads well.
type checker struct {
	cfg      *Config
	cat      Catalog
	at       map[string]Position // of what was given
	file     string              // where what was not given is missing
	broken   Problems            // what did not read well: nothing more is said about it
	problems *Problems
}

func (c *checker) all() {
	c.names()
	c.state()
	c.plugin()
	c.commands()
	c.environment()
	c.secrets()
	c.callbacks()
	c.rollout()
	c.traffic()
	c.approvals()
	c.waves()
	c.network()
	c.health()
	c.metrics()
	c.probes()
	c.alarms()
	c.blocks()
}

func (c *checker) given(path string) bool { _, ok := c.at[path]; return ok }

// add reports a problem at the place of path, or of the nearest section around
// it that was given. About what did not read well enough was said.
func (c *checker) add(s Severity, path, hint, format string, args ...any) {
	if len(*c.problems) >= 2*mostProblems {
		return
	}
	for _, b := range c.broken {
		if b.Path == "" || within(b.Path, path) || within(path, b.Path) {
			return
		}
	}
	p := Problem{File: c.file, Line: 1, Col: 1, Path: path, Message: fmt.Sprintf(format, args...), Hint: hint, Severity: s}
	for around := path; around != ""; around = parent(around) {
		if at, ok := c.at[around]; ok {
			p.File, p.Line, p.Col = at.File, at.Line, at.Col
			break
		}
	}
	*c.problems = append(*c.problems, p)
}

func (c *checker) wrong(path, hint, format string, args ...any) {
	c.add(Error, path, hint, format, args...)
}

func (c *checker) warn(path, hint, format string, args ...any) {
	c.add(Warning, path, hint, format, args...)
}

// within reports whether inner is outer or a part of it.
func within(inner, outer string) bool {
	rest, ok := strings.CutPrefix(inner, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// feature refuses what this build cannot do, where it is used.
func (c *checker) feature(name, path, what string, used bool) {
	if used && !slices.Contains(c.cat.Features, name) {
		c.add(Absent, path, "", "%s: not in this build", what)
	}
}

// known looks a name up and says what is wrong with it: unknown, or known but
// not in this build. ok is true when the implementation is there.
func known[E entrylike](c *checker, list []E, kind, name, path string) (e E, ok bool) {
	e, found := Lookup(list, name)
	switch here := namesOf(list, true); {
	case name == "":
		c.wrong(path, "one of "+strings.Join(namesOf(list, false), ", "), "%s is missing", last(path))
	case !found:
		c.wrong(path, strings.TrimSpace(didYouMean(name, namesOf(list, false))+" the "+kind+"s are "+strings.Join(namesOf(list, false), ", ")), "unknown %s %s", kind, show(name))
	case !e.entry().InBuild && len(here) == 0:
		c.add(Absent, path, "", "%s %s: not in this build", kind, name)
	case !e.entry().InBuild:
		c.add(Absent, path, "this build has "+strings.Join(here, ", "), "%s %s: not in this build", kind, name)
	}
	return e, found && e.entry().InBuild
}

func last(path string) string { return path[strings.LastIndexAny(path, ".")+1:] }

// missing reports a text that has to be given.
func (c *checker) missing(path, value string) bool {
	if strings.TrimSpace(value) == "" {
		c.wrong(path, "", "%s is missing", last(path))
		return true
	}
	return false
}

// unique reports names that are given twice, and those in a form that cannot
// be part of a step's name or an id.
func (c *checker) unique(list string, names []string) {
	first := map[string]int{}
	for i, name := range names {
		path := fmt.Sprintf("%s[%d].name", list, i)
		j, twice := first[name]
		switch {
		case c.missing(path, name):
		case !nameForm.MatchString(name):
			c.wrong(path, "", "%s is not a name, expected a letter, then letters, digits, dashes and underscores, at most 63", show(name))
		case twice:
			c.wrong(path, "", "%s is taken by %s[%d]", show(name), list, j)
		default:
			first[name] = i
		}
	}
}

// namesIn collects the names of a list.
func namesIn[T any](list []T, name func(T) string) []string {
	out := make([]string, len(list))
	for i, item := range list {
		out[i] = name(item)
	}
	return out
}

// block is one provider's settings.
type block struct {
	path     string
	kind     string
	entry    Entry
	settings Settings
	// missingAt is where a setting that is not given is reported.
	missingAt string
}

// blocks checks every provider's settings: keys and types, then what only the
// implementation can tell.
func (c *checker) blocks() {
	for _, b := range c.allBlocks() {
		if !b.entry.InBuild {
			continue
		}
		problems := providers.CheckSettings(b.entry.Fields, b.settings)
		for key, text := range problems {
			c.setting(b, key, text)
		}
		if len(problems) > 0 || b.entry.Check == nil {
			continue
		}
		if err := b.entry.Check(b.settings); err != nil {
			c.wrong(b.missingAt, providers.HintOf(err), "%v", err)
		}
	}
}

func (c *checker) setting(b block, key, text string) {
	if key == "" {
		c.wrong(b.missingAt, "give it in "+b.path, "%s %s: %s", b.kind, b.entry.Name, text)
		return
	}
	names, hint := namesIn(b.entry.Fields, func(f providers.Field) string { return f.Name }), ""
	if !contains(names, key) {
		hint = didYouMean(key, names)
	}
	c.wrong(c.settingPath(b, key), hint, "%s", text)
}

// settingPath is where a setting was given: in the block, or in the plugin's
// for all clusters.
func (c *checker) settingPath(b block, key string) string {
	if common := join("plugin.settings", key); b.kind == "plugin" && !c.given(join(b.path, key)) && c.given(common) {
		return common
	}
	return join(b.path, key)
}

// allBlocks lists the settings that are given, and the ones that are needed
// although nobody gave them.
func (c *checker) allBlocks() []block {
	var out []block
	put := func(kind string, e Entry, path, missingAt string, s Settings) {
		out = append(out, block{path, kind, e, s, missingAt})
	}
	if e, ok := Lookup(c.cat.Plugins, c.cfg.Plugin.Name); ok {
		if len(c.cfg.Clusters) == 0 {
			put("plugin", e.Entry, "plugin.settings", "plugin", c.cfg.Plugin.Settings)
		}
		for i, cl := range c.cfg.Clusters {
			path := fmt.Sprintf("clusters[%d]", i)
			put("plugin", e.Entry, path+".settings", path, Merge(c.cfg.Plugin.Settings, cl.Settings))
		}
	}
	if r := c.cfg.Traffic.Router; r != nil {
		e, _ := Lookup(c.cat.Routers, r.Provider)
		put("router", e.Entry, "traffic.router.settings", "traffic.router", r.Settings)
	}
	if p := c.cfg.Traffic.Pool; p != nil {
		e, _ := Lookup(c.cat.Pools, p.Provider)
		put("pool", e, "traffic.pool.settings", "traffic.pool", p.Settings)
	}
	for _, name := range c.metricSystems() {
		e, _ := Lookup(c.cat.Metrics, name)
		path := "rollout.providers." + name
		put("metric system", e.Entry, path, path, c.cfg.Rollout.Providers[name])
	}
	return out
}

// Merge is the plugin's settings of a cluster: its own replace the common
// ones, key by key.
func Merge(common, own Settings) Settings {
	out := Settings{}
	for _, s := range []Settings{common, own} {
		for key, value := range s {
			out[key] = value
		}
	}
	return out
}

// metricSystems lists the systems that are configured or used.
func (c *checker) metricSystems() []string {
	var names []string
	for name := range c.cfg.Rollout.Providers {
		names = append(names, name)
	}
	for _, m := range c.cfg.Rollout.Health.Metrics {
		names = append(names, m.Provider)
	}
	for _, a := range c.cfg.Rollout.Health.Alarms {
		names = append(names, a.Provider)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

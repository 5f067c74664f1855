package config

import (
	"slices"
	"time"

	"github.com/manent/action/providers"
)

// Catalog says, as data, what implementations the design knows and which of
// them are in this build. Known returns it with nothing in the build; the
// command line puts in what it links.
type Catalog struct {
	Plugins  []PluginEntry
	Routers  []RouterEntry
	Pools    []Entry
	Metrics  []MetricEntry
	Secrets  []Entry  // by scheme: env, file, vault …
	Stores   []Entry  // by scheme: git, s3, file
	Features []string // the features of Features that this build can do
}

// Entry describes one implementation.
type Entry struct {
	Name    string
	Summary string // one line, for the documentation
	InBuild bool
	Fields  []providers.Field // settings it understands, nil when not in the build
	// Check builds it from its settings, without I/O, for what only the
	// implementation can tell; nil when there is nothing beyond Fields.
	Check func(settings map[string]any) error
}

// PluginEntry describes a plugin.
type PluginEntry struct {
	Entry
	Scales bool          // it can change a slot's capacity, with settings that make it do so
	Router *RouterTraits // it brings its own router; nil for none
	// InPlace says that it updates the targets of a slot, so that both slots
	// need some.
	InPlace bool
	// ScalesWith says whether it can with these settings; nil when it always can.
	ScalesWith func(settings map[string]any) bool
	// RouterWith gives the traits of its router with these settings, nil for
	// no router; nil itself when they are the same with all settings.
	RouterWith func(settings map[string]any) *RouterTraits
}

// router is what it brings with these settings, nil for none.
func (e PluginEntry) router(settings map[string]any) *RouterTraits {
	if e.RouterWith == nil {
		return e.Router
	}
	return e.RouterWith(settings)
}

// RouterEntry describes a router of the environment.
type RouterEntry struct {
	Entry
	RouterTraits
}

// RouterTraits are what validate and plan need to know of a router.
type RouterTraits struct {
	Step        float64 // smallest difference of share in percentage points; 0 = depends on the servers
	Conditional bool    // the system itself refuses a stale write
	Testers     string  // header, tag, or "" when it cannot route testers
	// Pinned is how long clients stay on a slot; nil or 0 for not at all.
	Pinned func(settings map[string]any) time.Duration

	// OnTargets says that the slots are groups of the environment's targets.
	OnTargets bool
	// Instead are settings that say where the slots are instead: with one of
	// them the slots are not groups of targets.
	Instead []string
	// Reach says, without asking the router, whether it can give a slot a
	// share within a tolerance (points), with these targets all in service, and
	// which it really gives: an error with a hint where it cannot. nil where
	// only the router knows.
	Reach func(settings map[string]any, targets []Target, slot string, share, tolerance float64) (got float64, hint string, err error)
}

// MetricEntry describes a metric system.
type MetricEntry struct {
	Entry
	Delay     time.Duration                    // how old data must be to count, unless a metric says so
	Window    func(query string) time.Duration // range one value of the query stands for, 0 = unknown; may be nil
	OwnTracks bool                             // it tells the slots apart without {track} in the query
}

// Features that may be missing in a build.
const (
	FeatureWaves     = "waves"     // rollout.waves and strategy waves
	FeaturePools     = "pools"     // traffic.pool
	FeatureCallbacks = "callbacks" // callbacks
	FeatureAlarms    = "alarms"    // rollout.health.alarms
)

// Known returns the catalog of all names of the design, none in the build.
// Traits are those of the systems' documentation.
func Known() Catalog {
	return Catalog{
		Plugins: knownPlugins(),
		Routers: knownRouters(),
		Pools:   entries("haproxy", "aws-elb", "health-flag", "f5", "nginx-plus", "nginx", "iis-arr", "nlb"),
		Metrics: knownMetrics(),
		Secrets: entries("env", "file", "vault", "aws-sm", "gcp-sm", "azure-kv"),
		Stores:  entries("git", "s3", "file"),
	}
}

func entries(names ...string) []Entry {
	out := make([]Entry, len(names))
	for i, name := range names {
		out[i].Name = name
	}
	return out
}

func knownPlugins() []PluginEntry {
	open := &RouterTraits{Conditional: true}
	return []PluginEntry{
		{Entry: Entry{Name: "exec"}},
		{Entry: Entry{Name: "remote-copy"}, InPlace: true},
		{Entry: Entry{Name: "container"}, InPlace: true},
		{Entry: Entry{Name: "kubernetes"}, Scales: true, Router: &RouterTraits{Conditional: true, Testers: "header"}},
		{Entry: Entry{Name: "lambda"}, Router: open},
		{Entry: Entry{Name: "cloudrun"}, Router: &RouterTraits{Step: 1, Conditional: true, Testers: "tag"}},
		{Entry: Entry{Name: "appservice"}, Router: &RouterTraits{}},
		{Entry: Entry{Name: "containerapps"}, Router: &RouterTraits{Step: 1, Testers: "tag"}},
		{Entry: Entry{Name: "ecs"}},
		{Entry: Entry{Name: "external"}, Scales: true, Router: open},
	}
}

func knownRouters() []RouterEntry {
	return []RouterEntry{
		{Entry: Entry{Name: "haproxy"}, RouterTraits: RouterTraits{Conditional: true}},
		{Entry: Entry{Name: "f5"}},
		{Entry: Entry{Name: "nginx-plus"}},
		{Entry: Entry{Name: "aws-alb"}, RouterTraits: RouterTraits{Testers: "header"}},
		{Entry: Entry{Name: "nginx"}},
		{Entry: Entry{Name: "proxy"}},
	}
}

func knownMetrics() []MetricEntry {
	names := []string{"prometheus", "datadog", "newrelic", "elastic", "cloudwatch", "azure-monitor", "accesslog"}
	out := make([]MetricEntry, len(names))
	for i, name := range names {
		out[i].Name = name
	}
	return out
}

// entry lets generic code reach the common part of all kinds of entries.
func (e Entry) entry() Entry { return e }

type entrylike interface{ entry() Entry }

// Put returns the list with e in the place of the entry of its name, or at
// the end.
func Put[E entrylike](list []E, e E) []E {
	list = slices.Clone(list)
	i := slices.IndexFunc(list, func(o E) bool { return o.entry().Name == e.entry().Name })
	if i < 0 {
		return append(list, e)
	}
	list[i] = e
	return list
}

// Lookup returns the entry of a name.
func Lookup[E entrylike](list []E, name string) (E, bool) {
	for _, e := range list {
		if e.entry().Name == name {
			return e, true
		}
	}
	var none E
	return none, false
}

func namesOf[E entrylike](list []E, inBuild bool) []string {
	var names []string
	for _, e := range list {
		if e.entry().InBuild || !inBuild {
			names = append(names, e.entry().Name)
		}
	}
	return names
}

// RouterOf returns the traits of the router that a configuration uses, and
// its name: the environment's, else the plugin's. ok is false for none.
func (c Catalog) RouterOf(cfg Config) (name string, traits RouterTraits, ok bool) {
	if r := cfg.Traffic.Router; r != nil {
		e, found := Lookup(c.Routers, r.Provider)
		return r.Provider, e.RouterTraits, found
	}
	e, found := Lookup(c.Plugins, cfg.Plugin.Name)
	r := e.router(cfg.Plugin.Settings)
	if !found || r == nil {
		return "", RouterTraits{}, false
	}
	return cfg.Plugin.Name, *r, true
}

// PinnedFor is how long the router of a configuration keeps clients on a
// slot, 0 for not at all.
func (c Catalog) PinnedFor(cfg Config) time.Duration {
	_, traits, ok := c.RouterOf(cfg)
	switch {
	case !ok || traits.Pinned == nil:
		return 0
	case cfg.Traffic.Router != nil:
		return traits.Pinned(cfg.Traffic.Router.Settings)
	}
	return traits.Pinned(cfg.Plugin.Settings)
}

// MetricDelay is how old data of a metric must be to count.
func (c Catalog) MetricDelay(m Metric) Duration {
	if m.Delay > 0 {
		return m.Delay
	}
	e, _ := Lookup(c.Metrics, m.Provider)
	return Duration(e.Delay)
}

// MetricWindow is the range that one value of a query of m stands for, 0 when
// it cannot be told.
func (c Catalog) MetricWindow(m Metric, query string) Duration {
	e, _ := Lookup(c.Metrics, m.Provider)
	if m.Window > 0 || e.Window == nil {
		return m.Window
	}
	return Duration(e.Window(query))
}

// Scales reports whether the plugin of a configuration can change a slot's
// capacity.
func (c Catalog) Scales(cfg Config) bool {
	e, _ := Lookup(c.Plugins, cfg.Plugin.Name)
	return e.Scales && (e.ScalesWith == nil || e.ScalesWith(cfg.Plugin.Settings))
}

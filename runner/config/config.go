// Package config is the configuration of one environment: strict YAML with
// positions in, typed values out, with every problem reported at once. It
// must not know how a plan is made or what a provider does; what providers
// exist comes in as data (Catalog).
package config

import "time"

// Config is the resolved configuration: file, overrides and defaults applied.
// Its JSON form is what a rollout pins; it holds names of secrets, never values.
//
// Tags: yaml is the key, default the default as it would be written, rule the
// default in words where it depends on something (defaults.go applies it), help
// one line for the reference, enum the allowed values.
type Config struct {
	Project     string     `yaml:"project" json:"project" help:"name of the project; from the path envconfig/<project>/… when left out"`
	Application string     `yaml:"application" json:"application" help:"name of the application"`
	Environment string     `yaml:"environment" json:"environment" help:"name of the environment"`
	State       string     `yaml:"state" json:"state,omitempty" default:"git" help:"where the state lives: git, git:<url or remote>, s3://bucket/prefix?region=…&endpoint=…, file:<dir>; relative paths begin at the directory manent is called in"`
	Plugin      Provider   `yaml:"plugin" json:"plugin,omitzero" help:"how a version is put into a slot"`
	Steps       []Command  `yaml:"steps" json:"steps,omitempty" help:"the user's own commands"`
	Targets     []Target   `yaml:"targets" json:"targets,omitempty" help:"hosts that run the application"`
	Clusters    []Cluster  `yaml:"clusters" json:"clusters,omitempty" help:"clusters or regions"`
	Secrets     []Secret   `yaml:"secrets" json:"secrets,omitempty" help:"secrets by reference"`
	Callbacks   []Callback `yaml:"callbacks" json:"callbacks,omitempty" help:"URLs told of events"`
	Rollback    Rollback   `yaml:"rollback" json:"rollback" help:"compensations of strategy waves"`
	Rollout     Rollout    `yaml:"rollout" json:"rollout" help:"how a version is rolled out"`
	Traffic     Network    `yaml:"traffic" json:"traffic,omitzero" help:"routers and pools of the environment"`
}

// Provider names an implementation and its settings.
type Provider struct {
	Name     string   `yaml:"name" json:"name,omitempty" help:"name of the plugin"`
	Settings Settings `yaml:"settings" json:"settings,omitempty" help:"settings of the plugin"`
}

// Command is one of the user's own steps.
type Command struct {
	Name    string   `yaml:"name" json:"name" help:"name of the step; unique"`
	At      string   `yaml:"at" json:"at" default:"initial" enum:"initial,deploy,post-test,activation,final" help:"when it runs"`
	Run     string   `yaml:"run" json:"run" help:"command line for the shell"`
	Timeout Duration `yaml:"timeout" json:"timeout" default:"10m" help:"the command is killed after it"`
	Rerun   string   `yaml:"rerun" json:"rerun" default:"safe" enum:"safe,ask" help:"whether an interrupted run may simply be repeated"`
}

// Target is one host.
type Target struct {
	Host   string            `yaml:"host" json:"host" help:"name or address"`
	Port   int               `yaml:"port" json:"port,omitempty" help:"port of the application"`
	Labels map[string]string `yaml:"labels" json:"labels,omitempty" help:"labels, for select and member"`
}

// Cluster is one cluster or region.
type Cluster struct {
	Name     string            `yaml:"name" json:"name" help:"name of the cluster"`
	Labels   map[string]string `yaml:"labels" json:"labels,omitempty" help:"labels, for select"`
	Settings Settings          `yaml:"settings" json:"settings,omitempty" help:"settings that replace the plugin's"`
}

// Secret is a secret by reference.
type Secret struct {
	Name string `yaml:"name" json:"name" help:"name used in *_secret settings"`
	Ref  string `yaml:"ref" json:"ref" help:"env:NAME, file:PATH, vault:path#field, aws-sm:, gcp-sm:, azure-kv:"`
}

// Callback is a URL that is told of events.
type Callback struct {
	URL    string   `yaml:"url" json:"url" help:"https address"`
	Events []string `yaml:"events" json:"events" enum:"step,paused,failed,completed" help:"which events"`
	Secret string   `yaml:"secret" json:"secret,omitempty" help:"name of the secret that signs the body"`
}

// Rollback is about strategy waves.
type Rollback struct {
	Enabled bool `yaml:"enabled" json:"enabled" default:"false" help:"undo in reverse order on failure; strategy traffic returns without it"`
}

// Rollout is how a version is rolled out.
type Rollout struct {
	Strategy         string              `yaml:"strategy" json:"strategy" rule:"traffic if rollout.traffic is given, else waves" enum:"traffic,waves" help:"by percentage, or in place"`
	Traffic          Traffic             `yaml:"traffic" json:"traffic" help:"shares and waits of strategy traffic"`
	ApprovalsBetween []string            `yaml:"approvalsBetween" json:"approvalsBetween,omitempty" help:"\"0\", a share other than the last, or a wave's name"`
	ApprovalTimeout  Duration            `yaml:"approvalTimeout" json:"approvalTimeout" default:"30d" help:"an approval that is not given by then counts as rejected"`
	OnFailure        string              `yaml:"onFailure" json:"onFailure" rule:"rollback-all for traffic; stop for waves, rollback-wave when rollback.enabled" enum:"rollback-all,rollback-wave,stop" help:"what happens when a step fails"`
	OnCancel         string              `yaml:"onCancel" json:"onCancel" default:"return" enum:"return,hold" help:"what the return job does when the pipeline was cancelled"`
	OnNewVersion     string              `yaml:"onNewVersion" json:"onNewVersion" default:"refuse" enum:"refuse,supersede" help:"what run does when another version is on its way"`
	OrphanAfter      Duration            `yaml:"orphanAfter" json:"orphanAfter" default:"15m" help:"a rollout that nobody drove for so long is returned by resume"`
	Wait             string              `yaml:"wait" json:"wait" default:"run" enum:"run,resume" help:"who waits: the job, or scheduled calls of manent resume"`
	Waves            []Wave              `yaml:"waves" json:"waves,omitempty" help:"named parts, one after the other"`
	MaxUnavailable   string              `yaml:"maxUnavailable" json:"maxUnavailable" default:"1" help:"targets updated together, strategy waves: a number or a percentage"`
	Freezes          []Freeze            `yaml:"freezes" json:"freezes,omitempty" help:"times in which no share is raised"`
	Providers        map[string]Settings `yaml:"providers" json:"providers,omitempty" help:"settings of the metric systems, by name"`
	Health           Health              `yaml:"health" json:"health" help:"the gate"`
}

// Traffic is the plan of shares.
type Traffic struct {
	Steps          []float64 `yaml:"steps" json:"steps" help:"shares in percent, rising, the last 100, at most 20"`
	Bake           Duration  `yaml:"bake" json:"bake" default:"0" help:"how long each share but the last is watched"`
	MaxBake        Duration  `yaml:"maxBake" json:"maxBake" rule:"= bake" help:"go on watching so long while data are too thin"`
	FinalBake      Duration  `yaml:"finalBake" json:"finalBake" default:"0" help:"how long 100 % is watched before promote"`
	Testers        *Testers  `yaml:"testers" json:"testers,omitempty" help:"requests that always reach the candidate"`
	ScaleDownDelay Duration  `yaml:"scaleDownDelay" json:"scaleDownDelay" default:"30m" help:"how long the replaced version stays ready"`
	OnDrift        string    `yaml:"onDrift" json:"onDrift" default:"pause" enum:"pause,ignore" help:"what happens when somebody else changed the weights"`
	Replicas       string    `yaml:"replicas" json:"replicas,omitempty" rule:"unset: all from the start" enum:"proportional" help:"grow the candidate before each share"`
	ShareTolerance *float64  `yaml:"shareTolerance" json:"shareTolerance,omitempty" rule:"larger of 0.5 points and 10 % of the share" help:"how far the router's share may be from the planned one, in points"`
}

// Testers says which requests always reach the candidate.
type Testers struct {
	Header string `yaml:"header" json:"header,omitempty" help:"\"name: value\", for routers that look at headers"`
	Tag    string `yaml:"tag" json:"tag,omitempty" help:"tag or label of the candidate, for routers that give it an address"`
}

// Wave is a named part of the targets or clusters.
type Wave struct {
	Name   string `yaml:"name" json:"name" help:"name of the wave"`
	Select string `yaml:"select" json:"select" help:"label=value or label!=value, joined by commas"`
	By     string `yaml:"by" json:"by,omitempty" help:"label whose values make the passes of the wave"`
}

// Freeze is a time in which no share is raised.
type Freeze struct {
	From   time.Time `yaml:"from" json:"from" help:"begin, RFC 3339 or 2026-12-24T00:00Z"`
	To     time.Time `yaml:"to" json:"to" help:"end"`
	Region string    `yaml:"region" json:"region,omitempty" help:"only passes with this label region"`
	Reason string    `yaml:"reason" json:"reason,omitempty" help:"shown while waiting"`
}

// Health is the gate.
type Health struct {
	Interval     Duration  `yaml:"interval" json:"interval" default:"1m" help:"between two readings"`
	FailureLimit int       `yaml:"failureLimit" json:"failureLimit" default:"0" help:"red readings tolerated in a gate"`
	Grace        Duration  `yaml:"grace" json:"grace" default:"2m" help:"how long past the bake a metric system may fail to answer"`
	FalseAlarm   *Percent  `yaml:"falseAlarm" json:"falseAlarm,omitempty" rule:"unset: the documented per-reading alpha" help:"bound on the false alarms of the whole rollout"`
	Analysis     *Analysis `yaml:"analysis" json:"analysis,omitempty" rule:"unset" help:"scoring"`
	Metrics      []Metric  `yaml:"metrics" json:"metrics,omitempty" help:"what is measured"`
	Probes       []Probe   `yaml:"probes" json:"probes,omitempty" help:"requests that must succeed"`
	Alarms       []Alarm   `yaml:"alarms" json:"alarms,omitempty" help:"alarms of a metric system that must be quiet"`
}

// Analysis are the thresholds of the score.
type Analysis struct {
	Pass     float64 `yaml:"pass" json:"pass" default:"95" help:"score to reach at the end of a bake, 0–100"`
	Marginal float64 `yaml:"marginal" json:"marginal" default:"75" help:"score below which a reading is red, 0–100"`
}

// Metric is one measured thing.
type Metric struct {
	Name         string   `yaml:"name" json:"name" help:"name, unique"`
	Provider     string   `yaml:"provider" json:"provider" default:"prometheus" help:"metric system"`
	Query        string   `yaml:"query" json:"query" help:"query in the language of the system"`
	Compare      string   `yaml:"compare" json:"compare,omitempty" enum:"stable" help:"evaluate for both slots and compare"`
	Max          *float64 `yaml:"max" json:"max,omitempty" help:"largest value that passes"`
	Min          *float64 `yaml:"min" json:"min,omitempty" help:"smallest value that passes"`
	MaxRatio     *float64 `yaml:"maxRatio" json:"maxRatio,omitempty" rule:"1 with analysis" help:"largest candidate ÷ stable that passes"`
	MinRatio     *float64 `yaml:"minRatio" json:"minRatio,omitempty" rule:"1 with analysis" help:"smallest candidate ÷ stable that passes"`
	MaxDelta     *float64 `yaml:"maxDelta" json:"maxDelta,omitempty" help:"largest candidate − stable that passes"`
	SamplesQuery string   `yaml:"samplesQuery" json:"samplesQuery,omitempty" help:"query for the number of requests"`
	MinSamples   *float64 `yaml:"minSamples" json:"minSamples,omitempty" help:"requests of the candidate below which nothing is concluded"`
	Empty        string   `yaml:"empty" json:"empty,omitempty" enum:"zero" help:"an empty answer counts as 0 while samplesQuery shows traffic on that track"`
	PerShare     bool     `yaml:"perShare" json:"perShare,omitempty" default:"false" help:"divide each side by its share: for volumes"`
	Analysis     string   `yaml:"analysis" json:"analysis,omitempty" enum:"mann-whitney,sequential" help:"statistical comparison"`
	Direction    string   `yaml:"direction" json:"direction" default:"increase" enum:"increase,decrease,either" help:"what is worse"`
	Alpha        float64  `yaml:"alpha" json:"alpha" default:"0.05" help:"significance level, between 0 and 1"`
	Step         Duration `yaml:"step" json:"step" default:"15s" help:"resolution of a series"`
	Window       Duration `yaml:"window" json:"window,omitempty" rule:"the query's own range, read from PromQL where possible" help:"range one value stands for"`
	Lookback     Duration `yaml:"lookback" json:"lookback,omitempty" rule:"time in the stage" help:"how far back a series goes"`
	MinPoints    int      `yaml:"minPoints" json:"minPoints" default:"5" help:"points of either side below which nothing is concluded"`
	Weight       float64  `yaml:"weight" json:"weight" default:"1" help:"weight in the score"`
	Critical     *bool    `yaml:"critical" json:"critical,omitempty" rule:"false" help:"red by itself, whatever the score; with health.analysis a metric without compare is, unless said otherwise"`
	Delay        Duration `yaml:"delay" json:"delay,omitempty" rule:"of the metric system" help:"how old data must be to count"`
}

// Probe is a request that must succeed.
type Probe struct {
	Name      string   `yaml:"name" json:"name" help:"name, unique"`
	URL       string   `yaml:"url" json:"url" help:"address; {host} {port} {application} {environment} {version} {track}"`
	Status    int      `yaml:"status" json:"status" default:"200" help:"expected status"`
	Contains  string   `yaml:"contains" json:"contains,omitempty" help:"text the body must hold"`
	Timeout   Duration `yaml:"timeout" json:"timeout" default:"5s" help:"for the whole answer"`
	AllowHTTP bool     `yaml:"allowHTTP" json:"allowHTTP,omitempty" default:"false" help:"admit a plain-http address of another machine"`
}

// Alarm is an alarm of a metric system.
type Alarm struct {
	Name     string `yaml:"name" json:"name" help:"name, unique"`
	Provider string `yaml:"provider" json:"provider" help:"metric system"`
	Alarm    string `yaml:"alarm" json:"alarm" help:"name of the alarm there"`
}

// Network is what only the environment's file may hold.
type Network struct {
	Router *Router `yaml:"router" json:"router,omitempty" help:"what splits traffic between the slots"`
	Pool   *Pool   `yaml:"pool" json:"pool,omitempty" help:"load-balancer membership of targets deployed in place"`
}

// Router names the environment's router.
type Router struct {
	Provider string   `yaml:"provider" json:"provider" help:"name of the router"`
	Settings Settings `yaml:"settings" json:"settings,omitempty" help:"its settings"`
}

// Pool names the environment's pool.
type Pool struct {
	Provider       string   `yaml:"provider" json:"provider" help:"name of the pool"`
	Member         string   `yaml:"member" json:"member" default:"{host}" help:"name of a target's member: {host} {port} {label.<name>}"`
	DrainTimeout   Duration `yaml:"drain_timeout" json:"drain_timeout" default:"5m" help:"longest wait for capacity and for connections"`
	RestoreTimeout Duration `yaml:"restore_timeout" json:"restore_timeout" default:"5m" help:"longest wait for health"`
	PollInterval   Duration `yaml:"poll_interval" json:"poll_interval" default:"5s" help:"between two looks"`
	MinHealthy     string   `yaml:"min_healthy" json:"min_healthy" default:"1" help:"members always in service: a number or a percentage"`
	OnTimeout      string   `yaml:"on_timeout" json:"on_timeout" default:"proceed" enum:"proceed,fail" help:"what happens when connections remain"`
	Settings       Settings `yaml:"settings" json:"settings,omitempty" help:"its settings"`
}

// Key is the state's key of the environment.
func (c Config) Key() string { return c.Project + "/" + c.Application + "/" + c.Environment }

// Tolerance is how far the router's share may be from share, in points.
func (c Config) Tolerance(share float64) float64 {
	if t := c.Rollout.Traffic.ShareTolerance; t != nil {
		return *t
	}
	return max(0.5, share/10)
}

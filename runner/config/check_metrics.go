package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/analysis"
)

func (c *checker) metrics() {
	for i, m := range c.cfg.Rollout.Health.Metrics {
		path := fmt.Sprintf("rollout.health.metrics[%d]", i)
		known(c, c.cat.Metrics, "metric system", m.Provider, path+".provider")
		c.thresholds(path, m)
		c.comparison(path, m)
		c.samples(path, m)
		c.statistics(path, m)
		c.queries(path, m)
		c.watch(path, m)
		c.doubts(path, m)
	}
}

// thresholds checks that there is one and that something can pass it.
func (c *checker) thresholds(path string, m Metric) {
	if m.Analysis != "" {
		for _, key := range []string{"max", "min", "maxDelta"} {
			if c.given(path + "." + key) {
				c.wrong(path+"."+key, "give it to a metric of its own, without analysis", "%s has no meaning with analysis: %s", key, m.Analysis)
			}
		}
	}
	limits := []*float64{m.Max, m.Min, m.MaxRatio, m.MinRatio, m.MaxDelta}
	if !slices.ContainsFunc(limits, func(l *float64) bool { return l != nil }) {
		c.wrong(path, "give max, min, or with compare: stable maxRatio, minRatio, maxDelta", "metric %s has no threshold", m.Name)
	}
	c.between(path, "min", "max", m.Min, m.Max)
	if c.given(path+".minRatio") && c.given(path+".maxRatio") {
		c.between(path, "minRatio", "maxRatio", m.MinRatio, m.MaxRatio)
	}
	c.notNegative(path+".maxRatio", m.MaxRatio)
	c.notNegative(path+".minRatio", m.MinRatio)
	c.notNegative(path+".minSamples", m.MinSamples)
}

func (c *checker) between(path, low, high string, from, to *float64) {
	if from != nil && to != nil && *from > *to {
		c.wrong(path+"."+low, "", "%s %v is above %s %v", low, *from, high, *to)
	}
}

func (c *checker) notNegative(path string, v *float64) {
	if v != nil && *v < 0 {
		c.wrong(path, "", "%s is %v, expected 0 or more", last(path), *v)
	}
}

// comparison checks what only makes sense between two sides.
func (c *checker) comparison(path string, m Metric) {
	if m.Compare == "" {
		for _, key := range []string{"analysis", "maxRatio", "minRatio", "maxDelta", "perShare"} {
			if c.given(path + "." + key) {
				c.wrong(path+"."+key, "add compare: stable", "%s without compare: stable", key)
			}
		}
		return
	}
	e, _ := Lookup(c.cat.Metrics, m.Provider)
	if e.OwnTracks {
		return
	}
	for _, q := range []struct{ key, text string }{{"query", m.Query}, {"samplesQuery", m.SamplesQuery}} {
		if q.text != "" && !slices.Contains(placeholdersIn(q.text), "track") {
			c.wrong(path+"."+q.key, "put {track} where the metric has the slot's label", "compare: stable, but the %s has no {track}: both sides would be the same", q.key)
		}
	}
}

func (c *checker) samples(path string, m Metric) {
	if m.SamplesQuery == "" {
		if m.MinSamples != nil {
			c.wrong(path+".minSamples", "add samplesQuery", "minSamples without samplesQuery")
		}
		if m.Empty != "" {
			c.wrong(path+".empty", "add samplesQuery", "empty: %s without samplesQuery: nobody could tell no errors from no traffic", m.Empty)
		}
	}
}

// statistics checks the numbers of an analysis.
func (c *checker) statistics(path string, m Metric) {
	if m.Alpha <= 0 || m.Alpha >= 1 {
		c.wrong(path+".alpha", "", "alpha is %v, expected above 0 and below 1", m.Alpha)
	}
	if m.Step < Duration(100*time.Millisecond) {
		c.wrong(path+".step", "", "step is %s, expected the time between two points, 100ms or more", m.Step)
	}
	if m.MinPoints < 1 {
		c.wrong(path+".minPoints", "", "minPoints is %d, expected 1 or more", m.MinPoints)
	}
	if m.Weight <= 0 {
		c.wrong(path+".weight", "", "weight is %v, expected more than 0", m.Weight)
	}
	if m.Analysis == "sequential" {
		c.sequential(path, m)
	}
	if c.cfg.Rollout.Health.FalseAlarm != nil && m.Analysis != "" && c.given(path+".alpha") {
		c.warn(path+".alpha", "", "alpha has no effect with falseAlarm, which is shared out evenly")
	}
	if m.Analysis == "" && m.Compare != "" && c.cfg.Rollout.Health.FalseAlarm != nil {
		c.wrong(path, "add analysis: mann-whitney or sequential, or leave falseAlarm out", "metric %s compares without analysis, so falseAlarm cannot bound its error", m.Name)
	}
	if m.Analysis != "" && m.Compare != "" {
		c.idle(path, m)
	}
	if m.Analysis == "mann-whitney" {
		c.tolerance(path, m)
	}
}

// sequential checks what counting bad events needs.
func (c *checker) sequential(path string, m Metric) {
	if m.SamplesQuery == "" {
		c.wrong(path+".samplesQuery", "query counts bad events, samplesQuery all events", "analysis: sequential without samplesQuery")
	}
	for key, query := range map[string]string{"query": m.Query, "samplesQuery": m.SamplesQuery} {
		if e, _ := Lookup(c.cat.Metrics, m.Provider); e.Window != nil && e.Window(query) > 0 {
			c.wrong(path+"."+key, "give the counter itself, such as sum(http_requests_total{…})", "a value over %s with analysis: sequential, expected a counter that only grows", Duration(e.Window(query)))
		}
	}
	if c.given(path + ".minPoints") {
		c.warn(path+".minPoints", "minSamples bounds the requests", "minPoints has no effect with analysis: sequential")
	}
	if c.given(path + ".window") {
		c.wrong(path+".window", "leave it out", "window with analysis: sequential: counters have none")
	}
	if m.Direction != "increase" {
		c.wrong(path+".direction", "let query count what is bad", "direction: %s with analysis: sequential, expected increase", m.Direction)
	}
	if m.PerShare {
		c.wrong(path+".perShare", "leave it out: bad events are compared with each side's own traffic", "perShare with analysis: sequential")
	}
	if c.given(path + ".lookback") {
		c.wrong(path+".lookback", "leave it out: every event of the stage counts once", "lookback with analysis: sequential")
	}
	if m.MaxRatio != nil && !(*m.MaxRatio > 0 && *m.MaxRatio <= 1e6) {
		c.wrong(path+".maxRatio", "", "maxRatio is %v with analysis: sequential, expected above 0 and at most 1000000", *m.MaxRatio)
	}
}

// tolerance checks that a tolerated ratio of means tolerates something.
func (c *checker) tolerance(path string, m Metric) {
	if m.MaxRatio != nil && *m.MaxRatio < 1 {
		c.wrong(path+".maxRatio", "1 tolerates nothing beyond chance, 1.2 a fifth more", "maxRatio is %v with analysis, expected 1 or more", *m.MaxRatio)
	}
	if m.MinRatio != nil && (*m.MinRatio <= 0 || *m.MinRatio > 1) {
		c.wrong(path+".minRatio", "1 tolerates nothing beyond chance, 0.8 a fifth less", "minRatio is %v with analysis, expected above 0 and at most 1", *m.MinRatio)
	}
}

// idle warns of the ratio that the direction does not look at.
func (c *checker) idle(path string, m Metric) {
	key := map[string]string{"increase": "minRatio", "decrease": "maxRatio"}[m.Direction]
	if key != "" && c.given(path+"."+key) {
		c.warn(path+"."+key, "set direction to what is worse", "%s has no effect with direction: %s", key, m.Direction)
	}
}

// queries checks that there is one and that its placeholders have a value.
func (c *checker) queries(path string, m Metric) {
	c.missing(path+".query", m.Query)
	c.placeholders(path+".query", m.Query)
	c.placeholders(path+".samplesQuery", m.SamplesQuery)
}

// placeholders refuses what looks like one of ours and is none. Other words in
// braces may belong to the query's language or to a label, and are sent as
// they are.
func (c *checker) placeholders(path, text string) {
	allowed := []string{"project", "application", "environment", "wave", "version", "track", "step", "start", "end"}
	for _, name := range placeholdersIn(text) {
		near := Nearest(name, allowed)
		switch {
		case name == "wave" && len(c.cfg.Rollout.Waves) == 0:
			c.wrong(path, "", "{wave} has no value without waves")
		case slices.Contains(allowed, name):
		case name == "host" || name == "port":
			c.wrong(path, "", "{%s} has no value in a query", name)
		case len(name) >= 4 && near != "":
			c.wrong(path, fmt.Sprintf("did you mean {%s}?", near), "unknown placeholder {%s}", name)
		default:
			c.warn(path, "the placeholders are {"+strings.Join(allowed, "}, {")+"}", "{%s} is no placeholder and is sent as it is", name)
		}
	}
}

// watch checks that a stage is watched long enough for the metric to say
// anything, at the shares where it is evaluated.
func (c *checker) watch(path string, m Metric) {
	t := c.cfg.Rollout.Traffic
	if c.cfg.Rollout.Strategy != "traffic" || len(t.Steps) == 0 {
		return
	}
	if len(t.Steps) > 1 {
		c.watched(path, m, max(t.Bake, t.MaxBake), "a share", "bake or maxBake")
	}
	if m.Compare == "" {
		c.watched(path, m, t.FinalBake, "100 %", "finalBake")
	}
}

func (c *checker) watched(path string, m Metric, span Duration, share, key string) {
	window := c.cat.MetricWindow(m, m.Query)
	if m.SamplesQuery != "" {
		window = max(window, c.cat.MetricWindow(m, m.SamplesQuery))
	}
	switch {
	case span == 0:
		c.wrong(path+".query", fmt.Sprintf("set %s, to the range that one value stands for or more", key),
			"%s is watched for 0s, so metric %s sees no traffic of the candidate and never passes", share, m.Name)
	case window > span:
		c.wrong(path+".query", fmt.Sprintf("set %s to at least %s, or shorten the window", key, window),
			"%s is watched for %s, but one value of metric %s stands for %s: it would reach back before the share", share, span, m.Name, window)
	case m.Analysis == "mann-whitney":
		c.points(path, m, span, share, key)
	case m.Analysis == "sequential" && span < 3*m.Step:
		c.wrong(path, fmt.Sprintf("set %s to at least %s, or shorten step", key, 3*m.Step),
			"%s is watched for %s, but metric %s counts in blocks of %s: not one may fit", share, span, m.Name, m.Step)
	}
}

// points checks that a series has as many points as the analysis needs. The
// first point lies one window after the share came in force.
func (c *checker) points(path string, m Metric, span Duration, share, key string) {
	window := c.cat.MetricWindow(m, m.Query)
	if c.cfg.Rollout.Health.FalseAlarm != nil {
		c.bounded(path, m, window)
		return
	}
	if m.Step == 0 {
		return
	}
	room := span - window
	if m.Lookback > 0 {
		room = min(room, m.Lookback)
	}
	lost := c.lost(m, m.Step)
	if n := max(0, int((room-lost)/m.Step)); n < m.MinPoints {
		c.wrong(path+".minPoints", fmt.Sprintf("set %s to at least %s, or shorten step and window", key, window+lost+Duration(m.MinPoints)*m.Step),
			"%s is watched for %s, which gives metric %s %d points, one each %s; minPoints is %d", share, span, m.Name, n, m.Step, m.MinPoints)
	}
}

// lost is what the first value of a series takes of a bake beside its window:
// a whole step where values stand for their step. Points lie on a grid that
// begins somewhere within a step, so as many are certain as whole steps are left.
func (c *checker) lost(m Metric, step Duration) Duration {
	if e, _ := Lookup(c.cat.Metrics, m.Provider); e.Window == nil {
		return step
	}
	return 0
}

// bounded checks that the points of a bake can reach the level that falseAlarm
// leaves a metric in a stage, and that every point of it counts.
func (c *checker) bounded(path string, m Metric, window Duration) {
	if c.given(path + ".lookback") {
		c.wrong(path+".lookback", "leave it out: the bound is for series over the whole time in a stage", "lookback with falseAlarm")
	}
	bake, alpha, apart := c.cfg.Rollout.Traffic.Bake, c.cfg.StageAlpha(), max(m.Step, window)
	if apart == 0 || alpha <= 0 { // refused where they are given
		return
	}
	each := alpha
	if m.Direction == "either" {
		each /= 2 // half for each direction
	}
	lost, needed := c.lost(m, apart), max(m.MinPoints, analysis.PointsFor(each))
	if needed > 10_000 {
		c.wrong("rollout.health.falseAlarm", "1% is usual", "falseAlarm leaves metric %s an error of %.2g in each stage, which no series can reach", m.Name, alpha)
		return
	}
	if n := max(0, int((bake-window-lost)/apart)); n < needed {
		c.wrong(path, fmt.Sprintf("set rollout.traffic.bake to at least %s, shorten the query's window, or use analysis: sequential", window+lost+Duration(needed)*apart),
			"falseAlarm leaves metric %s an error of %.2g in each stage, which needs %d points a side; a bake of %s supplies %d, one each %s",
			m.Name, alpha, needed, bake, n, apart)
	}
}

package config

import (
	"regexp"
	"strings"
)

var (
	quoted     = regexp.MustCompile(`"[^"]*"|'[^']*'`)
	errorWords = regexp.MustCompile(`(?i)"5(\.\.|xx|\[0-9\]|[0-9][0-9])|\b5xx\b|error|fail|exception`)
	counting   = regexp.MustCompile(`(?i)\b(rate|irate|increase|count|count_over_time|delta)\s*\(|\bsum\s*\(\s*[a-z_]*(count|total|requests?)|^\s*(requests|errors|client_errors)\s*$`)
	averaging  = regexp.MustCompile(`(?i)quantile|percentile|\bavg|average|\bp[0-9]{2}\b`)
)

// doubts warns of what works, but hardly as meant.
func (c *checker) doubts(path string, m Metric) {
	switch {
	case m.Empty == "" && isRatio(m.Query) && errorWords.MatchString(m.Query) && !strings.Contains(m.Query, "vector(0)"):
		c.warn(path+".query", "add empty: zero, with samplesQuery", "a ratio of errors: while there are none the series does not exist, and the metric is inconclusive instead of 0")
	case m.Compare != "" && !m.PerShare && m.Analysis != "sequential" && isVolume(m.Query):
		c.warn(path+".query", "add perShare: true", "a volume is compared as it is: a candidate with 5 %% of the traffic has 5 %% of it")
	}
	if e, _ := Lookup(c.cat.Metrics, m.Provider); m.Analysis == "sequential" && m.Empty == "" && e.Window != nil && !strings.Contains(m.Query, "vector(0)") {
		c.warn(path+".query", "add empty: zero", "a counter of bad events: before the first one the series may not exist, and the metric is inconclusive instead of 0")
	}
	if window := c.cat.MetricWindow(m, m.Query); m.Analysis == "mann-whitney" && m.Step > 0 && m.Step < window && c.cfg.Rollout.Health.FalseAlarm == nil {
		c.warn(path+".step", "set step to at least the window", "step %s is shorter than the window %s of the query: neighbouring points share data, and the test is too sure", m.Step, window)
	}
}

func isRatio(query string) bool { return strings.Contains(quoted.ReplaceAllString(query, ""), "/") }

func isVolume(query string) bool {
	return counting.MatchString(query) && !isRatio(query) && !averaging.MatchString(query)
}

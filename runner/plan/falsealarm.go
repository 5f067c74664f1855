package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/manent/action/analysis"
	"github.com/manent/action/runner/config"
)

// FalseAlarm is the chance that the metrics with analysis return a version
// that is no worse than the stable, over the whole plan, and says so in a
// sentence with the remedy; 0 and "" without such metrics.
func FalseAlarm(cfg config.Config, cat config.Catalog) (chance float64, sentence string) {
	h, stages := cfg.Rollout.Health, cfg.CompareStages()
	analysed := func(m config.Metric) bool { return m.Analysis != "" }
	switch {
	case stages == 0 || !slices.ContainsFunc(h.Metrics, analysed):
		return 0, ""
	case h.FalseAlarm != nil:
		return float64(*h.FalseAlarm), fmt.Sprintf("falseAlarm: of versions that are no worse than the stable, the metrics with analysis return at most %s, over all stages, metrics and readings together; it does not bound %s", *h.FalseAlarm, outside(h))
	}
	var each []float64
	ranks := false
	for _, m := range h.Metrics {
		if analysed(m) {
			ranks = ranks || m.Analysis == "mann-whitney"
			each = append(each, ofMetric(cfg, cat, m, stages))
		}
	}
	chance = analysis.Combine(each...)
	text := fmt.Sprintf("false alarms: of versions that are no worse than the stable, the metrics with analysis return about %s", percent(chance))
	if !ranks {
		return chance, text + " at most; rollout.health.falseAlarm sets one bound for all of them"
	}
	return chance, text + ", since each reading may fail with its alpha (fewer where maxRatio tolerates much; manent simulate counts them for your traffic); set rollout.health.falseAlarm: 1% to bound that for the whole rollout, or use analysis: sequential on counts"
}

// ofMetric is the chance of one metric over all stages.
func ofMetric(cfg config.Config, cat config.Catalog, m config.Metric, stages int) float64 {
	if m.Analysis == "sequential" {
		return m.Alpha
	}
	return analysis.FalseAlarm(analysis.Looks{
		Bake: cfg.Rollout.Traffic.Bake.Std(), Interval: cfg.Rollout.Health.Interval.Std(),
		Step: m.Step.Std(), Window: cat.MetricWindow(m, m.Query).Std(), Lookback: m.Lookback.Std(),
		Stages: stages, Alpha: m.Alpha, Direction: analysis.Direction(m.Direction), MinPoints: m.MinPoints,
		FailureLimit: cfg.Rollout.Health.FailureLimit,
	})
}

// outside names what a bound on false alarms does not speak of.
func outside(h config.Health) string {
	list := []string{"thin data"}
	for _, m := range h.Metrics {
		if m.Analysis == "" {
			list = append(list, "thresholds of metrics without analysis")
			break
		}
	}
	if len(h.Probes) > 0 {
		list = append(list, "probes")
	}
	if len(h.Alarms) > 0 {
		list = append(list, "alarms")
	}
	return strings.Join(list, ", ")
}

// percent writes a chance in two digits.
func percent(p float64) string {
	if p = p * 100; p >= 10 {
		return fmt.Sprintf("%.0f %%", math.Round(p))
	}
	return fmt.Sprintf("%.2g %%", p)
}

package config

// MetricAlpha is the chance of a false alarm that a metric with analysis may
// spend over the whole rollout: its even part of falseAlarm, or without that
// its own level.
func (h Health) MetricAlpha(m Metric) float64 {
	if h.FalseAlarm == nil {
		return m.Alpha
	}
	n := 0
	for _, one := range h.Metrics {
		if one.Analysis != "" {
			n++
		}
	}
	return float64(*h.FalseAlarm) / float64(max(1, n))
}

// StageAlpha is what falseAlarm leaves each metric in each stage.
func (c Config) StageAlpha() float64 {
	return c.Rollout.Health.MetricAlpha(Metric{}) / float64(max(1, c.CompareStages()))
}

// CompareStages is the number of stages, over all passes, in which a candidate
// and a stable both have traffic.
func (c Config) CompareStages() int {
	shares := 0
	for _, share := range c.Rollout.Traffic.Steps {
		if share > 0 && share < 100 {
			shares++
		}
	}
	return shares * c.Passes()
}

// Passes is the number of parts that are routed by themselves, 1 without waves.
func (c Config) Passes() int {
	parts, _ := c.Parts()
	return max(1, len(parts))
}

package wire

import (
	"github.com/manent/action/providers/metric"
	"github.com/manent/action/providers/metric/accesslog"
	"github.com/manent/action/providers/metric/external"
	"github.com/manent/action/providers/metric/prometheus"
)

// Metrics are the metric systems of this build.
func Metrics() []metric.Spec {
	return []metric.Spec{
		prometheus.Spec(),
		accesslog.Spec(),
		external.Spec(),
	}
}

package simulate

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/runner/config"
)

// testCatalog knows all systems; Prometheus's ranges are read as far as tests
// need them.
func testCatalog() config.Catalog {
	cat := config.Known()
	for i := range cat.Metrics {
		switch e := &cat.Metrics[i]; e.Name {
		case "prometheus":
			e.Window = func(query string) time.Duration {
				_, rest, _ := strings.Cut(query, "[")
				text, _, _ := strings.Cut(rest, "]")
				d, _ := time.ParseDuration(text)
				return d
			}
		case "accesslog":
			e.OwnTracks, e.Delay = true, 5*time.Second
		}
	}
	for i := range cat.Metrics {
		cat.Metrics[i].InBuild = true
	}
	cat.Features = append(cat.Features, config.FeatureAlarms)
	return cat
}

func TestModels(t *testing.T) {
	for _, tt := range []struct{ provider, analysis, query, want string }{
		{"prometheus", "", `sum(rate(http_requests_total{track="{track}",code=~"5.."}[1m])) / sum(rate(http_requests_total{track="{track}"}[1m]))`, "error-rate over 1m"},
		{"prometheus", "", `sum(rate(http_requests_total{track="{track}",status!~"5.."}[5m])) / sum(rate(http_requests_total{track="{track}"}[5m]))`, "success-rate over 5m"},
		{"prometheus", "", `sum(increase(http_requests_total{track="{track}"}[5m]))`, "increase of requests over 5m"},
		{"prometheus", "", `sum(rate(http_requests_total{track="{track}"}[2m]))`, "rate of requests over 2m"},
		{"prometheus", "", `sum(rate(app_errors_total{track="{track}"}[1m]))`, "rate of errors over 1m"},
		{"prometheus", "", `histogram_quantile(0.99, sum(rate(http_request_duration_seconds_bucket{track="{track}",code!~"5.."}[1m])) by (le))`, "latency p99 over 1m"},
		{"prometheus", "", `sum(rate(http_request_duration_seconds_sum[1m])) / sum(rate(http_request_duration_seconds_count[1m]))`, "latency mean over 1m"},
		{"prometheus", "", `sum(rate(http_request_duration_seconds_count{code=~"5.."}[1m])) / sum(rate(http_request_duration_seconds_count[1m]))`, "error-rate over 1m"},
		{"prometheus", "", `sum(rate(http_requests_total{handler="/api",code=~"5.."}[1m]))`, "rate of errors over 1m"},
		{"prometheus", "", `max_over_time(rpc_durations_seconds{quantile="0.9"}[1m])`, "latency p90 over 1m"},
		{"cloudwatch", "", `SELECT SUM(HTTPCode_Target_5XX_Count) FROM "AWS/ApplicationELB"`, "errors of each step"},
		{"newrelic", "", `SELECT percentage(count(*), WHERE error IS true) FROM Transaction`, "error-rate of each step"},
		{"prometheus", "sequential", `sum(http_requests_total{track="{track}",code=~"5.."})`, "counter of errors"},
		{"prometheus", "sequential", `sum(timeouts{track="{track}"})`, "counter of errors"},
		{"datadog", "", `p99:trace.http.request.duration{service:shop,track:{track}}`, "latency p99 of each step"},
		{"cloudwatch", "", `SELECT SUM(RequestCount) FROM "AWS/ApplicationELB" WHERE TargetGroup = 'shop-{track}'`, "requests of each step"},
		{"accesslog", "", "requests", "requests of each step"},
		{"accesslog", "", "errors", "errors of each step"},
		{"accesslog", "", "error_rate", "error-rate of each step"},
		{"accesslog", "", "mean", "latency mean of each step"},
		{"accesslog", "", "p99.9", "latency p99.9 of each step"},
	} {
		s, err := seriesOf(config.Metric{Name: "m", Provider: tt.provider, Analysis: tt.analysis}, testCatalog(), tt.query, "")
		if err != nil || s.String() != tt.want {
			t.Errorf("%s: %s (%v), want %s", tt.query, s, err, tt.want)
		}
	}
}

func TestUnclearMetrics(t *testing.T) {
	metrics := func(name, query string) config.Health {
		return config.Health{Metrics: []config.Metric{{Name: name, Provider: "prometheus", Query: query}}}
	}
	for _, tt := range []struct {
		name, query string
		kinds       map[string]Kind
		want        string // model, or hint of the refusal
	}{
		{"m", "wombats{}", nil, "--model m=KIND"},
		{"errori", "job:wombats:5m[5m]", nil, "increase of errors over 5m"},
		{"m", "wombats[1m]", map[string]Kind{"m": Latency}, "latency mean over 1m"},
		{"m", "error_ratio{}", nil, "set window"},
		{"m", "wombats[1m]", map[string]Kind{"m": "speed"}, "the models are errors, error-rate"},
		{"m", "wombats[1m]", map[string]Kind{"n": Errors}, "the models are errors, error-rate"},
	} {
		_, said, err := classify(metrics(tt.name, tt.query), testCatalog(), tt.kinds)
		unclear, refused := errors.AsType[*UnclearError](err)
		switch {
		case refused && (!strings.Contains(unclear.Hint, tt.want) || !strings.HasPrefix(err.Error(), "metric ")):
			t.Errorf("%s: %v (hint %s), want %s", tt.query, err, unclear.Hint, tt.want)
		case !refused && (err != nil || said[0].Query != tt.want):
			t.Errorf("%s: %v, %v; want %s", tt.query, said, err, tt.want)
		}
	}
}

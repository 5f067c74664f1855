package proxy

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the proxy's, by slot in the label "track".
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	duration [2]prometheus.Observer
	flying   [2]prometheus.Gauge
	weight   [2]prometheus.Gauge
	retried  [2]prometheus.Counter
	pins     [2]prometheus.Counter
	lost     prometheus.Counter
}

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	byTrack := []string{"track"}
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "manent_proxy_requests_total", Help: "Requests answered, by slot and status; 499 means that the client went away, 502 also that an answer was cut off.",
	}, []string{"track", "code"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "manent_proxy_request_duration_seconds", Help: "Time from a request to the end of its answer.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, byTrack)
	gauge := func(name, help string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, byTrack)
		m.registry.MustRegister(v)
		return v
	}
	counter := func(name, help string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, byTrack)
		m.registry.MustRegister(v)
		return v
	}
	flying := gauge("manent_proxy_requests_in_flight", "Requests without an end yet.")
	weight := gauge("manent_proxy_weight_percent", "Share of the split.")
	retried := counter("manent_proxy_retried_total", "Requests sent again after the slot closed the connection before its answer.")
	pins := counter("manent_proxy_pins_total", "Clients pinned.")
	m.lost = prometheus.NewCounter(prometheus.CounterOpts{Name: "manent_proxy_log_dropped_total", Help: "Lines of the access log that were not written."})
	m.registry.MustRegister(m.requests, duration, m.lost)
	for slot := range m.duration {
		name := slotName(slot)
		m.duration[slot] = duration.WithLabelValues(name)
		m.flying[slot], m.weight[slot] = flying.WithLabelValues(name), weight.WithLabelValues(name)
		m.retried[slot], m.pins[slot] = retried.WithLabelValues(name), pins.WithLabelValues(name)
	}
	return m
}

func (m *metrics) observe(slot, status int, took time.Duration) {
	m.requests.WithLabelValues(slotName(slot), strconv.Itoa(status)).Inc()
	m.duration[slot].Observe(took.Seconds())
}

func (m *metrics) dropped() { m.lost.Inc() }

// Metrics serves Prometheus metrics, as /metrics of the admin interface does;
// for a listener that a scraper can reach.
func (p *Proxy) Metrics() http.Handler {
	return promhttp.HandlerFor(p.metrics.registry, promhttp.HandlerOpts{})
}

package config

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// parse reads a configuration from text, with the given lines of YAML.
func parse(t *testing.T, text string) (Config, Problems) {
	t.Helper()
	return Parse(Source{Name: "prod.yml", Data: []byte(text)}, nil, Options{Anonymous: true, Catalog: testCatalog()})
}

// must refuses every error but those about what is not in the build.
func must(t *testing.T, text string) Config {
	t.Helper()
	c, problems := parse(t, text)
	if bad := problems.Of(Error); len(bad) > 0 {
		t.Fatalf("%s", listing(bad))
	}
	return c
}

// The reference and the decoder read the same tags; this holds the tags to the
// table of the design.
func TestDefaultsAreTheDesigns(t *testing.T) {
	rows := map[string]string{}
	for _, r := range Rows() {
		rows[r.Path] = r.Default
	}
	table, err := os.ReadFile("testdata/defaults.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(table)) {
		key, want, ok := strings.Cut(strings.TrimSpace(line), " | ")
		if !ok {
			continue
		}
		n++
		if got, exists := rows[key]; !exists || got != want {
			t.Errorf("%s: default %q (exists: %v), the design says %q", key, got, exists, want)
		}
	}
	if n < 35 {
		t.Errorf("%d rows in the table, expected all of them", n)
	}
}

const router = `
traffic: {router: {provider: proxy, settings: {admin: "http://127.0.0.1:9901"}}}
`

func ptr[T any](v T) *T { return &v }

func TestDefaultsOfAnEmptyTraffic(t *testing.T) {
	got := must(t, "rollout: {traffic: {steps: [100]}}"+router)
	want := Config{
		State: "git",
		Rollout: Rollout{
			Strategy:        "traffic",
			Traffic:         Traffic{Steps: []float64{100}, ScaleDownDelay: minutes(30), OnDrift: "pause"},
			ApprovalTimeout: minutes(30 * 24 * 60),
			OnFailure:       "rollback-all", OnCancel: "return", OnNewVersion: "refuse",
			OrphanAfter: minutes(15), Wait: "run", MaxUnavailable: "1",
			Health: Health{Interval: minutes(1), Grace: minutes(2)},
		},
		Traffic: Network{Router: &Router{Provider: "proxy", Settings: Settings{"admin": "http://127.0.0.1:9901"}}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func minutes(n int) Duration { return Duration(time.Duration(n) * time.Minute) }

func TestDefaultsThatDepend(t *testing.T) {
	metric := func(more string) string {
		return "rollout: {traffic: {steps: [5, 100], bake: 10m}, health: {analysis: {pass: 99}, metrics: [{name: a, provider: accesslog, query: q, compare: stable" + more + "}]}}" + router
	}
	tests := []struct {
		name, text string
		got        func(Config) any
		want       any
	}{
		{"maxBake is bake", metric(", maxRatio: 2"), func(c Config) any { return c.Rollout.Traffic.MaxBake }, minutes(10)},
		{"a given maxBake stays", "rollout: {traffic: {steps: [5, 100], bake: 1m, maxBake: 1h}}" + router, func(c Config) any { return c.Rollout.Traffic.MaxBake }, minutes(60)},
		{"marginal beside a given pass", metric(", maxRatio: 2"), func(c Config) any { return *c.Rollout.Health.Analysis }, Analysis{Pass: 99, Marginal: 75}},
		{"no ratio without analysis", metric(", maxDelta: 2"), func(c Config) any { return c.Rollout.Health.Metrics[0].MaxRatio }, (*float64)(nil)},
		{"ratio 1 with analysis", metric(", analysis: mann-whitney"), func(c Config) any { return c.Rollout.Health.Metrics[0].MaxRatio }, ptr(1.0)},
		{"a given ratio stays", metric(", analysis: mann-whitney, maxRatio: 1.2"), func(c Config) any { return c.Rollout.Health.Metrics[0].MaxRatio }, ptr(1.2)},
		{"a given zero stays", metric(", maxRatio: 0"), func(c Config) any { return c.Rollout.Health.Metrics[0].MaxRatio }, ptr(0.0)},
		{"critical is unset", metric(", maxRatio: 2"), func(c Config) any { return c.Rollout.Health.Metrics[0].Critical }, (*bool)(nil)},
		{"waves without rollout.traffic", "targets: [{host: a}]", func(c Config) any { return c.Rollout.Strategy }, "waves"},
		{"waves stop", "targets: [{host: a}]", func(c Config) any { return c.Rollout.OnFailure }, "stop"},
		{"waves roll back when enabled", "targets: [{host: a}]\nrollback: {enabled: true}", func(c Config) any { return c.Rollout.OnFailure }, "rollback-wave"},
		{"probe", "targets: [{host: a}]\nrollout: {health: {probes: [{name: p, url: 'https://{host}/'}]}}", func(c Config) any { return c.Rollout.Health.Probes[0] },
			Probe{Name: "p", URL: "https://{host}/", Status: 200, Timeout: Duration(5 * time.Second)}},
		{"command", "steps: [{name: x, run: y}]\ntargets: [{host: a}]", func(c Config) any { return c.Steps[0] },
			Command{Name: "x", At: "initial", Run: "y", Timeout: minutes(10), Rerun: "safe"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, tt.got(must(t, tt.text))); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestToleranceIsTheLargerOfBoth(t *testing.T) {
	var c Config
	for share, want := range map[float64]float64{1: 0.5, 5: 0.5, 25: 2.5, 100: 10} {
		if got := c.Tolerance(share); got != want {
			t.Errorf("Tolerance(%v) = %v, want %v", share, got, want)
		}
	}
	c.Rollout.Traffic.ShareTolerance = ptr(0.0)
	if got := c.Tolerance(25); got != 0 {
		t.Errorf("a given tolerance of 0 became %v", got)
	}
}

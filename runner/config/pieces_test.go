package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDuration(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0s", "0s": "0s", "90s": "1m30s", "10m": "10m", "1h": "1h", "60m": "1h", "1h0m5s": "1h5s", "1h10m": "1h10m",
		"24h": "1d", "30d": "30d", "1d12h": "36h", "1.5h": "1h30m", "250ms": "250ms", "3650d": "3650d", "0d": "0s", "20m0.5s": "20m0.5s",
	} {
		d, err := ParseDuration(text)
		if err != nil || d.String() != want {
			t.Errorf("ParseDuration(%q) = %s, %v; want %s", text, d, err, want)
		}
		if again, err := ParseDuration(d.String()); err != nil || again != d {
			t.Errorf("%q was written as %s and read as %s, %v", text, d, again, err)
		}
	}
	for _, text := range []string{"", "10", "-1m", "soon", "d", "1.5d", "-1d", "3651d", "87601h", "3650d1s", "1d-2h", "9999999h", "5 m", "1d2d"} {
		if d, err := ParseDuration(text); err == nil {
			t.Errorf("ParseDuration(%q) = %s, expected an error", text, d)
		}
	}
}

func TestPercent(t *testing.T) {
	for text, want := range map[string]float64{"1%": 0.01, "0.5%": 0.005, "0.3%": 0.003, " 25% ": 0.25} {
		var p Percent
		if err := p.UnmarshalText([]byte(text)); err != nil || float64(p) != want || p.String() != strings.TrimSpace(text) {
			t.Errorf("%q became %v (%s), %v", text, float64(p), p, err)
		}
	}
	for _, text := range []string{"1", "0%", "100%", "-1%", "NaN%", "%", "x%", "Inf%"} {
		var p Percent
		if err := p.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q became %v, expected an error", text, p)
		}
	}
}

func TestParseTime(t *testing.T) {
	want := time.Date(2026, 12, 24, 0, 0, 0, 0, time.UTC)
	for _, text := range []string{"2026-12-24T00:00Z", "2026-12-24T00:00:00Z", "2026-12-24T01:00+01:00"} {
		if got, err := ParseTime(text); err != nil || got != want {
			t.Errorf("ParseTime(%q) = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"2026-12-24", "2026-12-24T00:00", "24.12.2026", ""} {
		if got, err := ParseTime(text); err == nil {
			t.Errorf("ParseTime(%q) = %v, expected an error", text, got)
		}
	}
}

func TestShare(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, "25": 25, "2.5": 2.5, "0.05": 0.05, "100": 100} {
		got, ok := ParseShare(text)
		if !ok || got != want || ShareText(got) != text {
			t.Errorf("ParseShare(%q) = %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "025", "25.0", "2.50", "25%", "101", "-1", "1e1", "0x1", "NaN", ".5", "5.", "1234"} {
		if got, ok := ParseShare(text); ok {
			t.Errorf("ParseShare(%q) = %v, expected none: a share has one name", text, got)
		}
	}
}

func TestReachable(t *testing.T) {
	for _, tt := range []struct {
		share, step, tolerance, got float64
		ok                          bool
	}{
		{0.4, 0, 0.5, 0.4, true}, // depends on the servers: nobody can tell here
		{5, 1, 0, 5, true},
		{2.5, 1, 0.5, 3, true},
		{2.5, 1, 0.1, 3, false},
		{0.4, 1, 0.5, 0, false}, // never nothing instead of something
		{0.4, 0.01, 0, 0.4, true},
		{33.333, 0.01, 0.5, 33.33, true},
		{100, 1, 0, 100, true},
	} {
		if got, ok := Reachable(tt.share, tt.step, tt.tolerance); got != tt.got || ok != tt.ok {
			t.Errorf("Reachable(%v, %v, %v) = %v, %v", tt.share, tt.step, tt.tolerance, got, ok)
		}
	}
}

func TestAmount(t *testing.T) {
	for _, tt := range []struct {
		text            string
		total           int
		atMost, atLeast int
	}{
		{"1", 3, 1, 1}, {"2", 3, 2, 2}, {"25%", 3, 1, 1}, {"66%", 3, 1, 2}, {"50%", 4, 2, 2}, {"100%", 4, 4, 4}, {"0.1%", 4, 1, 1},
	} {
		a, ok := ParseAmount(tt.text)
		if !ok || a.AtMost(tt.total) != tt.atMost || a.AtLeast(tt.total) != tt.atLeast {
			t.Errorf("%s of %d: %v, at most %d, at least %d", tt.text, tt.total, ok, a.AtMost(tt.total), a.AtLeast(tt.total))
		}
	}
	for _, text := range []string{"", "0", "-1", "1.5", "0%", "101%", "x", "%", "NaN%"} {
		if a, ok := ParseAmount(text); ok {
			t.Errorf("ParseAmount(%q) = %v, expected none", text, a)
		}
	}
}

func TestNearest(t *testing.T) {
	keys := []string{"bake", "maxBake", "steps", "testers", "onDrift"}
	for word, want := range map[string]string{
		"baek": "bake", "BAKE": "bake", "maxbake": "maxBake", "tester": "testers", "step": "steps", "ondrfit": "onDrift",
		"": "", "zzz": "", "replicas": "", strings.Repeat("x", 100): "",
	} {
		if got := Nearest(word, keys); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestSelector(t *testing.T) {
	labels := map[string]string{"region": "eu-1", "canary": "true"}
	for text, want := range map[string]bool{
		"region=eu-1": true, "region=us-1": false, "region!=us-1": true, "region!=eu-1": false,
		"zone!=x": true, "zone=x": false, "region=eu-1,canary=true": true, " region = eu-1 , canary != true ": false,
	} {
		s, err := ParseSelector(text)
		if err != nil || s.Match(labels) != want {
			t.Errorf("%q: %v, %v", text, s.Match(labels), err)
		}
	}
	for _, text := range []string{"", "region", "=x", "region=", "region=a,", "region==a", "a b=c", "region!=", "region in (a)"} {
		if s, err := ParseSelector(text); err == nil {
			t.Errorf("ParseSelector(%q) = %v, expected an error", text, s)
		}
	}
}

func TestParts(t *testing.T) {
	cluster := func(name, region string) Cluster {
		return Cluster{Name: name, Labels: map[string]string{"region": region}}
	}
	target := func(host, region string) Target {
		return Target{Host: host, Labels: map[string]string{"region": region}}
	}
	eu, us := cluster("frankfurt", "eu-1"), cluster("ohio", "us-1")
	tests := []struct {
		name string
		cfg  Config
		want []Part
	}{
		{"no waves", Config{Targets: []Target{target("a", "eu-1"), target("b", "us-1")}},
			[]Part{{Targets: []Target{target("a", "eu-1"), target("b", "us-1")}}}},
		{"one region", Config{Targets: []Target{target("a", "eu-1"), target("b", "eu-1")}},
			[]Part{{Region: "eu-1", Targets: []Target{target("a", "eu-1"), target("b", "eu-1")}}}},
		{"one cluster", Config{Clusters: []Cluster{eu}}, []Part{{Region: "eu-1", Cluster: "frankfurt"}}},
		{"a wave over clusters", Config{Clusters: []Cluster{eu, us}, Rollout: Rollout{Waves: []Wave{{Name: "all", Select: "region!=x"}}}},
			[]Part{{"all-frankfurt", "all", "eu-1", "frankfurt", nil}, {"all-ohio", "all", "us-1", "ohio", nil}}},
		{"a wave of one cluster", Config{Clusters: []Cluster{eu, us}, Rollout: Rollout{Waves: []Wave{{Name: "us", Select: "region=us-1"}, {Name: "eu", Select: "region=eu-1"}}}},
			[]Part{{"us", "us", "us-1", "ohio", nil}, {"eu", "eu", "eu-1", "frankfurt", nil}}},
		{"split by a label", Config{
			Targets: []Target{target("a", "us-1"), target("b", "eu-1"), target("c", "us-1")},
			Rollout: Rollout{Waves: []Wave{{Name: "all", Select: "region!=x", By: "region"}}},
		}, []Part{
			{"all-us-1", "all", "us-1", "", []Target{target("a", "us-1"), target("c", "us-1")}},
			{"all-eu-1", "all", "eu-1", "", []Target{target("b", "eu-1")}},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, issues := tt.cfg.Parts()
			if len(issues) > 0 {
				t.Errorf("issues %v", issues)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestPartsThatContradict(t *testing.T) {
	wave := func(name, sel, by string) Wave { return Wave{Name: name, Select: sel, By: by} }
	target := func(host, region string) Target {
		return Target{Host: host, Labels: map[string]string{"region": region}}
	}
	tests := []struct {
		name    string
		targets []Target
		waves   []Wave
		want    string
	}{
		{"nothing to select", nil, []Wave{wave("w", "a=b", "")}, "none are given"},
		{"empty wave", []Target{target("a", "eu")}, []Wave{wave("w", "region=eu", ""), wave("v", "region=us", "")}, "wave v is empty"},
		{"in two waves", []Target{target("a", "eu")}, []Wave{wave("w", "region=eu", ""), wave("v", "region!=us", "")}, "target a is already in wave w"},
		{"in none", []Target{target("a", "eu"), target("b", "us")}, []Wave{wave("w", "region=eu", "")}, "target b is in no wave"},
		{"one name twice", []Target{target("a", "eu"), target("b", "us")}, []Wave{wave("w", "region=eu", "region"), wave("w-eu", "region=us", "")}, "two passes are called w-eu"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, issues := Config{Targets: tt.targets, Rollout: Rollout{Waves: tt.waves}}.Parts()
			if len(issues) != 1 || !strings.Contains(issues[0].Message, tt.want) {
				t.Errorf("issues %v, want one with %q", issues, tt.want)
			}
		})
	}
}

func TestPutReplacesOrAppends(t *testing.T) {
	list := entries("a", "b")
	got := Put(Put(list, Entry{Name: "b", InBuild: true}), Entry{Name: "c"})
	if want := []Entry{{Name: "a"}, {Name: "b", InBuild: true}, {Name: "c"}}; !cmp.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if list[1].InBuild {
		t.Error("Put changed the list it was given")
	}
}

func TestScalesDependsOnSettings(t *testing.T) {
	c := Known()
	c.Plugins = Put(c.Plugins, PluginEntry{Entry: Entry{Name: "exec"}, Scales: true, ScalesWith: func(s map[string]any) bool { return s["scale"] != nil }})
	for _, tt := range []struct {
		plugin Provider
		want   bool
	}{
		{Provider{}, false}, {Provider{Name: "nothing"}, false}, {Provider{Name: "ecs"}, false}, {Provider{Name: "kubernetes"}, true},
		{Provider{Name: "exec"}, false}, {Provider{Name: "exec", Settings: Settings{"scale": "x"}}, true},
	} {
		if got := c.Scales(Config{Plugin: tt.plugin}); got != tt.want {
			t.Errorf("%+v: scales %v", tt.plugin, got)
		}
	}
}

// The design's names, so that a typing mistake in Known is found.
func TestKnownNames(t *testing.T) {
	c := Known()
	for want, got := range map[string][]string{
		"exec remote-copy container kubernetes lambda cloudrun appservice containerapps ecs external": namesOf(c.Plugins, false),
		"haproxy f5 nginx-plus aws-alb nginx proxy":                                                   namesOf(c.Routers, false),
		"haproxy aws-elb health-flag f5 nginx-plus nginx iis-arr nlb":                                 namesOf(c.Pools, false),
		"prometheus datadog newrelic elastic cloudwatch azure-monitor accesslog":                      namesOf(c.Metrics, false),
		"env file vault aws-sm gcp-sm azure-kv":                                                       namesOf(c.Secrets, false),
		"git s3 file":                                                                                 namesOf(c.Stores, false),
	} {
		if strings.Join(got, " ") != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	if got := namesOf(c.Plugins, true); len(got) > 0 {
		t.Errorf("in the build without being put there: %v", got)
	}
}

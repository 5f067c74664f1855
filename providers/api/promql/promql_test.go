package promql

import (
	"strings"
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	const m = time.Minute
	tests := []struct {
		query string
		want  time.Duration
	}{
		{``, 0},
		{`up`, 0},
		{`sum(rate(http_requests_total[5m]))`, 5 * m},
		{`rate(a[1m]) / rate(b[10m])`, 10 * m},
		{`rate(a[1h30m])`, 90 * m},
		{`rate(a[1d])`, 24 * time.Hour},
		{`rate(a[500ms])`, 500 * time.Millisecond},
		{`rate(a[300])`, 5 * m},
		{`rate(a[0.5])`, 500 * time.Millisecond},
		{"rate(a[ 5m ])", 5 * m},
		{`rate(a{path="[9m]"}[5m])`, 5 * m},
		{`rate(a{path=~"\"[9m]"}[5m])`, 5 * m},
		{"rate(a{path=`\\`}[5m])", 5 * m},
		{`rate(a{path='}[9m]'}[5m])`, 5 * m},
		{"rate(a[5m]) # [9m]", 5 * m},
		{"rate(a[5m]) # [9m]\n+ rate(b[7m])", 7 * m},
		{"rate(a{\n# } [9m]\nx=\"y\"}[5m])", 5 * m},
		{`label_replace(rate(a[5m]), "x", "[9m]", "y", ".*")`, 5 * m},
		{`rate(a[5m] offset 1w)`, 5 * m},
		{`rate(a[5m] @ 1609746000)`, 5 * m},
		{`max_over_time(rate(a[5m])[30m:1m])`, 35 * m},
		{`max_over_time(rate(a[5m])[30m:])`, 35 * m},
		{`max_over_time((rate(a[5m]))[30m:1m])`, 35 * m},
		{`max_over_time(sum by (slot) (rate(a[5m]))[30m:1m] offset 1h)`, 35 * m},
		{`min_over_time(max_over_time(rate(a[5m])[30m:1m])[2h:5m])`, 155 * m},
		{`max_over_time(rate(a[5m] offset 1h)[30m:1m])`, 35 * m},
		{`max_over_time(a[30m:1m])`, 30 * m},
		{`rate(a[5m]) + max_over_time(b[7m:1m])`, 7 * m},
		{`rate(a[5m]) and max_over_time(b[3m:1m])`, 5 * m},
		{`quantile_over_time(0.99, a[10m])`, 10 * m},
		{`rate({"http.requests"}[5m])`, 5 * m},
		{`rate(a[$__range])`, 0},
		{`rate(a[5m]) + rate(b[$__range])`, 0},
		{`rate(a[0m])`, 0},
		{`rate(a[-5m])`, 0},
		{`rate(a[5m]`, 0},
		{`rate a[5m])`, 0},
		{`rate(a[5m)`, 0},
		{`rate(a]5m[)`, 0},
		{`rate(a{x="[5m])`, 0},
		{`rate(a{x="y"[5m])`, 0},
		{`a}[5m]`, 0},
		{`rate(a[1e99])`, 0},
		{`a(b(c(d[99y])[99y:])[99y:])`, 0}, // longer than a duration can be
	}
	for _, tt := range tests {
		t.Run(tt.query, func(t *testing.T) {
			if got := Window(tt.query); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// FuzzWindow: no query breaks it, and what stands in a string, a comment or
// behind an operator never changes what was read before.
func FuzzWindow(f *testing.F) {
	for _, seed := range []string{`rate(a[5m])`, `max_over_time(rate(a[5m])[30m:1m])`, "a # x\n", `{x="y"}`, "`", `"\`, `[`, `)`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		got := Window(query)
		if got < 0 || (got > 0 && !strings.Contains(query, "[")) {
			t.Errorf("%v", got)
		}
		if got == 0 || strings.Contains(query, "#") {
			return
		}
		for _, tail := range []string{" # [99y]", ` + x{y="[99y]"}`, " or vector(0)"} {
			if with := Window(query + tail); with != got {
				t.Errorf("%v, with %q %v", got, tail, with)
			}
		}
	})
}

func TestEscape(t *testing.T) {
	tests := map[string]string{
		"1.2.0-rc1":           "1.2.0-rc1",
		`a\b`:                 `a\\b`,
		`a"b'c` + "`d":        `a\x22b\x27c\x60d`,
		"a\nb":                `a\x0ab`,
		`"} or vector(0) # `:  `\x22\x7d\x20or\x20vector\x280\x29\x20\x23\x20`,
		"größe":               `gr\xc3\xb6\xc3\x9fe`,
		"\xff":                `\xff`,
		"projects/x/services": `projects\x2fx\x2fservices`,
	}
	for in, want := range tests {
		if got := Escape(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

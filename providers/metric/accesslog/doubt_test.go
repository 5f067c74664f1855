package accesslog

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers/metric"
	"github.com/manent/action/providers/metric/metrictest"
	"github.com/manent/action/state"
)

// TestAbandoned: requests that the client left are no evidence of health.
func TestAbandoned(t *testing.T) {
	const some = "of 10 requests of slot b were abandoned by the client (499, 000)"
	tests := []struct {
		name           string
		good, s499, s0 int // requests of b, which take 1 s, 60 s and 60 s
		text           string
		want           float64
		noData         string
		partial        string // in the warning; "" for a whole answer
	}{
		{"all, its rate", 0, 10, 0, "error_rate", 0, "no requests of slot b, 3 of slot a", "10 " + some},
		{"all, its errors", 0, 10, 0, "errors", 0, "no requests of slot b", "10 " + some},
		{"all, its p95", 0, 5, 5, "p95", 0, "no requests of slot b", "10 " + some},
		{"all, its requests", 0, 5, 5, "requests", 0, "", "10 " + some},
		{"all, its client errors", 0, 10, 0, "client_errors", 10, "", "10 " + some},
		{"most, its rate", 4, 6, 0, "error_rate", 0, "", "6 " + some},
		{"most without a status", 4, 0, 6, "client_errors", 0, "", "6 " + some},
		{"most, its mean", 4, 3, 3, "mean", 1, "", "6 " + some},
		{"half, its requests", 5, 5, 0, "requests", 5, "", ""},
		{"half, its client errors", 5, 5, 0, "client_errors", 5, "", ""},
		{"few, its p99", 9, 1, 0, "p99", 1, "", ""},
	}
	for _, s := range styles() {
		for _, tt := range tests {
			t.Run(s.name+" "+tt.name, func(t *testing.T) {
				at := func(minute int) time.Time { return metrictest.Start().Add(time.Duration(minute) * time.Minute) }
				lines := []string{s.line(at(-1), "a", 200, 1), s.line(at(11), "a", 200, 1)}
				for range 3 {
					lines = append(lines, s.line(at(1), "a", 200, 1))
				}
				lines = append(lines, slices.Repeat([]string{s.line(at(5), "b", 200, 1)}, tt.good)...)
				lines = append(lines, slices.Repeat([]string{s.line(at(5), "b", 499, 60)}, tt.s499)...)
				lines = append(lines, slices.Repeat([]string{s.line(at(5), "b", 0, 60)}, tt.s0)...)
				a := ask(t, s.system(t, lines, nil), query(tt.text, "b"))[0]
				if tt.noData != "" {
					if !errors.Is(a.Err, metric.ErrNoData) || !strings.Contains(a.Err.Error(), tt.noData) {
						t.Errorf("error %v, want no data and %q", a.Err, tt.noData)
					}
				} else if a.Err != nil || len(a.Points) != 1 || a.Points[0].Value != tt.want {
					t.Errorf("points %v, error %v, want %v", a.Points, a.Err, tt.want)
				}
				if said := strings.Join(a.Warnings, "\n"); a.Partial != (tt.partial != "") || said != tt.partial {
					t.Errorf("partial %v, warnings %q, want %q", a.Partial, said, tt.partial)
				}
			})
		}
	}
}

// TestStrays: requests of b under a name that is no slot are missing from it.
func TestStrays(t *testing.T) {
	tests := []struct {
		name, track string
		strays      int // of 100 requests in the window
		limit       any
		partial     bool
	}{
		{"as many as are tolerated", "v2", 1, nil, false},
		{"more than are tolerated", "v2", 2, nil, true},
		{"none is tolerated", "v2", 1, 0, true},
		{"more are tolerated", "v2", 50, 50, false},
		{"all but one", "v2", 99, nil, true},
		{"no slot was chosen", "-", 50, nil, false},
		{"the track is empty", "", 50, nil, false},
	}
	for _, s := range styles() {
		for _, tt := range tests {
			t.Run(s.name+" "+tt.name, func(t *testing.T) {
				at := func(minute int, slot state.Slot) string {
					return s.line(metrictest.Start().Add(time.Duration(minute)*time.Minute), slot, 200, 1)
				}
				more := map[string]any{}
				if tt.limit != nil {
					more["max_malformed"] = tt.limit
				}
				logged := map[string]string{"nginx": "canary ", "json": `"v":"b"`, "proxy": `"slot":"b"`}[s.name]
				stray := strings.Replace(at(5, "b"), logged, strings.NewReplacer("canary", tt.track, `"b"`, `"`+tt.track+`"`).Replace(logged), 1)
				lines := append(slices.Repeat([]string{at(-1, "a"), at(11, "a")}, 200), slices.Repeat([]string{at(1, "a")}, 100-tt.strays)...)
				lines = append(lines, slices.Repeat([]string{stray}, tt.strays)...)
				a := ask(t, s.system(t, lines, more), query("requests", "a"))[0]
				want := fmt.Sprintf("%d requests of tracks that are no slot: %q (%d)", tt.strays, tt.track, tt.strays)
				if a.Err != nil || a.Points[0].Value != float64(100-tt.strays) || a.Partial != tt.partial || len(a.Warnings) != 1 || a.Warnings[0] != want {
					t.Errorf("points %v, error %v, partial %v, warnings %q, want %q", a.Points, a.Err, a.Partial, a.Warnings, want)
				}
			})
		}
	}
}

// TestBeginning: a log moved away within the window does not hide what it had.
func TestBeginning(t *testing.T) {
	tests := []struct {
		name    string
		window  time.Duration
		begins  time.Duration // after the window does
		rotated time.Duration // as well, of the only request in a rotated file; 0 for no file
		silence string
		partial bool
	}{
		{"within a tenth", 10 * time.Minute, time.Minute, 0, "2m", false},
		{"beyond a tenth", 10 * time.Minute, time.Minute + time.Second, 0, "2m", true},
		{"beyond a tenth of a short window", time.Minute, 7 * time.Second, 0, "2m", true},
		{"beyond the silence", 10 * time.Minute, 31 * time.Second, 0, "30s", true},
		{"a tenth holds against a long silence", 10 * time.Minute, 5 * time.Minute, 0, "1h", true},
		{"a long window, within the silence", time.Hour, 2 * time.Minute, 0, "2m", false},
		{"a long window, beyond the silence", time.Hour, 3 * time.Minute, 0, "2m", true},
		{"rotated, older", 10 * time.Minute, 5 * time.Minute, -30 * time.Minute, "2m", false},
		{"rotated, within the window", 10 * time.Minute, 5 * time.Minute, 4 * time.Minute, "2m", true},
	}
	s := styles()[0]
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := query("requests", "b")
			q.To = q.From.Add(tt.window)
			line := func(after time.Duration) string { return s.line(q.From.Add(after), "b", 200, 1) }
			sys := s.system(t, []string{line(tt.begins), line(tt.window)}, map[string]any{"max_silence": tt.silence})
			if tt.rotated != 0 {
				write(t, filepath.Join(sys.dir, "access.log.1"), []string{line(tt.rotated)})
			}
			a := ask(t, sys, q)[0]
			if a.Err != nil || a.Partial != tt.partial || strings.Contains(strings.Join(a.Warnings, ""), "after the window does") != tt.partial {
				t.Errorf("error %v, partial %v, warnings %q", a.Err, a.Partial, a.Warnings)
			}
		})
	}
}

// TestStrangeStatus: what a broken server answers is an error and can be read.
func TestStrangeStatus(t *testing.T) {
	for _, s := range styles() {
		for _, status := range []int{99, 600, 999} {
			t.Run(fmt.Sprint(s.name, status), func(t *testing.T) {
				lines := append(busy(s), slices.Repeat([]string{s.line(metrictest.Start(), "b", status, 1)}, 20)...)
				for text, want := range map[string]float64{"errors": 32, "requests": 80, "error_rate": 0.4, "client_errors": 0} {
					a := ask(t, s.system(t, lines, nil), query(text, "b"))[0]
					if a.Err != nil || a.Partial || len(a.Warnings) > 0 || len(a.Points) != 1 || a.Points[0].Value != want {
						t.Errorf("%s: points %v, error %v, warnings %q, want %v", text, a.Points, a.Err, a.Warnings, want)
					}
				}
			})
		}
	}
}

package accesslog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func timed(status int, took time.Duration) Entry {
	return Entry{Status: status, Took: took, Timed: true}
}

// TestArticle: the figures of the article's report, from logs with its counts.
func TestArticle(t *testing.T) {
	tests := []struct {
		name             string
		requests, errors int
		rate             float64 // per cent, to two places
	}{
		{"canary of 4,000", 396, 19, 4.80},
		{"stable of 4,000", 3604, 0, 0},
		{"canary of 200", 19, 1, 5.26},
		{"stable of 200", 181, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := NewStats()
			for i := range tt.requests {
				status := 200
				if i < tt.errors {
					status = 500
				}
				s.Add(timed(status, time.Millisecond))
			}
			rate, ok := s.ErrorRate()
			p95, timed := s.Percentile(950)
			if !ok || float64(int(rate*10000+0.5))/100 != tt.rate || !timed || p95 != 0.001 || s.Errors != tt.errors {
				t.Errorf("rate %v, p95 %v, errors %d", rate, p95, s.Errors)
			}
		})
	}
}

// TestPercentile: positions by the rule of the article's awk report.
func TestPercentile(t *testing.T) {
	tests := []struct{ n, thousandths, position int }{
		{1, 950, 1}, {1, 10, 1}, {2, 500, 1}, {3, 500, 1}, {4, 500, 2}, {10, 950, 9}, {19, 950, 18}, {20, 950, 19}, {21, 950, 19},
		{100, 990, 99}, {100, 999, 99}, {181, 950, 171}, {396, 950, 376}, {1000, 999, 999}, {3604, 950, 3423},
	}
	for _, tt := range tests {
		s := NewStats()
		order := rand.New(rand.NewPCG(uint64(tt.n), 1)).Perm(tt.n)
		for _, i := range order {
			s.Add(timed(200, time.Duration(i+1)*time.Second)) // the value is its position
		}
		if got, ok := s.Percentile(tt.thousandths); !ok || got != float64(tt.position) {
			t.Errorf("%d thousandths of %d: position %v, want %d", tt.thousandths, tt.n, got, tt.position)
		}
	}
}

// TestPercentileOfRepeats compares with sorting, which the figures avoid.
func TestPercentileOfRepeats(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		s := NewStats()
		var all []time.Duration
		for range 1 + rng.IntN(500) {
			d := time.Duration(rng.IntN(20)) * time.Millisecond
			all = append(all, d)
			s.Add(timed(200, d))
		}
		slices.Sort(all)
		for _, q := range []int{500, 900, 950, 990, 999} {
			want := all[max(len(all)*q/1000, 1)-1].Seconds()
			if got, ok := s.Percentile(q); !ok || got != want {
				t.Errorf("%d of %d: %v, want %v", q, len(all), got, want)
			}
		}
	}
}

func TestStats(t *testing.T) {
	var s Stats
	if _, ok := s.ErrorRate(); ok {
		t.Error("an error rate without requests")
	}
	if _, ok := s.Mean(); ok {
		t.Error("a mean without requests")
	}
	if _, ok := NewStats().Percentile(950); ok {
		t.Error("a percentile without requests")
	}
	s.Add(timed(200, time.Second))
	if _, ok := s.Percentile(950); ok {
		t.Error("a percentile of figures that keep no durations")
	}
}

// TestClasses: what each status counts as, among ten requests of 200 that take
// a second; the one in question takes an hour.
func TestClasses(t *testing.T) {
	tests := []struct{ status, requests, errors, clientErrors, abandoned int }{
		{200, 11, 0, 0, 0}, {101, 11, 0, 0, 0}, {399, 11, 0, 0, 0},
		{400, 11, 0, 1, 0}, {498, 11, 0, 1, 0},
		{499, 10, 0, 1, 1}, {0, 10, 0, 0, 1},
		{500, 11, 1, 0, 0}, {599, 11, 1, 0, 0},
		{600, 11, 1, 0, 0}, {999, 11, 1, 0, 0}, {99, 11, 1, 0, 0}, {9, 11, 1, 0, 0},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.status), func(t *testing.T) {
			s := NewStats()
			for range 10 {
				s.Add(timed(200, time.Second))
			}
			s.Add(timed(tt.status, time.Hour))
			got := []int{s.Requests, s.Errors, s.ClientErrors, s.Abandoned, s.Timed}
			if want := []int{tt.requests, tt.errors, tt.clientErrors, tt.abandoned, tt.requests}; !slices.Equal(got, want) {
				t.Errorf("requests, errors, client errors, abandoned, timed: %v, want %v", got, want)
			}
			rate, _ := s.ErrorRate()
			mean, _ := s.Mean()
			slowest, _ := s.Percentile(999)
			if rate != float64(tt.errors)/float64(tt.requests) || (mean > 1) != (tt.abandoned == 0) || slowest != 1 {
				t.Errorf("rate %v, mean %v, p99.9 %v", rate, mean, slowest)
			}
		})
	}
	var left Stats
	left.Add(timed(499, time.Second))
	if _, ok := left.ErrorRate(); ok {
		t.Error("an error rate of abandoned requests only")
	}
	if _, ok := left.Mean(); ok {
		t.Error("a mean of abandoned requests only")
	}
}

package accesslog

import (
	"maps"
	"slices"
	"time"
)

// Stats are the figures of one track in one span of time. The zero value
// counts; to give percentiles it has to be made by NewStats.
//
// An abandoned request says nothing of a server's health, and least of all
// that it is healthy: one that never answers has no others. It is no request
// here and has no duration; a 499 is a client error all the same.
type Stats struct {
	Requests     int // without the abandoned
	Errors       int // 5xx, and what is no status of HTTP
	ClientErrors int // 4xx, also 499
	Abandoned    int // 499 and 000
	Timed        int // requests with a duration

	seconds float64
	took    map[time.Duration]int
}

// NewStats returns empty figures that keep what percentiles need: each
// distinct duration once, so that a busy log stays small.
func NewStats() *Stats { return &Stats{took: map[time.Duration]int{}} }

// Add counts a request.
func (s *Stats) Add(e Entry) {
	switch {
	case e.Status/100 == 4:
		s.ClientErrors++
	case !e.Abandoned() && (e.Status < 100 || e.Status >= 500):
		s.Errors++
	}
	if e.Abandoned() {
		s.Abandoned++
		return
	}
	s.Requests++
	if !e.Timed {
		return
	}
	s.Timed++
	s.seconds += e.Took.Seconds()
	if s.took != nil {
		s.took[e.Took]++
	}
}

// ErrorRate is the part of the requests that are errors, from 0 to 1; false
// without requests.
func (s *Stats) ErrorRate() (float64, bool) {
	if s.Requests == 0 {
		return 0, false
	}
	return float64(s.Errors) / float64(s.Requests), true
}

// Mean is the mean duration in seconds; false without durations.
func (s *Stats) Mean() (float64, bool) {
	if s.Timed == 0 {
		return 0, false
	}
	return s.seconds / float64(s.Timed), true
}

// Percentile is a duration in seconds such that the given thousandths of the
// requests (950 for p95) took no longer: of n durations in rising order the
// one at position n × thousandths / 1000 rounded down, at least the first.
// This is the nearest rank, rounded down as in the usual awk report. False
// without durations.
func (s *Stats) Percentile(thousandths int) (float64, bool) {
	if len(s.took) == 0 {
		return 0, false
	}
	position := max(s.Timed*thousandths/1000, 1)
	for _, d := range slices.Sorted(maps.Keys(s.took)) {
		if position -= s.took[d]; position <= 0 {
			return d.Seconds(), true
		}
	}
	return 0, false
}

package metric

import (
	"strings"
	"testing"
	"time"
)

func TestAlign(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
	tests := []struct {
		name     string
		q        Query
		from, to time.Time
		problem  string
	}{
		{"on the grid", Query{From: at(60_000), To: at(120_000), Step: 15 * time.Second}, at(60_000), at(120_000), ""},
		{"off the grid", Query{From: at(60_001), To: at(119_999), Step: 15 * time.Second}, at(75_000), at(105_000), ""},
		{"a fraction of a millisecond late", Query{From: at(60_000).Add(1), To: at(120_000), Step: 15 * time.Second}, at(75_000), at(120_000), ""},
		{"one instant", Query{From: at(61_000), To: at(89_000), Step: 15 * time.Second}, at(75_000), at(75_000), ""},
		{"step that does not divide a minute", Query{From: at(0), To: at(20_000), Step: 7 * time.Second}, at(0), at(14_000), ""},
		{"before the epoch", Query{From: at(-20_000), To: at(0), Step: 15 * time.Second}, at(-15_000), at(0), ""},
		{"one value", Query{From: at(1).Add(999), To: at(5_001).Add(999)}, at(1), at(5_001), ""},
		{"no instant", Query{From: at(61_000), To: at(74_000), Step: 15 * time.Second}, time.Time{}, time.Time{}, "multiple of the step"},
		{"backwards", Query{From: at(2), To: at(1)}, time.Time{}, time.Time{}, "end after the beginning"},
		{"empty", Query{From: at(1), To: at(1)}, time.Time{}, time.Time{}, "end after the beginning"},
		{"tiny step", Query{From: at(1), To: at(2), Step: time.Microsecond}, time.Time{}, time.Time{}, "whole milliseconds"},
		{"negative step", Query{From: at(1), To: at(2), Step: -time.Second}, time.Time{}, time.Time{}, "whole milliseconds"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			from, to, err := Align(tt.q)
			if tt.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tt.problem) {
					t.Fatalf("error %v, want %q in it", err, tt.problem)
				}
				return
			}
			if err != nil || !from.Equal(tt.from) || !to.Equal(tt.to) {
				t.Errorf("%v to %v, error %v; want %v to %v", from, to, err, tt.from, tt.to)
			}
		})
	}
}

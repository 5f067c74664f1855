package metric

import (
	"fmt"
	"time"
)

// Align returns a query's window on the grid of its step, counted from the
// Unix epoch: the beginning rounded up and the end rounded down, so that two
// readings ask for the same instants and nothing outside the window counts.
// Without a step the window comes back in whole milliseconds. A window that
// is empty or a step below 1 ms is an error.
func Align(q Query) (from, to time.Time, err error) {
	if !q.From.Before(q.To) {
		return from, to, fmt.Errorf("window from %s to %s, expected the end after the beginning", text(q.From), text(q.To))
	}
	step := q.Step.Milliseconds()
	switch {
	case q.Step == 0:
		return q.From.Truncate(time.Millisecond), q.To.Truncate(time.Millisecond), nil
	case step <= 0 || q.Step%time.Millisecond != 0:
		return from, to, fmt.Errorf("step %v, expected whole milliseconds above 0", q.Step)
	}
	start := floor(q.From.UnixMilli(), step)
	if time.UnixMilli(start).Before(q.From) {
		start += step
	}
	end := floor(q.To.UnixMilli(), step)
	if start > end {
		return from, to, fmt.Errorf("window of %v, expected one that holds a multiple of the step %v", q.To.Sub(q.From), q.Step)
	}
	return time.UnixMilli(start).UTC(), time.UnixMilli(end).UTC(), nil
}

// floor is the largest multiple of step that is not above n.
func floor(n, step int64) int64 {
	rest := n % step
	if rest < 0 {
		rest += step
	}
	return n - rest
}

func text(t time.Time) string { return t.UTC().Format(time.RFC3339) }

package gate

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/manent/action/providers/metric"
	"github.com/manent/action/runner/config"
)

// apart is the time between two points of a metric's series: its step, or
// where false alarms are bounded at least the range one value stands for, so
// that no two points share data.
func apart(m config.Metric, h config.Health, t metric.Traits) time.Duration {
	switch {
	case m.Analysis == "":
		return 0
	case m.Analysis == "mann-whitney" && h.FalseAlarm != nil:
		return max(m.Step.Std(), window(m, t, m.Query))
	}
	return m.Step.Std()
}

// planned is how many points a side can have at the end of the bake: those on
// the grid of the step, the first one window after the share was in force, or
// where a value stands for its step, one step after that.
func planned(c Course, inForce time.Time, window, apart time.Duration, ofStep bool) int {
	first, last, err := metric.Align(metric.Query{From: at(inForce).Add(window), To: at(inForce.Add(c.Bake)), Step: apart})
	if err != nil || apart <= 0 {
		return 0
	}
	n := int(last.Sub(first) / apart)
	if ofStep {
		return n
	}
	return n + 1
}

// series are the values of a side's points, oldest first. A point that is NaN
// is a gap; one that is infinite or outside of the window is no figure at all,
// and why says so. With empty: zero, instants from before the first point
// count as 0 where requests were seen: the series did not exist yet.
func (s *Side) series(m config.Metric, requests float64) (values []float64, why string) {
	values = make([]float64, 0, len(s.Points))
	for _, p := range s.Points {
		switch {
		case math.IsInf(p.Value, 0):
			return nil, fmt.Sprintf("%s at %s (query %s)", figure(p.Value), clock(p.At), short(s.Query))
		case s.stale(p) || at(p.At).After(at(s.end())):
			return nil, fmt.Sprintf("point of %s is outside of the window from %s to %s (query %s)", clock(p.At), clock(s.begin()), clock(s.end()), short(s.Query))
		case !math.IsNaN(p.Value):
			values = append(values, p.Value)
		}
	}
	if m.Empty == "zero" && requests > 0 {
		values = append(make([]float64, s.missing()), values...)
	}
	if len(values) == 0 {
		return nil, fmt.Sprintf("no data (query %s)", short(s.Query))
	}
	return values, ""
}

// maxMissing bounds what a stored reading can ask for; no answer has more.
const maxMissing = 11_000

// missing is the number of instants of the series before its first point.
func (s *Side) missing() int {
	if s.Step <= 0 {
		return 0
	}
	first, last, err := metric.Align(metric.Query{From: s.begin(), To: s.end(), Step: s.Step})
	if err != nil {
		return 0
	}
	n := last.Sub(first)/s.Step + 1
	if !s.none() {
		n = s.Points[0].At.Sub(first) / s.Step
	}
	return int(min(max(0, n), maxMissing))
}

// end is where the window really ended.
func (s *Side) end() time.Time {
	if s.Seen != nil && s.Seen.To.After(s.To) {
		return s.Seen.To
	}
	return s.To
}

// newest is the time of the side's last figure, zero for none.
func (s *Side) newest() time.Time {
	var last time.Time
	for _, p := range s.Points {
		if !math.IsNaN(p.Value) && p.At.After(last) {
			last = p.At
		}
	}
	return last
}

// aged makes a pass at the end of a bake inconclusive when the figures ended
// long before it: traffic or the metric system fell silent meanwhile. A
// quarter of the time in the stage, and three steps, are allowed.
func aged(f finding, r Record, s *Side, newest time.Time) finding {
	if f.result != Pass || !r.AtEnd || !newest.Before(s.To.Add(-patience(r, s))) {
		return f
	}
	f.result = Inconclusive
	f.reason += fmt.Sprintf(", but the newest figure is of %s and the window ends at %s", clock(newest), clock(s.To))
	return f
}

// patience is how long before the end of a stage figures may have ended.
func patience(r Record, s *Side) time.Duration { return max(3*s.Step, s.To.Sub(r.InForce)/4) }

// byTime are the values of a side's points by their instant in milliseconds.
func (s *Side) byTime() map[int64]float64 {
	values := make(map[int64]float64, len(s.Points))
	for _, p := range s.Points {
		values[p.At.UnixMilli()] = p.Value
	}
	return values
}

// instants are the times of a side's points, oldest first.
func (s *Side) instants() []time.Time {
	times := make([]time.Time, len(s.Points))
	for i, p := range s.Points {
		times[i] = p.At
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}

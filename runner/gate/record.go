package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/metric"
	"github.com/manent/action/runner/config"
)

// record is a reading that nothing has come back for yet.
func record(h config.Health, s Subject) Record {
	return Record{
		Stage: s.Stage, At: s.Now.UTC().Round(0), InForce: s.InForce.UTC().Round(0), Share: s.Share, First: s.First,
		AtEnd: s.AtEnd, Version: s.Vars["version"], Health: h, Course: s.Course, Memory: s.Course.Memory,
	}
}

func (s *Side) broken(why string) { s.State, s.Error = Broken, why }

// fill stores what came back for a side that was asked.
func (s *Side) fill(a metric.Answer, ok bool) {
	switch {
	case s.State != "":
		return // was not asked
	case !ok:
		s.broken("no answer came back")
		return
	}
	if a.Resolved != "" {
		s.Query = a.Resolved
	}
	if !a.From.IsZero() {
		s.Seen = &Window{From: a.From.UTC(), To: a.To.UTC(), Step: a.Step}
	}
	s.Points = slices.Grow(s.Points, len(a.Points))
	for _, p := range a.Points {
		s.Points = append(s.Points, metric.Point{At: p.At.UTC().Round(0), Value: p.Value})
	}
	s.Partial = a.Partial
	if len(a.Warnings) > 0 {
		s.Warnings = slices.Clone(a.Warnings)
	}
	switch {
	case a.Err == nil:
		s.State = Answered
	case errors.Is(a.Err, metric.ErrNoData):
		s.State = NoData
	case errors.Is(a.Err, metric.ErrSeveral):
		s.State = Several
	default:
		s.broken(a.Err.Error())
		if hint := providers.HintOf(a.Err); hint != "" {
			s.Error += " (hint: " + hint + ")"
		}
	}
}

// trouble says why a side is an error, "" when it came back as data, as none,
// or was rightly not asked.
func (s *Side) trouble() string {
	switch {
	case s.State == Several:
		return "several series, expected one (hint: sum(…) makes one)"
	case s.State == Broken:
		return s.Error
	case s.Partial:
		return "partial answer: the system says that data are missing"
	case s.State != Answered && s.State != NoData && s.State != Unasked:
		return fmt.Sprintf("state %q of the answer is not known", s.State)
	case s.Step == 0 && len(s.Points) > 1:
		return fmt.Sprintf("%d values, expected one", len(s.Points))
	case s.Step > 0 && s.Seen != nil && s.Seen.Step > 0 && s.Seen.Step < s.Step:
		return fmt.Sprintf("points %s apart, asked for %s", s.Seen.Step, s.Step)
	}
	return s.disorder()
}

// disorder says what is wrong with the times of the points.
func (s *Side) disorder() string {
	for i, p := range s.Points {
		switch {
		case i > 0 && !p.At.After(s.Points[i-1].At):
			return fmt.Sprintf("point of %s after that of %s, expected the order of time", clock(p.At), clock(s.Points[i-1].At))
		case at(p.At).After(at(s.end())):
			return fmt.Sprintf("point of %s, after the end of the window, %s", clock(p.At), clock(s.end()))
		}
	}
	return ""
}

// begin is where the window really began.
func (s *Side) begin() time.Time {
	if s.Seen != nil && s.Seen.From.Before(s.From) {
		return s.Seen.From
	}
	return s.From
}

// early says why a window is not one of this stage, "" when it is.
func (s *Side) early(inForce time.Time) string {
	switch {
	case at(s.begin()).Before(at(inForce)):
		return fmt.Sprintf("the window from %s begins before the share was in force, %s", clock(s.begin()), clock(inForce))
	case s.State == Unasked:
		return fmt.Sprintf("no data since the share was in force, %s, are old enough yet", clock(inForce))
	}
	return ""
}

// stale reports whether a point is older than the window: the one asked for,
// or the one evaluated if that overlaps it.
func (s *Side) stale(p metric.Point) bool {
	from := s.From
	if s.Seen != nil && s.Seen.To.After(s.From) {
		from = s.begin()
	}
	return at(p.At).Before(at(from))
}

func (s *Side) none() bool { return s.State == NoData || len(s.Points) == 0 }

// number is the one value of a side, or why there is none.
func (s *Side) number() (value float64, why string) {
	if s.none() {
		return 0, fmt.Sprintf("no data (query %s)", short(s.Query))
	}
	p := s.Points[0]
	switch {
	case !finite(p.Value):
		return 0, fmt.Sprintf("%s (query %s)", figure(p.Value), short(s.Query))
	case s.stale(p):
		return 0, fmt.Sprintf("value of %s is older than the window from %s (query %s)", clock(p.At), clock(s.From), short(s.Query))
	}
	return p.Value, ""
}

// value is number, with no data for 0 where the metric says so and requests
// were counted on this track.
func (s *Side) value(m config.Metric, requests float64) (float64, string) {
	v, why := s.number()
	if why == "" || !s.none() || !(requests > 0) {
		return v, why
	}
	if m.Empty == "zero" {
		return 0, ""
	}
	return v, why + fmt.Sprintf(", though %s requests were seen; empty: zero takes that for 0", figure(requests))
}

// complete adds an error for each configured probe that has no result.
func complete(configured []config.Probe, seen []ProbeResult) []ProbeResult {
	var all []ProbeResult
	all = append(all, seen...)
	for _, p := range configured {
		if !slices.ContainsFunc(seen, func(r ProbeResult) bool { return r.Name == p.Name }) {
			all = append(all, ProbeResult{Name: p.Name, Result: Errored, Reason: "was not made"})
		}
	}
	return all
}

// Number is a float64 that JSON can hold whatever its value: NaN and the
// infinities, which JSON has no number for, are text.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if v := float64(n); !finite(v) {
		return json.Marshal(strconv.FormatFloat(v, 'g', -1, 64))
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		var v *float64
		if err := json.Unmarshal(data, &v); err != nil || v == nil {
			return fmt.Errorf("value %s, expected a number, \"NaN\", \"+Inf\" or \"-Inf\"", data)
		}
		*n = Number(*v)
		return nil
	}
	switch text {
	case "NaN":
		*n = Number(math.NaN())
	case "+Inf":
		*n = Number(math.Inf(1))
	case "-Inf":
		*n = Number(math.Inf(-1))
	default:
		return fmt.Errorf("value %q, expected a number, \"NaN\", \"+Inf\" or \"-Inf\"", text)
	}
	return nil
}

type storedPoint struct {
	At    time.Time `json:"at"`
	Value Number    `json:"value"`
}

type plainSide Side

type storedSide struct {
	plainSide
	Points []storedPoint `json:"points,omitempty"` // instead of plainSide's
}

// MarshalJSON implements json.Marshaler, for values that JSON has no number for.
func (s Side) MarshalJSON() ([]byte, error) {
	stored := storedSide{plainSide: plainSide(s)}
	for _, p := range s.Points {
		stored.Points = append(stored.Points, storedPoint{p.At, Number(p.Value)})
	}
	return json.Marshal(stored)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Side) UnmarshalJSON(data []byte) error {
	var stored storedSide
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	*s = Side(stored.plainSide)
	for _, p := range stored.Points {
		s.Points = append(s.Points, metric.Point{At: p.At, Value: float64(p.Value)})
	}
	return nil
}

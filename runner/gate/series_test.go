package gate

import (
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers/metric"
	"github.com/manent/action/runner/config"
)

// bounded is a metric by ranks in a stage of fifteen minutes whose false
// alarms are bounded.
func bounded() (config.Health, Subject) {
	m := config.Metric{Name: "errors", Provider: "prometheus", Query: `errors{track="{track}"}`, Compare: "stable"}
	ranks(&m)
	bound := config.Percent(0.01)
	s := subject(false)
	s.Course, s.Now = Course{Bake: 15 * time.Minute, Stages: 1}, noon().Add(15*time.Minute)
	return config.Health{Metrics: []config.Metric{m}, FalseAlarm: &bound}, s
}

// A candidate with so few points that even a total failure is not significant
// may still get more during the bake. At its end it is no pass.
func TestBoundedAndOutOfReachAtTheEnd(t *testing.T) {
	h, s := bounded()
	few, many := from(11, 1, 1, 1, 1, 1), from(1, .01, .012, .009, .011, .01, .013, .008, .01, .012, .009, .01, .01, .01, .01, .01)
	for _, tt := range []struct {
		atEnd     bool
		candidate metric.Answer
		want      Result
		reason    string
	}{
		{false, few, Pass, "(means of 5 and 15 points): ratio 97."},
		{true, few, Inconclusive, "no difference between so few points can be significant at "},
		{true, from(2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), Fail, "(means of 14 and 15 points): ratio 97."},
		{true, many, Pass, "(means of 15 and 15 points): ratio 1, "},
	} {
		s.AtEnd = tt.atEnd
		got := Judge(h, s, Answers{"errors/candidate": tt.candidate, "errors/stable": many}, nil).Metrics[0]
		if got.Result != tt.want || !strings.Contains(got.Reason, tt.reason) {
			t.Errorf("at the end %v: %s, %s, expected %s with %q", tt.atEnd, got.Result, got.Reason, tt.want, tt.reason)
		}
	}
}

// As many points are planned as a bake gives, wherever in a step it begins.
func TestPlannedPointsCome(t *testing.T) {
	for _, tt := range []struct {
		name   string
		window func(string) time.Duration
		step   time.Duration
		want   [2]int // fewest and most
	}{
		{"values at an instant", func(string) time.Duration { return 0 }, time.Minute, [2]int{15, 16}},
		{"values of two minutes", func(string) time.Duration { return 2 * time.Minute }, time.Minute, [2]int{6, 7}},
		{"values of a step", nil, time.Minute, [2]int{14, 15}},
		{"values of a step, a short one", nil, 7 * time.Second, [2]int{127, 128}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, s := bounded()
			h.Metrics[0].Window, h.Metrics[0].Step = 0, config.Duration(tt.step)
			s.Systems = map[string]metric.Traits{"prometheus": {Window: tt.window, Escape: func(s string) string { return s }}}
			var got [2]int
			for offset := range 120 {
				s.InForce = noon().Add(time.Duration(offset) * time.Second)
				s.Now = s.InForce.Add(s.Course.Bake)
				questions, problems := Ask(h, s)
				if len(problems) > 0 || len(questions) != 1 {
					t.Fatal(questions, problems)
				}
				q := questions[0].Queries[0]
				first, last, err := metric.Align(q)
				if err != nil {
					t.Fatal(err)
				}
				come := int(last.Sub(first) / q.Step)
				if tt.window != nil {
					come++
				}
				if planned := frame(h.Metrics[0], h, s).Planned; planned != come {
					t.Errorf("%d points planned, %d come of a stage that begins at %s", planned, come, s.InForce)
				}
				if got[0] == 0 || come < got[0] {
					got[0] = come
				}
				got[1] = max(got[1], come)
			}
			if got != tt.want {
				t.Errorf("from %d to %d points come, expected %v", got[0], got[1], tt.want)
			}
		})
	}
}

// An approval may be given weeks after the share came in force. What is asked
// then is no more than metric systems answer: the newest of it, or where every
// point counts for what is promised, all of it more coarsely.
func TestSeriesOfWeeks(t *testing.T) {
	for _, tt := range []struct {
		name     string
		analysis string
		bake     time.Duration
		bound    bool
		want     int           // steps
		step     time.Duration // of the answer
	}{
		{"ranks", "mann-whitney", time.Hour, false, 2000, 15 * time.Second},
		{"ranks of a long bake", "mann-whitney", 20 * time.Hour, false, 4801, 15 * time.Second},
		{"ranks of a bake of weeks", "mann-whitney", 600 * time.Hour, false, 10000, 15 * time.Second},
		{"ranks with a bound", "mann-whitney", time.Hour, true, 1349, 32 * time.Minute},
		{"counts", "sequential", time.Hour, false, 1350, 32 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, s := bounded()
			m := &h.Metrics[0]
			m.Analysis, m.Step, m.SamplesQuery, h.FalseAlarm = tt.analysis, config.Duration(15*time.Second), `requests{track="{track}"}`, nil
			if tt.bound {
				bound := config.Percent(0.01)
				h.FalseAlarm = &bound
			}
			s.Course.Bake, s.Now = tt.bake, noon().Add(30*24*time.Hour)
			questions, problems := Ask(h, s)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			for _, q := range questions[0].Queries {
				if q.Step == 0 {
					continue
				}
				if got := int(q.To.Sub(q.From) / q.Step); got != tt.want || q.Step != tt.step || !q.To.Equal(s.Now) {
					t.Errorf("%s asks for %d steps of %s up to %s, expected %d of %s up to %s", q.ID, got, q.Step, q.To, tt.want, tt.step, s.Now)
				}
				if begin := s.InForce.Add(m.Window.Std()); tt.bound && !q.From.Equal(begin) {
					t.Errorf("%s begins at %s, expected the beginning of the series, %s", q.ID, q.From, begin)
				}
			}
		})
	}
}

// Where a value stands for its step there is nothing to ask before a whole
// step lies in the stage.
func TestAskForWholeSteps(t *testing.T) {
	h, s := bounded()
	h.Metrics[0].Window = 0
	for _, tt := range []struct {
		name    string
		window  func(string) time.Duration
		seconds int
		asked   bool
	}{
		{"half a step", nil, 30, false},
		{"a step", nil, 60, true},
		{"half a step of values at an instant", func(string) time.Duration { return 0 }, 30, true},
	} {
		s.Systems = map[string]metric.Traits{"prometheus": {Window: tt.window, Escape: func(s string) string { return s }}}
		s.Now = noon().Add(time.Duration(tt.seconds) * time.Second)
		if questions, problems := Ask(h, s); len(problems) > 0 || (len(questions) > 0) != tt.asked {
			t.Errorf("%s: asks %v, %v, expected to ask %v", tt.name, questions, problems, tt.asked)
		}
	}
}

package gate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers/metric"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

// quote escapes as PromQL does inside a quoted string.
func quote(s string) string { return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) }

func ofMinutes(m float64) config.Duration { return config.Duration(m * float64(time.Minute)) }

func asking() Subject {
	s := subject(false)
	s.Vars["wave"] = ""
	s.Tracks = map[state.Slot]string{state.SlotA: "rev-1", state.SlotB: `rev"2`}
	s.Systems = map[string]metric.Traits{
		"prometheus": {Delay: time.Minute, Escape: quote, Window: func(q string) time.Duration {
			if strings.Contains(q, "[5m]") {
				return 5 * time.Minute
			}
			return 0
		}},
		"elastic": {Escape: quote, Step: func(d time.Duration) string { return fmt.Sprintf("%.0f seconds", d.Seconds()) }},
	}
	return s
}

func TestAskBothSidesAtOneInstant(t *testing.T) {
	h := config.Health{
		Metrics: []config.Metric{
			{Name: "errors", Provider: "prometheus", Compare: "stable", Query: `e{app="{application}",track="{track}"}[5m]`, SamplesQuery: `n{track="{track}"}`},
			{Name: "logs", Provider: "elastic", Query: `FROM x | WHERE v == "{version}" {start} {end} {step}`, Delay: ofMinutes(2)},
			{Name: "p99/max", Provider: "prometheus", Query: "p99[5m]", Window: ofMinutes(2)},
		},
		Alarms: []config.Alarm{{Name: "a", Provider: "cloudwatch", Alarm: "shop-p99"}},
	}
	got, problems := Ask(h, asking())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	q := func(id, text string, track state.Slot, from, to float64) metric.Query {
		return metric.Query{ID: id, Text: text, Track: track, From: minute(from), To: minute(to)}
	}
	want := []Question{
		{Provider: "prometheus", Queries: []metric.Query{
			q("errors/candidate", `e{app="shop",track="rev\"2"}[5m]`, state.SlotB, 4, 9),
			q("errors/stable", `e{app="shop",track="rev-1"}[5m]`, state.SlotA, 4, 9),
			q("errors/samples/candidate", `n{track="rev\"2"}`, state.SlotB, 0, 9),
			q("errors/samples/stable", `n{track="rev-1"}`, state.SlotA, 0, 9),
			q("p99%2Fmax/candidate", "p99[5m]", state.SlotB, 7, 9),
		}},
		{Provider: "elastic", Queries: []metric.Query{
			q("logs/candidate", `FROM x | WHERE v == "1.1.0" 2026-11-30T12:00:00Z 2026-11-30T12:08:00Z 480 seconds`, state.SlotB, 0, 8),
		}},
		{Provider: "cloudwatch", Alarms: []string{"shop-p99"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAskWindows(t *testing.T) {
	tests := []struct {
		name     string
		metric   config.Metric
		now      float64
		from, to float64 // -1: not asked
		step     time.Duration
	}{
		{"time in the stage", config.Metric{Query: "q"}, 3, 0, 2, 0},
		{"time in the stage, at most the lookback", config.Metric{Query: "q", Lookback: ofMinutes(1)}, 10, 8, 9, 0},
		{"lookback longer than the stage", config.Metric{Query: "q", Lookback: ofMinutes(60)}, 10, 0, 9, 0},
		{"window of the query", config.Metric{Query: "q[5m]"}, 10, 4, 9, 0},
		{"window given", config.Metric{Query: "q[5m]", Window: ofMinutes(1)}, 10, 8, 9, 0},
		{"window just in the stage", config.Metric{Query: "q[5m]"}, 6, 0, 5, 0},
		{"window from before the stage", config.Metric{Query: "q[5m]"}, 5.9, -1, -1, 0},
		{"delay given", config.Metric{Query: "q", Delay: ofMinutes(3)}, 10, 0, 7, 0},
		{"nothing old enough", config.Metric{Query: "q"}, 1, -1, -1, 0},
		{"series", config.Metric{Query: "q", Analysis: "mann-whitney", Step: ofMinutes(0.25)}, 10, 0, 9, 15 * time.Second},
		{"series of ranges", config.Metric{Query: "q[5m]", Analysis: "mann-whitney", Step: ofMinutes(0.25)}, 10, 5, 9, 15 * time.Second},
		{"series of ranges, lookback", config.Metric{Query: "q[5m]", Analysis: "mann-whitney", Step: ofMinutes(0.25), Lookback: ofMinutes(2)}, 10, 7, 9, 15 * time.Second},
		{"series of ranges, none in the stage", config.Metric{Query: "q[5m]", Analysis: "mann-whitney", Step: ofMinutes(0.25)}, 5, -1, -1, 15 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := asking()
			s.Now = minute(tt.now)
			tt.metric.Name, tt.metric.Provider = "m", "prometheus"
			questions, problems := Ask(config.Health{Metrics: []config.Metric{tt.metric}}, s)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if tt.from < 0 {
				if len(questions) > 0 {
					t.Fatalf("asked %v", questions)
				}
				if r := Judge(config.Health{Metrics: []config.Metric{tt.metric}}, s, nil, nil); tt.metric.Analysis == "" && r.Metrics[0].Result != Inconclusive {
					t.Errorf("not asked, and %s", r.Metrics[0].Result)
				}
				return
			}
			q := questions[0].Queries[0]
			if !q.From.Equal(minute(tt.from)) || !q.To.Equal(minute(tt.to)) || q.Step != tt.step {
				t.Errorf("from %s to %s step %s, want %s, %s, %s", q.From, q.To, q.Step, minute(tt.from), minute(tt.to), tt.step)
			}
		})
	}
}

// A reading at the very end of a bake has to find a window of the bake's own
// length in it, whatever the fraction of a second.
func TestAskWindowOfTheWholeBake(t *testing.T) {
	s := asking()
	s.InForce = noon().Add(123_456_789)
	s.Now = s.InForce.Add(6 * time.Minute)
	questions, _ := Ask(config.Health{Metrics: []config.Metric{{Name: "m", Provider: "prometheus", Query: "q[5m]"}}}, s)
	if len(questions) != 1 {
		t.Fatal("not asked")
	}
}

func TestAskSkips(t *testing.T) {
	compared := config.Metric{Name: "c", Provider: "prometheus", Query: "{track}", Compare: "stable"}
	absolute := config.Metric{Name: "a", Provider: "prometheus", Query: "{track}"}
	h := config.Health{Metrics: []config.Metric{compared, absolute}, Alarms: []config.Alarm{{Name: "x", Provider: "cloudwatch", Alarm: "x"}}}
	tests := []struct {
		name  string
		share float64
		first bool
		want  string
	}{
		{"in between", 10, false, "c/candidate c/stable a/candidate x"},
		{"at 100 %", 100, false, "a/candidate x"},
		{"first release", 100, true, "a/candidate x"},
		{"first release, whatever the share", 50, true, "a/candidate x"},
		{"at 0 %", 0, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := asking()
			s.Share, s.First = tt.share, tt.first
			questions, problems := Ask(h, s)
			var asked []string
			for _, q := range questions {
				for _, query := range q.Queries {
					asked = append(asked, query.ID)
				}
				asked = append(asked, q.Alarms...)
			}
			if got := strings.Join(asked, " "); got != tt.want || len(problems) > 0 {
				t.Errorf("asked %q, want %q; problems %v", got, tt.want, problems)
			}
		})
	}
}

func TestAskProblems(t *testing.T) {
	tests := []struct {
		name    string
		query   string
		change  func(*Subject, *config.Metric)
		problem string
	}{
		{"placeholder without a value", "{host}", func(*Subject, *config.Metric) {}, "{host} has no value"},
		{"unknown system", "q", func(_ *Subject, m *config.Metric) { m.Provider = "graphite" }, `"graphite" is not known`},
		{"compared with itself", "q", func(_ *Subject, m *config.Metric) { m.Compare = "stable" }, "expected {track}"},
		{"requests of both", "{track}", func(_ *Subject, m *config.Metric) { m.Compare, m.SamplesQuery = "stable", "n" }, "stable's requests: the same query"},
		{"no slot", "q", func(s *Subject, _ *config.Metric) { s.Candidate = "" }, "expected a or b"},
		{"no way to escape", "{version}", func(s *Subject, _ *config.Metric) {
			s.Vars["version"], s.Systems = `1"`, map[string]metric.Traits{"prometheus": {}}
		}, "cannot escape"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, limit := asking(), 1.0
			m := config.Metric{Name: "m", Provider: "prometheus", Query: tt.query, Max: &limit}
			tt.change(&s, &m)
			h := config.Health{Metrics: []config.Metric{m}}
			questions, problems := Ask(h, s)
			if len(problems) != 1 || !strings.Contains(problems[0].Error(), tt.problem) {
				t.Fatalf("problems %v, questions %v; want %q", problems, questions, tt.problem)
			}
			if r := Judge(h, s, Answers{"m/candidate": is(0)}, nil); r.Metrics[0].Result != Errored {
				t.Errorf("%s, want error", r.Metrics[0].Result)
			}
		})
	}
}

// A system that has tracks of its own needs none in the query.
func TestOwnTracks(t *testing.T) {
	s := asking()
	s.Systems = map[string]metric.Traits{"accesslog": {OwnTracks: true}}
	h := config.Health{Metrics: []config.Metric{{Name: "m", Provider: "accesslog", Query: "errors", Compare: "stable", MaxDelta: ptr(0.0)}}}
	questions, problems := Ask(h, s)
	if len(problems) > 0 || len(questions[0].Queries) != 2 {
		t.Fatalf("%v, problems %v", questions, problems)
	}
	answer := is(0)
	answer.Resolved = "errors of that slot"
	if r := Judge(h, s, Answers{"m/candidate": answer, "m/stable": answer}, nil); r.Verdict != Green || r.Metrics[0].Stable.Query != answer.Resolved {
		t.Errorf("%s: %s", r.Verdict, r.Reason)
	}
}

func TestExpand(t *testing.T) {
	s := asking()
	s.Vars["version"] = `{track}`
	side := &Side{From: minute(0), To: minute(1)}
	tests := []struct{ query, want string }{
		{`up{a="{application}"}`, `up{a="shop"}`},
		{`avg:x{service:{application},track:{track}}`, `avg:x{service:shop,track:rev\"2}`},
		{`{version}`, `{track}`}, // a value is not looked into
		{`sum:x{prod} by {region}`, `sum:x{prod} by {region}`},
		{`x{job=~"a{2}"}`, `x{job=~"a{2}"}`},
		{`{step}`, `1m`},
		{`w="{wave}"`, `w=""`},
	}
	for _, tt := range tests {
		got, err := expand(tt.query, s.values(false, side, s.Systems["prometheus"]), quote)
		if err != nil || got != tt.want {
			t.Errorf("%s: %s, %v; want %s", tt.query, got, err, tt.want)
		}
	}
}

func TestDelayAndNeeds(t *testing.T) {
	h := config.Health{Metrics: []config.Metric{
		{Name: "slow", Provider: "prometheus", Query: "q[5m]", Compare: "stable", Delay: ofMinutes(4)},
		{Name: "fast", Provider: "elastic", Query: "q", SamplesQuery: "n", Window: ofMinutes(2)},
	}}
	s := asking()
	bake, name := Needs(h, s)
	if got := LargestDelay(h, s); got != 4*time.Minute || bake != 5*time.Minute || name != "slow" {
		t.Errorf("delay %s, needs %s for %s", got, bake, name)
	}
	s.Share = 100
	bake, name = Needs(h, s)
	if got := LargestDelay(h, s); got != 0 || bake != 2*time.Minute || name != "fast" {
		t.Errorf("at 100 %%: delay %s, needs %s for %s", got, bake, name)
	}
}

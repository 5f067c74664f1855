package report

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/manent/action/providers/metric"
	"github.com/manent/action/runner/gate"
	"github.com/manent/action/state"
)

func same(text string) string { return text }

// seenIn is a stored reading whose texts are those of the deciding one, nil
// where none decided.
func seenIn(doc *state.Document) *gate.Record {
	_, last := Deciding(doc.Rollout)
	if last == nil {
		return nil
	}
	text := last.Reason
	side := func(v ...float64) *gate.Side {
		s := &gate.Side{}
		for i := range v {
			s.Points = append(s.Points, metric.Point{At: at(i), Value: v[i]})
		}
		return s
	}
	return &gate.Record{
		Metrics: []gate.MetricResult{
			{Name: "latency", Result: gate.Pass, Rule: "maxRatio 1.5", Reason: "candidate 0.21, stable 0.2", Candidate: side(0.20, 0.22), Stable: side(0.2)},
			{Name: text, Result: gate.Fail, Rule: text, Reason: text, Candidate: side(0.2), Stable: side(0)},
			{Name: "silent", Result: gate.Errored, Reason: "no answer", Candidate: &gate.Side{}},
		},
		Probes: []gate.ProbeResult{{Name: text, Result: gate.Pass, Reason: text}},
		Alarms: []gate.AlarmResult{{Name: text, Result: gate.Result(text), Reason: text}},
	}
}

// summaryOf is the summary ten minutes after the rollout began.
func summaryOf(doc *state.Document) string {
	next := Next{Do: "wait", Step: "gate@traffic@25", Until: at(8), Reason: "next reading", Commands: Commands(doc, "wait")}
	return Summary(Status{Document: doc, Next: next}, seenIn(doc), at(10), same)
}

func TestSummary(t *testing.T) {
	docs := documents()
	docs["hostile"] = filled("a|b`c`<img src=x onerror=alert(1)>\n\n# head\n| x | y |\n&amp; [l](javascript:x) **b** \u202e@all ::error::x \\")
	failed := documents()["returning"]
	failed.Rollout.Stages[1].Status = state.StageFailed
	failed.Rollout.Failure.Remedy = "look at `manent status`, then `manent retry`"
	docs["failed"] = failed
	for name, doc := range docs {
		t.Run(name, func(t *testing.T) {
			golden(t, "summary-"+name+".md", summaryOf(doc))
		})
	}
}

// asked is the rolling document while approval@25 is open.
func asked() *state.Document {
	d := rolling()
	d.Rollout.Status = state.Waiting
	d.Rollout.Pause = &state.Pause{ID: "approval@25.2", Kind: state.PauseApproval, Step: "approval@25", Since: at(8), Until: at(60), Reason: "approval approval@25 is asked for"}
	return d
}

// TestSummaryOfAnApproval: what to press on the platform comes before the
// commands; after a yes nobody is waited for any more, and nothing expires.
func TestSummaryOfAnApproval(t *testing.T) {
	ways := []Way{{"press Review deployments, to approve or to reject,", "https://ci.example.com/17"}, {"do_it", ""}, {"no <page>", "javascript:x"}}
	d := asked()
	next := Next{Do: "ask", Until: at(60), Reason: "approval approval@25 is asked for", Ways: ways, Commands: Commands(d, "ask")}
	golden(t, "summary-asked.md", Summary(Status{Document: d, Next: next}, nil, at(10), same))
	yes := state.Decision{Verb: "approve", Pause: "approval@25.2", Attempt: d.Rollout.Attempt, Who: "a|b", At: at(9)}
	for name, row := range map[string]struct {
		change func(*state.Decision)
		also   string // another decision's verb
		given  bool
	}{
		"yes":                    {func(*state.Decision) {}, "", true},
		"yes, acted on":          {func(d *state.Decision) { d.Applied = true }, "", false},
		"yes to another pause":   {func(d *state.Decision) { d.Pause = "approval@25.1" }, "", false},
		"yes of another attempt": {func(d *state.Decision) { d.Attempt++ }, "", false},
		"yes to other weights":   {func(d *state.Decision) { d.Seen = "0f3a" }, "", false},
		"no":                     {func(d *state.Decision) { d.Verb = "reject" }, "", false},
		"yes and no":             {func(*state.Decision) {}, "revert", false},
	} {
		d, said := asked(), yes
		row.change(&said)
		d.Rollout.Decisions = append(d.Rollout.Decisions, said)
		if row.also != "" {
			d.Rollout.Decisions = append(d.Rollout.Decisions, state.Decision{Verb: row.also, Attempt: yes.Attempt, Who: "eve"})
		}
		for _, shown := range []string{summaryOf(d), StatusText(Status{Document: d})} {
			if strings.Contains(shown, "counts as rejected") == row.given || strings.Contains(shown, "goes on") != row.given {
				t.Errorf("%s, expected it as given: %t\n%s", name, row.given, shown)
			}
		}
		if row.given {
			golden(t, "summary-approved.md", summaryOf(d))
			golden(t, "status-approved.txt", StatusText(Status{Document: d}))
		}
	}
}

// filled is a document with one text wherever a text can be.
func filled(text string) *state.Document {
	d := rolling()
	r := d.Rollout
	d.Key = "shop/" + text + "/" + text
	r.ID, r.Version, r.Status, r.Superseded = text, text, state.Returning, text
	r.Owner = state.RunRef{Platform: text, Repository: text, Run: text, Actor: text, URL: "https://ci.example.com/" + text}
	r.Failure = &state.Failure{Step: text, Reason: text, Remedy: text}
	r.Return = &state.Return{Reason: text, Pending: []string{text}}
	r.Pause = &state.Pause{ID: text, Step: text, Reason: text, Seen: text}
	for i := range r.Stages {
		st := &r.Stages[i]
		st.Name, st.Status = text, state.StageFailed
		for k := range st.Readings {
			st.Readings[k].Reason, st.Readings[k].Verdict = text, "red"
		}
	}
	r.Decisions = []state.Decision{{Verb: text, Pause: text, Who: text, From: text, Reason: text}}
	return d
}

// FuzzSummary: whatever a document holds, the summary has the rows, the cells
// and the lines that it has with harmless text, no tag, and is short enough.
func FuzzSummary(f *testing.F) {
	for _, text := range []string{"", "|", "<b>", "`|`", "a\nb\r| c", "\\|", "``` \n", "&lt;", "\xff\xfe|", "\u2028|\u202e", strings.Repeat("<|", 9000)} {
		f.Add(text)
	}
	shape := func(text string) string {
		return fmt.Sprint(strings.Count(text, "\n"), strings.Count(text, "|"), strings.Count(text, "<"), strings.Count(text, ">"))
	}
	want := shape(summaryOf(filled("x")))
	f.Fuzz(func(t *testing.T, text string) {
		got := summaryOf(filled(text))
		if text != "" && shape(got) != want && plain(text) != "" {
			t.Errorf("lines, bars and angles are %s, expected %s:\n%s", shape(got), want, got)
		}
		if len(got) > SummaryLimit || !utf8.ValidString(got) {
			t.Errorf("%d bytes, expected at most %d of UTF-8", len(got), SummaryLimit)
		}
	})
}

// A summary that is too long ends after a whole row, says so, and has still
// what comes first: how it stands and what is next.
func TestSummaryLimit(t *testing.T) {
	d := rolling()
	for range 3000 {
		d.Rollout.Stages = append(d.Rollout.Stages, d.Rollout.Stages[1])
	}
	got := summaryOf(d)
	rows, cut := strings.CutSuffix(got, cutNotice)
	if len(got) > SummaryLimit || len(got) < SummaryLimit-1000 || !cut || !strings.HasSuffix(rows, " |\n") {
		t.Errorf("%d bytes that end in %q", len(got), got[len(got)-200:])
	}
	if !strings.Contains(got, "`manent revert --version 2.0`") {
		t.Error("what is next was cut away")
	}
	for n := range 300 {
		lines := []string{strings.Repeat("a", SummaryLimit-200+n), "b"}
		if got := cutSummary(lines); len(got) > SummaryLimit {
			t.Fatalf("%d bytes, expected at most %d", len(got), SummaryLimit)
		}
	}
	if got := cutSummary([]string{strings.Repeat("a", SummaryLimit-1)}); len(got) != SummaryLimit || strings.Contains(got, "Cut here") {
		t.Errorf("a summary that fits was cut: %d bytes", len(got))
	}
}

// A secret is taken out before a text is cut or escaped, since it would not
// be found any more after that.
func TestSummarySecrets(t *testing.T) {
	const secret = "hunter_2*<|"
	d := filled(strings.Repeat("y", mostCell-5) + secret)
	clean := func(text string) string { return strings.ReplaceAll(text, secret, "[redacted]") }
	got := Summary(Status{Document: d}, seenIn(d), at(10), clean)
	if strings.Contains(got, "hunter") || !strings.Contains(got, "yyy") {
		t.Errorf("the secret is there:\n%s", got)
	}
}

func TestSparkline(t *testing.T) {
	var all []state.Reading
	for _, v := range []float64{-5, 0, 12.4, 12.5, 50, 99, 100, 1e9} {
		all = append(all, state.Reading{Verdict: "green", Score: scored(v)})
	}
	for _, v := range []string{"green", "red", "error", "thin", "void", "ungated", "<"} {
		all = append(all, state.Reading{Verdict: v})
	}
	if got, want := sparkline(all), "▁▁▁▂▅███🟩🟥🟧⬜⬜⬜⬜"; got != want {
		t.Errorf("got %s, expected %s", got, want)
	}
	many := append(make([]state.Reading, 30), state.Reading{Verdict: "red"})
	if got := sparkline(many); utf8.RuneCountInString(got) != state.ReadingLimit || !strings.HasSuffix(got, "🟥") {
		t.Errorf("got %s, expected the newest %d", got, state.ReadingLimit)
	}
}

func TestLink(t *testing.T) {
	for address, want := range map[string]string{
		"https://ci.example.com/17":             "[run](https://ci.example.com/17)",
		"http://h/?a=1&b=2":                     "[run](http://h/?a=1&#38;b=2)",
		"":                                      "run",
		"javascript:alert(1)":                   "run",
		"https://user:pass@ci.example.com":      "run",
		"https://h/a)b":                         "run",
		"https://h/a|b":                         "run",
		"https://h/a b":                         "run",
		"https://h/?ä":                          "run",
		"//h/a":                                 "run",
		"https://h/" + strings.Repeat("a", 500): "run",
	} {
		if got := link("run", address); got != want {
			t.Errorf("got %s for %s, expected %s", got, address, want)
		}
	}
}

package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/manent/action/runner/gate"
	"github.com/manent/action/state"
)

// SummaryLimit is the most bytes of a summary. GitHub shows a MiB of a step;
// the log of a GitLab job ends at 4 MiB.
const SummaryLimit = 64 << 10

// The most characters of a value in a summary.
const (
	mostName   = 120
	mostCell   = 200  // a reason in the table
	mostReason = 1500 // what decided
	mostSteps  = 400  // a command
)

const cutNotice = "\n*Cut here: a summary has at most 64 KiB. `manent status` shows the rest.*\n"

// Summary shows the current or the last rollout as Markdown: for a person who
// opens a pipeline's run, what it came to first. Reasons hold text of metric
// systems and of users, so that no value has a meaning to Markdown or HTML.
// seen is the reading that decided (Deciding) as stored, nil for none. clean
// takes the secrets out of a value, before it is cut or escaped.
func Summary(s Status, seen *gate.Record, now time.Time, clean func(string) string) string {
	m := summary{clean: clean, now: now, seen: seen}
	r := s.Rollout
	m.head(s.Key, r)
	if r != nil {
		m.failure(r)
		m.question(r)
	}
	m.next(s.Next)
	if r != nil {
		m.decided(r)
		m.stages(r)
		m.decisions(r)
	}
	return cutSummary(m.lines)
}

// summary collects lines.
type summary struct {
	clean func(string) string
	now   time.Time
	seen  *gate.Record
	lines []string
}

func (m *summary) add(format string, args ...any) {
	m.lines = append(m.lines, fmt.Sprintf(format, args...))
}

func (m *summary) text(value string, most int) string { return marked(m.clean(value), most) }
func (m *summary) code(value string, most int) string { return code(m.clean(value), most) }

// words is a text in which manent itself sets commands between backticks.
func (m *summary) words(value string, most int) string {
	parts := strings.Split(cutRunes(plain(m.clean(value)), most), "`")
	for i, part := range parts {
		if i%2 == 1 && len(parts)%2 == 1 {
			parts[i] = code(part, most)
		} else {
			parts[i] = escaped(part)
		}
	}
	if len(parts)%2 == 0 {
		return strings.Join(parts, "\\`") // one is without its end
	}
	return strings.Join(parts, "")
}

// head says what and where, how it stands and which run does it.
func (m *summary) head(key string, r *state.Rollout) {
	parts := strings.Split(key, "/")
	what := m.text(key, mostName)
	if len(parts) == 3 {
		what = m.text(parts[1], mostName) + " in " + m.text(parts[2], mostName)
	}
	if r == nil {
		m.add("## %s: no rollout yet", what)
		return
	}
	m.add("## %s: version %s is %s", what, m.text(r.Version, mostName), m.text(string(r.Status), mostName))
	m.add("")
	line := fmt.Sprintf("Rollout %s, attempt %d, of %s, began %s", m.code(r.ID, mostName), r.Attempt,
		link(m.text(owner(r.Owner), mostName), m.clean(r.Owner.URL)), stamp(r.Started))
	if !r.Ended.IsZero() {
		line += ", ended " + stamp(r.Ended)
	}
	m.add("%s.", line)
	if r.Superseded != "" {
		m.add("Version %s took its place.", m.text(r.Superseded, mostName))
	}
	if r.Passed != "" {
		m.add("Superseded: %s of its workflow, which began nothing here and cannot any more.", m.text(r.Passed, mostName))
	}
}

// failure is what went wrong and what decided: the reason names the metric
// and both sides.
func (m *summary) failure(r *state.Rollout) {
	if f := r.Failure; f != nil {
		m.add("")
		m.add("**Failed at** %s: %s", m.code(dash(f.Step), mostName), m.text(f.Reason, mostReason))
		if f.Remedy != "" {
			m.add("")
			m.add("Hint: %s", m.words(f.Remedy, mostReason))
		}
	} else if ret := r.Return; ret != nil && ret.Reason != "" {
		m.add("")
		m.add("**Returned:** %s", m.text(ret.Reason, mostReason))
	}
	if ret := r.Return; ret != nil && r.Status == state.Returning && len(ret.Pending) > 0 {
		m.add("")
		for _, p := range ret.Pending {
			m.add("- not back yet: %s", m.text(p, mostCell))
		}
	}
}

// question is what a person is asked; next has the commands that answer.
func (m *summary) question(r *state.Rollout) {
	p := r.Pause
	if p == nil {
		return
	}
	if by := approved(r); by != nil {
		m.add("")
		m.add("**Approved** at %s by %s at %s: who drives the rollout goes on", m.code(p.Step, mostName), m.text(by.Who, mostName), stamp(by.At))
		return
	}
	line := fmt.Sprintf("**Waiting for a person** at %s since %s: %s", m.code(p.Step, mostName), stamp(p.Since), m.text(p.Reason, mostReason))
	if !p.Until.IsZero() {
		line += "; counts as rejected at " + stamp(p.Until)
	}
	m.add("")
	m.add("%s", line)
}

// next says what comes next and the commands that go on from here.
func (m *summary) next(n Next) {
	if n.Do == "" {
		return
	}
	line := "**Next:** " + m.text(n.Do, mostName)
	if n.Step != "" {
		line += " " + m.code(n.Step, mostName)
	}
	if !n.Until.IsZero() {
		line += " until " + stamp(n.Until)
	}
	if n.Reason != "" {
		line += ": " + m.text(n.Reason, mostReason)
	}
	m.add("")
	m.add("%s", line)
	if len(n.Ways)+len(n.Commands) > 0 {
		m.add("")
	}
	for _, w := range n.Ways {
		m.add("- %s", link(m.text(strings.TrimSuffix(w.Do, ","), mostSteps), m.clean(w.At)))
	}
	for _, c := range n.Commands {
		m.add("- %s", m.code(c, mostSteps))
	}
}

func (m *summary) stages(r *state.Rollout) {
	if len(r.Stages) == 0 {
		return
	}
	m.add("")
	m.add("%s", row("Stage", "Share", "Watched", "Status", "Score", "Readings", "Course", "Last reading"))
	m.add("%s", row("---", "---", "---", "---", "---", "---", "---", "---"))
	for _, st := range r.Stages {
		m.add("%s", row(m.text(st.Name, mostName), stageShare(st), watched(st, r, m.now), m.text(st.Status, mostName),
			score(st.Score), readings(st), sparkline(st.Readings), m.text(lastReading(st), mostCell)))
	}
}

// watched is for how long a stage's share was in force, until it ended.
func watched(st state.Stage, r *state.Rollout, now time.Time) string {
	end := st.Ended
	if end.IsZero() {
		end = r.Ended
	}
	if end.IsZero() {
		end = now
	}
	if st.InForce.IsZero() || end.Before(st.InForce) {
		return "–"
	}
	return end.Sub(st.InForce).Round(time.Second).String()
}

// sparkline is one character for each of the newest readings: a bar for a
// score, else a square in the colour of the verdict.
func sparkline(all []state.Reading) string {
	const bars = "▁▂▃▄▅▆▇█"
	if len(all) == 0 {
		return "–"
	}
	var b strings.Builder
	for _, r := range all[max(0, len(all)-state.ReadingLimit):] {
		switch {
		case r.Score != nil && !math.IsNaN(*r.Score):
			at := int(min(max(*r.Score, 0), 99.9) * 8 / 100)
			b.WriteRune([]rune(bars)[at])
		case r.Verdict == "green":
			b.WriteString("🟩")
		case r.Verdict == "red":
			b.WriteString("🟥")
		case r.Verdict == "error":
			b.WriteString("🟧")
		default: // thin, void, ungated: nothing was seen
			b.WriteString("⬜")
		}
	}
	return b.String()
}

// decisions are who said what, and when.
func (m *summary) decisions(r *state.Rollout) {
	if len(r.Decisions) == 0 {
		return
	}
	m.add("")
	m.add("%s", row("Decision", "Of", "By", "At", "From", "Why"))
	m.add("%s", row("---", "---", "---", "---", "---", "---"))
	for _, d := range r.Decisions {
		from := m.text(dash(d.From), mostName)
		if linked := link("run", m.clean(d.From)); linked != "run" {
			from = linked
		}
		m.add("%s", row(m.text(d.Verb, mostName), m.code(dash(d.Pause), mostName), m.text(dash(d.Who), mostName),
			stamp(d.At), from, m.text(dash(d.Reason), mostCell)))
	}
}

// cutSummary keeps the first whole lines that fit, with a notice of the rest.
func cutSummary(lines []string) string {
	var b strings.Builder
	for i, line := range lines {
		room := SummaryLimit - b.Len() - len(line) - 1
		if room < len(cutNotice) && (i < len(lines)-1 || room < 0) {
			return b.String() + cutNotice
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

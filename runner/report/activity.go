package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/state"
)

// Event is one thing that happened, see Activity.
type Event struct {
	At   time.Time `json:"at"`             // when it ended, or began if it has no end yet
	Kind string    `json:"kind"`           // rollout, step, reading, decision, pause, return, retirement, past
	What string    `json:"what"`           // the step, the reading, the verb …
	How  string    `json:"how,omitempty"`  // done, green, running …
	Text string    `json:"text,omitempty"` // what was read, decided and why
}

// Activity lists what the document knows of what happened, oldest first: the
// ended rollouts, then the steps, readings and decisions of the current one.
func Activity(d *state.Document) []Event {
	var events []Event
	for _, p := range d.History {
		events = append(events, past(p)...)
	}
	if r := d.Rollout; r != nil {
		events = append(events, current(r)...)
	}
	slices.SortStableFunc(events, func(a, b Event) int { return a.At.Compare(b.At) })
	return events
}

func past(p state.Past) []Event {
	text := fmt.Sprintf("attempt %d, of %s", p.Attempt, owner(p.Owner))
	if p.Replaced != "" {
		text += ", after version " + p.Replaced
	}
	if p.Reason != "" {
		text += ": " + oneLine(p.Reason)
	}
	return []Event{{At: p.Ended, Kind: "past", What: "version " + p.Version, How: string(p.Status), Text: text}}
}

func current(r *state.Rollout) []Event {
	text := fmt.Sprintf("rollout %s, attempt %d, of %s", r.ID, r.Attempt, owner(r.Owner))
	if r.Passed != "" {
		text += "; superseded: " + oneLine(r.Passed)
	}
	events := []Event{{At: r.Started, Kind: "rollout", What: "version " + r.Version, How: "began", Text: text}}
	for _, s := range r.Steps {
		events = append(events, step(s))
	}
	for _, st := range r.Stages {
		events = append(events, stage(st)...)
	}
	for _, dec := range r.Decisions {
		events = append(events, decision(dec))
	}
	if p := r.Pause; p != nil {
		events = append(events, Event{At: p.Since, Kind: "pause", What: p.Step, How: p.Kind, Text: oneLine(p.Reason)})
	}
	if ret := r.Return; ret != nil {
		events = append(events, Event{At: ret.Since, Kind: "return", What: "all traffic back to stable", How: "began", Text: oneLine(ret.Reason)})
	}
	if !r.Ended.IsZero() {
		text := ""
		if r.Failure != nil {
			text = oneLine(r.Failure.Reason)
		}
		events = append(events, Event{At: r.Ended, Kind: "rollout", What: "version " + r.Version, How: string(r.Status), Text: text})
	}
	return events
}

func step(s state.Step) Event {
	at, text := s.Ended, oneLine(s.Message)
	if at.IsZero() {
		at = s.Began
	}
	if s.Tries > 1 {
		text = strings.TrimPrefix(fmt.Sprintf("%s (entered %d times)", text, s.Tries), " ")
	}
	return Event{At: at, Kind: "step", What: s.Name, How: string(s.State), Text: text}
}

func stage(st state.Stage) []Event {
	var events []Event
	for _, r := range st.Readings {
		text := oneLine(r.Reason)
		if r.Score != nil {
			text = strings.TrimSuffix(fmt.Sprintf("score %s: %s", number(*r.Score), text), ": ")
		}
		events = append(events, Event{At: r.At, Kind: "reading", What: fmt.Sprintf("%s #%d", st.Name, r.N), How: r.Verdict, Text: text})
	}
	return events
}

func decision(d state.Decision) Event {
	what := d.Verb
	if d.Pause != "" {
		what += " " + d.Pause
	}
	how := "noted"
	if d.Applied {
		how = "applied"
	}
	text := "by " + dash(d.Who)
	if d.From != "" {
		text += " from " + d.From
	}
	if d.Reason != "" {
		text += ": " + oneLine(d.Reason)
	}
	return Event{At: d.At, Kind: "decision", What: what, How: how, Text: text}
}

// ActivityText is Activity for a person, newest last.
func ActivityText(events []Event) string {
	if len(events) == 0 {
		return "nothing has happened yet\n"
	}
	var b strings.Builder
	rows := make([][]string, 0, len(events))
	for _, e := range events {
		rows = append(rows, []string{stamp(e.At), e.Kind, e.What, e.How, e.Text})
	}
	table(&b, rows)
	return trim(b.String())
}

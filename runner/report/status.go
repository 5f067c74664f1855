package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/state"
)

// Next is what comes next, as the engine says it.
type Next struct {
	Do       string    `json:"do"`                 // step, wait, ask, return, complete, nothing
	Step     string    `json:"step,omitempty"`     // of the plan, or traffic:revert
	Until    time.Time `json:"until,omitzero"`     // not before, or when an approval expires
	Reason   string    `json:"reason,omitempty"`   // why
	Commands []string  `json:"commands,omitempty"` // that go on from here
	Ways     []Way     `json:"-"`                  // what people do in place of them on the pipeline's platform
}

// Way is one thing that a person can do on a platform, and the page for it, ""
// for unknown.
type Way struct{ Do, At string }

// Status is the document of `manent status --json`: the state document itself
// and what is next.
type Status struct {
	*state.Document
	Next Next `json:"next"`
}

// StatusText is Status for a person.
func StatusText(s Status) string {
	var b strings.Builder
	d := s.Document
	if d.Rollout == nil {
		fmt.Fprintf(&b, "%s: no rollout yet\n", d.Key)
	} else {
		rolloutHead(&b, d.Key, d.Rollout)
	}
	for _, p := range d.Passes {
		passText(&b, p)
	}
	if d.Rollout != nil {
		stagesText(&b, d.Rollout.Stages)
		questionText(&b, d.Rollout)
	}
	retirements(&b, d.Passes)
	if l := d.Lease; l != nil {
		fmt.Fprintf(&b, "\nlease: process %d on %s, %s, at %s, since %s\n", l.PID, l.Host, owner(l.Owner), dash(l.Step), stamp(l.Since))
	}
	nextText(&b, s.Next)
	return trim(b.String())
}

func rolloutHead(b *strings.Builder, key string, r *state.Rollout) {
	fmt.Fprintf(b, "%s: version %s is %s\n", key, r.Version, r.Status)
	fmt.Fprintf(b, "rollout %s, attempt %d, of %s, began %s", r.ID, r.Attempt, owner(r.Owner), stamp(r.Started))
	if !r.Ended.IsZero() {
		fmt.Fprintf(b, ", ended %s", stamp(r.Ended))
	}
	b.WriteString("\n")
	if r.Owner.URL != "" {
		fmt.Fprintf(b, "pipeline: %s\n", r.Owner.URL)
	}
	if r.First {
		b.WriteString("first release: there is no version to return to\n")
	}
	if f := r.Failure; f != nil {
		if f.Step == "" {
			fmt.Fprintf(b, "ended: %s\n", f.Reason)
		} else {
			fmt.Fprintf(b, "failed at %s: %s\n", f.Step, f.Reason)
		}
		if f.Remedy != "" {
			fmt.Fprintf(b, "hint: %s\n", f.Remedy)
		}
	}
	if ret := r.Return; ret != nil && r.Status == state.Returning {
		fmt.Fprintf(b, "returning since %s, %d tries: %s\n", stamp(ret.Since), ret.Tries, ret.Reason)
		for _, p := range ret.Pending {
			fmt.Fprintf(b, "  not back yet: %s\n", p)
		}
	}
}

// passText shows who serves and what is in the slots.
func passText(b *strings.Builder, p state.Pass) {
	b.WriteString("\n")
	if p.Name != "" {
		fmt.Fprintf(b, "pass %s\n", p.Name)
	}
	rows := [][]string{{"slot", "version", "share", "role"}}
	for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
		rows = append(rows, []string{string(slot), versionOf(p, slot), shareOf(p, slot), role(p, slot)})
	}
	table(b, rows)
	if p.Testers {
		fmt.Fprintf(b, "testers reach slot %s\n", p.Slots.Candidate)
	}
	if len(p.Drained) > 0 {
		fmt.Fprintf(b, "out of the load balancer: %s\n", strings.Join(p.Drained, ", "))
	}
}

func versionOf(p state.Pass, slot state.Slot) string {
	v := p.Slots.Get(slot).Version
	if v == "" && slot == p.Serving {
		return "unknown (adopted)"
	}
	return dash(v)
}

// shareOf is a slot's share as manent last wrote it.
func shareOf(p state.Pass, slot state.Slot) string {
	c := p.Slots.Candidate
	switch {
	case c == "" && slot == p.Serving:
		return percent(100)
	case c == "":
		return percent(0)
	case slot == c:
		return percent(p.Share)
	case p.Serving == "":
		return percent(0)
	}
	return percent(100 - p.Share)
}

func role(p state.Pass, slot state.Slot) string {
	switch {
	case slot == p.Serving:
		return "serving"
	case slot == p.Slots.Candidate:
		return "candidate"
	case p.Promoted && p.Retired:
		return "retired"
	case p.Promoted:
		return "replaced"
	}
	return "free"
}

func stagesText(b *strings.Builder, stages []state.Stage) {
	if len(stages) == 0 {
		return
	}
	b.WriteString("\n")
	rows := [][]string{{"stage", "share", "status", "score", "readings", "last reading"}}
	for _, s := range stages {
		rows = append(rows, []string{s.Name, stageShare(s), s.Status, score(s.Score), readings(s), lastReading(s)})
	}
	table(b, rows)
}

func stageShare(s state.Stage) string {
	if s.InForce.IsZero() || s.Achieved == s.Share {
		return percent(s.Share)
	}
	return fmt.Sprintf("%s of %s", percent(s.Achieved), percent(s.Share))
}

func score(v *float64) string {
	if v == nil {
		return "–"
	}
	return number(*v)
}

func readings(s state.Stage) string {
	if s.Red > 0 {
		return fmt.Sprintf("%d (%d red)", s.Count, s.Red)
	}
	return fmt.Sprint(s.Count)
}

func lastReading(s state.Stage) string {
	n := len(s.Readings)
	if n == 0 {
		return "–"
	}
	last := s.Readings[n-1]
	if last.Reason == "" {
		return last.Verdict
	}
	return last.Verdict + ": " + oneLine(last.Reason)
}

// questionText shows the open pause; the commands that answer it come last.
func questionText(b *strings.Builder, r *state.Rollout) {
	p := r.Pause
	if p == nil {
		return
	}
	if by := approved(r); by != nil {
		fmt.Fprintf(b, "\napproved at %s by %s at %s: who drives the rollout goes on\n", p.Step, by.Who, stamp(by.At))
		return
	}
	fmt.Fprintf(b, "\nwaiting for a person at %s since %s: %s\n", p.Step, stamp(p.Since), p.Reason)
	if !p.Until.IsZero() {
		fmt.Fprintf(b, "counts as rejected at %s\n", stamp(p.Until))
	}
	for _, part := range p.Weights {
		fmt.Fprintf(b, "weights seen at %s: %s\n", part.ID, weights(part.Weights))
	}
}

// approved is the yes to the open pause that nobody has acted on yet, nil
// without one, and when somebody has said no as well.
func approved(r *state.Rollout) *state.Decision {
	var yes *state.Decision
	for i := range r.Decisions {
		d := &r.Decisions[i]
		switch {
		case r.Pause == nil || d.Applied || d.Attempt != r.Attempt:
		case d.Verb != "approve":
			return nil
		case d.Pause == r.Pause.ID && d.Seen == r.Pause.Seen:
			yes = d
		}
	}
	return yes
}

// Commands are the ones that go on from where the rollout is; do is what the
// engine would do next.
func Commands(d *state.Document, do string) []string {
	r := d.Rollout
	switch {
	case r == nil:
		return nil
	case r.Pause != nil && approved(r) == nil:
		return Answers(r)
	case do != "nothing" && r.First:
		return []string{"manent run --version " + r.Version}
	case do != "nothing":
		return []string{"manent run --version " + r.Version, "manent revert --version " + r.Version}
	case r.Status == state.Completed && !r.First && !retired(d):
		return []string{"manent revert --version " + r.Version}
	case r.Status == state.Completed:
		return nil
	}
	return []string{"manent retry --version " + r.Version}
}

func retired(d *state.Document) bool {
	return slices.ContainsFunc(d.Passes, func(p state.Pass) bool { return p.Retired })
}

// StatusLine is one environment on one line.
func StatusLine(d *state.Document) string {
	r := d.Rollout
	if r == nil {
		return d.Key + ": no rollout yet"
	}
	line := fmt.Sprintf("%s: version %s is %s", d.Key, r.Version, r.Status)
	for _, p := range d.Passes {
		if p.Slots.Candidate != "" && !r.Status.Terminal() {
			line += strings.TrimSuffix(fmt.Sprintf(", %s %s", percent(p.Share), p.Name), " ")
		}
	}
	if r.Pause != nil {
		line += ", waits at " + r.Pause.Step
	}
	return line
}

// Answers are the commands that answer the open pause; none without one.
func Answers(r *state.Rollout) []string {
	if r == nil || r.Pause == nil {
		return nil
	}
	flags := fmt.Sprintf(" --version %s --pause %s", r.Version, r.Pause.ID)
	if r.Pause.Seen != "" {
		flags += " --seen " + r.Pause.Seen
	}
	return []string{"manent approve" + flags, "manent reject" + flags}
}

func weights(w map[string]float64) string {
	units := make([]string, 0, len(w))
	for unit, v := range w {
		units = append(units, unit+" "+number(v))
	}
	slices.Sort(units)
	return strings.Join(units, ", ")
}

func retirements(b *strings.Builder, passes []state.Pass) {
	for _, p := range passes {
		r := p.Retirement
		if r == nil {
			continue
		}
		fmt.Fprintf(b, "\nretirement: version %s in slot %s, not before %s\n", dash(r.Version), r.Slot, stamp(r.Due))
		if r.Reason != "" {
			fmt.Fprintf(b, "  not yet: %s\n", r.Reason)
		}
	}
}

func nextText(b *strings.Builder, n Next) {
	if n.Do == "" {
		return
	}
	fmt.Fprintf(b, "\nnext: %s", n.Do)
	if n.Step != "" {
		fmt.Fprintf(b, " %s", n.Step)
	}
	if !n.Until.IsZero() {
		fmt.Fprintf(b, " until %s", stamp(n.Until))
	}
	if n.Reason != "" {
		fmt.Fprintf(b, ": %s", n.Reason)
	}
	b.WriteString("\n")
	for _, c := range n.Commands {
		fmt.Fprintf(b, "  %s\n", c)
	}
}

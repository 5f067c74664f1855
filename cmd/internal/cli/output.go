package cli

// Rules of what manent prints; every verb keeps them, because it prints
// through this file and through screen.go only.
//
//   - Results go to stdout: a table, a document, or the lines of what a
//     rollout did, one per step: "traffic@25: share 25 % in force: …".
//   - With --json stdout gets exactly one JSON document, also when the call
//     fails, and progress goes to stderr.
//   - A call that does not end with 0 says why in its last message on stderr:
//     "manent: failed: …", in lower case, without a period at the end.
//   - What to do about it follows on a line of its own: "hint: …".
//   - Warnings are "manent: warning: …" on stderr.
//   - While it waits, a terminal gets one live line, anything else one line a
//     minute.
//   - Nothing is printed that holds a secret manent has resolved, and no line
//     that a pipeline's runner would take for a command, see harmless.

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

// view is what a verb has to show.
type view struct {
	Outcome *runner.Outcome // how the engine's call ended; nil when there was none
	JSON    any             // the document; nil for the one of callJSON
	Text    string          // for a person
	Rollout *state.Rollout  // for callJSON
	Past    []runner.Outcome
}

// silent is the document of a verb that has printed its own.
type silent struct{}

// callJSON is the document of every verb that acts, and of every call that
// ends with an error.
type callJSON struct {
	Verb     string           `json:"verb"`               // that was called, "" when it was not understood
	Exit     int              `json:"exit"`               // code of this process
	Result   string           `json:"result"`             // the word of the exit code, see exit-codes
	Step     string           `json:"step,omitempty"`     // of the plan
	Message  string           `json:"message,omitempty"`  // what was read, decided and why
	Hint     string           `json:"hint,omitempty"`     // what to do
	Until    time.Time        `json:"until,omitzero"`     // come back then, or an approval expires then
	Rollout  *rolloutJSON     `json:"rollout,omitempty"`  // which one it was about
	Did      []outcomeJSON    `json:"did,omitempty"`      // of resume: one per environment and retirement; of a status that cannot show all: one per environment
	Problems []config.Problem `json:"problems,omitempty"` // of the configuration
}

type rolloutJSON struct {
	ID      string       `json:"id"`      // unique, sortable by time
	Version string       `json:"version"` // on its way, or the last one
	Attempt int          `json:"attempt"` // 1, and one more with each retry
	Status  state.Status `json:"status"`  // running, waiting-approval, paused-drift, paused, returning, returned, stopped, completed
}

type outcomeJSON struct {
	Exit    int       `json:"exit"`              // what it would be of that one alone
	Result  string    `json:"result"`            // its word
	Message string    `json:"message,omitempty"` // environment, step, what was done and why
	Until   time.Time `json:"until,omitzero"`    // not before
}

// show prints what a verb came to and returns the exit code.
func (a *app) show(verb string, v view, err error) int {
	end := endOf(v, err)
	end.Hint = a.remedy(end.Hint)
	a.screen.done()
	if a.json {
		a.showJSON(verb, v, end, err)
	} else if v.Text != "" {
		a.print(a.runnable(strings.TrimSuffix(v.Text, "\n")))
	}
	a.showEnd(end, err, v)
	return end.Code
}

// endOf is how a call ends that has come to v, or has failed.
func endOf(v view, failed error) ending {
	switch {
	case failed != nil:
		return endingOfError(failed)
	case v.Outcome != nil:
		return endingOf(*v.Outcome)
	}
	return ending{Code: exitDone}
}

// handOn gives what a call came to to later steps of the pipeline. Each call
// sets every key, if need be to nothing: GitLab gives a job the values of all
// jobs before it, and what one of them has said is not what this one says.
func (a *app) handOn(doc callJSON, rollout *state.Rollout) {
	p, err := a.platform()
	if err != nil {
		return // nobody to hand it to; the call has said so
	}
	values := map[string]string{
		"exit": strconv.Itoa(doc.Exit), "result": doc.Result, "step": doc.Step, "reason": plain(a.redactor.Clean(doc.Message), a.me.Platform),
		"until": "", "rollout": "", "version": "", "status": "",
	}
	if !doc.Until.IsZero() {
		values["until"] = doc.Until.UTC().Format(time.RFC3339)
	}
	if rollout == nil {
		rollout = a.told
	}
	if r := rollout; r != nil {
		values["rollout"], values["version"], values["status"] = r.ID, r.Version, string(r.Status)
	}
	values["share"], values["score"] = progress(rollout)
	if err := p.Output(values); err != nil {
		a.warn(err)
	}
}

// plain is a text as later steps of a platform may be given it: one line, a
// thousand bytes at most, and nothing that it would expand. GitHub expands
// nothing.
func plain(text, platform string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) || platform != github && strings.ContainsRune("$%", r) {
			return ' '
		}
		return r
	}, text)
	const most = 1000
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return strings.TrimSpace(text)
}

// progress is the candidate's share in percent, which is none once all traffic
// is back, and the newest score; "" for none.
func progress(r *state.Rollout) (share, score string) {
	if r == nil {
		return "", ""
	}
	for _, s := range r.Stages {
		if !s.InForce.IsZero() {
			share = strconv.FormatFloat(s.Achieved, 'f', -1, 64)
		}
		if s.Score != nil {
			score = strconv.FormatFloat(*s.Score, 'f', -1, 64)
		}
	}
	if r.Status == state.Returned {
		share = "0"
	}
	return share, score
}

// showEnd prints the last message.
func (a *app) showEnd(end ending, err error, v view) {
	if problems, ok := errors.AsType[*problemsError](err); ok {
		for _, p := range problems.problems {
			a.complain(p.String(), p.Hint)
		}
	}
	switch {
	case end.Code != exitDone:
		a.complain("manent: "+word(end.Code)+": "+end.Message, end.Hint)
	case v.Outcome != nil && !a.json && end.Message != "":
		a.screen.say(end.Message)
	}
}

func (a *app) showJSON(verb string, v view, end ending, err error) {
	doc := v.JSON
	if doc == nil || err != nil {
		doc = a.callJSON(verb, v, end, err)
	}
	if doc == any(silent{}) {
		return
	}
	data, bad := json.MarshalIndent(doc, "", "  ")
	if bad != nil {
		a.complain("manent: internal: "+bad.Error(), "")
		return
	}
	a.print(harmlessJSON(data))
}

func (a *app) callJSON(verb string, v view, end ending, err error) callJSON {
	doc := callJSON{Verb: verb, Exit: end.Code, Result: word(end.Code), Message: end.Message, Hint: end.Hint}
	if problems, ok := errors.AsType[*problemsError](err); ok {
		doc.Problems = problems.problems
	}
	if v.Outcome != nil && err == nil {
		doc.Step, doc.Message, doc.Until = v.Outcome.Step, v.Outcome.Message, v.Outcome.Until
	}
	if r := v.Rollout; r != nil {
		doc.Rollout = &rolloutJSON{ID: r.ID, Version: r.Version, Attempt: r.Attempt, Status: r.Status}
	}
	for _, out := range v.Past {
		e := endingOf(out)
		doc.Did = append(doc.Did, outcomeJSON{Exit: e.Code, Result: word(e.Code), Message: out.Message, Until: out.Until})
	}
	return doc
}

// print writes a result to stdout.
func (a *app) print(text string) { _, _ = fmt.Fprintln(a.stdout, harmless(a.redactor.Clean(text))) }

// complain writes a message to stderr, its hint on a line of its own.
func (a *app) complain(message, hint string) {
	_, _ = fmt.Fprintln(a.stderr, harmless(a.redactor.Clean(message)))
	if hint != "" {
		_, _ = fmt.Fprintln(a.stderr, harmless(a.redactor.Clean("hint: "+a.runnable(hint))))
	}
}

// runnable makes the commands in a text work as they are printed: with the
// configuration that this call was given, and the version that they are about.
func (a *app) runnable(text string) string {
	if r := a.about.rollout; r != nil {
		alone := regexp.MustCompile("`manent (run|approve|reject|revert|retry)`")
		text = alone.ReplaceAllString(text, "`manent $1 --version "+strings.ReplaceAll(r.Version, "$", "$$")+"`")
	}
	if a.file == "" {
		return text
	}
	file := a.file
	if strings.ContainsAny(file, " '\"$\\") {
		file = "'" + strings.ReplaceAll(file, "'", `'\''`) + "'"
	}
	verbs := regexp.MustCompile(`manent (run|step|status|activity|approve|reject|revert|retry|resume|unlock|doctor)\b( -c| -h| --help)?`)
	return verbs.ReplaceAllStringFunc(text, func(call string) string {
		if strings.Contains(call, " -") {
			return call
		}
		return call + " -c " + file
	})
}

// warn writes a warning to stderr.
func (a *app) warn(err error) {
	a.complain("manent: warning: "+err.Error(), "")
}

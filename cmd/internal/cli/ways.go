package cli

import (
	"errors"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/manent/action/providers/ci"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/report"
	"github.com/manent/action/state"
)

// about notes the rollout that hints are about: the one of the environment
// that was read last, none once there were several.
type about struct {
	key     string
	many    bool
	rollout *state.Rollout
}

func (b *about) see(doc *state.Document) {
	b.many = b.many || b.key != "" && b.key != doc.Key
	b.key, b.rollout = doc.Key, doc.Rollout
	if b.many {
		b.rollout = nil
	}
}

// verbsIn are the verbs of the commands in a text, each once.
func verbsIn(text string) []string {
	var out []string
	for _, found := range regexp.MustCompile("manent ([a-z]+)").FindAllStringSubmatch(text, -1) {
		if !slices.Contains(out, found[1]) {
			out = append(out, found[1])
		}
	}
	return out
}

// ways are what people do on this call's platform in place of the commands in
// a text; none in a shell, or for a rollout that another platform has begun.
func (a *app) ways(text string) []ci.Way {
	p, err := a.platform()
	r := a.about.rollout
	if err != nil || r == nil || r.Owner.Platform != a.me.Platform {
		return nil
	}
	hands, ok := p.(ci.Hands)
	if !ok {
		return nil
	}
	all := hands.Ways(r.Owner, approvalJob(r))
	var out []ci.Way
	for _, verb := range verbsIn(text) {
		for _, way := range waysOf(verb, r, all) {
			if way.Do != "" && !slices.Contains(out, way) {
				out = append(out, way)
			}
		}
	}
	return out
}

// waysOf are the ways in place of one command. Where a job of the run asks, it
// takes yes and no; a no is taken everywhere else as well.
func waysOf(verb string, r *state.Rollout, all ci.Ways) []ci.Way {
	answers := verb == "approve" || verb == "reject"
	switch {
	case answers && runner.InRun(r):
		return []ci.Way{all.Approve, all.Decide}
	case answers, verb == "revert":
		return []ci.Way{all.Decide}
	case verb == "retry", verb == "run" && r.Status.Terminal():
		return []ci.Way{all.Again}
	case verb == "resume", verb == "run" && r.Resume:
		return []ci.Way{all.Resume}
	case verb == "run":
		return []ci.Way{all.GoOn}
	}
	return nil
}

// approvalJob is the generated job that answers the open approval, "" for none.
func approvalJob(r *state.Rollout) string {
	if !runner.InRun(r) {
		return ""
	}
	return "approval-" + regexp.MustCompile(`[^A-Za-z0-9_]+`).ReplaceAllString(strings.TrimPrefix(r.Pause.Step, "approval@"), "-")
}

// remedy is a hint as this call's platform has it: what to press there first,
// then the commands, which work from a clone.
func (a *app) remedy(hint string) string {
	said := make([]string, 0, 3)
	for _, way := range a.ways(hint) {
		said = append(said, way.String())
	}
	if len(said) == 0 {
		return hint
	}
	return strings.Join(append(said, "on a command line: "+hint), "; ")
}

// filesHint says how a job gets the file that is not there, "" where it is, or
// this is no job.
func (a *app) filesHint() string {
	p, err := a.platform()
	hands, ok := p.(ci.Hands)
	if err != nil || !ok {
		return ""
	}
	if _, err := os.Stat(a.file); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return hands.Ways(state.RunRef{}, "").Files.Do
}

// waysTo are those of a page.
func (a *app) waysTo(commands []string) []report.Way {
	var out []report.Way
	for _, way := range a.ways(strings.Join(commands, "\n")) {
		out = append(out, report.Way(way))
	}
	return out
}

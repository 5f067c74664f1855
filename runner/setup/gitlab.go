package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/manent/action/runner/generate"
)

// ScheduleName is the description by which the pipeline schedule is found
// again, whatever became of its variable.
const ScheduleName = "manent: resume rollouts"

// OldestFirst is the mode in which rollouts follow each other.
const OldestFirst = "oldest_first"

// Access is somebody who may deploy to a protected environment.
type Access struct {
	Kind string // user, group or role
	ID   int64  // GitLab's, of a role its level
	Name string
}

// String returns "kind:name".
func (a Access) String() string { return a.Kind + ":" + a.Name }

// Schedule is a pipeline schedule.
type Schedule struct {
	ID       int64 // 0 for one to be made
	Name     string
	Branch   string
	Cron     string
	Active   bool
	Variable string // value of MANENT_RESUME, "" without it
}

// GitLab is what a project has.
type GitLab struct {
	Branch    string // the default one
	Push      *bool  // job tokens may push; nil when GitLab does not show it
	NewGroups string // mode of resource groups to come, "" for unordered
	Groups    map[string]string
	Schedules []Schedule
	Protected map[string][]Access // environments that are protected; read only with approvers
}

// GitLabWish is what a person asks for.
type GitLabWish struct {
	AccessToken bool // the jobs push with a token of their own
	Approvers   []Access
}

// GitLabPart is one thing of the project with what to do about it: at most one
// of its other fields says what, and Variable of the schedule's.
type GitLabPart struct {
	Item

	Push     bool      // job tokens are to be let push
	Group    string    // that gets the mode oldest_first
	Schedule *Schedule // as it should be
	Variable Variable  // of the schedule
	Protect  *Protect
}

// Variable says what becomes of the schedule's variable.
type Variable string

// What may become of it.
const (
	VariableKept    Variable = ""
	VariableMade    Variable = "made"
	VariableChanged Variable = "changed"
)

// Protect lets people deploy to an environment.
type Protect struct {
	Environment string
	There       bool // it is protected already
	Add         []Access
}

// Writes reports whether there is anything to do.
func (p GitLabPart) Writes() bool {
	return p.Push || p.Group != "" || p.Schedule != nil || p.Protect != nil
}

// PlanGitLab plans what the pipelines of a project rely on.
func PlanGitLab(needs generate.GitLabNeeds, wish GitLabWish, have GitLab) []GitLabPart {
	parts := []GitLabPart{settings(needs, wish, have), schedule(have)}
	for _, key := range needs.Groups {
		parts = append(parts, group(key, have))
	}
	for _, e := range needs.Environments {
		if part := environment(e, wish, have); part.What != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

func settings(needs generate.GitLabNeeds, wish GitLabWish, have GitLab) GitLabPart {
	part := GitLabPart{Item: Item{What: "project settings", State: Kept}}
	switch {
	case !needs.InRepo || wish.AccessToken:
	case have.Push == nil:
		part.State = ByHand
		part.Notes = []string{"whether job tokens may push is not shown: the token needs the role Maintainer, or this GitLab has no such setting (18.4 has it); a project access token in MANENT_GITLAB_TOKEN does without (--access-token)"}
	case !*have.Push:
		part.State, part.Push = WouldChange, true
		part.Changes = []Change{{Of: "job tokens may push", From: "off", To: "on"}}
	}
	part.Notes = append(part.Notes, variables(needs)...)
	return part
}

// schedule finds the one that there is and makes it work. What it runs at is
// left to whoever has set it.
func schedule(have GitLab) GitLabPart {
	now, others := ours(have)
	should := Schedule{ID: now.ID, Name: now.Name, Branch: have.Branch, Cron: or(now.Cron, generate.ResumeCron), Active: true, Variable: "true"}
	if now.ID == 0 {
		should.Name = ScheduleName
	}
	var differ compare
	differ.text("branch", now.Branch, should.Branch)
	differ.text("runs at", now.Cron, should.Cron)
	differ.flag("active", now.Active, should.Active)
	differ.text("variable "+generate.ResumeVariable, now.Variable, should.Variable)
	part := GitLabPart{Item: Item{What: fmt.Sprintf("pipeline schedule %q", should.Name), State: Kept, Changes: differ}}
	if len(differ) > 0 {
		part.Schedule, part.State = &should, WouldChange
	}
	switch {
	case now.Variable == "":
		part.Variable = VariableMade
	case now.Variable != should.Variable:
		part.Variable = VariableChanged
	}
	if now.ID == 0 {
		part.State = WouldMake
	}
	part.Notes = append(part.Notes, otherJobs)
	if should.Cron != generate.ResumeCron {
		part.Notes = append(part.Notes, fmt.Sprintf("it runs at %q; every five minutes is %q: until it runs nothing returns the traffic after a cancelled pipeline", should.Cron, generate.ResumeCron))
	}
	if len(others) > 0 {
		part.Notes = append(part.Notes, fmt.Sprintf("does the same and can be deleted: schedule %s", list(others)))
	}
	return part
}

// ours is the schedule of this name, or that has the variable on the default
// branch; the one that works already comes first. Further ones that work are
// named by their ids.
func ours(have GitLab) (Schedule, []string) {
	works := func(s Schedule) bool {
		return s.Branch == have.Branch && s.Active && s.Variable == "true"
	}
	var found []Schedule
	for _, s := range have.Schedules {
		if s.Name == ScheduleName || (s.Variable != "" && s.Branch == have.Branch) {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		return Schedule{}, nil
	}
	first := max(slices.IndexFunc(found, works), 0)
	var others []string
	for i, s := range found {
		if i != first && works(s) {
			others = append(others, fmt.Sprint(s.ID))
		}
	}
	return found[first], others
}

// group is a resource group, which GitLab makes with the first pipeline.
func group(key string, have GitLab) GitLabPart {
	part := GitLabPart{Item: Item{What: "resource group " + key, State: Kept}}
	mode, there := have.Groups[key]
	switch {
	case !there && have.NewGroups == OldestFirst:
		part.Notes = []string{"GitLab makes it with the first pipeline, in the project's mode for new groups: " + OldestFirst}
	case !there:
		part.State = ByHand
		part.Notes = []string{fmt.Sprintf("GitLab makes it with the first pipeline, in the project's mode for new groups, %s: call this again then; until then waiting rollouts have no order", or(have.NewGroups, "unordered"))}
	case mode != OldestFirst:
		part.State, part.Group = WouldChange, key
		part.Changes = []Change{{Of: "process mode", From: mode, To: OldestFirst}}
	}
	return part
}

// environment adds approvers to those who may deploy; without any asked for it
// is nobody's business whether the environment is protected.
func environment(need generate.Needed, wish GitLabWish, have GitLab) GitLabPart {
	if len(wish.Approvers) == 0 {
		return GitLabPart{}
	}
	now, there := have.Protected[need.Name]
	part := GitLabPart{Item: Item{What: "protected environment " + need.Name, State: Kept}}
	part.Notes = []string{everyJob}
	should := slices.Clone(now)
	for _, a := range wish.Approvers {
		if !slices.ContainsFunc(should, func(has Access) bool { return has.Kind == a.Kind && has.ID == a.ID }) {
			should = append(should, a)
		}
	}
	if add := should[len(now):]; len(add) > 0 {
		part.Protect = &Protect{Environment: need.Name, There: there, Add: add}
		part.State = map[bool]State{true: WouldChange, false: WouldMake}[there]
		part.Changes = []Change{{Of: "may deploy", From: or(access(now), "none"), To: access(should)}}
		if !there {
			part.Changes[0].From = "everybody with the role Developer"
		}
	}
	return part
}

func access(all []Access) string {
	names := make([]string, len(all))
	for i, a := range all {
		names[i] = a.String()
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

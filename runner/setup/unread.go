package setup

import (
	"fmt"

	"github.com/manent/action/runner/generate"
)

// Needed is the state of what could not be read.
const Needed State = "is needed"

// UnreadGitHub says from the plan alone what workflows need, for whoever has no
// token or no network. who are the reviewers as they were named.
func UnreadGitHub(needs []generate.Needed, tags string, who []string) []Item {
	items := make([]Item, len(needs))
	for i, need := range needs {
		item := Item{What: "environment " + need.Name, State: Needed}
		switch {
		case need.Approval:
			item.Notes = []string{"required reviewers: " + or(list(who), "name them with --reviewer"), "prevent self-review"}
		case tags != "":
			item.Notes = []string{"no reviewers; the default branch and the tags " + tags + " may deploy, and nothing else"}
		default:
			item.Notes = []string{"no reviewers; the default branch may deploy, and nothing else"}
		}
		if len(need.Secrets) > 0 {
			item.Notes = append(item.Notes, "set its secrets yourself: "+list(need.Secrets))
		}
		items[i] = item
	}
	return items
}

// UnreadGitLab is the same for pipelines of GitLab.
func UnreadGitLab(needs generate.GitLabNeeds, own bool, who []string) []Item {
	project := Item{What: "project settings", State: Needed, Notes: variables(needs)}
	if needs.InRepo && !own {
		project.Notes = append([]string{"job tokens may push to the repository"}, project.Notes...)
	}
	items := []Item{project, {What: fmt.Sprintf("pipeline schedule %q", ScheduleName), State: Needed, Notes: []string{
		fmt.Sprintf("on the default branch, at %q, with the variable %s=true", generate.ResumeCron, generate.ResumeVariable), otherJobs,
	}}}
	for _, key := range needs.Groups {
		items = append(items, Item{What: "resource group " + key, State: Needed, Notes: []string{"process mode: " + OldestFirst}})
	}
	for _, e := range needs.Environments {
		if len(who) > 0 {
			items = append(items, Item{What: "protected environment " + e.Name, State: Needed, Notes: []string{"may deploy: " + list(who), everyJob}})
		}
	}
	return items
}

// otherJobs is what people have to do to their own jobs.
const otherJobs = "it starts the project's other jobs, too, unless they have rules: " + generate.OtherRules + ", or the first of these before rules of their own"

const everyJob = "every job of a rollout names it: whoever starts one, and the schedule's owner, has to be among them"

// variables are the secrets that only a person knows.
func variables(needs generate.GitLabNeeds) []string {
	var out []string
	for _, e := range needs.Environments {
		if len(e.Secrets) > 0 {
			out = append(out, fmt.Sprintf("set these variables of environment %s yourself, protected and masked: %s", e.Name, list(e.Secrets)))
		}
	}
	return out
}

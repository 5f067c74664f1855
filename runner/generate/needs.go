package generate

import (
	"slices"

	"github.com/manent/action/providers"
)

// Schedule is what acts on GitLab when no pipeline of a rollout does.
const (
	ResumeVariable = "MANENT_RESUME" // of the schedule, "true"
	ResumeCron     = "*/5 * * * *"
)

// OtherRules keep a job that has nothing to do with rollouts out of the
// schedule's pipelines.
const OtherRules = `[{if: '$CI_PIPELINE_SOURCE == "schedule" && $MANENT_RESUME == "true"', when: never}, {when: on_success}]`

// Needed is an environment of the platform that generated files name.
type Needed struct {
	Name     string
	Approval bool     // its reviewers answer a planned approval; it holds no secrets but the state's
	Secrets  []string // that its jobs read, sorted
}

// GitLabNeeds are what generated pipelines rely on beside their own files.
type GitLabNeeds struct {
	Environments []Needed
	Groups       []string // resource groups, that pipelines wait in
	InRepo       bool     // the jobs push the state into this project
}

// GitHubNeeds are the environments that the workflows of environments name. In
// mode dispatch, which goes with rollout.wait: resume, nobody reviews.
func GitHubNeeds(envs []Environment) ([]Needed, error) {
	all, err := gitHubViews(envs)
	if err != nil {
		return nil, err
	}
	var out []Needed
	for _, v := range all {
		if err := secretNames(v); err != nil {
			return nil, err
		}
		out = need(out, Needed{Name: v.Name, Secrets: v.Secrets})
	}
	for _, v := range all {
		if v.Config.Rollout.Wait == "resume" {
			continue
		}
		for _, name := range v.Reviews {
			out = need(out, Needed{Name: name, Approval: true, Secrets: v.StateSecrets})
		}
	}
	return out, nil
}

// GitLabNeedsOf are what the pipelines of environments rely on.
func GitLabNeedsOf(envs []Environment) (GitLabNeeds, error) {
	all, err := views(envs, oddOnGitLab, nil)
	if err != nil {
		return GitLabNeeds{}, err
	}
	var out GitLabNeeds
	for _, v := range all {
		out.Environments = need(out.Environments, Needed{Name: v.Name, Secrets: v.Secrets})
		out.Groups = append(out.Groups, v.Key)
		out.InRepo = out.InRepo || v.InRepo
	}
	return out, nil
}

// need adds an environment, or to the one of its name, whatever its case.
func need(all []Needed, one Needed) []Needed {
	i := slices.IndexFunc(all, func(n Needed) bool { return providers.SameName(n.Name, one.Name) })
	if i < 0 {
		i = len(all)
		all = append(all, Needed{Name: one.Name, Approval: one.Approval})
	}
	for _, name := range one.Secrets {
		if !slices.Contains(all[i].Secrets, name) {
			all[i].Secrets = append(all[i].Secrets, name)
		}
	}
	slices.Sort(all[i].Secrets)
	return all
}

package generate

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const gitlabFolder = ".gitlab/"

// longestDelay is the most that GitLab delays a job.
const longestDelay = 7 * 24 * time.Hour

// GitLabOptions are what the command line says about a GitLab pipeline.
type GitLabOptions struct {
	Granularity string
	MaxTime     time.Duration // of one call of run
	Image       string        // container with manent; "" = the runner's own shell has it
	Tags        []string      // of the runners that take the jobs; none = whichever take untagged ones
	Call        string        // command that writes the files again
}

// gitlab is GitLabOptions with what follows from them for one environment.
type gitlab struct {
	GitLabOptions
	Child  string // path of the child pipeline's file
	Delay  string // of the retire job
	Stages []string
	State  string // where it is said to be: the component's input
	Inputs string // tags of the component, as it gets them
	Stage  string // of the jobs around the child pipeline
}

// GitLab generates two files for each environment: one to be included, whose
// job triggers the other as a child pipeline.
func GitLab(envs []Environment, o GitLabOptions) ([]File, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	all, err := views(envs, oddOnGitLab, nil)
	if err != nil {
		return nil, err
	}
	var files []File
	for _, v := range all {
		if v.Config.Rollout.Wait == "resume" {
			return nil, &Error{Reason: v.File + ": rollout.wait is resume, but the jobs of the pipeline wait", Hint: "set rollout.wait: run"}
		}
		jobs, err := Jobs(v.Plan, o.Granularity, o.MaxTime)
		if err != nil {
			return nil, err
		}
		opts := gitlab{GitLabOptions: o, Child: gitlabFolder + "manent-" + v.Slug + ".rollout.yml", Stages: make([]string, len(jobs)), Stage: "deploy"}
		opts.Delay = fmt.Sprintf("%d minutes", minutes(min(v.Scaledown+time.Minute, longestDelay)))
		for i, j := range jobs {
			opts.Stages[i] = j.ID
		}
		p := page{Envs: []view{v}, View: v, Digest: v.Digest, Opts: opts, Jobs: jobs, Call: o.Call}
		for _, f := range []struct{ path, template string }{
			{gitlabFolder + "manent-" + v.Slug + ".yml", "gitlab.tmpl"},
			{opts.Child, "gitlab-rollout.tmpl"},
		} {
			text, err := write(f.template, p)
			if err != nil {
				return nil, err
			}
			files = append(files, File{Path: f.path, Text: text})
		}
	}
	return files, nil
}

func (o GitLabOptions) check() error {
	if !slices.Contains([]string{PerStage, PerSegment, PerStep}, o.Granularity) {
		return &Error{Reason: fmt.Sprintf("--granularity %s, expected one of %s", o.Granularity, strings.Join([]string{PerStage, PerSegment, PerStep}, ", "))}
	}
	if o.MaxTime < 10*time.Minute {
		return &Error{Reason: fmt.Sprintf("--max-time %s, expected at least 10m", o.MaxTime)}
	}
	for flag, text := range map[string]string{"--image": o.Image, "--runner-tags": strings.Join(o.Tags, ","), "the call": o.Call} {
		if why := oddOnGitLab(text); why != "" {
			return &Error{Reason: fmt.Sprintf("%s %q %s", flag, text, why)}
		}
	}
	if slices.Contains(o.Tags, "") {
		return &Error{Reason: "--runner-tags has an empty tag", Hint: "tags with commas between them: --runner-tags shop,linux"}
	}
	return nil
}

// Component is the CI/CD component for those who include the parent's jobs from
// a catalog: the same jobs, with inputs in place of a configuration. The child
// pipeline is generated in any case.
func Component() (File, error) {
	in := func(name string) string { return "$[[ inputs." + name + " ]]" }
	o := gitlab{
		GitLabOptions: GitLabOptions{MaxTime: 150 * time.Minute, Image: in("image")},
		Child:         in("rollout"), Delay: in("retire-after"), State: in("state"), Inputs: in("tags"), Stage: in("stage"),
	}
	v := view{Key: in("key"), Name: in("environment"), File: in("config"), Slug: in("name")}
	text, err := write("gitlab-component.tmpl", page{View: v, Opts: o})
	return File{Path: "templates/rollout.yml", Text: text}, err
}

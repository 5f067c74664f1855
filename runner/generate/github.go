package generate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Files that all environments of a repository share.
const (
	DecideFile = "manent-decide.yml"
	RetireFile = "manent-traffic-retire.yml"
	workflows  = ".github/workflows/"
)

// Modes of a GitHub pipeline.
const (
	Environments = "environments" // jobs wait, reviewers of environments approve
	Dispatch     = "dispatch"     // no job waits, manent.traffic-retire drives, people decide by workflow
)

// Checkout is the action that brings the configuration, by commit.
const (
	checkout        = "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1"
	checkoutVersion = "v7.0.1"
)

// GitHubOptions are what the command line says about a GitHub pipeline.
type GitHubOptions struct {
	Mode        string
	Granularity string
	Queue       string        // latest or max
	MaxTime     time.Duration // of one call of run
	RunsOn      string        // label of the runner
	Action      string        // manent/action@<commit>, or ./ in its own repository
	Release     string        // that the commit is of, for the comment; may be ""
	Tags        string        // a pushed tag that fits is rolled out; "" = none
	Schedule    string        // cron of manent.traffic-retire
	BinaryPath  string        // of manent on the runner; "" = the action brings it
	IDToken     bool          // jobs may ask for an identity token
	Call        string        // command that writes the files again
}

// github is GitHubOptions with what follows from it.
type github struct {
	GitHubOptions
	Checkout, CheckoutVersion, DecideFile string
}

// GitHub generates the workflows of environments.
func GitHub(envs []Environment, o GitHubOptions) ([]File, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	all, err := gitHubViews(envs)
	if err != nil {
		return nil, err
	}
	opts := github{GitHubOptions: o, Checkout: checkout, CheckoutVersion: checkoutVersion, DecideFile: DecideFile}
	var files []File
	add := func(path, template string, p page) error {
		p.Envs, p.Opts, p.Call = all, opts, o.Call
		text, err := write(template, p)
		files = append(files, File{Path: workflows + path, Text: text})
		return err
	}
	for _, v := range all {
		if err := o.checkEnvironment(v); err != nil {
			return nil, err
		}
		p, name := page{View: v, Digest: v.Digest}, "github-dispatch.tmpl"
		if o.Mode == Environments {
			name = "github.tmpl"
			if p.Jobs, err = Jobs(v.Plan, o.Granularity, o.MaxTime); err != nil {
				return nil, err
			}
		}
		if err := add("manent-"+v.Slug+".yml", name, p); err != nil {
			return nil, err
		}
	}
	if err := add(DecideFile, "github-decide.tmpl", page{Digest: together(all)}); err != nil {
		return nil, err
	}
	return files, add(RetireFile, "github-retire.tmpl", page{Digest: together(all)})
}

// gitHubViews are environments whose workflows stand beside the shared ones.
func gitHubViews(envs []Environment) ([]view, error) {
	taken := map[string]string{}
	for _, file := range []string{DecideFile, RetireFile} {
		taken[strings.TrimSuffix(strings.TrimPrefix(file, "manent-"), ".yml")] = "the workflow of all environments"
	}
	all, err := views(envs, oddOnGitHub, taken)
	if err != nil {
		return nil, err
	}
	return all, apart(all)
}

// apart refuses names by which one environment would be another one too: who
// approves in front of it would hold its rollouts up, or approve something else.
func apart(all []view) error {
	approvals := map[string]string{} // each in lower case, as GitHub compares, with what it is of
	for _, v := range all {
		own := map[string]string{}
		for _, s := range v.Plan.Steps {
			if !s.Approval || v.Config.Rollout.Wait == "resume" {
				continue
			}
			name := strings.ToLower(ReviewEnvironment(v.Name, s.Name))
			if other, ok := own[name]; ok && other != s.Name {
				return &Error{Reason: fmt.Sprintf("%s: %s and %s would both be answered in environment %s", v.File, other, s.Name, name), Hint: "give one of the waves another name: GitHub takes capitals for small letters"}
			}
			own[name], approvals[name] = s.Name, fmt.Sprintf("%s of %s", s.Name, v.File)
		}
	}
	for _, v := range all {
		if approval, ok := approvals[strings.ToLower(v.Name)]; ok {
			return &Error{Reason: fmt.Sprintf("%s: environment %s is where %s is answered", v.File, v.Name, approval), Hint: "give the environment another name: the one has reviewers and no secrets, the other secrets and no reviewers"}
		}
	}
	return nil
}

func (o GitHubOptions) check() error {
	for _, choice := range []struct {
		flag, value string
		of          []string
	}{
		{"--mode", o.Mode, []string{Environments, Dispatch}},
		{"--granularity", o.Granularity, []string{PerStage, PerSegment, PerStep}},
		{"--queue", o.Queue, []string{"latest", "max"}},
	} {
		if !slices.Contains(choice.of, choice.value) {
			return &Error{Reason: fmt.Sprintf("%s %s, expected one of %s", choice.flag, choice.value, strings.Join(choice.of, ", "))}
		}
	}
	if why, hint := oddTime(o.MaxTime, o.RunsOn); why != "" {
		return &Error{Reason: fmt.Sprintf("--max-time %s %s", o.MaxTime, why), Hint: hint}
	}
	if why := oddCron(o.Schedule); why != "" {
		return &Error{Reason: fmt.Sprintf("--schedule %q %s", o.Schedule, why), Hint: "such as --schedule '4-59/15 * * * *', in UTC; GitHub's shortest is every five minutes"}
	}
	if o.Action != "./" && !regexp.MustCompile(`^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)+@[0-9a-f]{40}$`).MatchString(o.Action) {
		return &Error{Reason: fmt.Sprintf("--action %q is not pinned", o.Action),
			Hint: "expected manent/action@COMMIT with all 40 digits, of the release that you use: a tag can be moved"}
	}
	for flag, text := range map[string]string{"--runs-on": o.RunsOn, "--tags": o.Tags, "--schedule": o.Schedule, "--binary-path": o.BinaryPath, "the release": o.Release, "the call": o.Call} {
		if why := oddOnGitHub(text); why != "" {
			return &Error{Reason: fmt.Sprintf("%s %q %s", flag, text, why)}
		}
	}
	return nil
}

func (o GitHubOptions) checkEnvironment(v view) error {
	if wait := v.Config.Rollout.Wait; (wait == "resume") != (o.Mode == Dispatch) {
		return &Error{Reason: fmt.Sprintf("%s: rollout.wait is %s, which does not go with --mode %s", v.File, wait, o.Mode),
			Hint: "mode dispatch needs rollout.wait: resume, mode environments needs rollout.wait: run"}
	}
	return secretNames(v)
}

package generate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/manent/action/runner/config"
)

// TestSetupMakesWhatFilesName: each environment, secret, resource group and
// schedule variable of every generated file is one that setup makes or names,
// and it makes no other.
func TestSetupMakesWhatFilesName(t *testing.T) {
	resumed := []Environment{read(t, "canary", byResume), read(t, "bluegreen", byResume)}
	all := cases(t)
	for name, envs := range map[string][]Environment{
		"canary": {read(t, "canary", nil)}, "bluegreen": {read(t, "bluegreen", nil)}, "waves": {read(t, "waves", nil)}, "inplace": {read(t, "pool", nil)},
		"segment": {read(t, "canary", nil)}, "step": {read(t, "canary", nil)}, "queue": {read(t, "canary", nil)}, "long": {read(t, "canary", long)}, "cloud": {read(t, "canary", inCloud)}, "elsewhere": {read(t, "canary", elsewhere)}, "dispatch": resumed,
	} {
		files := all["github-"+name]
		delete(all, "github-"+name)
		needs, err := GitHubNeeds(envs)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string][]string{}
		for _, n := range needs {
			want[fmt.Sprintf("%s, approval: %v", n.Name, n.Approval)] = n.Secrets
		}
		if diff := cmp.Diff(want, mentionedOnGitHub(t, files)); diff != "" {
			t.Errorf("github-%s:\n%s", name, diff)
		}
	}
	for name, env := range map[string]Environment{
		"canary": read(t, "canary", nil), "bluegreen": read(t, "bluegreen", nil), "waves": read(t, "waves", nil), "inplace": read(t, "pool", nil),
		"step": read(t, "canary", nil), "segment": read(t, "canary", nil), "long": read(t, "canary", long), "cloud": read(t, "canary", inCloud), "elsewhere": read(t, "canary", elsewhere),
	} {
		files := all["gitlab-"+name]
		delete(all, "gitlab-"+name)
		needs, err := GitLabNeedsOf([]Environment{env})
		if err != nil {
			t.Fatal(err)
		}
		environments, groups := mentionedOnGitLab(t, files)
		var names []string
		for _, n := range needs.Environments {
			names = append(names, n.Name)
		}
		if diff := cmp.Diff([][]string{names, needs.Groups}, [][]string{environments, groups}); diff != "" {
			t.Errorf("gitlab-%s:\n%s", name, diff)
		}
		if !strings.Contains(files[0].Text, "$"+ResumeVariable+` == \"true\"`) {
			t.Errorf("gitlab-%s has no job for the schedule's variable %s", name, ResumeVariable)
		}
	}
	if len(all) > 0 {
		t.Errorf("not looked at: %v", slices.Sorted(maps.Keys(all)))
	}
}

// mentionedOnGitHub are the environments of all jobs, with the secrets that
// those read.
func mentionedOnGitHub(t *testing.T, files []File) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, f := range files {
		for _, j := range parse(t, f).Jobs {
			name, approval := fmt.Sprint(j.Environment), true
			if e, ok := j.Environment.(map[string]any); ok {
				name, approval = fmt.Sprint(e["name"]), false
			}
			key := fmt.Sprintf("%s, approval: %v", name, approval)
			secrets := out[key]
			for _, s := range regexp.MustCompile(`secrets\.([A-Za-z0-9_]+)`).FindAllStringSubmatch(fmt.Sprint(j.Steps), -1) {
				if !slices.Contains(secrets, s[1]) {
					secrets = append(secrets, s[1])
				}
			}
			slices.Sort(secrets)
			out[key] = secrets
		}
	}
	return out
}

func mentionedOnGitLab(t *testing.T, files []File) (environments, groups []string) {
	t.Helper()
	for _, f := range files {
		var jobs map[string]any
		if err := yaml.Unmarshal([]byte(f.Text), &jobs); err != nil {
			t.Fatal(err)
		}
		for _, value := range jobs {
			job, _ := value.(map[string]any)
			if e, ok := job["environment"].(map[string]any); ok {
				environments = append(environments, fmt.Sprint(e["name"]))
			}
			if g, ok := job["resource_group"]; ok {
				groups = append(groups, fmt.Sprint(g))
			}
		}
	}
	slices.Sort(environments)
	slices.Sort(groups)
	return slices.Compact(environments), slices.Compact(groups)
}

// TestNeedsAreRefused for the reasons for which nothing is generated.
func TestNeedsAreRefused(t *testing.T) {
	odd := read(t, "canary", func(c *config.Config) { c.Environment = "a b" })
	if _, err := GitHubNeeds([]Environment{odd}); err == nil {
		t.Error("a name that is none was taken for GitHub")
	}
	if _, err := GitLabNeedsOf([]Environment{odd}); err == nil {
		t.Error("a name that is none was taken for GitLab")
	}
	if _, err := GitHubNeeds([]Environment{read(t, "canary", func(c *config.Config) { c.Secrets[0].Ref = "env:GITHUB_TOKEN" })}); err == nil {
		t.Error("a secret that GitHub cannot have was taken")
	}
}

// TestNeedsNoLookAlike: only capitals are passed over.
func TestNeedsNoLookAlike(t *testing.T) {
	all := need(need(need(nil, Needed{Name: "staging"}), Needed{Name: "Staging"}), Needed{Name: "\u017ftaging"})
	if len(all) != 2 {
		t.Errorf("%+v", all)
	}
}

// TestNeedsTogether: environments of one name are one.
func TestNeedsTogether(t *testing.T) {
	other := read(t, "canary", func(c *config.Config) {
		c.Application, c.Environment, c.Secrets[0].Ref = "api", "Prod", "env:API_TOKEN"
	})
	needs, err := GitHubNeeds([]Environment{read(t, "canary", nil), other})
	want := []Needed{
		{Name: "prod", Secrets: []string{"API_TOKEN", "PROMETHEUS_TOKEN"}}, {Name: "prod-approve-25", Approval: true}, {Name: "prod-approve-50", Approval: true},
	}
	if diff := cmp.Diff(want, needs); diff != "" || err != nil {
		t.Errorf("error %v\n%s", err, diff)
	}
}

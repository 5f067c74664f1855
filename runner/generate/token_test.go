package generate

import (
	"os/exec"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// beforeOf is what the jobs of a GitLab file call first, "" for nothing.
func beforeOf(t *testing.T, text string) string {
	t.Helper()
	if _, jobs, found := strings.Cut(text, "\n---\n"); found { // behind a component's inputs
		text = jobs
	}
	var file map[string]any
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for name, value := range file {
		job, _ := value.(map[string]any)
		script, _ := job["before_script"].([]any)
		if len(script) > 0 && !strings.HasPrefix(name, ".manent-") {
			t.Errorf("%s has a before_script of its own", name)
		}
		for _, line := range script {
			lines = append(lines, line.(string))
		}
	}
	return strings.Join(lines, "\n")
}

// TestGitLabToken runs what the jobs begin with: a token of this project is for
// a state in this project alone, and the user's own variable stays.
func TestGitLabToken(t *testing.T) {
	component, err := Component()
	if err != nil {
		t.Fatal(err)
	}
	all := cases(t)
	texts := map[string][]string{
		"project":   {all["gitlab-canary"][0].Text, all["gitlab-canary"][1].Text, strings.ReplaceAll(component.Text, "$[[ inputs.state ]]", "project")},
		"elsewhere": {all["gitlab-elsewhere"][0].Text, all["gitlab-elsewhere"][1].Text, all["gitlab-cloud"][0].Text, strings.ReplaceAll(component.Text, "$[[ inputs.state ]]", "elsewhere")},
	}
	for _, row := range []struct {
		state string
		env   []string
		want  string
	}{
		{"project", nil, "gitlab-ci-token:job"},
		{"project", []string{"MANENT_GITLAB_TOKEN=project"}, "gitlab-ci-token:project"},
		{"project", []string{"MANENT_GITLAB_TOKEN=project", "MANENT_GIT_TOKEN=mine"}, "mine"},
		{"elsewhere", nil, ""},
		{"elsewhere", []string{"MANENT_GITLAB_TOKEN=project"}, ""},
		{"elsewhere", []string{"MANENT_GIT_TOKEN=mine"}, "mine"},
	} {
		for i, text := range texts[row.state] {
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-e", "-c", beforeOf(t, text)+"\nprintf %s \"${MANENT_GIT_TOKEN:-}\"")
			cmd.Env = append([]string{"CI_JOB_TOKEN=job"}, row.env...)
			if out, err := cmd.CombinedOutput(); string(out) != row.want || err != nil {
				t.Errorf("state %s, file %d, %v: the token is %q, expected %q; %v", row.state, i, row.env, out, row.want, err)
			}
		}
	}
}

// TestInRepo: no other repository's address counts as this one's.
func TestInRepo(t *testing.T) {
	for address, want := range map[string]bool{
		"": true, "git": true, "git:origin": true,
		"git:backup": false, "git:https://gitlab.example.test/shop/web.git": false, "s3://state": false, "file:state": false,
	} {
		if inRepo(address) != want {
			t.Errorf("%q in this project: %v, expected %v", address, !want, want)
		}
	}
}

// TestStateToken: each job that touches a state in a repository elsewhere gets
// the token, the ones that reviewers answer nothing else, and no job where the
// state asks for none.
func TestStateToken(t *testing.T) {
	for name, files := range cases(t) {
		if !strings.HasPrefix(name, "github-") {
			continue
		}
		for _, f := range files {
			for id, job := range parse(t, f).Jobs {
				for _, step := range job.Steps[1:] {
					got, want := step.Env[gitToken], ""
					if name == "github-elsewhere" {
						want = "${{ secrets.MANENT_GIT_TOKEN }}"
					}
					if got != want || strings.HasPrefix(id, "approval") && want != "" && len(step.Env) != 1 {
						t.Errorf("%s: %s of %s has %v", name, id, f.Path, step.Env)
					}
				}
			}
		}
	}
	for address, want := range map[string]int{"git:https://git.example.test/x": 1, "git:git@git.example.test:x": 0, "git:ssh://git.example.test/x": 0, "git:origin": 0, "s3://x": 0} {
		cfg := read(t, "canary", nil).Config
		cfg.State = address
		if _, state := secretsOf(cfg); len(state) != want {
			t.Errorf("%s takes the secrets %v", address, state)
		}
	}
}

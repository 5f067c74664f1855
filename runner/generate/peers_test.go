//go:build peers

package generate

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tool finds a program that `make peers` has installed.
func tool(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(os.Getenv("MANENT_PEERS_BIN"), name)
	if os.Getenv("MANENT_PEERS_BIN") == "" {
		path = name
	}
	found, err := exec.LookPath(path)
	if err != nil {
		t.Fatalf("%s, in PATH or in the folder MANENT_PEERS_BIN names: %v", name, err)
	}
	return found
}

// repository writes files into a Git repository of their own.
func repository(t *testing.T, files []File) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(f.Text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git(t, dir, "init", "-q", "-b", "main")
	git(t, dir, "add", ".")
	git(t, dir, "-c", "user.name=t", "-c", "user.email=t@example.test", "commit", "-q", "-m", "files")
	git(t, dir, "remote", "add", "origin", "https://gitlab.example.test/shop/shop.git")
	git(t, dir, "update-ref", "refs/remotes/origin/main", "HEAD")
	git(t, dir, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
	return dir
}

func run(t *testing.T, dir, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	if out, err := run(t, dir, "git", args...); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// unknownQueue is what actionlint v1.7.12 says of the key queue of concurrency,
// which GitHub has had since May 2026. docs/github.md has it, too.
const unknownQueue = `unexpected key "queue" for "concurrency" section`

// TestActionlint: actionlint finds nothing in any workflow, but with --queue max
// the key that it does not know yet, and then exactly that.
func TestActionlint(t *testing.T) {
	linter, seen := tool(t, "actionlint"), 0
	for name, files := range cases(t) {
		if !strings.HasPrefix(name, "github-") {
			continue
		}
		seen++
		t.Run(name, func(t *testing.T) {
			dir, args := repository(t, files), []string{"-no-color", "-oneline", "-shellcheck=", "-pyflakes="}
			if keys := strings.Count(files[0].Text, "\n  queue: max\n"); keys > 0 {
				if out, err := run(t, dir, linter, args...); err == nil || strings.Count(out, "\n") != keys {
					t.Errorf("the key is there %d times, without -ignore it says: %v\n%s", keys, err, out)
				}
				args = append(args, "-ignore", unknownQueue)
			}
			if out, err := run(t, dir, linter, args...); err != nil || out != "" {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	page, err := os.ReadFile("../../docs/github.md")
	if err != nil || !strings.Contains(string(page), "`actionlint -ignore '"+unknownQueue+"'`") {
		t.Errorf("docs/github.md does not say what to ignore: %v", err)
	}
	if seen == 0 {
		t.Error("no workflow was looked at")
	}
	if out, err := run(t, repository(t, []File{{Path: workflows + "bad.yml", Text: "on: push\njobs: {a: {runs-on: ubuntu-24.04, steps: [{uses: x}]}}\n"}}), linter, "-oneline"); err == nil {
		t.Errorf("a workflow with a wrong action passes: %s", out)
	}
}

// TestActionHasTheInputs: beside the action itself actionlint knows its inputs,
// and finds none in the generated files that is not among them.
func TestActionHasTheInputs(t *testing.T) {
	linter := tool(t, "actionlint")
	action, err := os.ReadFile("../../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{Environments, Dispatch} {
		env := read(t, "canary", nil)
		if mode == Dispatch {
			env = read(t, "canary", byResume)
		}
		files, err := GitHub([]Environment{env}, githubOptions(func(o *GitHubOptions) { o.Mode, o.Action, o.Release = mode, "./", "" }))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, File{Path: "action.yml", Text: string(action)})
		if out, err := run(t, repository(t, files), linter, "-no-color", "-oneline"); err != nil {
			t.Errorf("%s: %v\n%s", mode, err, out)
		}
		files[0].Text = strings.ReplaceAll(files[0].Text, "config:", "configuration:")
		if out, err := run(t, repository(t, files), linter, "-no-color", "-oneline"); err == nil {
			t.Errorf("%s: an input that is not there passes: %s", mode, out)
		}
	}
}

// TestZizmor: zizmor finds nothing in any workflow at its default severity.
func TestZizmor(t *testing.T) {
	linter, all := tool(t, "zizmor"), cases(t)
	args := []string{"--offline", "--no-progress", "--color", "never", "--no-config"}
	for name, files := range all {
		if strings.HasPrefix(name, "github-") {
			args = append(args, filepath.Join(repository(t, files), ".github"))
		}
	}
	if out, err := run(t, t.TempDir(), linter, args...); err != nil || !strings.Contains(out, "No findings to report") {
		t.Errorf("%v\n%s", err, out)
	}
	bad := "on: push\njobs: {a: {runs-on: ubuntu-24.04, steps: [{run: 'echo ${{ github.head_ref }}'}]}}\n"
	if out, err := run(t, repository(t, []File{{Path: workflows + "bad.yml", Text: bad}}), linter, "--offline", "--no-progress", ".github"); err == nil {
		t.Errorf("an injection passes: %s", out)
	}
}

// TestGitLabPipelines: which jobs of the parent a pipeline has, as a real parser
// understands the rules. Nothing begins on an unprotected ref, in a merge
// request, or in a schedule, whatever its variables are.
func TestGitLabPipelines(t *testing.T) {
	local := tool(t, "gitlab-ci-local")
	files := cases(t)["gitlab-canary"]
	dir := repository(t, append([]File{{Path: ".gitlab-ci.yml", Text: "stages: [deploy]\ninclude:\n  - local: " + files[0].Path + "\nother: {stage: deploy, script: [x], rules: " + OtherRules + "}\n"}}, files...))
	rollout := []string{"manent-shop-prod;on_success", "manent-shop-prod-retire;delayed"}
	for name, row := range map[string]struct {
		source, environment, version, resume, protected string
		want                                            []string
	}{
		"by hand":                      {"web", "shop/shop/prod", "2.0", "", "true", rollout},
		"another environment":          {"web", "shop/shop/test", "2.0", "", "true", nil},
		"no version":                   {"web", "shop/shop/prod", "", "", "true", nil},
		"a push":                       {"push", "", "", "", "true", nil},
		"not protected":                {"web", "shop/shop/prod", "2.0", "", "false", nil},
		"merge request":                {"merge_request_event", "shop/shop/prod", "2.0", "true", "true", nil},
		"schedule":                     {"schedule", "", "", "true", "true", []string{"manent-shop-prod-resume;on_success"}},
		"schedule, not protected":      {"schedule", "", "", "true", "false", nil},
		"schedule for something else":  {"schedule", "", "", "", "true", nil},
		"schedule with a version":      {"schedule", "shop/shop/prod", "2.0", "", "true", nil},
		"by hand, as if by a schedule": {"web", "", "", "true", "true", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := run(t, dir, local, "--list-csv", "--no-json-schema-validation", "--variable", "CI_PIPELINE_SOURCE="+row.source,
				"--variable", "ROLLOUT_ENVIRONMENT="+row.environment, "--variable", "ROLLOUT_VERSION="+row.version,
				"--variable", "MANENT_RESUME="+row.resume, "--variable", "CI_COMMIT_REF_PROTECTED="+row.protected)
			var got []string
			others := 0
			for _, m := range regexp.MustCompile(`(?m)^([a-z-]+);deploy;(\w+);`).FindAllStringSubmatch(out, -1) {
				if m[1] == "other" {
					others++
					continue
				}
				got = append(got, m[1]+";"+m[2])
			}
			if kept := row.source == "schedule" && row.resume == "true"; kept != (others == 0) {
				t.Errorf("the project's other job is there %d times", others)
			}
			if err != nil || !strings.Contains(out, "name;stage;when;") || !slices.Equal(got, row.want) {
				t.Errorf("jobs %q, expected %q: %v\n%s", got, row.want, err, out)
			}
		})
	}
}

// TestGitLabSchema: gitlab-ci-local reads both files of every pipeline and
// finds them as GitLab's CI JSON Schema wants them, and the jobs are all there.
func TestGitLabSchema(t *testing.T) {
	local, seen := tool(t, "gitlab-ci-local"), 0
	for name, files := range cases(t) {
		if !strings.HasPrefix(name, "gitlab-") {
			continue
		}
		seen++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := append([]File{{Path: ".gitlab-ci.yml", Text: "include:\n  - local: " + files[0].Path + "\n"}}, files...)
			dir := repository(t, all)
			for file, job := range map[string]string{".gitlab-ci.yml": "-retire ", files[1].Path: "return "} {
				out, err := run(t, dir, local, "--list-all", "--file", file)
				if err != nil || !strings.Contains(out, "json schema validated") || !strings.Contains(out, job) {
					t.Errorf("%s: %v\n%s", file, err, out)
				}
			}
		})
	}
	if seen == 0 {
		t.Error("no pipeline was looked at")
	}
	component, err := Component()
	if err != nil {
		t.Fatal(err)
	}
	child := File{Path: "child.yml", Text: "a: {script: [x]}\n"}
	const inputs = "key: shop/web/prod, environment: prod, config: envconfig/shop/web/prod.yml, rollout: child.yml, image: example.test/manent, state: project"
	for _, row := range []struct {
		more string
		args []string // GitLab takes an empty list of tags, its own schema does not
	}{
		{", tags: [shop], stage: test", nil},
		{"", []string{"--ignore-schema-paths", "#/definitions/tags/minItems"}},
	} {
		include := "include:\n  - local: templates/rollout.yml\n    inputs: {" + inputs + row.more + "}\n"
		dir := repository(t, []File{{Path: ".gitlab-ci.yml", Text: include}, component, child})
		out, err := run(t, dir, local, append([]string{"--list-all"}, row.args...)...)
		if err != nil || !strings.Contains(out, "json schema validated") || !strings.Contains(out, "manent-rollout-retire ") {
			t.Errorf("component%s: %v\n%s", row.more, err, out)
		}
	}
	if out, err := run(t, repository(t, []File{{Path: ".gitlab-ci.yml", Text: "a: {script: [x], retry: {max: 7}}\n"}}), local, "--list"); err == nil {
		t.Errorf("a wrong pipeline passes: %s", out)
	}
}

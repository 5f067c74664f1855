package action

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

const top = "../../"

// metadata is what action.yml has.
type metadata struct {
	Inputs map[string]struct {
		Description, Default string
	}
	Outputs map[string]struct{ Description, Value string }
	Runs    struct {
		Using string
		Steps []step
	}
}

type step struct {
	ID, Uses, Run, Shell string
	Env                  map[string]string
	With                 map[string]string
}

// workflow is what the rules for workflows look at.
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Uses        string
		Permissions map[string]string
		Timeout     int `yaml:"timeout-minutes"`
		Steps       []step
	}
}

func read(t *testing.T, path string, into any) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, path))
	if err != nil {
		t.Fatal(err)
	}
	if into != nil {
		if err := yaml.Unmarshal(text, into); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	return string(text)
}

// badSteps finds what would let a value become a part of a script, or an
// action become another one.
func badSteps(where string, steps []step) []string {
	var out []string
	for i, s := range steps {
		if strings.Contains(s.Run, "${{") {
			out = append(out, fmt.Sprintf("%s: step %d has an expression in its script: hand it over in env", where, i))
		}
		if s.Uses != "" && s.Uses != "./" && !regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`).MatchString(s.Uses) {
			out = append(out, fmt.Sprintf("%s: step %d uses %s, expected a full commit", where, i, s.Uses))
		}
	}
	return out
}

func TestStepsAreHeld(t *testing.T) {
	bad := []step{
		{Run: "echo ${{ github.head_ref }}"}, {Uses: "a/b@v1"}, {Uses: "a/b@" + strings.Repeat("a", 39)},
		{Run: `echo "$REF"`, Env: map[string]string{"REF": "${{ github.head_ref }}"}}, {Uses: "./"}, {Uses: "a/b/c@" + strings.Repeat("a", 40)},
	}
	if got := badSteps("x", bad); len(got) != 3 {
		t.Errorf("found %q, expected the first three", got)
	}
}

// TestMetadata: the inputs and outputs are the documented ones, each is used,
// and the one step hands values over in its environment only.
func TestMetadata(t *testing.T) {
	var m metadata
	read(t, "action.yml", &m)
	inputs := []string{"command", "config", "environment", "version", "until", "state", "args", "manent-version", "binary-path"}
	outputs := map[string]string{
		"status": "status", "step": "step", "share": "share", "score": "score", "rollout-id": "rollout", "resume-at": "until", "reason": "reason",
	}
	if m.Runs.Using != "composite" || len(m.Runs.Steps) != 1 || m.Runs.Steps[0].Shell != "bash" {
		t.Fatalf("runs %+v, expected one step in bash", m.Runs)
	}
	s := m.Runs.Steps[0]
	for _, problem := range badSteps("action.yml", m.Runs.Steps) {
		t.Error(problem)
	}
	script := read(t, "action/run.sh", nil)
	for _, name := range inputs {
		variable := "INPUT_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		if m.Inputs[name].Description == "" {
			t.Errorf("input %s is missing, or has no description", name)
		}
		if got, want := s.Env[variable], "${{ inputs."+name+" }}"; got != want {
			t.Errorf("%s is %q, expected %q", variable, got, want)
		}
		if strings.Count(script, variable) < 2 { // read, and unset
			t.Errorf("the script does not use %s", variable)
		}
	}
	if len(m.Inputs) != len(inputs) || len(s.Env) != len(inputs)+1 || s.Env["INPUT_TOKEN"] != "${{ github.token }}" {
		t.Errorf("inputs %v, environment %v: expected those inputs and the token", m.Inputs, s.Env)
	}
	for name, from := range outputs {
		if got, want := m.Outputs[name].Value, "${{ steps."+s.ID+".outputs."+from+" }}"; got != want || m.Outputs[name].Description == "" {
			t.Errorf("output %s is %q, expected %q and a description", name, got, want)
		}
	}
	if len(m.Outputs) != len(outputs) {
		t.Errorf("outputs %v, expected %v", m.Outputs, outputs)
	}
}

// TestPage: docs/github.md has a row for each input and output.
func TestPage(t *testing.T) {
	var m metadata
	read(t, "action.yml", &m)
	_, section, _ := strings.Cut(read(t, "docs/github.md", nil), "\n## The action\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	for _, cell := range regexp.MustCompile(`(?m)^\| (\x60.+?) \|`).FindAllStringSubmatch(section, -1) {
		for name := range strings.SplitSeq(cell[1], ", ") {
			rows = append(rows, strings.Trim(name, "`"))
		}
	}
	var names []string
	for name := range m.Inputs {
		names = append(names, name)
	}
	for name := range m.Outputs {
		names = append(names, name)
	}
	slices.Sort(rows)
	slices.Sort(names)
	if !slices.Equal(rows, names) {
		t.Errorf("docs/github.md has rows for %q, expected %q", rows, names)
	}
}

// TestWorkflows: no expression is in a script, actions are pinned, and jobs
// have a time limit and the permissions that they need, no others.
func TestWorkflows(t *testing.T) {
	names, err := filepath.Glob(top + ".github/workflows/*.yml")
	if err != nil || len(names) < 3 {
		t.Fatalf("found %v, error %v, expected test, release and vuln", names, err)
	}
	writes := map[string][]string{
		"release.yml/attest": {"attestations", "id-token"}, "release.yml/publish": {"contents"},
	}
	for _, path := range names {
		name := filepath.Base(path)
		var w workflow
		read(t, ".github/workflows/"+name, &w)
		if w.Permissions == nil || len(w.Permissions) != 0 {
			t.Errorf("%s: permissions %v, expected {} at the top", name, w.Permissions)
		}
		for id, job := range w.Jobs {
			where := name + "/" + id
			for _, problem := range badSteps(where, job.Steps) {
				t.Error(problem)
			}
			if job.Uses == "" && job.Timeout == 0 {
				t.Errorf("%s has no timeout-minutes", where)
			}
			var write []string
			for scope, access := range job.Permissions {
				if access != "read" {
					write = append(write, scope)
				}
			}
			slices.Sort(write)
			if !slices.Equal(write, writes[where]) {
				t.Errorf("%s may write %v, expected %v", where, write, writes[where])
			}
		}
	}
}

// TestVersion: the release that the action brings is a release's name.
func TestVersion(t *testing.T) {
	if text := read(t, "action/version", nil); !regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?\n$`).MatchString(text) {
		t.Errorf("action/version is %q, expected such as v1.2.3", text)
	}
}

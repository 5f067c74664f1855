package arch

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const dependencies = "docs/dependencies.md"

// direct returns the modules that go.mod requires directly.
func direct(t *testing.T) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	cmd.Dir = "../.."
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("go mod edit -json: %v", err)
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(text, &mod); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range mod.Require {
		if !r.Indirect {
			out = append(out, r.Path)
		}
	}
	return out
}

// badDependencies compares go.mod with the table of direct dependencies.
func badDependencies(required []string, page string) []string {
	_, rest, _ := strings.Cut(page, "\n## Direct\n")
	table, _, _ := strings.Cut(rest, "\n## ")
	var listed, out []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|(.+)\\|$").FindAllStringSubmatch(table, -1) {
		listed = append(listed, row[1])
		for _, cell := range strings.Split(row[2], "|") {
			if strings.TrimSpace(cell) == "" {
				out = append(out, fmt.Sprintf("%s: the row of %s has an empty cell", dependencies, row[1]))
			}
		}
	}
	for _, path := range required {
		if !slices.Contains(listed, path) {
			out = append(out, fmt.Sprintf("go.mod requires %s, which has no row in %s: a dependency needs a reason that somebody can check", path, dependencies))
		}
	}
	for _, path := range listed {
		if !slices.Contains(required, path) {
			out = append(out, fmt.Sprintf("%s has a row for %s, which go.mod does not require directly", dependencies, path))
		}
	}
	return out
}

func TestDependenciesAreExplained(t *testing.T) {
	project := here(t)
	page, err := fs.ReadFile(project.all, dependencies)
	if err != nil {
		t.Fatal(err)
	}
	check(t, badDependencies(direct(t), string(page)))
}

// badWorkflow finds actions that are not pinned: a tag can be moved to other
// code by whoever owns the action.
func badWorkflow(name, text string) []string {
	var out []string
	for _, use := range regexp.MustCompile(`(?m)^\s*-?\s*uses:\s*(\S+)(.*)$`).FindAllStringSubmatch(text, -1) {
		local := strings.HasPrefix(use[1], "./")
		if !local && !regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`).MatchString(use[1]) {
			out = append(out, fmt.Sprintf("%s uses %s, expected a full commit: a tag can be moved", name, use[1]))
		}
		if !local && !regexp.MustCompile(`^\s+# v\d`).MatchString(use[2]) {
			out = append(out, fmt.Sprintf("%s uses %s without its version in a comment", name, use[1]))
		}
	}
	if !strings.Contains(text, "\npermissions:") {
		out = append(out, name+" has no permissions at its top: it would get what the repository's default is")
	}
	return out
}

func TestWorkflowsArePinned(t *testing.T) {
	project := here(t)
	names, err := fs.Glob(project.all, ".github/workflows/*.yml")
	if err != nil || len(names) == 0 {
		t.Fatalf("found workflows %v, error %v, expected some", names, err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(project.all, name)
		if err != nil {
			t.Fatal(err)
		}
		check(t, badWorkflow(name, string(text)))
	}
}

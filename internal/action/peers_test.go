//go:build peers

package action

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// linter runs a program that `make peers` has installed.
func linter(t *testing.T, dir, name string, args ...string) (string, int) {
	t.Helper()
	path := filepath.Join(os.Getenv("MANENT_PEERS_BIN"), name)
	if _, err := os.Stat(path); os.Getenv("MANENT_PEERS_BIN") == "" || errors.Is(err, fs.ErrNotExist) {
		path = name
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.String(), exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return out.String(), 0
}

// caller uses every input and output of the action.
const caller = `on: push
permissions: {}
jobs:
  a:
    runs-on: ubuntu-24.04
    steps:
      - uses: ./
        id: m
        with: {command: run, config: c, environment: e, version: v, until: u, state: s, args: a, manent-version: v1.0.0, binary-path: b}
      - run: test "$ALL"
        env:
          ALL: ${{ steps.m.outputs.status }}${{ steps.m.outputs.step }}${{ steps.m.outputs.share }}${{ steps.m.outputs.score }}${{ steps.m.outputs.rollout-id }}${{ steps.m.outputs.resume-at }}${{ steps.m.outputs.reason }}
`

// project is a repository with the action, the workflows, and another one.
func project(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	for _, path := range []string{"action.yml", ".github"} {
		if out, code := linter(t, ".", "cp", "-r", top+path, dir); code != 0 {
			t.Fatal(out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".github/workflows", name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, code := linter(t, dir, "git", "init", "-q"); code != 0 {
		t.Fatal(out)
	}
	return dir
}

// TestActionlint: nothing to say about the workflows, nor about a call of the
// action with all that it has.
func TestActionlint(t *testing.T) {
	if out, code := linter(t, project(t, "caller.yml", caller), "actionlint", "-no-color", "-oneline"); code != 0 {
		t.Error(out)
	}
	for _, wrong := range []string{strings.Replace(caller, "until:", "til:", 1), strings.Replace(caller, "outputs.reason", "outputs.why", 1)} {
		if out, code := linter(t, project(t, "caller.yml", wrong), "actionlint", "-oneline"); code == 0 {
			t.Errorf("a wrong call passes: %s", out)
		}
	}
}

// TestZizmor: nothing to say about the action and the workflows.
func TestZizmor(t *testing.T) {
	args := []string{"--offline", "--no-progress", "--color", "never", "--no-config", "action.yml", ".github"}
	if out, code := linter(t, top, "zizmor", args...); code != 0 || !strings.Contains(out, "No findings to report") {
		t.Error(out)
	}
	bad := "on: push\njobs: {a: {runs-on: ubuntu-24.04, steps: [{run: 'echo ${{ github.head_ref }}'}]}}\n"
	if out, code := linter(t, project(t, "bad.yml", bad), "zizmor", args...); code == 0 {
		t.Errorf("an injection passes: %s", out)
	}
}

// TestShellcheck: nothing to say about the script.
func TestShellcheck(t *testing.T) {
	if out, code := linter(t, top, "shellcheck", "action/run.sh"); code != 0 {
		t.Error(out)
	}
	bad := filepath.Join(t.TempDir(), "bad.sh")
	if err := os.WriteFile(bad, []byte("#!/bin/bash\nrm $1/*\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, code := linter(t, top, "shellcheck", bad); code == 0 {
		t.Errorf("an unquoted word passes: %s", out)
	}
}

// TestBuiltFromSource: inside its own repository the action builds manent.
func TestBuiltFromSource(t *testing.T) {
	j := newJob(t, nil)
	j.builds = true
	j.env["INPUT_COMMAND"], j.env["INPUT_MANENT_VERSION"] = "version", ""
	j.env["GITHUB_WORKSPACE"] = j.env["GITHUB_ACTION_PATH"]
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY"} {
		out, code := linter(t, ".", "go", "env", name)
		if code != 0 {
			t.Fatal(out)
		}
		j.env[name] = strings.TrimSpace(out)
	}
	if out, messages, code := j.run(t); code != 0 || !strings.HasPrefix(out[strings.LastIndex(out[:len(out)-1], "\n")+1:], "manent devel, go") {
		t.Errorf("ended with %d\n%s\n%s", code, out, messages)
	}
}

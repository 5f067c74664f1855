//go:build peers

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPeersDocumentedPluginReturns types docs/external.md word for word: its
// program, its configuration and every line of "Try it", in one bash that stops
// at the first failure. Then it goes back to a version that it deployed; the
// page goes back to what was there before manent, of which the program knows
// nothing. It needs python3.
func TestPeersDocumentedPluginReturns(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/external.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, found := bytes.Cut(page, []byte("## Try it\n"))
	if !found {
		t.Fatal(`no part "Try it"`)
	}
	block := func(language string) string {
		found := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(page)
		if found == nil {
			t.Fatalf("no block of %s", language)
		}
		return string(found[1])
	}
	// What python3 is in PATH may be a slow script that finds the real one.
	python, err := exec.CommandContext(t.Context(), "python3", "-c", "import os, sys; print(os.path.dirname(sys.executable), end='')").Output()
	if err != nil {
		t.Fatalf("python3: %v", err)
	}
	s := newShop(t)
	if err := os.WriteFile(filepath.Join(s.dir, "gateway.py"), []byte(block("python")), 0o600); err != nil {
		t.Fatal(err)
	}
	s.configure(block("yaml"))
	path := string(python) + string(filepath.ListSeparator) + os.Getenv("PATH")
	s.env = append(s.env, "PATH="+path)
	bash := exec.CommandContext(t.Context(), "bash", "-ec", block("sh"))
	bash.Dir, bash.Env = s.dir, s.environ()
	out, err := bash.CombinedOutput()
	for _, want := range []string{
		"plugin: the weights are as they were: passed", "25%: reached", "all traffic is at slot a", "version 1.1 serves with all traffic",
		"what was in slot a is scaled down", "a     –        0 %    retired",
	} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Fatalf("error %v, the page does not show %q\n%s", err, want, out)
		}
	}
	gateway := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(filepath.Join(s.dir, "gateway.json")); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("gateway %s, error %v, expected %s", got, err, want)
		}
	}
	gateway(`"replicas": {"b": 10, "a": 0}, "weights": {"a": 0, "b": 100}`)
	s.exits(0, "run", "--version", "2.0", "--until", "25%")
	gateway(`"weights": {"a": 25, "b": 75}`)
	s.exits(0, "revert", "--version", "2.0")
	gateway(`"weights": {"a": 0, "b": 100}`)
}

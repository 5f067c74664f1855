//go:build peers

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const byDocumentedPlugin = `
project: shop
application: web
environment: prod
state: file:state
plugin:
  name: external
  settings:
    command: [python3, gateway.py]
    capabilities: [deploy, slots, scale, traffic_router]
    conditional: true
    testers: header
    settings: {file: gateway.json}
rollout:
  traffic: {steps: [25, 100]}
`

// TestPeersDocumentedPluginReturns: the plugin of docs/external.md, word for
// word, goes back to what was there before manent, of which it knows nothing,
// and to a version that it deployed. It needs python3.
func TestPeersDocumentedPluginReturns(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/external.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```python\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(found) != 1 {
		t.Fatalf("%d programs on the page, expected one", len(found))
	}
	// What python3 is in PATH may be a slow script that finds the real one.
	python, err := exec.CommandContext(t.Context(), "python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Fatalf("python3: %v", err)
	}
	s := newShop(t)
	if err := os.WriteFile(filepath.Join(s.dir, "gateway.py"), []byte(found[0][1]), 0o600); err != nil {
		t.Fatal(err)
	}
	s.configure(strings.Replace(byDocumentedPlugin, "python3", strings.TrimSpace(string(python)), 1))
	weights := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(filepath.Join(s.dir, "gateway.json")); err != nil || !strings.Contains(string(got), `"weights": `+want) {
			t.Errorf("gateway %s, error %v, expected weights %s", got, err, want)
		}
	}
	s.exits(0, "run", "--version", "2.0", "--until", "25%")
	weights(`{"a": 75, "b": 25}`)
	s.exits(0, "revert", "--version", "2.0")
	weights(`{"a": 100, "b": 0}`)
	s.exits(0, "run", "--version", "3.0")
	weights(`{"a": 0, "b": 100}`)
	s.exits(0, "run", "--version", "4.0", "--until", "25%")
	s.exits(0, "revert", "--version", "4.0")
	weights(`{"a": 0, "b": 100}`)
}

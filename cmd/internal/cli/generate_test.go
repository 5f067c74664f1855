package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// callsIn finds every call of manent in a generated file: the inputs of the
// action as it hands them on, or a line of a script.
func callsIn(t *testing.T, path string) [][]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file any
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	var calls [][]string
	walk(file, func(node map[string]any) {
		with, _ := node["with"].(map[string]any)
		if verb, ok := with["command"].(string); ok {
			call := []string{verb, "-c", with["config"].(string)}
			for _, input := range []string{"version", "until"} {
				if value, ok := with[input].(string); ok {
					call = append(call, "--"+input, value)
				}
			}
			args, _ := with["args"].(string)
			args = strings.ReplaceAll(args, "${{ contains(needs.*.result, 'cancelled') && 'cancelled' || 'failure' }}", "failure")
			calls = append(calls, append(call, strings.Fields(args)...))
		}
		script, _ := node["script"].([]any)
		for _, item := range script {
			for line := range strings.Lines(item.(string)) {
				words := strings.Fields(strings.TrimSuffix(strings.TrimSpace(line), " || exit"))
				if len(words) > 0 && words[0] == "manent" {
					calls = append(calls, words[1:])
				}
			}
		}
	})
	return calls
}

func walk(node any, visit func(map[string]any)) {
	switch n := node.(type) {
	case map[string]any:
		visit(n)
		for _, v := range n {
			walk(v, visit)
		}
	case []any:
		for _, v := range n {
			walk(v, visit)
		}
	}
}

// TestCallsOfPipelines: every call in every generated file is one
// that this command line takes. With --help a verb does nothing, but refuses
// flags that it does not know.
func TestCallsOfPipelines(t *testing.T) {
	var paths []string
	for _, pattern := range []string{"*/.github/workflows/*.yml", "*/.gitlab/*.yml"} {
		found, err := filepath.Glob(filepath.Join(top, "runner/generate/testdata", pattern))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	seen := map[string]int{}
	for _, path := range append(paths, filepath.Join(top, "templates/rollout.yml")) {
		for _, call := range callsIn(t, path) {
			verbs := []string{call[0]}
			if strings.HasPrefix(call[0], "${{ inputs.decision") {
				verbs = []string{"approve", "reject", "revert"}
			}
			for _, verb := range verbs {
				seen[verb]++
				args := append(append([]string{verb}, call[1:]...), "--help")
				if code, stdout, stderr := called(t, testApp(t), args...); code != 0 || !strings.Contains(stdout, "Usage:") {
					t.Errorf("%s: manent %s ended with %d: %s", path, strings.Join(call, " "), code, stderr)
				}
			}
		}
	}
	for _, verb := range []string{"run", "approve", "reject", "revert", "resume"} {
		if seen[verb] == 0 {
			t.Errorf("no file calls %s", verb)
		}
	}
	if code, _, _ := called(t, testApp(t), "run", "--no-such-flag", "--help"); code == 0 {
		t.Error("an unknown flag is taken, so this test proves nothing")
	}
}

package generate

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestApprovalScript runs the script of a GitLab approval with a manent that
// only notes how it is called: a rejection fails the job whatever came of it,
// and no other word decides anything.
func TestApprovalScript(t *testing.T) {
	files, err := GitLab([]Environment{read(t, "canary", nil)}, gitlabOptions(nil))
	if err != nil {
		t.Fatal(err)
	}
	var jobs map[string]any
	if err := yaml.Unmarshal([]byte(files[1].Text), &jobs); err != nil {
		t.Fatal(err)
	}
	script := jobs["approval-25"].(map[string]any)["script"].([]any)[0].(string)
	for _, row := range []struct {
		decision, exits string
		code            int
		called          string
	}{
		{"approve", "0", 0, "approve"},
		{"approve", "4", 4, "approve"},
		{"reject", "0", 1, "reject"},
		{"reject", "6", 6, "reject"},
		{"", "0", 64, ""},
		{"revert; manent approve", "0", 64, ""},
		{"approve ", "0", 64, ""},
	} {
		t.Run(row.decision+" "+row.exits, func(t *testing.T) {
			dir := t.TempDir()
			fake := "#!/bin/sh\nprintf '%s\\n' \"$@\" >>\"$NOTE\"\nexit $EXITS\n"
			if err := os.WriteFile(filepath.Join(dir, "manent"), []byte(fake), 0o755); err != nil {
				t.Fatal(err)
			}
			note := filepath.Join(dir, "note")
			cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "NOTE="+note, "EXITS="+row.exits,
				"DECISION="+row.decision, "VERSION=2.0 --force")
			code := 0
			if err := cmd.Run(); err != nil {
				exit, ok := errors.AsType[*exec.ExitError](err)
				if !ok {
					t.Fatal(err)
				}
				code = exit.ExitCode()
			}
			said, _ := os.ReadFile(note)
			words := strings.Split(strings.TrimSpace(string(said)), "\n")
			if code != row.code || words[0] != row.called {
				t.Fatalf("ended with %d, manent was called with %q; expected %d, %q", code, words, row.code, row.called)
			}
			if row.called != "" && !strings.Contains(string(said), "\n--version\n2.0 --force\n") {
				t.Errorf("the version came apart: %q", words)
			}
		})
	}
}

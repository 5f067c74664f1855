//go:build unix

package handoff

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// odd are paths of what is there and is no regular file.
func odd(t *testing.T, dir string) map[string]string {
	t.Helper()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"a pipe": pipe, "a link to a pipe": link, "a folder": dir, "a device": os.DevNull}
}

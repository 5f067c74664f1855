//go:build unix

package accesslog

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPipe: nginx in a container often logs to a pipe, which cannot be read
// twice and would block.
func TestPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Log{Files: []string{pipe}}.Read(t.Context(), time.Time{}, time.Time{}, tiny, func(Entry) {})
	if err == nil || !strings.Contains(err.Error(), "is a device or pipe, expected a file") {
		t.Errorf("error %v", err)
	}
}

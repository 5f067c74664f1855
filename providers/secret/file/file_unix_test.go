//go:build unix

package file

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/manent/action/providers"
)

// TestPipe: a pipe would block until somebody writes.
func TestPipe(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	source, _ := open(t, dir)
	for _, ref := range []string{"pipe", filepath.Join(dir, "pipe")} {
		if _, err := source.Resolve(t.Context(), ref); providers.KindOf(err) != providers.Invalid || err == nil {
			t.Errorf("%s: error %v", ref, err)
		}
	}
}

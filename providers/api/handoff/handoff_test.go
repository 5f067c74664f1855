package handoff

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, step := range []struct {
		do   func() error
		want string
	}{
		{func() error { return nil }, ""},
		{func() error { return Append(path, "a\n") }, "a\n"},
		{func() error { return Append(path, "b\n") }, "a\nb\n"},
		{func() error { return Replace(path, "c\n") }, "c\n"},
		{func() error { return Replace(path, strings.Repeat("d", 30)) }, strings.Repeat("d", 20)},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(path, 20); err != nil || got != step.want {
			t.Errorf("read %q, %v, expected %q", got, err, step.want)
		}
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".manent-*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %q, error %v", left, err)
	}
}

// TestNoRegularFile: what is refused is not opened, which could block for ever,
// and stays what it was.
func TestNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	for name, path := range odd(t, dir) {
		t.Run(name, func(t *testing.T) {
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			_, reading := Read(path, 20)
			for what, err := range map[string]error{"check": Check(path), "read": reading, "append": Append(path, "x"), "replace": Replace(path, "x")} {
				if err == nil || !strings.Contains(err.Error(), "expected a regular file") {
					t.Errorf("%s: error %v", what, err)
				}
			}
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
				t.Errorf("it was replaced, %v", err)
			}
		})
	}
}

func TestCannotWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "f")
	for what, err := range map[string]error{"append": Append(path, "x"), "replace": Replace(path, "x")} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

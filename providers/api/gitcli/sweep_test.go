//go:build !windows

package gitcli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestSweep: only old directories of ours whose process is gone are removed.
func TestSweep(t *testing.T) {
	gone := exec.CommandContext(t.Context(), "git", "version")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	temp, dead, alive := t.TempDir(), gone.Process.Pid, os.Getpid()
	old := fmt.Sprintf("manent-state-%d-1", dead)
	stay := []string{
		fmt.Sprintf("manent-state-%d-2", alive), fmt.Sprintf("manent-state-%d", dead), "manent-state-x-3", "manent-state--1-4",
		fmt.Sprintf("other-%d-5", dead), fmt.Sprintf("%d-6", dead),
	}
	now := time.Now()
	for _, name := range append([]string{old}, stay...) {
		if err := os.MkdirAll(filepath.Join(temp, name, "objects"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file, link := fmt.Sprintf("manent-state-%d-7", dead), fmt.Sprintf("manent-state-%d-8", dead)
	if err := os.WriteFile(filepath.Join(temp, file), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(stay[0], filepath.Join(temp, link)); err != nil {
		t.Fatal(err)
	}
	stay = append(stay, file, link)

	sweep(temp, now.Add(23*time.Hour))
	if got := names(t, temp); len(got) != len(stay)+1 {
		t.Errorf("after 23 hours %q, expected all to stay", got)
	}
	sweep(temp, now.Add(25*time.Hour))
	slices.Sort(stay)
	if got := names(t, temp); !slices.Equal(got, stay) {
		t.Errorf("after 25 hours %q, expected %q", got, stay)
	}
}

// TestScratchSweeps: making a scratch repository cleans up, and a new name
// says whose it is.
func TestScratchSweeps(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	gone := exec.CommandContext(t.Context(), "git", "version")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(temp, fmt.Sprintf("manent-state-%d-1", gone.Process.Pid))
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	before := time.Now().Add(-25 * time.Hour)
	if err := os.Chtimes(left, before, before); err != nil {
		t.Fatal(err)
	}
	c := client(t.TempDir(), nil)
	c.address = "/srv/state.git"
	dir, err := c.Scratch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, temp); !slices.Equal(got, []string{filepath.Base(dir)}) {
		t.Errorf("%q, expected only %q", got, dir)
	}
	if match, err := filepath.Match(fmt.Sprintf("manent-state-%d-*", os.Getpid()), filepath.Base(dir)); err != nil || !match {
		t.Errorf("name %q does not say whose it is", dir)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

//go:build unix

package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be the process that is killed: with
// MANENT_TEST_PARENT set it runs that command and nothing else.
func TestMain(m *testing.M) {
	script := os.Getenv("MANENT_TEST_PARENT")
	if script == "" {
		os.Exit(m.Run())
	}
	_, _ = Run(context.Background(), Command{
		Run: script, Timeout: time.Minute,
		Vars: map[string]string{"MANENT_FIFO": os.Getenv("MANENT_TEST_FIFO")},
	})
}

// TestParentKilled kills the process that runs a command with SIGKILL, so that
// it can do nothing about it any more.
func TestParentKilled(t *testing.T) {
	for name, script := range map[string]string{
		"shell and child": holder,
		"ignores signals": `trap "" TERM HUP INT; ` + holder,
		"only grandchild": `(` + holder + `) & wait`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, ready, gone := fifo(t)
			parent := exec.CommandContext(t.Context(), os.Args[0])
			parent.Env = append(os.Environ(), "MANENT_TEST_PARENT="+script, "MANENT_TEST_FIFO="+path)
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			ready()
			if err := parent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = parent.Wait()
			gone()
		})
	}
}

// TestNoZombies asks the kernel whether this process has any child left, ended
// or not, after commands of every kind of end.
func TestNoZombies(t *testing.T) {
	for _, script := range []string{"true", "exit 1", "kill -KILL $$", "exec sleep 1000", "exit"} {
		_, _, _ = run(t, Command{Run: script, Timeout: 200 * time.Millisecond, grace: short})
	}
	var status syscall.WaitStatus
	if pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("child %d is left, error %v, expected no child", pid, err)
	}
}

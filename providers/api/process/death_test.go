//go:build unix

package process

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
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

// TestNoZombies looks at the children that this process has after commands of
// every kind of end.
func TestNoZombies(t *testing.T) {
	before := children(t)
	for _, script := range []string{"true", "exit 1", "kill -KILL $$", "sleep 1000"} {
		_, _, _ = run(t, Command{Run: script, Timeout: 200 * time.Millisecond, grace: short})
	}
	if after := children(t); after != before {
		t.Errorf("%d children, %d before", after, before)
	}
}

// children counts this process's children, zombies among them.
func children(t *testing.T) int {
	t.Helper()
	ps := exec.CommandContext(t.Context(), "ps", "-A", "-o", "ppid=,pid=")
	out, err := ps.Output()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if fields[0] == strconv.Itoa(os.Getpid()) && fields[1] != strconv.Itoa(ps.Process.Pid) {
			count++
		}
	}
	return count
}

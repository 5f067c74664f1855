//go:build peers

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// actKit is what all runs of the local runner share: nektos/act, and a folder
// for its caches in which manent stands where the action looks for a release
// that it has downloaded before.
type actKit struct {
	act    string
	cache  string
	action string // folder with nothing but the action
	binary string // manent, in the cache
}

// pin is the commit that the generated files name; act is told to take the
// folder of the kit for it.
const pin = "manent/action@0123456789abcdef0123456789abcdef01234567"

func newActKit(t *testing.T) *actKit {
	t.Helper()
	k := &actKit{act: filepath.Join(os.Getenv("MANENT_PEERS_BIN"), "act"), cache: t.TempDir(), action: t.TempDir()}
	if _, err := os.Stat(k.act); os.Getenv("MANENT_PEERS_BIN") == "" || errors.Is(err, fs.ErrNotExist) {
		k.act = "act"
	}
	if _, err := exec.LookPath(k.act); err != nil {
		t.Fatalf("act, in PATH or in the folder MANENT_PEERS_BIN names: %v", err)
	}
	for _, name := range []string{"action.yml", "action/run.sh", "action/version"} {
		data, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		actFile(t, filepath.Join(k.action, name), data)
	}
	k.build(t)
	return k
}

// build builds manent as it is released.
func (k *actKit) build(t *testing.T) {
	t.Helper()
	k.binary = filepath.Join(t.TempDir(), "manent")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", k.binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func actFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// actCall is one process of act: one job, or a whole workflow.
type actCall struct {
	t       *testing.T
	cmd     *exec.Cmd
	out     transcript
	ended   chan struct{}
	results map[string]string // by job: success or failure; a job that was skipped is not there
	codes   map[string]int    // exit code of the step that a job failed at
	text    string            // what the steps printed
}

// call starts act on a workflow file.
func (k *actKit) call(t *testing.T, dir, event, file string, args ...string) *actCall {
	t.Helper()
	c := &actCall{t: t, ended: make(chan struct{}), results: map[string]string{}, codes: map[string]int{}}
	c.cmd = exec.CommandContext(t.Context(), k.act, append([]string{
		event, "--workflows", file, "--json", "--rm", "--no-cache-server", "--platform", "ubuntu-latest=-self-hosted",
		"--action-cache-path", k.cache, "--local-repository", pin + "=" + k.action,
	}, args...)...)
	c.cmd.Dir = dir
	c.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(dir), "TMPDIR=" + t.TempDir(), "NO_PROXY=*", "GIT_CONFIG_NOSYSTEM=1"}
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = c.cmd.Wait() // the results say how it went
		close(c.ended)
	}()
	return c
}

// wait waits for act's end and reads what it has logged.
func (c *actCall) wait() *actCall {
	c.t.Helper()
	<-c.ended
	var text strings.Builder
	lines := bufio.NewScanner(bytes.NewReader([]byte(c.out.String())))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Job    string `json:"jobID"`
			Result string `json:"jobResult"`
			Level  string
			Msg    string
			Raw    bool `json:"raw_output"`
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue // act's own last word
		}
		switch {
		case line.Raw:
			text.WriteString(line.Msg)
		case line.Result != "":
			c.results[line.Job] = line.Result
		case line.Level == "error":
			if code, ok := strings.CutPrefix(line.Msg, "exit status "); ok {
				c.codes[line.Job], _ = strconv.Atoi(code)
			}
		}
	}
	c.text = text.String()
	return c
}

// entry waits for the process that the runner has started for the step, in
// which manent is at work: the script of the action has become it.
func (c *actCall) entry() int {
	c.t.Helper()
	var pid int
	eventually(c.t, func() error {
		select {
		case <-c.ended:
			c.t.Fatalf("act has ended\n%s", &c.out)
		default:
		}
		for _, p := range actChildren(c.cmd.Process.Pid) {
			if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p)); err == nil && filepath.Base(exe) == "manent" {
				pid = p
				return nil
			}
		}
		return fmt.Errorf("no step of %d runs manent", c.cmd.Process.Pid)
	})
	return pid
}

// actChildren are the processes that a process has started, by any thread.
func actChildren(pid int) []int {
	var out []int
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		data, _ := os.ReadFile(list)
		for _, word := range strings.Fields(string(data)) {
			if n, err := strconv.Atoi(word); err == nil && !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out
}

// cancel does what GitHub's runner does to a cancelled step: SIGINT to its
// first process, SIGTERM after 7.5 s, and 2.5 s later everything that is left
// is killed. It returns the signals that were sent.
func (c *actCall) cancel(pid int) []syscall.Signal {
	c.t.Helper()
	var sent []syscall.Signal
	for _, next := range []struct {
		signal   syscall.Signal
		patience time.Duration
	}{{syscall.SIGINT, 7500 * time.Millisecond}, {syscall.SIGTERM, 2500 * time.Millisecond}, {syscall.SIGKILL, time.Minute}} {
		sent = append(sent, next.signal)
		if next.signal == syscall.SIGKILL {
			pid = -pid
		}
		if err := syscall.Kill(pid, next.signal); err != nil {
			c.t.Fatal(err)
		}
		select {
		case <-c.ended:
			return sent
		case <-time.After(next.patience): // the runner's, not a wait for something to happen
		}
	}
	c.t.Fatal("act does not end although its step was killed")
	return nil
}

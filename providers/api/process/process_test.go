//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/manent/action/providers"
)

// run runs a command with what most tests want, and gives the lines it showed.
func run(t *testing.T, c Command) (Result, []string, error) {
	t.Helper()
	var lines []string
	c.Name, c.Provider = "deploy", "exec"
	c.Output = func(line string) { lines = append(lines, line) }
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	result, err := Run(t.Context(), c)
	return result, lines, err
}

func TestRunTellsHowACommandEnded(t *testing.T) {
	cases := map[string]struct {
		command Command
		exit    int
		kind    providers.Kind
		says    string
		hint    string
	}{
		"no": {Command{Run: "echo one; echo no such image >&2; exit 3"}, 3, providers.Invalid,
			"exec: command deploy: ended with exit code 3; its last output:\n  one\n  no such image", ""},
		"silent":             {Command{Run: "exit 1"}, 1, providers.Invalid, "exit code 1, without any output", ""},
		"not yet":            {Command{Run: "exit 75"}, ExitTempFail, providers.Invalid, "exit code 75", ""},
		"child killed":       {Command{Run: `sh -c 'kill -KILL $$'; exit $?`}, 137, providers.Invalid, "exit code 137", "signal 9"},
		"killed by somebody": {Command{Run: "kill -KILL $$"}, -1, providers.Unknown, "ended from outside: signal: killed", ""},
		"syntax":             {Command{Run: "if"}, 2, providers.Invalid, "exit code 2", ""},
		"no directory":       {Command{Run: "true", Dir: "/nonexistent-dir"}, -1, providers.Invalid, "could not start", ""},
		"too long to start":  {Command{Run: "true", Vars: map[string]string{"MANENT_X": strings.Repeat("x", 1<<20)}}, -1, providers.Invalid, "could not start", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			result, _, err := run(t, tc.command)
			if err == nil || providers.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v (%v), expected %v with %q", err, providers.KindOf(err), tc.kind, tc.says)
			}
			if result.Exit != tc.exit || result.Values != nil {
				t.Errorf("result %+v, expected exit %d without values", result, tc.exit)
			}
			if !strings.Contains(providers.HintOf(err), tc.hint) {
				t.Errorf("hint %q, expected it to have %q", providers.HintOf(err), tc.hint)
			}
		})
	}
}

func TestRunShowsBothStreamsInLines(t *testing.T) {
	result, lines, err := run(t, Command{Run: `printf 'a\n\nb\r\n'; printf 'no end' >&2`})
	if err != nil || result.Exit != 0 {
		t.Fatalf("result %+v, error %v", result, err)
	}
	if diff := cmp.Diff([]string{"a", "", "b", "no end"}, lines); diff != "" {
		t.Error(diff)
	}
}

func TestRunGivesNoInput(t *testing.T) {
	if _, lines, err := run(t, Command{Run: "cat; echo end"}); err != nil || len(lines) != 1 || lines[0] != "end" {
		t.Errorf("lines %q, error %v, expected only %q", lines, err, "end")
	}
}

// TestRunTakesDataAsData hands in what a shell would act upon if it were text
// of the script.
func TestRunTakesDataAsData(t *testing.T) {
	nasty := "$(touch hacked) `touch hacked` ; touch hacked\n'\""
	dir := t.TempDir()
	_, lines, err := run(t, Command{Run: `printf '%s\n' "$MANENT_VERSION"; pwd`, Dir: dir, Vars: map[string]string{"MANENT_VERSION": nasty}})
	if err != nil || strings.Join(lines[:2], "\n") != nasty {
		t.Errorf("lines %q, error %v, expected the value unchanged", lines, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "hacked")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the value was run as a command: %v", err)
	}
}

func TestRunHandsOnTheEnvironment(t *testing.T) {
	t.Setenv("KUBECONFIG", "/etc/kube")
	t.Setenv("MANENT_RUN_ID", "17")
	t.Setenv("MANENT_REF_HOST", "stale, of the command around")
	_, lines, err := run(t, Command{
		Run:  `echo "$KUBECONFIG,$MANENT_RUN_ID,$MANENT_REF_HOST,$MANENT_SLOT"`,
		Vars: map[string]string{"MANENT_SLOT": "b"},
	})
	if err != nil || lines[0] != "/etc/kube,17,,b" {
		t.Errorf("lines %q, error %v", lines, err)
	}
}

func TestRunRefusesVariables(t *testing.T) {
	for _, vars := range []map[string]string{
		{"PATH": "/tmp"}, {"MANENT_": "x"}, {"MANENT_A=B": "x"}, {"manent_a": "x"}, {"MANENT_OUTPUT": "/etc/passwd"}, {"MANENT_A": "a\x00b"},
	} {
		if _, lines, err := run(t, Command{Run: "echo ran", Vars: vars}); providers.KindOf(err) != providers.Invalid || lines != nil {
			t.Errorf("%q: lines %q, error %v, expected it to be refused and nothing run", vars, lines, err)
		}
	}
}

func TestRunRedacts(t *testing.T) {
	secrets := &providers.Redactor{}
	secrets.Add(providers.NewSecret("hunter2hunter2"))
	c := Command{Secrets: secrets, Run: `echo "token hunter2hunter2"; printf '%4090s hunter2hunter2\n' x >&2; exit 1`}
	result, lines, err := run(t, c)
	for what, text := range map[string]string{
		"output": strings.Join(lines, "\n"), "tail": strings.Join(result.Tail, "\n"), "error": err.Error(),
	} {
		if strings.Contains(text, "hunter2") || !strings.Contains(text, "token [redacted]") {
			t.Errorf("%s is %.80q, expected the secret to be redacted", what, text)
		}
	}
}

// TestRunRedactsAroundControlCharacters: what is dropped from a line must not
// put a secret together, and what is trimmed must not hide one.
func TestRunRedactsAroundControlCharacters(t *testing.T) {
	secrets := &providers.Redactor{}
	secrets.Add(providers.NewSecret("hunter2hunter2"))
	secrets.Add(providers.NewSecret("first-line\r\nbell\x07bell"))
	cases := map[string]string{
		"inside it":           `printf 'token hunt\000er2hun\033ter2\n'`,
		"a second return":     `printf 'token hunter2\rhunter2\r\n'`,
		"far down a line":     `printf 'token %4085s hunt\001er2hunter2\n' x`,
		"its own at the end":  `printf 'token first-line\r\n'`,
		"its own in between":  `printf 'token bell\007bell\n'`,
		"no byte of a letter": `printf 'token hunter2hunt\001er2\377\n'`,
	}
	for name, script := range cases {
		t.Run(name, func(t *testing.T) {
			result, lines, err := run(t, Command{Secrets: secrets, Run: script + "; exit 1"})
			if err == nil {
				t.Fatal("no error, expected one with the output")
			}
			for what, text := range map[string]string{
				"output": plain(strings.Join(lines, "")), "tail": strings.Join(result.Tail, ""), "error": err.Error(),
			} {
				if strings.Contains(text, "hunt") || strings.Contains(text, "first-line") || strings.Contains(text, "bell") || !strings.Contains(text, "token ") {
					t.Errorf("%s is %q, expected the secret to be redacted", what, text)
				}
			}
		})
	}
}

func TestRunBoundsOutput(t *testing.T) {
	shown, longest := 0, 0
	result, err := Run(t.Context(), Command{
		Run: `head -c 20000000 /dev/zero | tr '\0' x; echo; yes line | head -n 200000; exit 1`,
		Output: func(line string) {
			shown++
			longest = max(longest, len(line))
		},
	})
	if shown != 200001 || longest > MaxLine+len(cut) {
		t.Errorf("%d lines, the longest of %d bytes, expected 200001 and at most %d", shown, longest, MaxLine+len(cut))
	}
	if len(result.Tail) != TailLines || len(err.Error()) > (MaxLine+10)*TailLines {
		t.Errorf("tail of %d lines, error of %d bytes", len(result.Tail), len(err.Error()))
	}
}

func TestRunKeepsReportsPlain(t *testing.T) {
	result, lines, _ := run(t, Command{Run: `printf 'red \033[31m\377\n'`})
	if lines[0] != "red \x1b[31m�" || result.Tail[0] != "red [31m�" {
		t.Errorf("shown %q, reported %q", lines, result.Tail)
	}
}

func TestRunReturnsValues(t *testing.T) {
	c := Command{Run: `echo revision=web-7 >>"$MANENT_OUTPUT"; printf '\nurl=https://h/?a=b&c= d' >>"$MANENT_OUTPUT"; echo "$MANENT_OUTPUT"`}
	result, lines, err := run(t, c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"revision": "web-7", "url": "https://h/?a=b&c= d"}, result.Values); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(filepath.Dir(lines[0])); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file was left behind: %v", err)
	}
}

func TestRunRefusesValues(t *testing.T) {
	secrets := &providers.Redactor{}
	secrets.Add(providers.NewSecret("hunter2hunter2"))
	cases := map[string]struct{ script, says string }{
		"no equals sign": {`echo hello >>"$MANENT_OUTPUT"`, "line 1 has no valid key"},
		"key":            {`echo "a b=c" >>"$MANENT_OUTPUT"`, "line 1 has no valid key"},
		"control":        {`printf 'a=\033[0m\n' >>"$MANENT_OUTPUT"`, "the value of a is not plain text"},
		"encoding":       {`printf 'a=\377\n' >>"$MANENT_OUTPUT"`, "the value of a is not plain text"},
		"long value":     {`printf 'a=%1025s\n' x >>"$MANENT_OUTPUT"`, "has 1025 bytes, expected at most 1024"},
		"many keys":      {`for i in $(seq 40); do echo "k$i=v"; done >>"$MANENT_OUTPUT"`, "has 40 keys, expected at most 32"},
		"huge":           {`yes 'a=b' | head -n 20000 >>"$MANENT_OUTPUT"`, "more than 65536 bytes"},
		"secret":         {`echo "a=hunter2hunter2" >>"$MANENT_OUTPUT"`, "the value of a holds a secret"},
		"removed":        {`rm "$MANENT_OUTPUT"`, "no longer the file"},
		"a pipe instead": {`rm "$MANENT_OUTPUT"; mkfifo "$MANENT_OUTPUT"`, "no longer the file"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			result, _, err := run(t, Command{Run: tc.script, Secrets: secrets})
			if providers.KindOf(err) != providers.Invalid || err == nil || !strings.Contains(err.Error(), tc.says) || result.Values != nil {
				t.Errorf("values %v, error %v, expected it to say %q", result.Values, err, tc.says)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error %q holds the secret", err)
			}
		})
	}
}

func FuzzParseValues(f *testing.F) {
	f.Add("a=b\nc=d\r\n\n")
	f.Add("=x")
	f.Add("k=\xff")
	f.Fuzz(func(t *testing.T, text string) {
		values, err := parseValues([]byte(text), nil)
		if (err == nil) != (values != nil) {
			t.Fatalf("values %v with error %v", values, err)
		}
		for key, value := range values {
			if !valueKey.MatchString(key) || len(value) > MaxValue || !strings.Contains(text, key+"="+value) {
				t.Errorf("%q: read %q as the value of %q", text, value, key)
			}
		}
	})
}

// fifo gives a path on which processes of the test hold the writing side, and
// a function that waits until none is left that does: the kernel's own word
// that they are gone, without a look at process numbers.
func fifo(t *testing.T) (path string, ready, gone func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "held")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Close() })
	held, err := os.OpenFile(path, os.O_WRONLY, 0) // so that a read waits for the first writer
	if err != nil {
		t.Fatal(err)
	}
	read := func() string {
		if err := reader.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1)
		if _, err := reader.Read(buf); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("nothing came, and somebody still holds the pipe")
		}
		return string(buf)
	}
	ready = func() {
		if got := read(); got != "r" {
			t.Fatalf("read %q, expected r", got)
		}
		_ = held.Close()
	}
	return path, ready, func() {
		if got := read(); got != "\x00" {
			t.Fatalf("read %q, expected the end of the pipe", got)
		}
	}
}

// short is a grace for tests that have to wait for its end.
const short = time.Second

// holder is a script in which the shell and a child hold the pipe for ever.
const holder = `exec 3>"$MANENT_FIFO"; sleep 1000 & printf r >&3; wait`

func TestRunStopsTheWholeGroup(t *testing.T) {
	cases := map[string]struct {
		script  string
		cancel  bool
		timeout time.Duration
		kind    providers.Kind
	}{
		"timeout":       {holder, false, 300 * time.Millisecond, providers.Invalid},
		"cancelled":     {holder, true, time.Minute, providers.Unknown},
		"ignores TERM":  {`trap "" TERM; ` + holder, true, time.Minute, providers.Unknown},
		"grandchildren": {`(trap "" TERM; ` + holder + `) & wait`, true, time.Minute, providers.Unknown},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, ready, gone := fifo(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				ready()
				if tc.cancel {
					cancel()
				}
			}()
			result, err := Run(ctx, Command{Run: tc.script, Timeout: tc.timeout, grace: short, Vars: map[string]string{"MANENT_FIFO": path}})
			if err == nil || providers.KindOf(err) != tc.kind || result.Exit != -1 {
				t.Errorf("exit %d, error %v, expected -1 and %v", result.Exit, err, tc.kind)
			}
			if tc.cancel != providers.Lost(err) {
				t.Errorf("Lost is %v for %v", !tc.cancel, err)
			}
			gone()
		})
	}
}

func TestRunStopsWithTermOnce(t *testing.T) {
	t.Parallel()
	script := `n=0; trap 'n=$((n+1)); echo "term $n"' TERM; echo ready; i=0; while [ $i -lt 5 ]; do sleep 0.1; i=$((i+1)); done; exit 1`
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result, err := Run(ctx, Command{Run: script, Output: func(line string) {
		if line == "ready" {
			cancel()
		}
	}})
	text := strings.Join(result.Tail, "\n")
	if !strings.Contains(text, "term 1") || strings.Contains(text, "term 2") || !providers.Lost(err) {
		t.Errorf("error %v, output %q, expected one SIGTERM", err, text)
	}
}

func TestRunStopsWhatAFailedCommandLeft(t *testing.T) {
	t.Parallel()
	path, ready, gone := fifo(t)
	_, err := Run(t.Context(), Command{
		Run:  `exec 3>"$MANENT_FIFO"; sleep 1000 >/dev/null 2>&1 & printf r >&3; exit 1`,
		Vars: map[string]string{"MANENT_FIFO": path},
	})
	if providers.KindOf(err) != providers.Invalid {
		t.Errorf("error %v, expected exit code 1", err)
	}
	ready()
	gone()
}

// TestRunLeavesWhatASuccessLeft is also the test that a process which holds
// the output open does not hang the call.
func TestRunLeavesWhatASuccessLeft(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var pid int
	_, err := Run(t.Context(), Command{Run: `sleep 1000 & echo $!`, grace: short, Output: func(line string) { _, _ = fmt.Sscan(line, &pid) }})
	if err != nil || time.Since(began) > 30*time.Second {
		t.Errorf("error %v after %v", err, time.Since(began))
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("process %d was not left running: %v", pid, err)
	}
}

func TestRunNeedsAShell(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, lines, err := run(t, Command{Run: "echo ran"})
	if providers.KindOf(err) != providers.Invalid || lines != nil || !strings.Contains(providers.HintOf(err), "POSIX shell") {
		t.Errorf("lines %q, error %v, hint %q", lines, err, providers.HintOf(err))
	}
}

func TestRunDoesNotStartWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("job cancelled"))
	marker := filepath.Join(t.TempDir(), "ran")
	_, err := Run(ctx, Command{Run: "touch " + marker})
	if !providers.Lost(err) || providers.KindOf(err) != providers.Unknown || !strings.Contains(err.Error(), "job cancelled") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(marker); !errors.Is(err, os.ErrNotExist) {
		t.Error("the command ran")
	}
}

// A context that ends while the command is being started says as little about
// it as one that ends later; its own timeout has passed, even so.
func TestEndedWhileStarting(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	c := Command{Name: "deploy", Provider: "exec", Timeout: time.Nanosecond}
	late, stop := c.limit(t.Context())
	defer stop()
	<-late.Done()
	for _, test := range []struct {
		ctx  context.Context
		kind providers.Kind
		says string
	}{
		{cancelled, providers.Unknown, "was not started: context canceled"},
		{late, providers.Invalid, "did not end within 1ns"},
	} {
		err := c.startFault(test.ctx, test.ctx.Err())
		if providers.KindOf(err) != test.kind || !strings.Contains(fmt.Sprint(err), test.says) {
			t.Errorf("%v of kind %s, expected %q of kind %s", err, providers.KindOf(err), test.says, test.kind)
		}
	}
	_, err := Run(t.Context(), Command{Name: "deploy", Provider: "exec", Run: "true", Timeout: time.Nanosecond})
	if providers.KindOf(err) != providers.Invalid || !strings.Contains(fmt.Sprint(err), "did not end within 1ns") {
		t.Errorf("%v, expected the timeout", err)
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/manent/action/providers/api/external/externaltest"
)

// TestMain makes this test binary the program manent itself, so that the
// scripts run what a user runs: processes, signals and exit codes included.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"manent":  main,
		"gateway": func() { os.Exit(externaltest.Main(os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// TestScript runs the scripts, which read as a manual: one per verb, and one
// per group of mistakes. Under the race detector, which makes each process
// slow, it runs those in which much happens at once.
func TestScript(t *testing.T) {
	var files []string
	for _, name := range scripts() {
		found, err := filepath.Glob("../../testdata/script/" + name + ".txtar")
		if err != nil || len(found) == 0 {
			t.Fatalf("%d scripts are named %s, %v", len(found), name, err)
		}
		files = append(files, found...)
	}
	on := platforms{t: t, writes: map[*testscript.TestScript]func() int{}}
	testscript.Run(t, testscript.Params{
		Files: files,
		Setup: func(env *testscript.Env) error {
			env.Values[lab{}] = newLab(env)
			for name, value := range map[string]string{
				"USER": "alice", "MANENT_RUN_ID": "", "NO_PROXY": "*",
				"GORACE": "atexit_sleep_ms=0", // a process under the race detector else takes a second to end
			} {
				env.Setenv(name, value)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"serve":   func(ts *testscript.TestScript, _ bool, args []string) { labOf(ts).serve(ts, args) },
			"proxy":   func(ts *testscript.TestScript, _ bool, args []string) { labOf(ts).proxy(ts, args) },
			"halt":    func(ts *testscript.TestScript, _ bool, _ []string) { labOf(ts).halt(ts) },
			"edit":    edit,
			"load":    func(ts *testscript.TestScript, _ bool, args []string) { labOf(ts).load(ts, args) },
			"weights": func(ts *testscript.TestScript, _ bool, args []string) { labOf(ts).weights(ts, args) },
			"fill":    fill,
			"await":   await,
			"keep":    func(ts *testscript.TestScript, neg bool, args []string) { labOf(ts).keep(ts, neg, args) },
			"forge":   forge,
			"nowhere": nowhere,
			"answer":  answer,
			"log":     appendLog,
			"left":    appendLeft,
			"sparse":  sparse,

			"platform": on.start,
			"written":  on.written,
		},
		RequireUniqueNames: true,
	})
}

// exits CODE PROGRAM ARGS… runs a program and demands its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG…]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		text, ok := strings.CutPrefix(err.Error(), "exit status ")
		if !ok {
			ts.Fatalf("%s: %v", args[1], err)
		}
		got = text
	}
	if got != args[0] {
		ts.Fatalf("%s ended with %s, expected %s", strings.Join(args[1:], " "), got, args[0])
	}
}

// answer VERB FLAG… answers the open pause as status says that it is answered.
func answer(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec("manent", append([]string{"status", "--json"}, args[1:]...)...))
	var status struct{ Next struct{ Commands []string } }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &status))
	for _, command := range status.Next.Commands {
		words := strings.Fields(command)
		if words[1] == args[0] {
			ts.Check(ts.Exec("manent", append(words[1:], args[1:]...)...))
			return
		}
	}
	ts.Fatalf("status names no command %s: %q", args[0], status.Next.Commands)
}

// fill FILE… puts the addresses of this script into files: $A, $B, $LISTEN,
// $ADMIN and $WORK.
func fill(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		path := ts.MkAbs(name)
		data, err := os.ReadFile(path)
		ts.Check(err)
		text := string(data)
		for _, variable := range []string{"A", "B", "LISTEN", "ADMIN", "WORK"} {
			text = regexp.MustCompile(`\$`+variable+`\b`).ReplaceAllLiteralString(text, ts.Getenv(variable))
		}
		ts.Check(os.WriteFile(path, []byte(text), 0o644))
	}
}

// edit FILE OLD NEW replaces a text in a file; it has to be there.
func edit(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: edit FILE OLD NEW")
	}
	text := ts.ReadFile(args[0])
	if !strings.Contains(text, args[1]) {
		ts.Fatalf("%s has no %q:\n%s", args[0], args[1], text)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(text, args[1], args[2])), 0o600))
}

// await FILE TEXT waits until a file holds a text.
func await(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: await FILE TEXT")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		data, _ := os.ReadFile(ts.MkAbs(args[0]))
		if bytes.Contains(data, []byte(args[1])) {
			return
		}
		if pause(ctx, 10*time.Millisecond); ctx.Err() != nil {
			ts.Fatalf("%s never held %q, but:\n%s", args[0], args[1], data)
		}
	}
}

// nowhere TEXT demands that no file below the work folder holds a text, nor
// what the last command printed.
func nowhere(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: nowhere TEXT")
	}
	looked := 0
	for name, data := range tree(ts, ".") {
		looked++
		if strings.Contains(data, args[0]) && !strings.HasPrefix(name, "private"+string(filepath.Separator)) {
			ts.Fatalf("%s holds %q", name, args[0])
		}
	}
	for _, stream := range []string{"stdout", "stderr"} {
		if strings.Contains(ts.ReadFile(stream), args[0]) {
			ts.Fatalf("%s holds %q", stream, args[0])
		}
	}
	if looked == 0 {
		ts.Fatalf("there was no file to look at")
	}
}

// keep FOLDER notes what is in a folder; same FOLDER demands that it still is.
func (l *world) keep(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: keep FOLDER, then ! keep FOLDER")
	}
	now := tree(ts, args[0])
	if !neg {
		l.kept[args[0]] = now
		return
	}
	before, ok := l.kept[args[0]]
	if !ok {
		ts.Fatalf("%s was never kept", args[0])
	}
	for _, name := range slices.Sorted(keys(before, now)) {
		if before[name] != now[name] {
			ts.Fatalf("%s was touched", name)
		}
	}
}

func keys(maps ...map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		seen := map[string]bool{}
		for _, m := range maps {
			for k := range m {
				if !seen[k] && !yield(k) {
					return
				}
				seen[k] = true
			}
		}
	}
}

// tree reads all files below a folder; a folder that is not there is empty.
func tree(ts *testscript.TestScript, folder string) map[string]string {
	out := map[string]string{}
	root := ts.MkAbs(folder)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // a temporary file of the proxy, or no folder at all
		case err != nil:
			return err
		case !d.Type().IsRegular():
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		out[name] = string(data)
		return err
	})
	ts.Check(err)
	return out
}

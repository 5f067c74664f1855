package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/ci/citest"
	"github.com/manent/action/state"
)

func TestConformance(t *testing.T) {
	repo := checkout(t, "https://user:token@git.example/shop/web.git")
	citest.Test(t, citest.Harness{
		Spec: Spec(),
		Job: func(t *testing.T, run citest.Run) citest.Job {
			dir := t.TempDir()
			result, summary := filepath.Join(dir, "result"), filepath.Join(dir, "summary.md")
			var log []string
			return citest.Job{
				Env: providers.Env{
					Dir: repo,
					Log: func(format string, args ...any) { log = append(log, fmt.Sprintf(format, args...)) },
					Getenv: lookup(map[string]string{
						RunID: run.ID, RunAttempt: strconv.Itoa(run.Attempt), RunOrder: run.Order,
						Result: result, Summary: summary, "USER": "ada",
					}),
				},
				Outputs:     func(t *testing.T) map[string]string { return pairs(read(t, result)) },
				Summary:     func(t *testing.T) string { return read(t, summary) },
				Annotations: func(*testing.T) []string { return log },
				Printed:     func(t *testing.T) string { return strings.Join(log, "\n") + read(t, result) + read(t, summary) },
			}
		},
	})
}

func lookup(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(data)
}

// pairs reads a result file as a shell would, line by line.
func pairs(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		out[key] = value
	}
	return out
}

// checkout makes a repository in a directory named shop.
func checkout(t *testing.T, remote string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "shop")
	commands := [][]string{{"init", "-q", dir}}
	if remote != "" {
		commands = append(commands, []string{"-C", dir, "remote", "add", "origin", remote})
	}
	for _, args := range commands {
		if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

func identity(t *testing.T, dir string, vars map[string]string) (state.RunRef, error) {
	t.Helper()
	p, err := New(providers.Env{Dir: dir, Getenv: lookup(vars)})
	if err != nil {
		t.Fatal(err)
	}
	return p.Identity(t.Context())
}

func TestIdentityOfAShell(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	got, err := identity(t, checkout(t, ""), map[string]string{"USER": "ada"})
	want := state.RunRef{Platform: "local", Repository: "shop", Run: "ada@" + host, Attempt: 1, Actor: "ada"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v\n%s", err, diff)
	}
}

func TestIdentityFromVariables(t *testing.T) {
	cases := map[string]struct {
		vars map[string]string
		want state.RunRef
		says string
	}{
		"all": {
			map[string]string{RunID: "build-7", RunOrder: "98765432101", RunAttempt: "2", RunURL: "https://ci.example/7", "LOGNAME": "ada"},
			state.RunRef{Platform: "local", Repository: "git.example/shop/web", Run: "build-7", Order: 98765432101, Attempt: 2, URL: "https://ci.example/7", Actor: "ada"}, "",
		},
		"numeric id": {
			map[string]string{RunID: "98765432101", "USER": "ada"},
			state.RunRef{Platform: "local", Repository: "git.example/shop/web", Run: "98765432101", Order: 98765432101, Attempt: 1, Actor: "ada"}, "",
		},
		"id with a line end": {map[string]string{RunID: "7\n8"}, state.RunRef{}, `MANENT_RUN_ID is "7\n8"`},
		"attempt 0":          {map[string]string{RunAttempt: "0"}, state.RunRef{}, `MANENT_RUN_ATTEMPT is "0", expected a number from 1 on`},
		"URL":                {map[string]string{RunURL: "javascript:alert(1)"}, state.RunRef{}, "MANENT_RUN_URL"},
	}
	repo := checkout(t, "git@git.example:shop/web.git")
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := identity(t, repo, tc.vars)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if (err != nil) != (tc.says != "") || (err != nil && !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("error %v, expected %q", err, tc.says)
			}
		})
	}
}

func TestFromRemote(t *testing.T) {
	for remote, want := range map[string]string{
		"https://git.example/shop/web.git":             "git.example/shop/web",
		"https://user:token@git.example:8443/shop/web": "git.example/shop/web",
		"ssh://git@git.example:2222/shop/web.git":      "git.example/shop/web",
		"git@git.example:shop/web.git":                 "git.example/shop/web",
		"git.example:shop/web/":                        "git.example/shop/web",
		"/srv/git/web.git":                             "web",
		"file:///srv/git/web.git":                      "web",
		"../web":                                       "web",
	} {
		if got := fromRemote(remote); got != want {
			t.Errorf("%s: %q, expected %q", remote, got, want)
		}
	}
}

func TestIdentityEndsWithItsContext(t *testing.T) {
	p, err := New(providers.Env{Dir: checkout(t, ""), Getenv: lookup(nil)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ref, err := p.Identity(ctx); !providers.Lost(err) || providers.KindOf(err) != providers.Unknown {
		t.Errorf("identity %+v, error %v, expected the context's error", ref, err)
	}
}

// TestNowhereToShow is an ordinary shell, where no file is named.
func TestNowhereToShow(t *testing.T) {
	dir := t.TempDir()
	p, err := New(providers.Env{Dir: dir, Getenv: lookup(nil)})
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"output": p.Output(map[string]string{"status": "completed"}), "summary": p.Summary("## x"), "annotate": p.Annotate("notice", "x"),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("files %v, error %v, expected none", entries, err)
	}
}

func TestFilesThatCannotBeWritten(t *testing.T) {
	for _, vars := range []map[string]string{{Result: "none/result", Summary: "none/summary"}, {Result: os.DevNull, Summary: os.DevNull}} {
		p, err := New(providers.Env{Dir: t.TempDir(), Getenv: lookup(vars)})
		if err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{"output": p.Output(map[string]string{"a": "b"}), "summary": p.Summary("x")} {
			if providers.KindOf(err) != providers.Unavailable || err == nil || !strings.HasPrefix(err.Error(), "local: "+what+": ") {
				t.Errorf("%s: error %v", what, err)
			}
		}
	}
}

// TestSummaryIsReplaced also checks that no temporary file is left.
func TestSummaryIsReplaced(t *testing.T) {
	dir := t.TempDir()
	p, err := New(providers.Env{Dir: dir, Getenv: lookup(map[string]string{Summary: "summary.md"})})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"## a longer first one\n", "## second\n"} {
		if err := p.Summary(text); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || read(t, filepath.Join(dir, "summary.md")) != "## second\n" {
		t.Errorf("files %v, error %v", entries, err)
	}
}

package git_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/providers/store/git"
	"github.com/manent/action/providers/store/storetest"
)

// BenchmarkGitStep compares what a step costs (a Get, and a Put of some 8 kB)
// with a bare git fetch and git push of the same bytes, run on the same
// repository. "x-bare" is the ratio, to be at most 1.3. A first step, in a new
// process, is compared with git init, fetch and push.
func BenchmarkGitStep(b *testing.B) {
	plain := func(b *testing.B) string { return bare(b) }
	http := func(b *testing.B) string { return server(b, bare(b), guarded(basic("x-access-token"))) }
	for _, bench := range []struct {
		name   string
		remote func(b *testing.B) string
		first  bool
	}{{"path", plain, false}, {"http", http, false}, {"path-first", plain, true}, {"http-first", http, true}} {
		b.Run(bench.name, func(b *testing.B) {
			remote := bench.remote(b)
			ours := &stepper{address: "git:" + remote}
			theirs := newShell(b, remote)
			ours.step(b, 0)
			theirs.step(b, 0)
			var spent, bareSpent time.Duration
			for n := 1; b.Loop(); n++ {
				if bench.first {
					ours.close(b)
					theirs.again(b)
				}
				began := time.Now()
				ours.step(b, n)
				spent += time.Since(began)
				b.StopTimer()
				bareSpent += theirs.step(b, n)
				b.StartTimer()
			}
			ours.close(b)
			b.ReportMetric(float64(spent)/float64(bareSpent), "x-bare")
			b.ReportMetric(float64(bareSpent.Microseconds())/float64(b.N)/1000, "bare-ms/op")
		})
	}
}

func body(n int) []byte {
	return []byte(fmt.Sprintf("{%q:%d,%q:%q}\n", "seq", n, "x", strings.Repeat(fmt.Sprint(n, " "), 2000)))
}

// stepper does a step through the store.
type stepper struct {
	address string
	store   *git.Store
}

func (s *stepper) step(b *testing.B, n int) {
	if s.store == nil {
		var err error
		env := environment(map[string]string{"MANENT_GIT_TOKEN": token})
		if s.store, err = git.Open(providers.Env{Getenv: env}, s.address); err != nil {
			b.Fatal(err)
		}
	}
	_, revision, err := s.store.Get(b.Context(), storetest.Key)
	if err == nil {
		_, err = s.store.Put(b.Context(), storetest.Key, store.Change{Data: body(n), Note: "step"}, revision)
	}
	if err != nil {
		b.Fatal(err)
	}
}

func (s *stepper) close(b *testing.B) {
	if err := s.store.Close(); err != nil {
		b.Fatal(err)
	}
	s.store = nil
}

// shell does it by hand. Only fetch and push count, and init in a new
// process; making the commit does not.
type shell struct {
	remote, ref, dir, parent string
	fresh                    bool
	env                      []string
}

func newShell(b *testing.B, remote string) *shell {
	s := &shell{remote: remote, ref: "refs/manent/shop/web/bare", dir: b.TempDir(), env: []string{
		"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@localhost", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@localhost",
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_1=core.fsync", "GIT_CONFIG_VALUE_1=none", // what is made here is no better kept than ours
		"GIT_CONFIG_KEY_0=http.extraHeader", "GIT_CONFIG_VALUE_0=Authorization: " + basic("x-access-token"),
	}}
	s.git(b, nil, "init", "--quiet", "--bare", "--template=")
	return s
}

func (s *shell) again(b *testing.B) {
	s.dir, s.fresh = b.TempDir(), true
}

func (s *shell) git(b *testing.B, in []byte, args ...string) (string, time.Duration) {
	cmd := exec.CommandContext(b.Context(), "git", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = s.dir, s.env, bytes.NewReader(in)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	began := time.Now()
	if err := cmd.Run(); err != nil {
		b.Fatalf("git %q: %v: %s", args, err, said.String())
	}
	return strings.TrimSpace(out.String()), time.Since(began)
}

func (s *shell) step(b *testing.B, n int) (spent time.Duration) {
	timed := func(args ...string) {
		_, took := s.git(b, nil, args...)
		spent += took
	}
	fetch := []string{"fetch", "--quiet", "--no-tags", s.remote, "+" + s.ref + ":" + s.ref}
	if s.fresh {
		timed("init", "--quiet", "--bare", "--template=")
		fetch = append(fetch, "--depth=1")
		s.fresh = false
	}
	args := []string{"commit-tree", "-m", "step"}
	if s.parent != "" {
		timed(fetch...)
		args = append(args, "-p", s.parent)
	}
	blob, _ := s.git(b, body(n), "hash-object", "-w", "--stdin")
	tree, _ := s.git(b, []byte("100644 blob "+blob+"\tstate.json\n"), "mktree")
	commit, _ := s.git(b, nil, append(args, tree)...)
	timed("push", "--porcelain", "--force-with-lease="+s.ref+":"+s.parent, s.remote, commit+":"+s.ref)
	s.parent = commit
	return spent
}

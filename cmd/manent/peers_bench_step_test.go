//go:build peers

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/manent/action/cmd/internal/wire"
	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/providers/store/storetest"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state/checkpoint"
)

// steps compares a step that has nothing to do but read the state, decide and
// record (secrets, with none to resolve) with the bare calls that carry the
// same bytes from and to the same store: in a process that has run before, and
// as a process of its own.
func (f *figures) steps(binary string) {
	for _, kind := range []struct {
		name string
		bare func(*shop) bare
	}{
		{"file", func(s *shop) bare {
			s.vars["STATE"] = "file:state"
			return &bareFile{dir: s.t.TempDir()}
		}},
		{"git, local", func(s *shop) bare { s.repository(); return newBareGit(s) }},
		{"git, HTTP", func(s *shop) bare { s.repositoryOverHTTP(); return newBareGit(s) }},
		{"s3 on this machine", func(s *shop) bare { return s.bucket(0) }},
		{"s3, 10 ms away", func(s *shop) bare { return s.bucket(10 * time.Millisecond) }},
	} {
		s := newShop(f.b)
		s.binary = binary
		s.proxy()
		f.step(s, kind.name, kind.bare(s))
	}
}

const asksNobody = `
rollout:
  traffic: {steps: [50, 100], bake: 1h}
`

// bare does what a step does to a store, by hand.
type bare interface {
	// again makes ready what a new process would find.
	again()
	// carry reads what is there and writes data.
	carry(data []byte) time.Duration
}

func (f *figures) step(s *shop, name string, theirs bare) {
	const runs = 30
	docs := s.store()
	var ours, bare, process, alone []time.Duration
	for n := range runs {
		e, request := s.atSecrets(docs, n)
		began := time.Now()
		out, err := e.Step(f.b.Context(), request)
		ours = append(ours, time.Since(began))
		if err != nil || out.Result != runner.Progress || out.Step != "secrets" {
			f.b.Fatalf("%s: %+v, %v", name, out, err)
		}
		data, _, err := docs.Get(f.b.Context(), request.Config.Key())
		if err != nil {
			f.b.Fatal(err)
		}
		if n == 0 { // what is there already when a step begins
			theirs.again()
			theirs.carry(data)
		}
		bare = append(bare, theirs.carry(data))
		s.atSecrets(docs, runs+n)
		began = time.Now()
		s.exits(0, "step", "--version", "2.0")
		process = append(process, time.Since(began))
		theirs.again()
		alone = append(alone, theirs.carry(data))
	}
	f.ratio("a step ÷ bare calls, "+name, 1.3, ours, bare)
	f.ratio("a process of one step ÷ bare calls, "+name, 0, process, alone)
}

// atSecrets begins a rollout in an environment of its own, and goes on until
// the secrets are next.
func (s *shop) atSecrets(docs store.Store, n int) (*runner.Engine, runner.Request) {
	s.t.Helper()
	s.configure(strings.Replace(head, "prod", fmt.Sprintf("prod-%d", n), 1) + asksNobody + throughProxy)
	request := runner.Request{Version: "2.0", Config: s.loaded()}
	out, err := s.engine(docs, request.Config.Key()).Run(s.t.Context(), request, runner.RunOptions{Until: "secrets"})
	if err != nil || out.Result != runner.Reached {
		s.t.Fatalf("%+v, %v", out, err)
	}
	return s.engine(docs, request.Config.Key()), request // one that has seen nothing yet
}

func (f *figures) ratio(name string, goal float64, ours, bare []time.Duration) {
	a, b := percentile(ours, 50), percentile(bare, 50)
	f.add(name, float64(a)/float64(b), goal, "×", fmt.Sprintf("%.3g ÷ %.3g ms, medians of %d", milliseconds(a), milliseconds(b), len(ours)))
}

func (s *shop) loaded() config.Config {
	s.t.Helper()
	cfg, problems := config.Load(config.Options{File: s.config, Catalog: s.host().Catalog()})
	if err := problems.Err(); err != nil {
		s.t.Fatal(err)
	}
	return cfg
}

func (s *shop) host() wire.Host {
	vars := map[string]string{}
	for _, line := range s.environ() {
		name, value, _ := strings.Cut(line, "=")
		vars[name] = value
	}
	return wire.Host{
		Getenv: func(name string) string { return vars[name] }, Dir: s.dir, Redactor: &providers.Redactor{},
		Say: func(string) {}, Mask: func(providers.Secret) error { return nil },
	}
}

func (s *shop) store() store.Store {
	s.t.Helper()
	docs, err := s.host().OpenStore(s.vars["STATE"])
	if err != nil {
		s.t.Fatal(err)
	}
	return docs
}

// engine is the engine as the verbs make it, in this process.
func (s *shop) engine(docs store.Store, key string) *runner.Engine {
	s.t.Helper()
	host := s.host()
	platform, err := host.Platform()
	if err != nil {
		s.t.Fatal(err)
	}
	owner, err := platform.Identity(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	base := runner.World{
		Now: time.Now, Say: host.Say, NewID: checkpoint.Nonce, Catalog: host.Catalog(),
		Sleep: func(ctx context.Context, d time.Duration) error { pause(ctx, d); return ctx.Err() },
		Process: runner.Process{
			ID: checkpoint.Nonce(), Owner: owner, Host: checkpoint.Host(), PID: os.Getpid(), Alive: checkpoint.Alive,
		},
	}
	return &runner.Engine{
		State: checkpoint.Open(docs, key, time.Now, checkpoint.Nonce), World: base, NoWait: true,
		Wire: func(cfg config.Config) (runner.World, error) { return host.Connect(base, cfg) },
	}
}

// bareFile reads a file, and writes, syncs and renames another.
type bareFile struct{ dir string }

func (f *bareFile) again() {}

func (f *bareFile) carry(data []byte) time.Duration {
	name := filepath.Join(f.dir, "state.json")
	began := time.Now()
	_, _ = os.ReadFile(name) // there is none the first time
	must(os.WriteFile(name+".new", data, 0o600))
	for _, path := range []string{name + ".new", f.dir} {
		file, err := os.Open(path)
		must(err)
		must(file.Sync())
		must(file.Close())
		if path != f.dir {
			must(os.Rename(path, name))
		}
	}
	return time.Since(began)
}

// bareGit fetches a ref and pushes a commit. Making the commit does not count.
type bareGit struct {
	s           *shop
	remote      string
	dir, parent string
	fresh       bool
	n           int
}

const bareRef = "refs/manent/shop/web/bare"

func newBareGit(s *shop) *bareGit {
	g := &bareGit{s: s, remote: strings.TrimPrefix(s.vars["STATE"], "git:")}
	if u, err := url.Parse(g.remote); err == nil && u.Scheme == "http" {
		_, token, _ := strings.Cut(s.env[len(s.env)-1], "=")
		u.User = url.UserPassword("x", token)
		g.remote = u.String()
	}
	return g
}

func (g *bareGit) again() { g.dir, g.fresh = g.s.t.TempDir(), true }

func (g *bareGit) carry(data []byte) time.Duration {
	var spent time.Duration
	git := func(args ...string) string {
		began := time.Now()
		out := g.s.git(append([]string{"--git-dir", g.dir, "-c", "core.fsync=none", "-c", "gc.auto=0"}, args...)...)
		spent += time.Since(began)
		return out
	}
	fetch := []string{"fetch", "--quiet", "--no-tags", g.remote, "+" + bareRef + ":" + bareRef}
	if g.fresh {
		git("init", "--quiet", "--bare", "--template=")
		fetch = append(fetch, "--depth=1")
	}
	commit := []string{"-c", "user.name=x", "-c", "user.email=x@localhost", "commit-tree", "-m", "step"}
	if g.parent != "" {
		git(fetch...)
		commit = append(commit, "-p", g.parent)
	}
	until := spent
	g.n++
	path := g.s.write("bare.json", "")
	must(os.WriteFile(path, append(data, fmt.Sprintln(g.n)...), 0o600))
	git("update-index", "--add", "--cacheinfo", "100644,"+git("hash-object", "-w", path)+",state.json")
	made := git(append(commit, git("write-tree"))...)
	spent = until
	git("push", "--quiet", "--force-with-lease="+bareRef+":"+g.parent, g.remote, made+":"+bareRef)
	g.parent, g.fresh = made, false
	return spent
}

// bucket serves an S3 that lets each request wait for so long.
func (s *shop) bucket(away time.Duration) *bareS3 {
	s.vars["STATE"] = storetest.S3(s.t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			pause(r.Context(), away)
			next.ServeHTTP(w, r)
		})
	})
	s.env = append(s.env, "AWS_ACCESS_KEY_ID=x", "AWS_SECRET_ACCESS_KEY=y")
	_, endpoint, _ := strings.Cut(s.vars["STATE"], "endpoint=")
	return &bareS3{url: endpoint + "/" + storetest.Bucket + "/bare"}
}

// bareS3 gets an object and puts it, unsigned.
type bareS3 struct {
	url string
	n   int
}

func (b *bareS3) again() { http.DefaultClient.CloseIdleConnections() }

func (b *bareS3) carry(data []byte) time.Duration {
	b.n++
	data = append(bytes.Clone(data), fmt.Sprintln(b.n)...)
	began := time.Now()
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		request, err := http.NewRequest(method, b.url, bytes.NewReader(data)) //nolint:noctx // nobody could end it
		must(err)
		answer, err := http.DefaultClient.Do(request)
		must(err)
		_, err = io.Copy(io.Discard, answer.Body)
		must(err)
		must(answer.Body.Close())
	}
	return time.Since(began)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

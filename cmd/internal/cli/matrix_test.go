package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/manent/action/providers/api/github/githubtest"
	"github.com/manent/action/providers/api/proxy"
	"github.com/manent/action/providers/httpx"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/providers/store/memory"
	"github.com/manent/action/runner"
	"github.com/manent/action/state"
)

// The world of the matrix: the jobs of the files that generate writes, played
// as calls of this process, with one state, one router and a clock of its own.

const matrixConfig = `
project: shop
application: web
environment: prod
state: file:state
steps: [{name: copy, at: deploy, run: ":"}]
rollout:
  traffic: {steps: [10, 50, 100]}
  approvalsBetween: ["10"]
traffic:
  router: {provider: proxy, settings: {admin: %q}}
`

// job is one of a generated file, or of a person beside it.
type job struct {
	name string
	args []string // of manent; $VERSION and $RESULT are to be filled in
	env  map[string]string
}

// run is who plays a job.
type run struct {
	id, number, attempt int
	version             string
}

// plant is a whole plant: everything that a call can change or look at.
type plant struct {
	t        *testing.T
	platform string
	jobs     []job
	store    *memory.Store
	router   *switchboard
	apis     map[string]*githubtest.Server // by what people have said in run 200
	said     string                        // key of apis
	ahead    time.Duration                 // of the clock
	clock    *atomic.Int64                 // nanoseconds: it goes on when it is looked at, and when somebody sleeps
	cells    *int
}

// moment is all that a plant holds.
type moment struct {
	doc   []byte
	share float64 // of slot b, at the router
}

func newPlant(t *testing.T, platform string, cells *int) *plant {
	t.Helper()
	t.Chdir(t.TempDir())
	p := &plant{t: t, platform: platform, store: memory.New(), router: newSwitchboard(t), cells: cells, clock: &atomic.Int64{}, apis: map[string]*githubtest.Server{}}
	p.configure()
	p.jobs = generated(t, platform)
	for said, states := range map[string]string{
		"": "", "approved": "approved", "rejected": "rejected", "unpermitted": "approved", "expired": "approved",
		"no yes": "rejected approved", "yes no": "approved rejected", "no yes no": "rejected approved rejected",
		"yes no yes": "approved rejected approved",
	} {
		api := githubtest.New(t)
		for _, state := range strings.Fields(states) {
			for _, id := range []int64{200, 300} {
				api.Review(id, githubtest.Review{State: state, Who: "carol", Comment: "looked", Environments: []string{"prod-approve-10"}})
			}
		}
		p.apis[said] = api
	}
	return p
}

// configure writes the environment's file, with the replacements given by turns.
func (p *plant) configure(replace ...string) {
	p.t.Helper()
	text := strings.NewReplacer(replace...).Replace(fmt.Sprintf(matrixConfig, p.router.url))
	if err := os.WriteFile("prod.yml", []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// job returns a generated job.
func (p *plant) job(name string) job {
	p.t.Helper()
	for _, j := range p.jobs {
		if j.name == name {
			return j
		}
	}
	p.t.Fatalf("%s has no job %s", p.platform, name)
	return job{}
}

// generated reads the jobs from the files that generate writes.
func generated(t *testing.T, platform string) []job {
	t.Helper()
	args := []string{"generate", platform, "-c", "prod.yml", "--json"}
	if platform == "github" {
		args = append(args, "--action", "manent/action@0123456789abcdef0123456789abcdef01234567")
	}
	code, stdout, stderr := called(t, testApp(t), args...)
	var made struct {
		Files []struct{ Path, Text string }
	}
	if err := json.Unmarshal([]byte(stdout), &made); err != nil || code != 0 {
		t.Fatalf("generate ended with %d, %v: %s", code, err, stderr)
	}
	for _, f := range made.Files {
		switch filepath.Base(f.Path) {
		case "manent-web-prod.yml":
			if platform == "github" {
				return githubJobs(t, f.Text)
			}
		case "manent-web-prod.rollout.yml":
			return gitlabJobs(t, f.Text)
		}
	}
	t.Fatalf("no file of %s is the rollout's", platform)
	return nil
}

// ordered gives the keys and values of a mapping in their order.
func ordered(t *testing.T, n *yaml.Node, each func(key string, value *yaml.Node)) {
	t.Helper()
	if n.Kind != yaml.MappingNode {
		t.Fatalf("line %d is no mapping", n.Line)
	}
	for i := 0; i < len(n.Content); i += 2 {
		each(n.Content[i].Value, n.Content[i+1])
	}
}

// githubJobs reads what the action's inputs become, as action/ has it.
func githubJobs(t *testing.T, text string) (out []job) {
	t.Helper()
	var file struct{ Jobs yaml.Node }
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	const result = "${{ contains(needs.*.result, 'cancelled') && 'cancelled' || 'failure' }}"
	ordered(t, &file.Jobs, func(name string, value *yaml.Node) {
		var j struct {
			Steps []struct{ With, Env map[string]string }
		}
		if err := value.Decode(&j); err != nil {
			t.Fatal(err)
		}
		step := j.Steps[len(j.Steps)-1]
		args := []string{step.With["command"], "--config=" + step.With["config"]}
		for _, input := range []string{"version", "until", "state"} {
			if step.With[input] != "" {
				args = append(args, "--"+input+"="+strings.ReplaceAll(step.With[input], "${{ env.VERSION }}", "$VERSION"))
			}
		}
		args = append(args, strings.Fields(strings.ReplaceAll(step.With["args"], result, "$RESULT"))...)
		if left := strings.Join(args, " "); strings.Contains(left, "${{") {
			t.Fatalf("job %s: %s: an expression that this test cannot fill in", name, left)
		}
		out = append(out, job{name: name, args: args, env: step.Env})
	})
	return out
}

// gitlabJobs reads the calls of the scripts. An approval is two jobs: as it is
// started, and as it is started with DECISION=reject.
func gitlabJobs(t *testing.T, text string) (out []job) {
	t.Helper()
	var file yaml.Node
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	ordered(t, file.Content[0], func(name string, value *yaml.Node) {
		if strings.HasPrefix(name, ".") || value.Kind != yaml.MappingNode {
			return
		}
		var j struct{ Script []string }
		if err := value.Decode(&j); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(strings.Join(j.Script, "\n")) {
			words := strings.Fields(strings.TrimSuffix(strings.TrimSpace(line), "|| exit"))
			if len(words) == 0 || words[0] != "manent" {
				continue
			}
			called := name
			if words[1] == "reject" {
				called = "reject"
			}
			for i, word := range words {
				words[i] = strings.ReplaceAll(word, `"$VERSION"`, "$VERSION")
			}
			out = append(out, job{name: called, args: words[1:]})
		}
	})
	return out
}

// environment is what the platform tells a job.
func (p *plant) environment(r run, j job) func(string) string {
	workflow := "web-prod"
	if r.number == 0 {
		workflow = "decide"
	}
	vars := map[string]string{
		"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "shop/web", "GITHUB_RUN_ID": fmt.Sprint(r.id), "GITHUB_RUN_ATTEMPT": fmt.Sprint(max(1, r.attempt)),
		"GITHUB_RUN_NUMBER": fmt.Sprint(max(1, r.number)), "GITHUB_WORKFLOW_REF": "shop/web/.github/workflows/manent-" + workflow + ".yml@refs/heads/main",
		"MANENT_TRACK":            "0", // how deployments are shown is another test's
		"GITHUB_TRIGGERING_ACTOR": "alice", "GITHUB_SERVER_URL": "https://github.test", "GITHUB_API_URL": p.apis[p.said].URL, "GITHUB_TOKEN": githubtest.Token,
		"GITHUB_SHA": githubtest.Commit, "GITHUB_OUTPUT": filepath.Join(p.dir(), "output"), "GITHUB_STEP_SUMMARY": filepath.Join(p.dir(), "summary"),
	}
	if p.platform == "gitlab" {
		vars = map[string]string{
			"GITLAB_CI": "true", "CI_PROJECT_PATH": "shop/web", "CI_PROJECT_ID": "7", "CI_PIPELINE_ID": fmt.Sprint(r.id + 1), "MANENT_PARENT_PIPELINE_ID": fmt.Sprint(r.id),
			"CI_PIPELINE_SOURCE": "parent_pipeline", "CI_PIPELINE_URL": fmt.Sprintf("https://gitlab.test/shop/web/-/pipelines/%d", r.id+1),
			"GITLAB_USER_LOGIN": "alice", "CI_JOB_RETRY_COUNT": fmt.Sprint(max(1, r.attempt) - 1),
		}
	}
	return func(name string) string {
		if value, ok := j.env[name]; ok {
			return value
		}
		return vars[name]
	}
}

func (p *plant) dir() string {
	dir, err := os.Getwd()
	if err != nil {
		p.t.Fatal(err)
	}
	return dir
}

// end is how a call ended.
type end struct {
	code           int
	stdout, stderr string
}

// play calls what a job calls, with a handle of its own on the state. The
// result is that of the run's other jobs, which only a return job asks for.
func (p *plant) play(r run, j job, result string, hook func(op, key string) memory.Fault) end {
	handle := p.store.Again()
	handle.Hook = hook
	a := newApp("test", p.environment(r, j), p.dir())
	a.stdin, a.stdout, a.stderr = strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}
	a.now, a.stores = p.now, func(string) (store.Store, error) { return handle, nil }
	a.sleep = func(ctx context.Context, d time.Duration) error {
		if d == runner.BeatEvery { // the renewal beside a call, which takes no time here
			<-ctx.Done()
			return ctx.Err()
		}
		p.clock.Add(int64(d))
		runtime.Gosched() // others get a turn
		return ctx.Err()
	}
	args := make([]string, len(j.args))
	for i, word := range j.args {
		args[i] = strings.NewReplacer("$VERSION", r.version, "$RESULT", result).Replace(word)
	}
	code := a.execute(context.Background(), args)
	return end{code, a.stdout.(*bytes.Buffer).String(), a.stderr.(*bytes.Buffer).String()}
}

// played is play in turn with all others, with the files of the platform new.
func (p *plant) played(r run, name, result string) end {
	p.t.Helper()
	for _, file := range []string{"output", "summary"} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	return p.play(r, p.job(name), result, nil)
}

// must plays a job that is to end with a code.
func (p *plant) must(code int, r run, name string) {
	p.t.Helper()
	if got := p.played(r, name, ""); got.code != code {
		p.t.Fatalf("%s of run %d ended with %d, expected %d: %s", name, r.id, got.code, code, got.stderr)
	}
}

func (p *plant) now() time.Time {
	return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).Add(p.ahead + time.Duration(p.clock.Add(int64(time.Millisecond))))
}

const matrixKey = "shop/web/prod"

// look is the plant as it is.
func (p *plant) look() moment {
	p.t.Helper()
	data, _, err := p.store.Again().Get(context.Background(), matrixKey)
	if err != nil {
		p.t.Fatal(err)
	}
	return moment{data, p.router.share()}
}

// goTo makes the plant what it was.
func (p *plant) goTo(m moment) {
	p.t.Helper()
	p.store = memory.New()
	if m.doc != nil {
		if err := p.store.Plant(matrixKey, m.doc); err != nil {
			p.t.Fatal(err)
		}
	}
	p.router.set(p.t, m.share)
}

// document is the state of a moment.
func (m moment) document(t *testing.T) *state.Document {
	t.Helper()
	var doc state.Document
	if err := json.Unmarshal(m.doc, &doc); err != nil {
		t.Fatalf("%v in %s", err, m.doc)
	}
	return &doc
}

// switchboard is the router: a proxy's admin interface that counts what is
// written to it, and may refuse it.
type switchboard struct {
	url    string
	client *proxy.Client
	own    atomic.Bool
	writes atomic.Int64
	down   atomic.Bool
}

func newSwitchboard(t *testing.T) *switchboard {
	t.Helper()
	backend := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(backend.Close)
	u, err := url.Parse(backend.URL)
	if err != nil {
		t.Fatal(err)
	}
	front, err := proxy.New(proxy.Options{Slots: map[string]*url.URL{"a": u, "b": u}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = front.Close() })
	s := &switchboard{}
	admin := front.Admin()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && !s.own.Load() {
			if s.down.Load() {
				http.Error(w, "down", http.StatusServiceUnavailable)
				return
			}
			s.writes.Add(1)
		}
		admin.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.url, s.client = server.URL, proxy.NewClient(httpx.Options{Provider: "proxy"}, server.URL)
	return s
}

// set gives slot b a share, and forgets what was written before.
func (s *switchboard) set(t *testing.T, share float64) {
	t.Helper()
	s.own.Store(true)
	defer s.own.Store(false)
	seen, err := s.client.State(context.Background())
	if err == nil {
		_, err = s.client.SetWeights(context.Background(), map[string]float64{"a": 100 - share, "b": share}, seen.Revision)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.writes.Store(0)
}

func (s *switchboard) share() float64 {
	seen, err := s.client.State(context.Background())
	if err != nil {
		return -1
	}
	return seen.Weights["b"]
}

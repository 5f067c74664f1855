//go:build peers

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers/api/gitlab/gitlabtest"
)

// What stands in for GitLab around gitlab-ci-local, which runs the jobs:
//
//   - The variables that GitLab sets and the local runner has fixed: the ids of
//     the pipelines, their source, the protected ref, who has started the job,
//     project, token and addresses of GitLab.
//   - A person's press of a manual job, a retry, and the delay of a delayed job,
//     which are calls of their own: the local runner does not wait for a manual
//     job that nobody presses, and starts a delayed one at once.
//   - A cancelled pipeline: the runner is killed, or the script's process gets
//     the signal, and no further job is started.
//   - The API and the repository, which are servers of the test.
//
// A job "when: on_failure" is started by the local runner only when each job in
// front of it has run, so that it is always named together with these alone.
// The local runner hands the variables of a trigger job on unexpanded, so that
// a child pipeline takes its own id for that of its parent, and it forgets that
// a child has failed. The child pipelines of most tests are therefore started by
// the test, with the variables of the trigger job. It holds no resource group.
//
// Everything else is real: the files as generated, the local runner, its jobs'
// shells, manent, Git, the proxy, and requests all the while.

// project is a shop in a project of GitLab, whose rollouts are made by the
// pipelines that manent generate gitlab writes.
type project struct {
	*shop
	api *gitlabtest.Server
	sha string
	tmp string // of the runner

	repository string // bare, on this machine
	visitors   *crowd
}

// token is that of every job.
const token = "glcbt-64_s3cr3t-t0ken-of-a-job"

// The files that are generated.
const (
	parentFile = ".gitlab-ci.yml"
	childFile  = ".gitlab/manent-web-prod.rollout.yml"
)

// included is what a user writes.
const included = `
stages: [deploy]
include:
  - local: .gitlab/manent-web-prod.yml
`

// newProject starts the service, the proxy, the repository and the API, and
// generates the pipelines. vars are those of testdata/gitlab/prod.yml.
func newProject(t *testing.T, vars map[string]string, options ...string) *project {
	p := &project{shop: newShop(t), api: gitlabtest.New(t), tmp: t.TempDir()}
	p.proxy()
	p.env = append(p.env, "GORACE=atexit_sleep_ms=0")
	maps.Copy(p.vars, map[string]string{"STEPS": "50, 100", "APPROVALS": `"50"`, "BAKE": "600ms", "TIMEOUT": "24h", "ORPHAN": "15m"})
	maps.Copy(p.vars, vars)
	text, err := os.ReadFile("testdata/gitlab/prod.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"envconfig/shop/web", "templates"} {
		if err := os.MkdirAll(filepath.Join(p.dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.config = "envconfig/shop/web/prod.yml"
	p.write(p.config, string(text))
	p.exits(0, "generate", append([]string{"gitlab", "--out", "."}, options...)...)
	p.write(parentFile, included)
	p.publish()
	p.wrap()
	p.visitors = p.crowd(15)
	return p
}

// publish makes the repository, and the checkout of which the configuration is
// a part.
func (p *project) publish() {
	p.t.Helper()
	p.repository = filepath.Join(p.t.TempDir(), "shop/web.git")
	p.git("init", "--quiet", "--bare", p.repository)
	p.git("init", "--quiet", "--initial-branch", "main")
	p.git("remote", "add", "origin", p.repository)
	p.git("remote", "add", "gcl-origin", "https://gitlab.example.test/shop/web.git") // where the runner takes the project's path from
	p.commit()
	p.git("update-ref", "refs/remotes/origin/main", "HEAD")
	p.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
}

// overHTTP lets only those reach the repository who have a job's token.
func (p *project) overHTTP() {
	p.t.Helper()
	p.git("remote", "set-url", "origin", p.serveGit(filepath.Dir(p.repository), "gitlab-ci-token", token)+"/web.git")
	p.env = append(p.env, "MANENT_GIT_TOKEN=gitlab-ci-token:"+token) // of a person; a job makes its own
}

// commit commits the pipelines and what they need, which is what a job gets.
func (p *project) commit() {
	p.t.Helper()
	p.git("add", "envconfig", ".gitlab", "templates", parentFile)
	p.git("-c", "user.name=alice", "-c", "user.email=alice@example.test", "commit", "--quiet", "--message", "pipelines")
	p.sha = p.git("rev-parse", "HEAD")
	p.api.SHAs, p.api.Refs, p.api.JobToken = append(p.api.SHAs, p.sha), []string{"main"}, token
}

// wrap puts a manent in front of the real one that notes its process, and that
// gives a child pipeline of the local runner an id of its own.
func (p *project) wrap() {
	p.t.Helper()
	program, err := exec.LookPath("manent")
	if err != nil {
		p.t.Fatal(err)
	}
	text := fmt.Sprintf(`#!/bin/sh
echo $$ >'%s'
[ "$MANENT_PARENT_PIPELINE_ID" != "$CI_PIPELINE_ID" ] || CI_PIPELINE_ID=$((CI_PIPELINE_ID + 1))
exec '%s' "$@"
`, p.pidFile(), program)
	if err := os.WriteFile(filepath.Join(p.tmp, "manent"), []byte(text), 0o755); err != nil {
		p.t.Fatal(err)
	}
}

func (p *project) pidFile() string { return filepath.Join(p.tmp, "pid") }

// manent is the process that a job has called last.
func (p *project) manent() *os.Process {
	p.t.Helper()
	text, err := os.ReadFile(p.pidFile())
	if err != nil {
		p.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		p.t.Fatal(err)
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		p.t.Fatal(err)
	}
	return process
}

// pipeline is a pipeline of the project.
type pipeline struct {
	*project
	file string
	vars map[string]string
}

// pipeline is one with its own id.
func (p *project) pipeline(id int, file, source string, vars map[string]string) pipeline {
	all := map[string]string{
		"GITLAB_CI": "true", "CI_PIPELINE_ID": strconv.Itoa(id), "CI_PIPELINE_SOURCE": source, "CI_COMMIT_REF_PROTECTED": "true",
		"CI_PIPELINE_URL": fmt.Sprintf("https://gitlab.example.test/shop/web/-/pipelines/%d", id), "GITLAB_USER_LOGIN": "bob",
		"CI_PROJECT_ID": strconv.Itoa(gitlabtest.Project), "CI_API_V4_URL": p.api.URL, "CI_JOB_TOKEN": token,
	}
	maps.Copy(all, vars)
	return pipeline{p, file, all}
}

// parent is a pipeline in which a version is to be rolled out.
func (p *project) parent(id int, version string) pipeline {
	return p.pipeline(id, parentFile, "web", map[string]string{"ROLLOUT_ENVIRONMENT": "shop/web/prod", "ROLLOUT_VERSION": version})
}

// child is the pipeline that the parent of this id triggers.
func (p *project) child(parent int, version string) pipeline {
	return p.pipeline(parent+1, childFile, "parent_pipeline", map[string]string{"VERSION": version, "MANENT_PARENT_PIPELINE_ID": strconv.Itoa(parent)})
}

// scheduled is one of the pipeline schedule.
func (p *project) scheduled(id int) pipeline {
	return p.pipeline(id, parentFile, "schedule", map[string]string{"MANENT_RESUME": "true"})
}

// with is the same pipeline with another variable, as a person gives it to a
// manual job.
func (l pipeline) with(name, value string) pipeline {
	l.vars = maps.Clone(l.vars)
	l.vars[name] = value
	return l
}

// press are the flags that start manual jobs.
func press(jobs ...string) []string {
	var flags []string
	for _, job := range jobs {
		flags = append(flags, "--manual", job)
	}
	return flags
}

// start runs jobs of the pipeline, in the order of its stages; none: all.
func (l pipeline) start(args ...string) *running {
	l.t.Helper()
	var names []string
	for name := range l.vars {
		names = append(names, name)
	}
	text, err := json.Marshal(l.vars) // which is YAML
	if err != nil {
		l.t.Fatal(err)
	}
	variables := filepath.Join(l.tmp, "variables.yml")
	if err := os.WriteFile(variables, text, 0o600); err != nil {
		l.t.Fatal(err)
	}
	runner := filepath.Join(os.Getenv("MANENT_PEERS_BIN"), "gitlab-ci-local")
	if os.Getenv("MANENT_PEERS_BIN") == "" {
		runner = "gitlab-ci-local"
	}
	ctx, cancel := context.WithTimeout(l.t.Context(), 3*time.Minute)
	l.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, runner, append([]string{
		"--file", l.file, "--variables-file", variables, "--ignore-predefined-vars", strings.Join(names, ","),
		"--force-shell-executor", "--shell-isolation", "--no-json-schema-validation",
	}, args...)...)
	cmd.Dir = l.dir
	cmd.Env = slices.DeleteFunc(append(l.environ(), "PATH="+l.tmp+":"+os.Getenv("PATH")), func(v string) bool {
		return strings.HasPrefix(v, "MANENT_GIT_TOKEN=")
	})
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	l.t.Logf("pipeline %s of %s: %v", l.vars["CI_PIPELINE_ID"], l.vars["CI_PIPELINE_SOURCE"], args)
	return launch(l.t, cmd)
}

// codes are exit codes of jobs by name.
type codes map[string]int

var finished = regexp.MustCompile(`(?m)^\s*(?:\[\S+\] -> )?(\S+) +finished in [^\n]*?(?: FAIL (\d+) *)?$`)

// jobs waits for the runner's end and returns how the jobs that ran ended.
func (r *running) jobs() codes {
	r.t.Helper()
	exit, all := r.wait(), codes{}
	failed := false
	for _, m := range finished.FindAllStringSubmatch(r.out.String()+"\n"+r.err.String(), -1) {
		if m[1] == "pipeline" {
			continue
		}
		code, _ := strconv.Atoi("0" + m[2])
		all[m[1]] = code
		failed = failed || code != 0
	}
	if (exit != 0) != failed {
		r.t.Errorf("gitlab-ci-local ended with %d, its jobs with %v\n%s\n%s", exit, all, &r.out, &r.err)
	}
	return all
}

// ends runs jobs and demands that these ran, and ended so.
func (l pipeline) ends(want codes, args ...string) {
	l.t.Helper()
	l.start(args...).demands(want)
}

// demands waits for the runner's end and demands that these jobs ran, and
// ended so. It returns what was printed.
func (r *running) demands(want codes) string {
	r.t.Helper()
	if diff := cmp.Diff(want, r.jobs()); diff != "" {
		r.t.Fatalf("jobs (-expected +ran):\n%s\n%s\n%s", diff, &r.out, &r.err)
	}
	return r.out.String() + r.err.String()
}

// weigh changes the weights as somebody does who is not manent.
func (p *project) weigh(a, b float64) {
	p.t.Helper()
	_, revision := p.proxyState()
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodPut, p.vars["ADMIN"]+"/v1/weights", strings.NewReader(fmt.Sprintf(`{"a": %v, "b": %v}`, a, b)))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("If-Match", revision)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		p.t.Fatalf("the proxy answers %s", answer.Status)
	}
}

// weighs demands the proxy's weights.
func (p *project) weighs(a, b float64) {
	p.t.Helper()
	if got, _ := p.proxyState(); got["a"] != a || got["b"] != b {
		p.t.Errorf("the proxy has weights %v, expected %v and %v", got, a, b)
	}
}

func (p *project) proxyState() (weights map[string]float64, revision string) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.vars["ADMIN"]+"/v1/state", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var shown struct{ Weights map[string]float64 }
	if err := json.NewDecoder(answer.Body).Decode(&shown); err != nil {
		p.t.Fatal(err)
	}
	return shown.Weights, answer.Header.Get("ETag")
}

// route makes manent reach the proxy by another address.
func (p *project) route(admin string) {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, p.config))
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(p.config, strings.ReplaceAll(string(text), p.vars["ADMIN"], admin))
	p.exits(0, "generate", "gitlab", "-c", p.config, "--out", ".")
	p.commit()
}

// artifact is a file that a job has handed on.
func (p *project) artifact(job, path string) string {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, ".gitlab-ci-local/artifacts", job, path))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// shown demands what GitLab shows of the rollouts, by the API.
func (p *project) shown(want ...string) {
	p.t.Helper()
	var got []string
	for _, d := range p.api.Deployments() {
		got = append(got, d.Environment+" "+d.Status)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		p.t.Errorf("deployments (-expected +shown):\n%s", diff)
	}
}

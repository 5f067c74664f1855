//go:build peers

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/manent/action/providers/api/github/githubtest"
)

// workflowRun is a run of a workflow, as the platform knows it.
type workflowRun struct {
	hub     *gitHub
	file    string
	event   string
	actor   string
	inputs  map[string]string
	id      int64
	attempt int
	text    map[string]any            // of the file
	jobs    map[string]map[string]any // of the file
	results map[string]string         // by job: success, failure, cancelled, skipped
	codes   map[string]int            // exit codes of those that failed
	calls   map[string]*actCall
	allowed map[string]bool // environments that a reviewer has let through
}

// dispatch is what pressing "Run workflow" makes.
func (h *gitHub) dispatch(file, actor string, inputs map[string]string) *workflowRun {
	h.t.Helper()
	return h.newRun(file, "workflow_dispatch", actor, inputs)
}

// scheduled is what the schedule of manent.traffic-retire makes.
func (h *gitHub) scheduled() *workflowRun {
	h.t.Helper()
	return h.newRun(retireFile, "schedule", "ada", nil)
}

func (h *gitHub) newRun(file, event, actor string, inputs map[string]string) *workflowRun {
	h.t.Helper()
	h.last++
	r := &workflowRun{
		hub: h, file: file, event: event, actor: actor, inputs: inputs, id: h.last, attempt: 1, jobs: map[string]map[string]any{},
		results: map[string]string{}, codes: map[string]int{}, calls: map[string]*actCall{}, allowed: map[string]bool{},
	}
	text, err := os.ReadFile(filepath.Join(h.checkout, ".github/workflows", file))
	if err == nil {
		err = yaml.Unmarshal(text, &r.text)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	for id, job := range r.text["jobs"].(map[string]any) {
		r.jobs[id] = job.(map[string]any)
	}
	return r
}

// needs are the jobs in front of a job.
func (r *workflowRun) needs(job string) []string {
	var out []string
	list, _ := r.jobs[job]["needs"].([]any)
	for _, need := range list {
		out = append(out, need.(string))
	}
	return out
}

// due is the job that comes next, "" at the end. The jobs of a run are a chain.
func (r *workflowRun) due() string {
	for _, job := range slices.Sorted(maps.Keys(r.jobs)) {
		ready := r.results[job] == ""
		for _, need := range r.needs(job) {
			ready = ready && r.results[need] != ""
		}
		if ready {
			return job
		}
	}
	return ""
}

// asks is the environment that a job waits for a reviewer of, "" for none.
func (r *workflowRun) asks(job string) string {
	name, _ := r.jobs[job]["environment"].(string)
	if r.allowed[name] {
		return ""
	}
	return name
}

// play runs one job after another until the run is over, a reviewer is asked,
// or the job named is next.
func (r *workflowRun) play(before ...string) *workflowRun {
	r.hub.t.Helper()
	for job := r.due(); job != "" && !slices.Contains(before, job); job = r.due() {
		if r.unmet(job) {
			r.results[job] = "skipped"
			continue
		}
		if r.asks(job) != "" {
			return r
		}
		r.end(job, r.begin(job))
	}
	return r
}

// unmet reports whether a job that has no condition of its own is left out.
func (r *workflowRun) unmet(job string) bool {
	return r.jobs[job]["if"] == nil && slices.ContainsFunc(r.needs(job), func(need string) bool { return r.results[need] != "success" })
}

// begin has act run a job.
func (r *workflowRun) begin(job string) *actCall {
	r.hub.t.Helper()
	if next := r.due(); next != job || r.unmet(job) || r.asks(job) != "" {
		r.hub.t.Fatalf("%s is not due, %s is; results %v", job, next, r.results)
	}
	results, err := json.Marshal(r.of(r.needs(job)))
	if err != nil {
		r.hub.t.Fatal(err)
	}
	alone := adapted(r.jobs[job], strings.NewReplacer("needs.*.result", "fromJSON('"+string(results)+"')")).(map[string]any)
	delete(alone, "needs")
	return r.act(map[string]any{job: alone})
}

// reach has act run a job until a step of the rollout is under way in it.
func (r *workflowRun) reach(job, step string) *actCall {
	r.hub.t.Helper()
	c := r.begin(job)
	eventually(r.hub.t, func() error {
		pause(r.hub.t.Context(), 30*time.Millisecond) // each look is a process of git
		doc, err := r.hub.document()
		if on := doc.Rollout; err == nil && on != nil && on.Version == r.inputs["version"] && on.Step(step) != nil {
			return nil
		}
		select {
		case <-c.ended:
			r.hub.t.Fatalf("act has ended\n%s", c.wait().text)
		default:
		}
		return fmt.Errorf("%s has not begun: %w", step, cmp.Or(err, errors.New("the rollout is not there yet")))
	})
	return c
}

func (r *workflowRun) of(jobs []string) []string {
	out := make([]string, len(jobs))
	for i, job := range jobs {
		out[i] = r.results[job]
	}
	return out
}

// end waits for a job and notes how it ended. result is what the platform says
// when act does not know.
func (r *workflowRun) end(job string, c *actCall, result ...string) {
	r.hub.t.Helper()
	c.wait()
	r.calls[job] = c
	switch {
	case len(result) > 0:
		r.results[job] = result[0]
	case c.results[job] == "":
		r.results[job] = "skipped"
	default:
		r.results[job] = c.results[job]
	}
	r.codes[job] = c.codes[job]
	r.hub.t.Logf("run %d.%d, %s: %s, exit code %d\n%s", r.id, r.attempt, job, r.results[job], r.codes[job], c.text)
}

// whole has act run all jobs of the run in its own order, and decide itself
// which ones.
func (r *workflowRun) whole() *workflowRun {
	r.hub.t.Helper()
	all := map[string]any{}
	for id, job := range r.jobs {
		all[id] = adapted(job, strings.NewReplacer())
	}
	c := r.act(all).wait()
	for job := range r.jobs {
		r.results[job], r.codes[job], r.calls[job] = c.results[job], c.codes[job], c
		if r.results[job] == "" {
			r.results[job] = "skipped"
		}
	}
	r.hub.t.Logf("run %d.%d: %v\n%s", r.id, r.attempt, r.results, c.text)
	return r
}

// act starts act on jobs of the file.
func (r *workflowRun) act(jobs map[string]any) *actCall {
	r.hub.t.Helper()
	text := maps.Clone(r.text)
	text["jobs"] = jobs
	data, err := json.Marshal(text) // which is YAML
	if err != nil {
		r.hub.t.Fatal(err)
	}
	r.hub.files++
	file := filepath.Join(r.hub.dir, fmt.Sprintf("workflow-%d.yml", r.hub.files))
	if err := os.WriteFile(file, data, 0o600); err != nil {
		r.hub.t.Fatal(err)
	}
	args := []string{"--actor", r.actor, "--secret", "GITHUB_TOKEN=" + githubtest.Token, "--secret", "SHOP_KEY=" + shopKey}
	for name, value := range map[string]string{
		"GITHUB_RUN_ID": fmt.Sprint(r.id), "GITHUB_RUN_ATTEMPT": fmt.Sprint(r.attempt), "GITHUB_REPOSITORY": githubtest.Repo,
		"GITHUB_SERVER_URL": r.hub.url, "GITHUB_API_URL": r.hub.api.URL, "SHA_REF": githubtest.Commit, // act's name for the commit
	} {
		args = append(args, "--env", name+"="+value)
	}
	for name, value := range r.inputs {
		args = append(args, "--input", name+"="+value)
	}
	return r.hub.kit.call(r.hub.t, r.hub.checkout, r.event, file, args...)
}

// adapted is a part of a workflow as act can read it: its schema is older than
// the key deployment of an environment, which says only that the platform
// makes no deployment for the job.
func adapted(part any, words *strings.Replacer) any {
	switch v := part.(type) {
	case string:
		return words.Replace(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = adapted(v[i], words)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			if key != "deployment" || value != false {
				out[key] = adapted(value, words)
			}
		}
		return out
	}
	return part
}

// review answers the environment that is asked for.
func (r *workflowRun) review(says, who, comment string) *workflowRun {
	r.hub.t.Helper()
	job := r.due()
	environment := r.asks(job)
	if environment == "" {
		r.hub.t.Fatalf("nobody is asked, %s is next", job)
	}
	r.hub.api.Review(r.id, githubtest.Review{State: says, Who: who, Comment: comment, Environments: []string{environment}})
	if says == "approved" {
		r.allowed[environment] = true
	} else {
		r.results[job] = "failure" // the job never starts
	}
	return r
}

// unanswered is what the platform makes of a review that nobody has given in
// thirty days.
func (r *workflowRun) unanswered() *workflowRun {
	r.results[r.due()] = "failure"
	return r
}

// rerun is "re-run failed jobs": a new attempt of the same run, in which only
// jobs that have succeeded are not run again.
func (r *workflowRun) rerun() *workflowRun {
	r.attempt++
	maps.DeleteFunc(r.results, func(_, result string) bool { return result != "success" })
	delete(r.results, "return")
	return r
}

// ended demands the results of jobs: a word, or the exit code of a failed one.
func (r *workflowRun) ended(want map[string]any) {
	r.hub.t.Helper()
	got := map[string]any{}
	for job, result := range r.results {
		got[job] = result
		if _, number := want[job].(int); number && result == "failure" {
			got[job] = r.codes[job]
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		r.hub.t.Errorf("run %d.%d, jobs:\n%s", r.id, r.attempt, diff)
	}
}

package generate

import (
	"fmt"
	"math/rand/v2"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/plan"
)

type workflow struct {
	Name        string
	On          map[string]any
	Permissions map[string]string
	Concurrency map[string]any
	Env         map[string]string
	Jobs        map[string]struct {
		Name        string
		Needs       []string
		If          string
		Environment any
		Permissions map[string]string
		Concurrency map[string]any
		Minutes     int `yaml:"timeout-minutes"`
		Steps       []struct {
			Uses string
			Run  string
			If   string
			With map[string]string
			Env  map[string]string
		}
	}
}

func parse(t testing.TB, f File) workflow {
	t.Helper()
	var w workflow
	if err := yaml.Unmarshal([]byte(f.Text), &w); err != nil {
		t.Fatalf("%s: %v\n%s", f.Path, err, f.Text)
	}
	return w
}

// TestGitHubRules: what no generated workflow may do, whatever its options.
func TestGitHubRules(t *testing.T) {
	for name, files := range cases(t) {
		if !strings.HasPrefix(name, "github-") {
			continue
		}
		for _, f := range files {
			t.Run(name+"/"+path.Base(f.Path), func(t *testing.T) {
				w := parse(t, f)
				for _, word := range []string{"continue-on-error", "|| true", "pull_request", "cancel-in-progress: true"} {
					if strings.Contains(f.Text, word) {
						t.Errorf("the file has %q", word)
					}
				}
				if w.Permissions == nil || len(w.Permissions) > 0 {
					t.Errorf("permissions %v of the workflow, expected none", w.Permissions)
				}
				if !Generated(f.Text) || !regexp.MustCompile(`(?m)^# Digest: [0-9a-f]{64}$`).MatchString(f.Text) {
					t.Error("no mark or no digest")
				}
				for id, j := range w.Jobs {
					for _, s := range j.Steps {
						if s.Run != "" {
							t.Errorf("%s has a script: %s", id, s.Run)
						}
						if !regexp.MustCompile(`@[0-9a-f]{40}$`).MatchString(s.Uses) {
							t.Errorf("%s uses %q, expected a full commit", id, s.Uses)
						}
						if strings.HasPrefix(s.Uses, "actions/checkout@") && s.With["persist-credentials"] != "false" {
							t.Errorf("%s leaves the token in the checkout", id)
						}
					}
					if j.Environment == nil || j.Minutes == 0 {
						t.Errorf("%s has no environment or no time limit", id)
					}
					if j.Permissions["deployments"] != "write" { // each call shows how the rollout stands, see cli.track
						t.Errorf("%s may not tell the rollout's deployment: permissions %v", id, j.Permissions)
					}
				}
			})
		}
	}
}

// TestRolloutChain: the jobs of a rollout follow each other and the plan; each
// approval is answered behind its question, without secrets; only the last job
// has no until; the return job waits for all of them.
func TestRolloutChain(t *testing.T) {
	for _, name := range []string{"canary", "bluegreen", "waves", "pool"} {
		for _, granularity := range []string{PerStage, PerSegment, PerStep} {
			t.Run(name+"/"+granularity, func(t *testing.T) {
				env := read(t, name, nil)
				files, err := GitHub([]Environment{env}, githubOptions(func(o *GitHubOptions) { o.Granularity = granularity }))
				if err != nil {
					t.Fatal(err)
				}
				w := parse(t, files[0])
				if w.Concurrency["cancel-in-progress"] != false || w.Concurrency["group"] != "manent-"+env.Config.Key() {
					t.Errorf("concurrency %v", w.Concurrency)
				}
				chain := follow(t, w)
				back := w.Jobs["return"]
				if !slices.Equal(back.Needs, chain) || !strings.HasPrefix(back.If, "${{ always() && ") {
					t.Errorf("return needs %v if %s, the chain is %v", back.Needs, back.If, chain)
				}
				at := -1 // index of the step that is next in the plan
				for i, id := range chain {
					step := w.Jobs[id].Steps[1]
					last := i == len(chain)-1
					switch step.With["command"] {
					case "approve":
						pause := regexp.MustCompile(`--pause (\S+)`).FindStringSubmatch(step.With["args"])[1]
						if before := w.Jobs[chain[i-1]].Steps[1].With["until"]; before != pause {
							t.Errorf("%s answers %s, the job before ends at %q", id, pause, before)
						}
						if w.Jobs[id].Environment != ReviewEnvironment(env.Config.Environment, pause) || !onlyVariables(step.Env) || strings.Contains(fmt.Sprint(w.Jobs[id]), "secrets.") {
							t.Errorf("%s: environment %v, env %v", id, w.Jobs[id].Environment, step.Env)
						}
						at++
					case "run":
						if until := step.With["until"]; last != (until == "") {
							t.Errorf("%s ends at %q, last: %v", id, until, last)
						} else if next := index(env.Plan, until); !last && next <= at {
							t.Errorf("%s ends at %q, which is step %d, not after %d", id, until, next, at)
						} else {
							at = next
						}
					default:
						t.Errorf("%s calls %q", id, step.With["command"])
					}
				}
			})
		}
	}
}

// onlyVariables reports whether nothing of an environment is a secret.
func onlyVariables(env map[string]string) bool {
	for name, value := range env {
		if value != "${{ vars."+name+" }}" {
			return false
		}
	}
	return true
}

// follow lists the jobs of a rollout in order.
func follow(t *testing.T, w workflow) []string {
	t.Helper()
	next := map[string]string{}
	for id, j := range w.Jobs {
		if id == "return" {
			continue
		}
		before := ""
		if len(j.Needs) == 1 {
			before = j.Needs[0]
		}
		if len(j.Needs) > 1 || next[before] != "" {
			t.Fatalf("%s needs %v beside %s", id, j.Needs, next[before])
		}
		next[before] = id
	}
	var chain []string
	for id := next[""]; id != ""; id = next[id] {
		chain = append(chain, id)
	}
	if len(chain) != len(w.Jobs)-1 {
		t.Fatalf("chain %v of %d jobs", chain, len(w.Jobs))
	}
	return chain
}

// index is the place in the plan behind which a job that ends at until is.
func index(p plan.Plan, until string) int {
	for i, s := range p.Steps {
		if s.Name == until {
			return i
		}
		if s.Stage == until && s.Kind == plan.Gate {
			return i + 1
		}
	}
	return -1
}

// TestGitLabRules: what no generated pipeline may do.
func TestGitLabRules(t *testing.T) {
	for name, files := range cases(t) {
		if !strings.HasPrefix(name, "gitlab-") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var parent, child map[string]any
			for i, into := range []*map[string]any{&parent, &child} {
				if err := yaml.Unmarshal([]byte(files[i].Text), into); err != nil {
					t.Fatalf("%s: %v", files[i].Path, err)
				}
				if strings.Contains(files[i].Text, "allow_failure: true") || strings.Contains(files[i].Text, "exit_codes") {
					t.Errorf("%s lets a failed job pass", files[i].Path)
				}
			}
			blocks := 0
			for id, value := range child {
				j, ok := value.(map[string]any)
				if !ok || strings.HasPrefix(id, ".") {
					continue
				}
				keepsRunning(t, child, id)
				if j["when"] == "manual" {
					blocks++
					if j["allow_failure"] != false {
						t.Errorf("%s does not block", id)
					}
				}
			}
			for id, value := range parent {
				if j, ok := value.(map[string]any); ok && j["script"] != nil {
					keepsRunning(t, parent, id)
				}
			}
			if approvals := strings.Count(files[1].Text, "manent approve "); blocks != approvals {
				t.Errorf("%d of %d approvals block", blocks, approvals)
			}
		})
	}
}

// keepsRunning demands that no newer pipeline interrupts a job, that only the
// runner's own faults run it again, and that manent shows the rollout's
// deployment and the job makes none, which a newer one could make outdated.
func keepsRunning(t *testing.T, file map[string]any, id string) {
	t.Helper()
	job, _ := file[id].(map[string]any)
	base, _ := file[fmt.Sprint(job["extends"])].(map[string]any)
	for _, key := range []string{"interruptible", "retry", "before_script"} {
		if _, own := job[key]; own {
			t.Errorf("%s has %s of its own", id, key)
		}
	}
	environment, _ := job["environment"].(map[string]any)
	if action := environment["action"]; action != "verify" && action != "access" {
		t.Errorf("%s has environment %v, which makes a deployment", id, environment)
	}
	if variables, _ := base["variables"].(map[string]any); variables["MANENT_TRACK"] != "1" {
		t.Errorf("%s: nothing shows the rollout's deployment: variables %v", id, variables)
	}
	want := map[string]any{"max": 2, "when": []any{"runner_system_failure", "scheduler_failure"}}
	if base["interruptible"] != false || !reflect.DeepEqual(base["retry"], want) {
		t.Errorf("%s: interruptible %v, retry %v, expected false and %v", id, base["interruptible"], base["retry"], want)
	}
}

// TestHostileNames: whatever stands in a configuration, either nothing is
// generated, or the file says exactly that and nothing else.
func TestHostileNames(t *testing.T) {
	pieces := []string{"a", "prod", "7", "-", ".", " ", "/", "'", `"`, "\\", "#", ": ", "\n", "\t", "- ", "${{ secrets.X }}", "${{", "$(id)", "`id`", "$X", "&a", "*a", "!!str", "%", "|", ">", "{", "[", "é", "\u2028", "\x7f", "\xff", "yes", "null", "~", "@", "0x1"}
	random := rand.New(rand.NewPCG(1, 2))
	made, canary := 0, read(t, "canary", nil)
	for range 150 {
		name := func() string {
			var b strings.Builder
			if random.IntN(3) > 0 {
				return "shop"
			}
			for range 1 + random.IntN(4) {
				b.WriteString(pieces[random.IntN(len(pieces))])
			}
			return b.String()
		}
		env := canary
		env.File, env.Config.Environment, env.Config.Application = name(), name(), name()
		env.Config.Steps = []config.Command{{Name: name(), At: "post-test"}}
		env.Plan = plan.Build(env.Config, config.Known())
		files, err := GitHub([]Environment{env}, githubOptions(func(o *GitHubOptions) { o.Granularity, o.Tags = PerStep, name() }))
		if err == nil {
			made++
			faithful(t, env, files)
		}
		files, err = GitLab([]Environment{env}, gitlabOptions(func(o *GitLabOptions) { o.Granularity = PerStep }))
		if err != nil {
			continue
		}
		var parent map[string]any
		if err := yaml.Unmarshal([]byte(files[0].Text), &parent); err != nil {
			t.Fatalf("%+q: %v\n%s", env.File, err, files[0].Text)
		}
		trigger := parent["manent-"+slug(env.Config.Application+"-"+env.Config.Environment)].(map[string]any)
		if trigger["resource_group"] != env.Config.Key() || len(parent) != 4 {
			t.Fatalf("%+q is %q in the file", env.Config.Key(), trigger["resource_group"])
		}
	}
	if made < 15 {
		t.Errorf("%d of 150 were generated, too few to say anything", made)
	}
}

func faithful(t *testing.T, env Environment, files []File) {
	t.Helper()
	w := parse(t, files[0])
	if w.Concurrency["group"] != "manent-"+env.Config.Key() || w.Name != "manent "+env.Config.Key() {
		t.Fatalf("%+q is %q in the file", env.Config.Key(), w.Concurrency["group"])
	}
	for _, j := range w.Jobs {
		if e, ok := j.Environment.(map[string]any); ok && e["name"] != env.Config.Environment {
			t.Fatalf("environment %+q is %q in the file", env.Config.Environment, e["name"])
		}
		if got := j.Steps[1].With["config"]; got != env.File || len(j.Steps) != 2 {
			t.Fatalf("file %+q is %q in the file", env.File, got)
		}
	}
	if strings.Count(files[0].Text, "${{ secrets.X }}") > 0 {
		t.Fatalf("%+q gets at a secret:\n%s", env.File, files[0].Text)
	}
}

// named gives an environment another name.
func named(application, environment string) func(*config.Config) {
	return func(c *config.Config) { c.Application, c.Environment = application, environment }
}

// at is an environment whose configuration is elsewhere.
func at(e Environment, file string) Environment {
	e.File = file
	return e
}

// alike are waves whose approvals differ in their capitals alone.
func alike(c *config.Config) {
	c.Rollout.Waves[1].Name = "EU"
	c.Rollout.ApprovalsBetween = []string{"eu", "EU"}
}

// TestOneFileEach: no file of a call is written over by another of its files.
func TestOneFileEach(t *testing.T) {
	envs := []Environment{read(t, "canary", nil), read(t, "canary", named("traffic", "retired")), read(t, "canary", named("decide", "x")), read(t, "canary", named("shop", "prod.rollout"))}
	files, err := GitHub(envs, githubOptions(nil))
	if err != nil {
		t.Fatal(err)
	}
	more, err := GitLab(append(envs, read(t, "canary", named("traffic", "retire"))), gitlabOptions(nil))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range append(files, more...) {
		if path := strings.ToLower(f.Path); seen[path] {
			t.Errorf("%s is there twice", f.Path)
		} else {
			seen[path] = true
		}
	}
	if len(seen) != 4+2+5*2 {
		t.Errorf("%d files", len(seen))
	}
	for _, named := range []func(*config.Config){named("traffic", "retire"), named("shop", "prod-approve-25")} {
		if _, err := GitHubNeeds([]Environment{read(t, "canary", nil), read(t, "canary", named)}); err == nil {
			t.Error("setup takes environments that nothing can be generated for")
		}
	}
	resumed := []Environment{read(t, "canary", byResume), read(t, "canary", func(c *config.Config) { byResume(c); c.Environment = "prod-approve-25" })}
	if _, err := GitHub(resumed, githubOptions(func(o *GitHubOptions) { o.Mode = Dispatch })); err != nil {
		t.Errorf("where nobody reviews: %v", err)
	}
}

// TestRefused: what cannot be generated is refused with a reason.
func TestRefused(t *testing.T) {
	canary := read(t, "canary", nil)
	for _, row := range []struct {
		name   string
		envs   []Environment
		change func(*GitHubOptions)
		want   string
	}{
		{"a tag is no pin", []Environment{canary}, func(o *GitHubOptions) { o.Action = "manent/action@v1" }, "is not pinned"},
		{"no mode", []Environment{canary}, func(o *GitHubOptions) { o.Mode = "x" }, "--mode x, expected one of environments, dispatch"},
		{"no granularity", []Environment{canary}, func(o *GitHubOptions) { o.Granularity = "x" }, "--granularity x"},
		{"no queue", []Environment{canary}, func(o *GitHubOptions) { o.Queue = "x" }, "--queue x"},
		{"too short", []Environment{canary}, func(o *GitHubOptions) { o.MaxTime = time.Minute }, "expected at least 10m"},
		{"too long", []Environment{canary}, func(o *GitHubOptions) { o.MaxTime = 7 * time.Hour }, "--max-time 7h0m0s is too long"},
		{"no cron", []Environment{canary}, func(o *GitHubOptions) { o.Schedule = "foo" }, `--schedule "foo" has 1 fields`},
		{"dispatch needs resume", []Environment{canary}, func(o *GitHubOptions) { o.Mode = Dispatch }, "rollout.wait is run"},
		{"resume needs dispatch", []Environment{read(t, "canary", byResume)}, nil, "rollout.wait is resume"},
		{"two of one name", []Environment{canary, canary}, nil, "would both be manent-shop-prod.yml"},
		{"the shared schedule's name", []Environment{canary, read(t, "canary", named("traffic", "retire"))}, nil, "the workflow of all environments and envconfig/shop/traffic/retire.yml would both be manent-traffic-retire.yml"},
		{"the shared schedule's name on some disks", []Environment{read(t, "canary", named("Traffic", "Retire"))}, nil, "would both be manent-Traffic-Retire.yml"},
		{"a path that looks like two", []Environment{at(canary, "a, b/prod.yml")}, nil, `"a, b/prod.yml" has a comma and a space`},
		{"an approval's environment", []Environment{canary, read(t, "canary", named("shop", "Prod-Approve-25"))}, nil, "environment Prod-Approve-25 is where approval@25 of " + canary.File + " is answered"},
		{"an approval's environment, first", []Environment{read(t, "bluegreen", named("web", "prod-approve-25")), canary}, nil, "environment prod-approve-25 is where approval@25"},
		{"two approvals of one environment", []Environment{read(t, "waves", alike)}, nil, "would both be answered in environment prod-approve-"},
		{"none", nil, nil, "no environment"},
		{"weeks in jobs of hours", []Environment{read(t, "canary", func(c *config.Config) {
			c.Rollout.Traffic.Bake = config.Duration(10 * 24 * time.Hour)
		})}, nil, "jobs of 5h30m"},
		{"a secret GitHub cannot have", []Environment{read(t, "canary", func(c *config.Config) { c.Secrets[0].Ref = "env:GITHUB_TOKEN" })}, nil, "env:GITHUB_TOKEN"},
	} {
		t.Run(row.name, func(t *testing.T) {
			files, err := GitHub(row.envs, githubOptions(row.change))
			if err == nil || !strings.Contains(err.Error(), row.want) || files != nil {
				t.Errorf("got %d files and %v, expected %q", len(files), err, row.want)
			}
		})
	}
	for _, tags := range [][]string{{"shop", ""}, {"$TAG"}, {"a\nb"}} {
		if _, err := GitLab([]Environment{canary}, gitlabOptions(func(o *GitLabOptions) { o.Tags = tags })); err == nil {
			t.Errorf("the tags %q were taken", tags)
		}
	}
	if _, err := GitLab([]Environment{at(canary, "a, b/prod.yml")}, gitlabOptions(nil)); err == nil {
		t.Error("GitLab: a path that looks like two was taken")
	}
	if _, err := GitLab([]Environment{read(t, "canary", byResume)}, gitlabOptions(nil)); err == nil {
		t.Error("a pipeline whose jobs wait was generated for rollout.wait: resume")
	}
}

// TestLongStages: every part but the last hands over, all end at the same
// step, and together they have the time.
func TestLongStages(t *testing.T) {
	env := read(t, "canary", long)
	jobs, err := Jobs(env.Plan, PerStage, 2*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	var parts []Job
	for _, j := range jobs {
		if j.Until == "5%" {
			parts = append(parts, j)
		}
	}
	if len(parts) != 4 { // 7 h of bake, its grace, and what setting the share may take
		t.Fatalf("%d parts, expected 4: %+v", len(parts), parts)
	}
	for i, j := range parts {
		if j.HandOver != (i < 3) || j.Last {
			t.Errorf("part %d: %+v", i+1, j)
		}
	}
	if last := jobs[len(jobs)-1]; !last.Last || last.HandOver || last.Until != "" {
		t.Errorf("last job %+v", last)
	}
}

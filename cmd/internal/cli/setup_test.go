package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	hub "github.com/manent/action/providers/api/github/githubtest"
	lab "github.com/manent/action/providers/api/gitlab/gitlabtest"
)

const setUpConfig = `
project: shop
application: web
environment: prod
secrets: [{name: token, ref: "env:PROMETHEUS_TOKEN"}]
steps: [{name: copy, at: deploy, run: "true"}]
rollout:
  traffic: {steps: [10, 50, 100]}
  approvalsBetween: ["10", "50"]
traffic:
  router: {provider: proxy, settings: {admin: "http://127.0.0.1:9"}}
`

// settingUp is a command line at the root of a repository with one
// environment.
func settingUp(t *testing.T, change func(string) string) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.MkdirAll(filepath.Dir(setUpFile), 0o755); err != nil {
		t.Fatal(err)
	}
	text := setUpConfig
	if change != nil {
		text = change(text)
	}
	if err := os.WriteFile(setUpFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const setUpFile = "envconfig/shop/web/prod.yml"

// setUp makes one call of setup.
func setUp(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	a := newApp("test", func(name string) string { return env[name] }, dir)
	a.stdin, a.stdout, a.stderr = strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}
	return called(t, a, append([]string{"setup"}, args...)...)
}

func onGitHub(s *hub.Server) map[string]string {
	return map[string]string{"GITHUB_API_URL": s.URL, "GITHUB_REPOSITORY": hub.Repo, "GH_TOKEN": hub.Token}
}

func newGitLab(t *testing.T) *lab.Server {
	t.Helper()
	s := lab.New(t)
	s.AccessToken = "glpat-1"
	return s
}

func onGitLab(s *lab.Server) map[string]string {
	return map[string]string{"CI_API_V4_URL": s.URL, "CI_PROJECT_PATH": lab.Path, "GITLAB_TOKEN": "glpat-1"}
}

func writesOf(requests []hub.Request) []string {
	var out []string
	for _, r := range requests {
		if r.Body != "" {
			out = append(out, strings.TrimPrefix(r.Path, "/repos/shop/web/environments/")+" "+r.Body)
		}
	}
	return out
}

func labWrites(s *lab.Server) []string {
	var out []string
	for _, r := range s.Sent() {
		if !strings.HasPrefix(r, "GET ") {
			out = append(out, r)
		}
	}
	return out
}

// asked compares a call's ending and what it has said.
func asked(t *testing.T, code, want int, text string, says ...string) {
	t.Helper()
	if code != want {
		t.Errorf("exit %d, expected %d:\n%s", code, want, text)
	}
	for _, one := range says {
		if !strings.Contains(text, one) {
			t.Errorf("it does not say %q:\n%s", one, text)
		}
	}
}

// TestSetupIsIdempotent: a second --apply sends no write at all, and none is
// sent without it.
func TestSetupIsIdempotent(t *testing.T) {
	t.Run("github", func(t *testing.T) {
		settingUp(t, nil)
		s := hub.New(t)
		args := []string{"github", "-c", setUpFile, "--reviewer", "user:ada", "--reviewer", "team:ops", "--tags", "v*"}
		code, out, errs := setUp(t, onGitHub(s), args...)
		asked(t, code, 0, out+errs, "environment prod would be made\n", "branches that may deploy: any → named branches", "names that may deploy: none → main, tags v*",
			"note: set its secrets yourself: PROMETHEUS_TOKEN", "environment prod-approve-10 would be made\n", "reviewers: none → team:ops, user:ada", "with --apply")
		if w := writesOf(s.Requests()); w != nil {
			t.Fatalf("without --apply it sent %q", w)
		}
		code, out, errs = setUp(t, onGitHub(s), append(args, "--apply")...)
		asked(t, code, 0, out+errs, "environment prod is made\n", "environment prod-approve-50 is made\n", "all of it was read again")
		const reviewed = ` {"wait_timer":0,"prevent_self_review":true,"reviewers":[{"type":"User","id":1},{"type":"Team","id":101}],"deployment_branch_policy":null}`
		want := []string{
			`prod {"wait_timer":0,"prevent_self_review":false,"reviewers":[],"deployment_branch_policy":{"protected_branches":false,"custom_branch_policies":true}}`,
			`prod/deployment-branch-policies {"name":"main","type":"branch"}`, `prod/deployment-branch-policies {"name":"v*","type":"tag"}`,
			"prod-approve-10" + reviewed, "prod-approve-50" + reviewed,
		}
		if diff := cmp.Diff(want, writesOf(s.Requests())); diff != "" {
			t.Error(diff)
		}
		for _, more := range [][]string{args, {"github", "-c", setUpFile}} { // reviewers that are there need not be named again
			code, out, errs = setUp(t, onGitHub(s), append(more, "--apply")...)
			asked(t, code, 0, out+errs, "environment prod is as it should be\n", "nothing was to be written")
			if w := writesOf(s.Requests()); w != nil {
				t.Errorf("the second --apply sent %q", w)
			}
		}
	})
	t.Run("gitlab", func(t *testing.T) {
		settingUp(t, nil)
		s := newGitLab(t)
		s.Settings = lab.Settings{Push: new(false), Groups: map[string]string{"shop/web/prod": "unordered"}}
		args := []string{"gitlab", "-c", setUpFile, "--approver", "role:maintainer", "--approver", "user:ada", "--approver", "group:shop/ops"}
		code, out, errs := setUp(t, onGitLab(s), args...)
		asked(t, code, 0, out+errs, "project settings would be changed\n", "job tokens may push: off → on",
			"pipeline schedule \"manent: resume rollouts\" would be made\n", "resource group shop/web/prod would be changed\n", "process mode: unordered → oldest_first",
			"protected environment prod would be made\n", "may deploy: everybody with the role Developer → group:shop/ops, role:maintainer, user:ada")
		if w := labWrites(s); w != nil {
			t.Fatalf("without --apply it sent %q", w)
		}
		code, out, errs = setUp(t, onGitLab(s), append(args, "--apply")...)
		asked(t, code, 0, out+errs, "project settings is changed\n", "protected environment prod is made\n", "all of it was read again")
		const project = "/projects/shop%2Fweb"
		want := []string{
			"PUT " + project + ` {"ci_push_repository_for_job_token_allowed":true}`,
			"POST " + project + `/pipeline_schedules {"description":"manent: resume rollouts","ref":"main","cron":"*/5 * * * *","active":false}`,
			"POST " + project + `/pipeline_schedules/13/variables {"key":"MANENT_RESUME","value":"true"}`,
			"PUT " + project + `/pipeline_schedules/13 {"ref":"main","active":true}`,
			"PUT " + project + `/resource_groups/shop%2Fweb%2Fprod {"process_mode":"oldest_first"}`,
			"POST " + project + `/protected_environments {"name":"prod","deploy_access_levels":[{"access_level":40},{"user_id":11},{"group_id":21}]}`,
		}
		if diff := cmp.Diff(want, labWrites(s)); diff != "" {
			t.Error(diff)
		}
		code, out, errs = setUp(t, onGitLab(s), append(args, "--apply")...)
		asked(t, code, 0, out+errs, "project settings is as it should be\n", "nothing was to be written")
		if diff := cmp.Diff(want, labWrites(s)); diff != "" {
			t.Errorf("the second --apply wrote:\n%s", diff)
		}
	})
}

// TestSetupCutOff: wherever a call is cut off, the next one ends with the same
// platform, and says in between that it could not tell.
func TestSetupCutOff(t *testing.T) {
	args := []string{"github", "-c", setUpFile, "--reviewer", "user:ada", "--apply"}
	for operation, meets := range map[string][]hub.Meet{
		hub.SetRules:   {{Lost: true, Applied: true}}, // sent again by the client itself
		hub.AddPattern: {{Lost: true}, {Lost: true, Applied: true}, {Cut: true}},
	} {
		for _, meet := range meets {
			settingUp(t, nil)
			s := hub.New(t)
			s.Meet(operation, slices.Repeat([]hub.Meet{meet}, map[string]int{hub.SetRules: 3, hub.AddPattern: 1}[operation])...)
			code, out, errs := setUp(t, onGitHub(s), args...)
			asked(t, code, exitUnsure, out+errs, "manent: could not tell")
			code, out, errs = setUp(t, onGitHub(s), args...)
			asked(t, code, 0, out+errs)
			want := hub.Environment{NoSelfReview: true, Reviewers: []string{"user:ada"}}
			if diff := cmp.Diff(map[string]hub.Environment{"prod": {Branches: "custom", Patterns: []string{"main"}}, "prod-approve-10": want, "prod-approve-50": want}, s.Environments()); diff != "" {
				t.Errorf("%s, %+v:\n%s", operation, meet, diff)
			}
		}
	}
	for i, failure := range []lab.Failure{
		{Method: "POST", Path: "/pipeline_schedules", Times: 1},
		{Method: "POST", Path: "/pipeline_schedules", Times: 1, After: true},
		{Method: "POST", Path: "/variables", Times: 1},
		{Method: "POST", Path: "/variables", Times: 1, After: true},
		{Method: "PUT", Path: "/pipeline_schedules/13", Times: 3},
	} {
		settingUp(t, nil)
		s := newGitLab(t)
		s.Settings = lab.Settings{Push: new(true), NewGroups: "oldest_first"}
		s.Failures = []lab.Failure{failure}
		code, out, errs := setUp(t, onGitLab(s), "gitlab", "-c", setUpFile, "--apply")
		asked(t, code, exitUnsure, out+errs, "manent: could not tell")
		code, out, errs = setUp(t, onGitLab(s), "gitlab", "-c", setUpFile, "--apply")
		asked(t, code, 0, out+errs)
		want := []lab.Schedule{{ID: 13, Description: "manent: resume rollouts", Ref: "main", Cron: "*/5 * * * *", Active: true, Variables: map[string]string{"MANENT_RESUME": "true"}}}
		if diff := cmp.Diff(want, s.Setup().Schedules); diff != "" {
			t.Errorf("failure %d:\n%s", i, diff)
		}
	}
}

// TestSetupNeverLoosens: what is there stays, whatever has to be written.
func TestSetupNeverLoosens(t *testing.T) {
	settingUp(t, nil)
	s := hub.New(t)
	s.SetEnvironment("prod", hub.Environment{Wait: 5, Reviewers: []string{"user:bob"}, NoSelfReview: true, Branches: "custom", Patterns: []string{"release/*"}, NoBypass: true})
	s.SetEnvironment("prod-approve-10", hub.Environment{Wait: 30, Reviewers: []string{"team:sre", "user:bob"}, Branches: "protected", NoBypass: true})
	s.SetEnvironment("prod-approve-50", hub.Environment{NoSelfReview: true, Reviewers: []string{"user:ada"}})
	before := s.Environments()
	code, out, errs := setUp(t, onGitHub(s), "github", "-c", setUpFile, "--reviewer", "user:ada", "--apply")
	asked(t, code, 0, out+errs, "environment prod is left to you\n", "every job of a rollout waits for its reviewers (user:bob): take them away under Settings > Environments > prod",
		"every job of a rollout waits 5 minutes", "the default branch main may not deploy",
		"environment prod-approve-10 is changed\n", "prevent self-review: off → on", "reviewers: team:sre, user:bob → team:sre, user:ada, user:bob", "environment prod-approve-50 is as it should be\n")
	before["prod-approve-10"] = hub.Environment{Wait: 30, NoSelfReview: true, Reviewers: []string{"team:sre", "user:bob", "user:ada"}, Branches: "protected", NoBypass: true}
	if diff := cmp.Diff(before, s.Environments()); diff != "" {
		t.Error(diff)
	}
	g := newGitLab(t)
	g.Settings = lab.Settings{Push: new(true), Protected: map[string][]string{"prod": {"user:bob"}}, Schedules: []lab.Schedule{
		{ID: 13, Description: "nightly", Ref: "main", Cron: "0 1 * * *", Active: true},
		{ID: 14, Description: "mine", Ref: "main", Cron: "*/10 * * * *", Active: true, Variables: map[string]string{"MANENT_RESUME": "true"}},
	}}
	was := g.Setup().Schedules
	code, out, errs = setUp(t, onGitLab(g), "gitlab", "-c", setUpFile, "--approver", "user:ada", "--apply")
	asked(t, code, 0, out+errs, `pipeline schedule "mine" is as it should be`, `it runs at "*/10 * * * *"`, "resource group shop/web/prod is left to you\n", "GitLab makes it with the first pipeline",
		"may deploy: user:#12 → user:#12, user:ada")
	if diff := cmp.Diff(was, g.Setup().Schedules); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"user:bob", "user:ada"}, g.Setup().Protected["prod"]); diff != "" {
		t.Error(diff)
	}
}

// TestSetupRefuses: each with what is missing, and before any write.
func TestSetupRefuses(t *testing.T) {
	seven := []string{"--reviewer", "user:ada", "--reviewer", "user:bob", "--reviewer", "user:cyd", "--reviewer", "user:dan", "--reviewer", "user:eve", "--reviewer", "user:fay", "--reviewer", "user:gus"}
	for name, tc := range map[string]struct {
		args   []string
		change func(*hub.Server, map[string]string)
		code   int
		says   string
		hint   string
	}{
		"nobody":         {nil, nil, 64, "nobody could approve: prod-approve-10, prod-approve-50 would have no reviewers", "add --reviewer user:LOGIN"},
		"too many":       {seven, nil, 64, "environment prod-approve-10 would have 7 reviewers, GitHub allows 6", "a team counts as one"},
		"no kind":        {[]string{"--reviewer", "ada"}, nil, 64, `--reviewer "ada", expected user: or team: followed by a name`, "user:ada"},
		"no such person": {[]string{"--reviewer", "user:zoe"}, nil, 64, "user zoe: status 404", "does not exist"},
		"organization":   {[]string{"--reviewer", "user:shop"}, nil, 64, `of the type "Organization"`, "team:SLUG"},
		"other place":    {[]string{"--repo", "shop/none"}, nil, 64, "repository shop/none: status 404", "give it this repository, with `administration: write`, `actions: read`"},
		"no place":       {[]string{"--repo", "shop"}, nil, 64, "expected owner/name", "--repo OWNER/REPO"},
		"no token":       {nil, func(_ *hub.Server, env map[string]string) { delete(env, "GH_TOKEN") }, 64, "GH_TOKEN or GITHUB_TOKEN is not set", "a token of your own"},
		"wrong token":    {nil, func(_ *hub.Server, env map[string]string) { env["GH_TOKEN"] = "x" }, 64, "status 401", "wrong or has expired"},
		"may not write": {[]string{"--reviewer", "user:ada", "--apply"}, func(s *hub.Server, _ map[string]string) {
			s.Permit(map[string]string{"metadata": "read", "actions": "read"})
		}, 64, "set environment prod of shop/web: status 403", "the permission `administration: write`, which is set with the token (Settings > Developer settings)"},
		"may not read": {nil, func(s *hub.Server, _ map[string]string) { s.Permit(map[string]string{"metadata": "read"}) }, 64, "status 403", "`actions: read`"},
		"no answer": {nil, func(s *hub.Server, _ map[string]string) {
			s.Meet(hub.GetEnvironment, slices.Repeat([]hub.Meet{{Lost: true}}, 12)...)
		}, 5, "could not tell", ""},
		"unavailable": {nil, func(s *hub.Server, _ map[string]string) {
			down := hub.Meet{Status: 503, Body: "{}"}
			s.Meet(hub.GetRepository, down, down, down)
		}, 5, "status 503", ""},
		"limited": {nil, func(s *hub.Server, _ map[string]string) {
			slow := hub.Meet{Status: 429, Header: map[string]string{"Retry-After": "90"}, Body: `{"message":"slow down","documentation_url":"https://docs.github.com/rest"}`}
			s.Meet(hub.GetRepository, slow)
		}, 5, "status 429: slow down", ""},
	} {
		t.Run(name, func(t *testing.T) {
			settingUp(t, nil)
			s := hub.New(t)
			env := onGitHub(s)
			if tc.change != nil {
				tc.change(s, env)
			}
			code, out, errs := setUp(t, env, append([]string{"github", "-c", setUpFile}, tc.args...)...)
			asked(t, code, tc.code, out+errs, tc.says, tc.hint)
			if len(s.Environments()) > 0 {
				t.Errorf("it has made %v", s.Environments())
			}
		})
	}
}

// TestSetupNoticesThePlan: reviewers that a plan does not know are refused or
// passed over; neither looks like success.
func TestSetupNoticesThePlan(t *testing.T) {
	args := []string{"github", "-c", setUpFile, "--reviewer", "user:ada", "--apply"}
	for plan, want := range map[string]struct {
		code int
		says string
	}{
		hub.Refuses: {1, "environment prod-approve-10: github: set environment prod-approve-10 of shop/web: status 422: Failed to create"},
		hub.Ignores: {1, "the platform said yes and did something else: environment prod-approve-10: reviewers is none, not user:ada"},
	} {
		settingUp(t, nil)
		s := hub.New(t)
		s.SetPlan(plan, true)
		code, out, errs := setUp(t, onGitHub(s), args...)
		asked(t, code, want.code, out+errs, want.says, "`manent generate github --mode dispatch` does without")
	}
	settingUp(t, nil)
	s := newGitLab(t)
	s.Settings = lab.Settings{Push: new(true), Ignores: true}
	code, out, errs := setUp(t, onGitLab(s), "gitlab", "-c", setUpFile, "--approver", "user:ada", "--apply")
	asked(t, code, 1, out+errs, "protected environment prod: may deploy is none, not user:ada")
	s = newGitLab(t)
	s.Settings = lab.Settings{Push: new(true), Free: true, Schedules: []lab.Schedule{{ID: 1, Description: "manent: resume rollouts", Ref: "main", Cron: "*/5 * * * *", Active: true, Variables: map[string]string{"MANENT_RESUME": "true"}}}}
	code, out, errs = setUp(t, onGitLab(s), "gitlab", "-c", setUpFile, "--approver", "user:ada", "--apply")
	asked(t, code, 64, out+errs, "protect environment prod: status 404", "need GitLab Premium or Ultimate")
}

// TestSetupGitLabSays what no program can do.
func TestSetupGitLabSays(t *testing.T) {
	for name, tc := range map[string]struct {
		args     []string
		settings lab.Settings
		change   func(string) string
		says     []string
		not      string
	}{
		"older":        {nil, lab.Settings{}, nil, []string{"project settings is left to you\n", "whether job tokens may push is not shown"}, "would be changed"},
		"access token": {[]string{"--access-token"}, lab.Settings{Push: new(false)}, nil, []string{"project settings is as it should be\n"}, "job tokens"},
		"state elsewhere": {nil, lab.Settings{Push: new(false)}, func(text string) string { return text + "state: file:state\n" },
			[]string{"project settings is as it should be\n"}, "job tokens"},
		"switched off": {nil, lab.Settings{Push: new(true), Schedules: []lab.Schedule{{ID: 9, Description: "x", Ref: "main", Cron: "*/5 * * * *", Variables: map[string]string{"MANENT_RESUME": "false"}}}}, nil,
			[]string{`pipeline schedule "x" would be changed`, "active: off → on", "variable MANENT_RESUME: false → true"}, "would be made"},
		"twice": {nil, lab.Settings{Push: new(true), Schedules: []lab.Schedule{
			{ID: 9, Description: "x", Ref: "main", Cron: "*/5 * * * *", Active: true, Variables: map[string]string{"MANENT_RESUME": "true"}},
			{ID: 10, Description: "manent: resume rollouts", Ref: "main", Cron: "*/5 * * * *", Active: true, Variables: map[string]string{"MANENT_RESUME": "true"}},
		}}, nil, []string{"does the same and can be deleted: schedule 10"}, "would be"},
	} {
		t.Run(name, func(t *testing.T) {
			settingUp(t, tc.change)
			s := newGitLab(t)
			s.Settings = tc.settings
			code, out, errs := setUp(t, onGitLab(s), append([]string{"gitlab", "-c", setUpFile}, tc.args...)...)
			asked(t, code, 0, out+errs, tc.says...)
			if strings.Contains(out, tc.not) && (name != "older" || strings.Contains(strings.SplitN(out, "pipeline", 2)[0], tc.not)) {
				t.Errorf("it says %q:\n%s", tc.not, out)
			}
		})
	}
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"role":       {[]string{"--approver", "role:guest"}, "expected role:developer, role:maintainer or role:admin"},
		"kind":       {[]string{"--approver", "team:ops"}, "expected user: or group: or role: followed by a name"},
		"nobody":     {[]string{"--approver", "user:zoe"}, `there is no user "zoe"`},
		"no project": {[]string{"--project", "web"}, "expected GROUP/PROJECT"},
		"another":    {[]string{"--project", "shop/api"}, "read the project: status 404"},
	} {
		t.Run(name, func(t *testing.T) {
			settingUp(t, nil)
			s := newGitLab(t)
			code, out, errs := setUp(t, onGitLab(s), append([]string{"gitlab", "-c", setUpFile}, tc.args...)...)
			asked(t, code, 64, out+errs, tc.says)
		})
	}
}

// TestSetupDocument: programs get what a person sees.
func TestSetupDocument(t *testing.T) {
	settingUp(t, func(text string) string { return strings.Replace(text, "rollout:", "rollout:\n  wait: resume", 1) })
	s := hub.New(t)
	s.SetEnvironment("Prod", hub.Environment{})
	code, out, errs := setUp(t, onGitHub(s), "github", "-c", setUpFile, "--json")
	var doc setupJSON
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 {
		t.Fatalf("exit %d, %v:\n%s%s", code, err, out, errs)
	}
	if doc.Of != "shop/web" || doc.Applied || len(doc.Items) != 1 || doc.Items[0].What != "environment prod" || !slices.Contains(doc.Items[0].Notes, "set its secrets yourself: PROMETHEUS_TOKEN") {
		t.Errorf("in mode dispatch it shows %+v", doc)
	}
}

// TestSetupFindsTheRepository in the checkout's origin.
func TestSetupFindsTheRepository(t *testing.T) {
	settingUp(t, nil)
	code, out, errs := setUp(t, map[string]string{"GH_TOKEN": "x"}, "github", "-c", setUpFile)
	asked(t, code, 64, out+errs, "hint: add --repo OWNER/REPO, set GITHUB_REPOSITORY, or call it in a checkout")
	code, out, errs = setUp(t, map[string]string{"GITLAB_TOKEN": "x"}, "gitlab", "-c", setUpFile)
	asked(t, code, 64, out+errs, "hint: add --project PATH, set CI_PROJECT_PATH, or call it in a checkout")
}

// TestSetupWithoutTheirAnswer: without a token, a network or a permission a
// person still sees what is needed, and then why nothing was read.
func TestSetupWithoutTheirAnswer(t *testing.T) {
	needsGitHub := []string{
		"environment prod is needed\n  note: no reviewers; the default branch and the tags v* may deploy", "  note: set its secrets yourself: PROMETHEUS_TOKEN\n",
		"environment prod-approve-10 is needed\n  note: required reviewers: user:ada\n  note: prevent self-review\n", "from the configuration alone; nothing was read or written",
	}
	needsGitLab := []string{
		"project settings is needed\n  note: job tokens may push to the repository\n  note: set these variables of environment prod yourself, protected and masked: PROMETHEUS_TOKEN\n",
		"pipeline schedule \"manent: resume rollouts\" is needed\n", "MANENT_RESUME=true", "when: never", "resource group shop/web/prod is needed\n  note: process mode: oldest_first\n",
		"protected environment prod is needed\n  note: may deploy: user:ada\n", "from the configuration alone; nothing was read or written",
	}
	onGitHub := []string{"github", "-c", setUpFile, "--tags", "v*", "--reviewer", "user:ada"}
	onGitLab := []string{"gitlab", "-c", setUpFile, "--approver", "user:ada"}
	for name, tc := range map[string]struct {
		args []string
		env  map[string]string
		code int
		says []string
	}{
		"github, no token":   {onGitHub, map[string]string{"GITHUB_REPOSITORY": hub.Repo, "GITHUB_API_URL": "http://127.0.0.1:1"}, 64, append(needsGitHub, "GH_TOKEN or GITHUB_TOKEN is not set", "with `administration: write`, `actions: read`")},
		"github, no network": {onGitHub, map[string]string{"GITHUB_REPOSITORY": hub.Repo, "GITHUB_API_URL": "http://127.0.0.1:1", "GH_TOKEN": "x"}, exitUnsure, append(needsGitHub, "connection refused")},
		"gitlab, no token":   {onGitLab, map[string]string{"CI_PROJECT_PATH": lab.Path, "CI_API_V4_URL": "http://127.0.0.1:1"}, 64, append(needsGitLab, "GITLAB_TOKEN is not set", "scope api, of somebody with the role Maintainer")},
		"gitlab, no project": {onGitLab, map[string]string{"GITLAB_TOKEN": "x"}, 64, append(needsGitLab, "--project PATH")},
	} {
		t.Run(name, func(t *testing.T) {
			settingUp(t, nil)
			for _, apply := range [][]string{nil, {"--apply"}} {
				code, out, errs := setUp(t, tc.env, append(tc.args, apply...)...)
				asked(t, code, tc.code, out+errs, tc.says...)
			}
		})
	}
	settingUp(t, nil)
	s := lab.New(t) // which knows no token
	code, out, errs := setUp(t, map[string]string{"CI_API_V4_URL": s.URL, "CI_PROJECT_PATH": "shop/api", "GITLAB_TOKEN": "glpat-1"}, onGitLab...)
	asked(t, code, 64, out+errs, append(needsGitLab, "status 401", "role Maintainer")...)
}

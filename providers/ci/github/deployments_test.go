package github

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/github/githubtest"
	"github.com/manent/action/providers/ci"
	"github.com/manent/action/state"
)

// on makes the platform of a job that may ask this server.
func on(t *testing.T, s *api.Server, vars map[string]string) *platform {
	t.Helper()
	r := newRunner(t, map[string]string{"GITHUB_API_URL": s.URL, "GITHUB_TOKEN": api.Token, "GITHUB_SHA": api.Commit, "GITHUB_EVENT_NAME": "push"})
	for key, value := range vars {
		r.vars[key] = value
	}
	return r.open(t)
}

var run17 = state.RunRef{Platform: "github", Repository: api.Repo, Run: "17", Order: 17, Attempt: 1}

func TestReviews(t *testing.T) {
	s := api.New(t)
	s.Review(17, api.Review{State: "approved", Who: "ada", Comment: "go", Environments: []string{"prod-approve-25", "prod-approve-50"}})
	s.Review(17, api.Review{State: "rejected", Who: "bob", Comment: "prices are wrong", Environments: []string{"prod-approve-100"}})
	s.Review(17, api.Review{State: "pending", Who: "eve", Environments: []string{"prod-approve-x"}})
	got, err := on(t, s, nil).Reviews(t.Context(), run17)
	want := []ci.Review{
		{Environment: "prod-approve-25", State: ci.Approved, Who: "ada", Comment: "go"},
		{Environment: "prod-approve-50", State: ci.Approved, Who: "ada", Comment: "go"},
		{Environment: "prod-approve-100", State: ci.Rejected, Who: "bob", Comment: "prices are wrong"},
		{Environment: "prod-approve-x", State: ci.Pending, Who: "eve"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v\n%s", err, diff)
	}
}

// TestReviewsAreNeverMadeUp: that nobody has said anything, and that nobody
// can tell, are two things, and neither is a yes.
func TestReviewsAreNeverMadeUp(t *testing.T) {
	cases := map[string]struct {
		vars map[string]string
		run  state.RunRef
		meet api.Meet
		kind providers.Kind
		hint string
	}{
		"empty answer":     {nil, run17, api.Meet{Status: 200, Body: "", Wrong: true}, providers.Unknown, ""},
		"unknown word":     {nil, run17, api.Meet{Status: 200, Body: `[{"state":"skipped","user":{"login":"ada"},"environments":[{"name":"prod"}]}]`, Wrong: true}, providers.Unknown, ""},
		"no permission":    {nil, run17, api.Meet{Status: 403, Body: `{"message":"Resource not accessible by integration"}`}, providers.Denied, "actions: read"},
		"no token":         {map[string]string{"GITHUB_TOKEN": ""}, run17, api.Meet{}, providers.Denied, "GITHUB_TOKEN: ${{ github.token }}"},
		"wrong token":      {map[string]string{"GITHUB_TOKEN": "ghs_expired"}, run17, api.Meet{}, providers.Denied, "ends with its job"},
		"API over HTTP":    {map[string]string{"GITHUB_API_URL": "http://git.example/api/v3"}, run17, api.Meet{}, providers.Invalid, "GITHUB_API_URL"},
		"other platform":   {nil, state.RunRef{Platform: "gitlab", Repository: api.Repo, Run: "17"}, api.Meet{}, providers.Invalid, ""},
		"other run id":     {nil, state.RunRef{Platform: "github", Repository: api.Repo, Run: "../17"}, api.Meet{}, providers.Invalid, ""},
		"other repository": {nil, state.RunRef{Platform: "github", Repository: "shop/else", Run: "17"}, api.Meet{}, providers.NotFound, "actions: read"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := api.New(t)
			if tc.meet.Status != 0 {
				s.Meet(api.Reviews, tc.meet)
			}
			got, err := on(t, s, tc.vars).Reviews(t.Context(), tc.run)
			if got != nil || err == nil || providers.KindOf(err) != tc.kind || !strings.Contains(providers.HintOf(err), tc.hint) {
				t.Errorf("reviews %v, error %v (%v), hint %q, expected %v and %q", got, err, providers.KindOf(err), providers.HintOf(err), tc.kind, tc.hint)
			}
		})
	}
	got, err := on(t, api.New(t), nil).Reviews(t.Context(), run17)
	if got == nil || len(got) != 0 || err != nil {
		t.Errorf("reviews %#v of a run without, error %v, expected an empty list", got, err)
	}
}

func rollout(s ci.DeploymentState, description string) ci.Deployment {
	return ci.Deployment{
		Rollout: "20261130-r1", Environment: "prod", Version: "2.0", State: s, Description: description,
		URL: "https://github.com/shop/web/actions/runs/17",
	}
}

func track(t *testing.T, p *platform, all ...ci.Deployment) {
	t.Helper()
	for _, d := range all {
		if err := p.Track(t.Context(), d); err != nil {
			t.Fatalf("%+v: %v", d, err)
		}
	}
}

func operations(s *api.Server) []string {
	var out []string
	for _, r := range s.Requests() {
		out = append(out, strings.TrimPrefix(r.Operation, "repos/"))
	}
	return out
}

// TestTrack is a rollout from its first stage to its end, each call by another
// process. Deployments of others stay as they are.
func TestTrack(t *testing.T) {
	s := api.New(t)
	s.Add("prod", "deploy", "success")
	s.Add("prod", "manent:20261129-r0", "in_progress", "success")
	s.Add("staging", "manent:20261130-r1", "success")
	others := s.Shown()
	steps := []ci.Deployment{
		rollout(ci.InProgress, "5 %"), rollout(ci.InProgress, "5 %"), rollout(ci.Waiting, "waits for\n approval@25"),
		rollout(ci.InProgress, "25 %"), rollout(ci.Succeeded, "2.0 serves"), rollout(ci.Succeeded, "2.0 serves"),
	}
	for _, step := range steps {
		track(t, on(t, s, nil), step)
	}
	want := append(others, api.Shown{Environment: "prod", Task: "manent:20261130-r1", Statuses: []string{
		"in_progress: 5 %", "pending: waits for approval@25", "in_progress: 25 %", "success: 2.0 serves",
	}})
	if diff := cmp.Diff(want, s.Shown()); diff != "" {
		t.Error(diff)
	}
	if got := s.Requests(); len(got) != 2*len(steps)+1+4 {
		t.Errorf("%d requests, expected two looks for each of %d calls and five writes", len(got), len(steps))
	}
}

func TestTrackRequests(t *testing.T) {
	s := api.New(t)
	d := rollout(ci.Failed, strings.Repeat("ä", 150))
	track(t, on(t, s, nil), d)
	cut := strings.Repeat("ä", 139) + "…"
	at, task := "/repos/shop/web/deployments", "manent:20261130-r1"
	want := []api.Request{
		{Operation: api.ListDeployments, Path: at, Query: "environment=prod&per_page=100&task=manent%3A20261130-r1"},
		{Operation: api.CreateDeployment, Path: at, Body: `{"ref":"` + api.Commit + `","task":"` + task + `","auto_merge":false,"required_contexts":[],"payload":{"rollout":"20261130-r1","version":"2.0"},"environment":"prod","description":"` + cut + `"}`},
		{Operation: api.ListStatuses, Path: at + "/41/statuses", Query: "per_page=100"},
		{Operation: api.CreateStatus, Path: at + "/41/statuses", Body: `{"state":"failure","log_url":"https://github.com/shop/web/actions/runs/17","description":"` + cut + `","auto_inactive":false}`},
	}
	if diff := cmp.Diff(want, s.Requests()); diff != "" {
		t.Error(diff)
	}
}

// TestTrackOfTheReplaced: GitHub marks what a later deployment replaced as
// inactive. An old job that runs again must not bring it back to life.
func TestTrackOfTheReplaced(t *testing.T) {
	s := api.New(t)
	s.Add("prod", "manent:20261130-r1")
	p := on(t, s, nil)
	track(t, p, rollout(ci.Succeeded, "2.0 serves"))
	s.Meet(api.ListStatuses, api.Meet{Status: 200, Wrong: true, Body: `[
		{"id":90,"state":"inactive","description":""},
		{"id":80,"state":"success","description":"2.0 serves","log_url":"https://github.com/shop/web/actions/runs/17"},
		{"id":70,"state":"in_progress","description":"25 %"}]`})
	s.Requests()
	track(t, p, rollout(ci.Succeeded, "2.0 serves"))
	if diff := cmp.Diff([]string{"list-deployments", "list-deployment-statuses"}, operations(s)); diff != "" {
		t.Error(diff)
	}
}

// TestTrackWithLostAnswers: the write is done once, whether or not its answer
// came, and what could not be found is said to be unknown.
func TestTrackWithLostAnswers(t *testing.T) {
	looks := []string{"list-deployments"}
	cases := map[string]struct {
		operation string
		meet      api.Meet
		kind      providers.Kind // with fails
		fails     bool
		first     []string // operations of the first call
	}{
		"created, answer lost": {
			api.CreateDeployment, api.Meet{Lost: true, Applied: true}, 0, false,
			append(looks, "create-deployment", "list-deployments", "list-deployment-statuses", "create-deployment-status"),
		},
		"created, answer cut off": {
			api.CreateDeployment, api.Meet{Cut: true}, 0, false,
			append(looks, "create-deployment", "list-deployments", "list-deployment-statuses", "create-deployment-status"),
		},
		"created, answered by a proxy": {
			api.CreateDeployment, api.Meet{Status: 504, Applied: true, Body: "<html>"}, 0, false,
			append(looks, "create-deployment", "list-deployments", "list-deployment-statuses", "create-deployment-status"),
		},
		"not created, answer lost":   {api.CreateDeployment, api.Meet{Lost: true}, providers.Unknown, true, append(looks, "create-deployment", "list-deployments")},
		"not created, not available": {api.CreateDeployment, api.Meet{Status: 503, Body: "<html>"}, providers.Unavailable, true, append(looks, "create-deployment", "list-deployments")},
		"merged in place of it": {
			api.CreateDeployment, api.Meet{Status: 202, Body: `{"message":"Auto-merged"}`}, providers.Unknown, true, append(looks, "create-deployment", "list-deployments"),
		},
		"refused": {api.CreateDeployment, api.Meet{Status: 409, Body: `{"message":"Conflict"}`}, providers.Conflict, true, append(looks, "create-deployment")},
		"status added, answer lost": {
			api.CreateStatus, api.Meet{Lost: true, Applied: true}, 0, false,
			append(looks, "create-deployment", "list-deployment-statuses", "create-deployment-status", "list-deployment-statuses"),
		},
		"status not added, answer lost": {
			api.CreateStatus, api.Meet{Lost: true}, providers.Unknown, true,
			append(looks, "create-deployment", "list-deployment-statuses", "create-deployment-status", "list-deployment-statuses"),
		},
		"status for later": {
			api.CreateStatus, api.Meet{Status: 429, Header: map[string]string{"Retry-After": "60"}, Body: `{"message":"slow down"}`}, providers.Throttled, true,
			append(looks, "create-deployment", "list-deployment-statuses", "create-deployment-status"),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := api.New(t)
			s.Meet(tc.operation, tc.meet)
			err := on(t, s, nil).Track(t.Context(), rollout(ci.InProgress, "5 %"))
			if (err != nil) != tc.fails || (tc.fails && providers.KindOf(err) != tc.kind) {
				t.Errorf("error %v (%v), expected %v", err, providers.KindOf(err), tc.kind)
			}
			if diff := cmp.Diff(tc.first, operations(s)); diff != "" {
				t.Errorf("requests:\n%s", diff)
			}
			track(t, on(t, s, nil), rollout(ci.InProgress, "5 %"))
			want := []api.Shown{{Environment: "prod", Task: "manent:20261130-r1", Statuses: []string{"in_progress: 5 %"}}}
			if diff := cmp.Diff(want, s.Shown()); diff != "" {
				t.Errorf("after the next call:\n%s", diff)
			}
		})
	}
}

// TestTrackIsSure: when nobody can say what is there, nothing is written.
func TestTrackIsSure(t *testing.T) {
	for _, operation := range []string{api.ListDeployments, api.ListStatuses} {
		for _, body := range []string{"", "null", `[{}]`} {
			s := api.New(t)
			s.Add("prod", "manent:20261130-r1", "in_progress")
			before := s.Shown()
			s.Meet(operation, api.Meet{Status: 200, Body: body, Wrong: true})
			err := on(t, s, nil).Track(t.Context(), rollout(ci.InProgress, "5 %"))
			if err == nil || providers.KindOf(err) != providers.Unknown {
				t.Errorf("%s answers %q: error %v", operation, body, err)
			}
			if diff := cmp.Diff(before, s.Shown()); diff != "" {
				t.Errorf("%s answers %q:\n%s", operation, body, diff)
			}
		}
	}
}

// TestTrackOfTwo: a call that lands late leaves two; all processes go on with
// the same.
func TestTrackOfTwo(t *testing.T) {
	s := api.New(t)
	s.Add("prod", "manent:20261130-r1")
	s.Add("prod", "manent:20261130-r1")
	track(t, on(t, s, nil), rollout(ci.InProgress, "5 %"))
	if got := s.Shown(); len(got[0].Statuses) != 1 || len(got[1].Statuses) != 0 {
		t.Errorf("deployments %+v, expected the first to be told", got)
	}
}

// TestTrackLooksTwice: a server that does not filter does not make somebody
// else's deployment the rollout's.
func TestTrackLooksTwice(t *testing.T) {
	s := api.New(t)
	s.Add("prod", "deploy", "success")
	s.Add("staging", "manent:20261130-r1", "success")
	others := s.Shown()
	s.Meet(api.ListDeployments, api.Meet{Status: 200, Wrong: true, Body: `[
		{"id":41,"task":"deploy","environment":"prod"},{"id":43,"task":"manent:20261130-r1","environment":"staging"}]`})
	track(t, on(t, s, nil), rollout(ci.InProgress, "5 %"))
	want := append(others, api.Shown{Environment: "prod", Task: "manent:20261130-r1", Statuses: []string{"in_progress: 5 %"}})
	if diff := cmp.Diff(want, s.Shown()); diff != "" {
		t.Error(diff)
	}
}

func TestTrackRefuses(t *testing.T) {
	event := func(from any) string {
		path := filepath.Join(t.TempDir(), "event.json")
		text, err := json.Marshal(map[string]any{"pull_request": map[string]any{"head": map[string]any{"repo": from}}})
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	fork, own, gone := event(map[string]string{"full_name": "eve/web"}), event(map[string]string{"full_name": "Shop/Web"}), event(nil)
	change := func(f func(*ci.Deployment)) ci.Deployment { d := rollout(ci.InProgress, "5 %"); f(&d); return d }
	good := rollout(ci.InProgress, "5 %")
	cases := map[string]struct {
		vars map[string]string
		d    ci.Deployment
		kind providers.Kind
		says string // "" if it is done
	}{
		"fork":              {map[string]string{"GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": fork}, good, providers.Denied, "a pull request from eve/web"},
		"review of a fork":  {map[string]string{"GITHUB_EVENT_NAME": "pull_request_review", "GITHUB_EVENT_PATH": fork}, good, providers.Denied, "a pull request from eve/web"},
		"fork that is gone": {map[string]string{"GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": gone}, good, providers.Denied, "a repository that is gone"},
		"own branch":        {map[string]string{"GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": own}, good, 0, ""},
		"target":            {map[string]string{"GITHUB_EVENT_NAME": "pull_request_target", "GITHUB_EVENT_PATH": fork}, good, 0, ""},
		"no event":          {map[string]string{"GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": "/none"}, good, 0, ""},
		"no token":          {map[string]string{"GITHUB_TOKEN": ""}, good, providers.Denied, "GITHUB_TOKEN is not set"},
		"no commit":         {map[string]string{"GITHUB_SHA": ""}, good, providers.Invalid, "GITHUB_SHA"},
		"no repository":     {map[string]string{"GITHUB_REPOSITORY": ""}, good, providers.Invalid, "GITHUB_REPOSITORY"},
		"unknown commit":    {map[string]string{"GITHUB_SHA": "beef"}, good, providers.Invalid, "No ref found for: beef"},
		"unknown state":     {nil, change(func(d *ci.Deployment) { d.State = "done" }), providers.Invalid, `state "done"`},
		"no rollout":        {nil, change(func(d *ci.Deployment) { d.Rollout = "" }), providers.Invalid, "no rollout"},
		"no environment":    {nil, change(func(d *ci.Deployment) { d.Environment = "" }), providers.Invalid, "no environment"},
		"URL":               {nil, change(func(d *ci.Deployment) { d.URL = "javascript:alert(1)" }), providers.Invalid, "URL of the run"},
		"of another run":    {nil, change(func(d *ci.Deployment) { d.URL = "https://github.com/shop/web/actions/runs/16" }), providers.NotFound, "rollout 20261130-r1 has none in prod"},
		"no URL":            {nil, change(func(d *ci.Deployment) { d.URL = "" }), 0, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := api.New(t)
			err := on(t, s, tc.vars).Track(t.Context(), tc.d)
			if (err == nil) != (tc.says == "") || (err != nil && (providers.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.says))) {
				t.Errorf("error %v (%v), expected %v and %q", err, providers.KindOf(err), tc.kind, tc.says)
			}
			if made := len(s.Shown()); made != 0 && tc.says != "" {
				t.Errorf("%d deployments", made)
			}
		})
	}
}

// TestTrackFromAnotherRun: a schedule that ends a rollout finds what the run
// that began it has made.
func TestTrackFromAnotherRun(t *testing.T) {
	s := api.New(t)
	track(t, on(t, s, nil), rollout(ci.InProgress, "5 %"))
	track(t, on(t, s, map[string]string{"GITHUB_RUN_ID": "18"}), rollout(ci.Failed, "returned"))
	if shown := s.Shown(); len(shown) != 1 || !strings.Contains(fmt.Sprint(shown), "failure") {
		t.Errorf("shown: %v", shown)
	}
}

// TestTrackWithoutPermission names what lacks and where to put it.
func TestTrackWithoutPermission(t *testing.T) {
	s := api.New(t)
	s.Permit(map[string]string{"deployments": "read"})
	err := on(t, s, nil).Track(t.Context(), rollout(ci.InProgress, "5 %"))
	if providers.KindOf(err) != providers.Denied || !strings.Contains(providers.HintOf(err), "`permissions: {deployments: write}` in the workflow") {
		t.Errorf("error %v, hint %q", err, providers.HintOf(err))
	}
}

// TestNoSecretIsShown: neither the token nor what was masked goes to where
// everybody reads it.
func TestNoSecretIsShown(t *testing.T) {
	s := api.New(t)
	env := newRunner(t, map[string]string{"GITHUB_API_URL": s.URL, "GITHUB_TOKEN": api.Token, "GITHUB_SHA": api.Commit}).env()
	env.Redactor = &providers.Redactor{}
	made, err := New(env)
	if err != nil {
		t.Fatal(err)
	}
	p := made.(*platform)
	if err := p.Mask(providers.NewSecret("hunter2hunter2")); err != nil {
		t.Fatal(err)
	}
	track(t, p, rollout(ci.InProgress, "hunter2hunter2 and "+api.Token))
	track(t, p, rollout(ci.InProgress, "hunter2hunter2 and "+api.Token))
	for _, r := range s.Requests() {
		if strings.Contains(r.Body, "hunter2") || strings.Contains(r.Body, api.Token) {
			t.Errorf("%s is sent %s", r.Operation, r.Body)
		}
	}
	if got := env.Redactor.Clean(api.Token); got == api.Token {
		t.Error("the process does not know that the token is secret")
	}
}

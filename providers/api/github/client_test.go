package github

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/github/githubtest"
)

func open(t *testing.T, base string) *Client {
	t.Helper()
	c, err := New(Options{BaseURL: base, Token: providers.NewSecret(api.Token), Backoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func repo(t *testing.T) Repo {
	t.Helper()
	r, err := ParseRepo(api.Repo)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// calls are all that the client can do, by the operation of the description.
func calls(t *testing.T, c *Client) map[string]func(context.Context) error {
	r := repo(t)
	return map[string]func(context.Context) error{
		api.Reviews:         func(ctx context.Context) error { _, err := c.Approvals(ctx, r, 17); return err },
		api.ListDeployments: func(ctx context.Context) error { _, err := c.Deployments(ctx, r, "prod", "x"); return err },
		api.CreateDeployment: func(ctx context.Context) error {
			_, err := c.CreateDeployment(ctx, r, NewDeployment{Ref: api.Commit, Environment: "prod", Task: "x"})
			return err
		},
		api.ListStatuses:     func(ctx context.Context) error { _, err := c.Statuses(ctx, r, 41); return err },
		api.CreateStatus:     func(ctx context.Context) error { return c.CreateStatus(ctx, r, 41, Status{State: "pending"}) },
		api.GetRepository:    func(ctx context.Context) error { _, err := c.Repository(ctx, r); return err },
		api.ListEnvironments: func(ctx context.Context) error { _, err := c.Environments(ctx, r); return err },
		api.GetEnvironment:   func(ctx context.Context) error { _, err := c.Environment(ctx, r, "prod"); return err },
		api.SetRules: func(ctx context.Context) error {
			return c.SetEnvironment(ctx, r, "prod", Rules{NoSelfReview: true, Reviewers: []Reviewer{{ID: 1}, {Team: true, ID: 101}}, Branches: NamedBranches})
		},
		api.ListPatterns: func(ctx context.Context) error { _, err := c.Patterns(ctx, r, "prod"); return err },
		api.AddPattern: func(ctx context.Context) error {
			return c.AddPattern(ctx, r, "prod", Pattern{Name: "v*", Tag: true})
		},
		api.GetUser: func(ctx context.Context) error { _, err := c.User(ctx, "ada"); return err },
		api.GetTeam: func(ctx context.Context) error { _, err := c.Team(ctx, "shop", "ops"); return err },
	}
}

func TestParseRepo(t *testing.T) {
	for text, ok := range map[string]bool{
		"shop/web": true, "Shop-1/web.go_2": true, "": false, "shop": false, "shop/web/x": false, "../web": false, "shop/..": false,
		"shop/we b": false, "shop/web?x": false, "/web": false, "shop/": false,
	} {
		if got, err := ParseRepo(text); (err == nil) != ok || (ok && got.String() != text) {
			t.Errorf("%q: %v, error %v", text, got, err)
		}
	}
}

func TestBaseURL(t *testing.T) {
	for base, ok := range map[string]bool{
		PublicAPI: true, "https://git.example/api/v3": true, "http://127.0.0.1:1/api/v3/": true,
		"": false, "http://git.example/api/v3": false, "https://user:pass@git.example": false, "git.example": false,
	} {
		if _, err := New(Options{BaseURL: base}); (err == nil) != ok || (err != nil && providers.KindOf(err) != providers.Invalid) {
			t.Errorf("%q: error %v", base, err)
		}
	}
}

// TestRequests shows each request as it is sent; the server has compared it
// with GitHub's description.
func TestRequests(t *testing.T) {
	s := api.New(t)
	s.Add("prod", "x")
	s.SetEnvironment("prod", api.Environment{Branches: "custom"})
	for _, base := range []string{s.URL, s.Enterprise, s.Enterprise + "/"} {
		for name, call := range calls(t, open(t, base)) {
			if err := call(t.Context()); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			want := map[string]api.Request{
				api.Reviews:          {Path: "/repos/shop/web/actions/runs/17/approvals"},
				api.ListDeployments:  {Path: "/repos/shop/web/deployments", Query: "environment=prod&per_page=100&task=x"},
				api.CreateDeployment: {Path: "/repos/shop/web/deployments", Body: `{"ref":"` + api.Commit + `","task":"x","auto_merge":false,"required_contexts":[],"environment":"prod","description":""}`},
				api.ListStatuses:     {Path: "/repos/shop/web/deployments/41/statuses", Query: "per_page=100"},
				api.CreateStatus:     {Path: "/repos/shop/web/deployments/41/statuses", Body: `{"state":"pending","description":"","auto_inactive":false}`},

				api.GetRepository:    {Path: "/repos/shop/web"},
				api.ListEnvironments: {Path: "/repos/shop/web/environments", Query: "per_page=100"},
				api.GetEnvironment:   {Path: "/repos/shop/web/environments/prod"},
				api.SetRules: {Path: "/repos/shop/web/environments/prod", Body: `{"wait_timer":0,"prevent_self_review":true,` +
					`"reviewers":[{"type":"User","id":1},{"type":"Team","id":101}],"deployment_branch_policy":{"protected_branches":false,"custom_branch_policies":true}}`},
				api.ListPatterns: {Path: "/repos/shop/web/environments/prod/deployment-branch-policies", Query: "per_page=100"},
				api.AddPattern:   {Path: "/repos/shop/web/environments/prod/deployment-branch-policies", Body: `{"name":"v*","type":"tag"}`},
				api.GetUser:      {Path: "/users/ada"},
				api.GetTeam:      {Path: "/orgs/shop/teams/ops"},
			}[name]
			want.Operation = name
			if base != s.URL {
				want.Path = "/api/v3" + want.Path
			}
			if diff := cmp.Diff([]api.Request{want}, s.Requests()); diff != "" {
				t.Errorf("%s at %s:\n%s", name, base, diff)
			}
		}
	}
}

func TestApprovals(t *testing.T) {
	s := api.New(t)
	s.Review(17, api.Review{State: "approved", Who: "ada", Comment: "fine", Environments: []string{"prod-approve-25", "prod-approve-50"}})
	s.Review(17, api.Review{State: "rejected", Who: "bob", Environments: []string{"prod-approve-100"}})
	got, err := open(t, s.URL).Approvals(t.Context(), repo(t), 17)
	want := []Approval{
		{State: "approved", Who: "ada", Comment: "fine", Environments: []string{"prod-approve-25", "prod-approve-50"}},
		{State: "rejected", Who: "bob", Environments: []string{"prod-approve-100"}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v\n%s", err, diff)
	}
}

// TestPages: all of a list counts, however long.
func TestPages(t *testing.T) {
	s := api.New(t)
	states := make([]string, 230)
	for i := range states {
		states[i] = "in_progress"
	}
	s.Add("prod", "x", states...)
	got, err := open(t, s.URL).Statuses(t.Context(), repo(t), 41)
	if err != nil || len(got) != 230 || len(s.Requests()) != 3 {
		t.Errorf("%d statuses, error %v, expected 230 with three requests", len(got), err)
	}
}

// TestOneDocument: what follows an answer makes it none, whatever it is, and
// white space is nothing.
func TestOneDocument(t *testing.T) {
	good := map[string]string{
		api.Reviews: `[{"state":"approved","user":{"login":"ada"},"environments":[{"name":"prod"}]}]`, api.ListDeployments: `[{"id":4}]`, api.CreateDeployment: `{"id":4}`, api.ListStatuses: `[{"id":4}]`,
		api.CreateStatus: `{"id":4}`, api.GetRepository: `{"full_name":"shop/web","default_branch":"main","private":false}`, api.ListEnvironments: `{"total_count":0,"environments":[]}`, api.GetEnvironment: `{"id":4,"name":"prod"}`, api.SetRules: `{"id":4,"name":"prod"}`,
		api.ListPatterns: `{"branch_policies":[]}`, api.AddPattern: `{"id":4}`, api.GetUser: `{"id":4,"login":"ada","type":"User"}`, api.GetTeam: `{"id":4,"slug":"ops"}`,
	}
	s := api.New(t)
	for operation, call := range calls(t, open(t, s.URL)) {
		for after, taken := range map[string]bool{"": true, " \r\n": true, "x": false, "\n[]": false, "{}": false, `"`: false, "]": false, "\x00": false, "<!-- cached -->": false} {
			s.Meet(operation, api.Meet{Status: 200, Body: good[operation] + after, Wrong: true})
			err := call(t.Context())
			if (err == nil) != taken || !taken && (providers.KindOf(err) != providers.Unknown || !strings.Contains(err.Error(), "unexpected answer")) {
				t.Errorf("%s, %q behind the answer: error %v", operation, after, err)
			}
		}
	}
}

// TestWrongAnswers: what says nothing is never taken for a list without
// members, nor for something that was made.
func TestWrongAnswers(t *testing.T) {
	bodies := map[string]string{
		"empty": "", "null": "null", "text": "<html>", "other type": `"x"`, "half": `[{"id": 4`, "of nothing": `[{}]`, "nobody's": `[{"state":"approved","user":null,"environments":[{"name":"prod"}]}]`,
		"of no environment": `[{"state":"approved","user":{"login":"ada"},"environments":[]}]`, "of none by name": `[{"state":"approved","user":{"login":"ada"},"environments":[{}]}]`,
		"unknown": `[{"state":"perhaps","user":{"login":"ada"},"environments":[{"name":"prod"}]}]`,
	}
	for name, body := range bodies {
		s := api.New(t)
		s.Add("prod", "x")
		for operation, call := range calls(t, open(t, s.URL)) {
			s.Meet(operation, api.Meet{Status: 200, Body: body, Wrong: true})
			if err := call(t.Context()); err == nil || providers.KindOf(err) != providers.Unknown || !strings.Contains(err.Error(), "unexpected answer") {
				t.Errorf("%s: %s: error %v, expected an unexpected answer", name, operation, err)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	said := func(text string) string {
		return `{"message":"` + text + `","documentation_url":"https://docs.github.com/rest"}`
	}
	reset := strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)
	cases := map[string]struct {
		meet  api.Meet
		kind  providers.Kind
		after time.Duration // at most this and at least 10 s less
		says  string
		hint  string
	}{
		"401": {api.Meet{Status: 401, Body: said("Bad credentials")}, providers.Denied, 0, "status 401: Bad credentials", "${{ github.token }}"},
		"401 of a second factor": {
			api.Meet{Status: 401, Header: map[string]string{"X-GitHub-OTP": "required; app"}, Body: said("Must specify two-factor")}, providers.Denied, 0, "status 401: Must specify", "${{ github.token }}",
		},
		"403": {api.Meet{Status: 403, Body: said("Resource not accessible by integration")}, providers.Denied, 0, "status 403: Resource not accessible", "permissions: {"},
		"403 of the rate limit": {
			api.Meet{Status: 403, Header: map[string]string{"X-RateLimit-Limit": "1000", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}, Body: said("API rate limit exceeded")},
			providers.Throttled, time.Hour, "status 403: API rate limit", "",
		},
		"403 of the secondary limit": {
			api.Meet{Status: 403, Header: map[string]string{"Retry-After": "70"}, Body: said("You have exceeded a secondary rate limit")}, providers.Throttled, 70 * time.Second, "secondary", "",
		},
		"403 of a secondary limit without a time": {
			api.Meet{Status: 403, Body: `{"message":"secondary","documentation_url":"https://docs.github.com/rest/x#about-secondary-rate-limits"}`}, providers.Throttled, time.Minute, "secondary", "",
		},
		"404": {api.Meet{Status: 404, Body: said("Not Found")}, providers.NotFound, 0, "status 404: Not Found", "permissions: {"},
		"409": {api.Meet{Status: 409, Body: said("Conflict")}, providers.Conflict, 0, "status 409: Conflict", ""},
		"422": {
			api.Meet{Status: 422, Body: `{"message":"Validation Failed","documentation_url":"https://docs.github.com/rest","errors":[{"resource":"Deployment","field":"ref","code":"invalid"},{"code":"custom","message":"No ref"}]}`},
			providers.Invalid, 0, "status 422: Validation Failed, Deployment ref invalid, No ref", "",
		},
		"429": {api.Meet{Status: 429, Header: map[string]string{"Retry-After": "90"}, Body: said("slow down")}, providers.Throttled, 90 * time.Second, "status 429: slow down", ""},
		"500": {api.Meet{Status: 500, Body: "<html>"}, providers.Unavailable, 0, "status 500", ""},
		"502": {api.Meet{Status: 502, Body: said("Server Error")}, providers.Unavailable, 0, "status 502: Server Error", ""},
		"301": {api.Meet{Status: 301, Header: map[string]string{"Location": "/elsewhere"}, Body: said("Moved Permanently"), Wrong: true}, providers.Invalid, 0, "status 301: Moved", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := api.New(t)
			for operation, call := range calls(t, open(t, s.URL)) {
				if tc.meet.Status == http.StatusUnprocessableEntity && operation != api.CreateDeployment && operation != api.CreateStatus {
					continue // GitHub has no such answer, or another one, see TestSetupRefusals
				}
				hint := tc.hint
				if other, setup := byPersonHint(operation, tc.meet.Status); setup && hint != "" {
					hint = other
				}
				s.Meet(operation, tc.meet, tc.meet, tc.meet)
				err := call(t.Context())
				f, ok := err.(*providers.Fault) //nolint:errorlint // the fault itself is looked at
				if !ok || f.Kind != tc.kind || !strings.Contains(err.Error(), tc.says) || !strings.Contains(f.Hint, hint) || (hint == "" && f.Hint != "") {
					t.Fatalf("%s: %#v, expected %v, %q and hint %q", operation, err, tc.kind, tc.says, hint)
				}
				if f.After > tc.after || f.After < tc.after-10*time.Second {
					t.Errorf("%s: after %v, expected %v", operation, f.After, tc.after)
				}
			}
		})
	}
}

// TestPermissions: the hint names the one that lacks.
func TestPermissions(t *testing.T) {
	s := api.New(t)
	s.Permit(nil)
	want := map[string]string{
		api.Reviews: "actions: read", api.ListDeployments: "deployments: read", api.ListStatuses: "deployments: read",
		api.CreateDeployment: "deployments: write", api.CreateStatus: "deployments: write",
	}
	for operation, call := range calls(t, open(t, s.URL)) {
		if want[operation] == "" {
			continue // see TestSetupPermissions
		}
		if err := call(t.Context()); providers.KindOf(err) != providers.Denied || !strings.Contains(providers.HintOf(err), "`permissions: {"+want[operation]+"}` in the workflow") {
			t.Errorf("%s: error %v, hint %q", operation, err, providers.HintOf(err))
		}
	}
}

// TestRetries: what reads or sets is tried three times, what makes something
// once, since a second try could make a second one.
func TestRetries(t *testing.T) {
	for name, meet := range map[string]api.Meet{
		"lost": {Lost: true}, "applied and lost": {Lost: true, Applied: true}, "cut off": {Cut: true}, "refused for now": {Status: http.StatusBadGateway},
	} {
		t.Run(name, func(t *testing.T) {
			s := api.New(t)
			s.Add("prod", "x")
			s.SetEnvironment("prod", api.Environment{Branches: "custom"})
			for operation, call := range calls(t, open(t, s.URL)) {
				s.Meet(operation, meet, meet, meet)
				err := call(t.Context())
				want, kind := 3, providers.Unknown
				if slices.Contains([]string{api.CreateDeployment, api.CreateStatus, api.AddPattern}, operation) {
					want = 1
				}
				if meet.Status != 0 {
					kind = providers.Unavailable
				}
				if n := len(s.Requests()); n != want || err == nil || providers.KindOf(err) != kind {
					t.Errorf("%s: %d requests, error %v, expected %d and %v", operation, n, err, want, kind)
				}
			}
		})
	}
}

func TestContext(t *testing.T) {
	s := api.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for operation, call := range calls(t, open(t, s.URL)) {
		if err := call(ctx); !providers.Lost(err) || providers.KindOf(err) != providers.Unknown {
			t.Errorf("%s: error %v, expected the context's", operation, err)
		}
	}
}

// TestNoSecretInErrors: GitHub would not, but a proxy in between may echo what
// it got.
func TestNoSecretInErrors(t *testing.T) {
	s := api.New(t)
	c := open(t, s.URL)
	c.secrets = &providers.Redactor{}
	c.secrets.Add(providers.NewSecret("hunter2hunter2"))
	for operation, call := range calls(t, c) {
		for _, body := range []string{fmt.Sprintf(`{"message":"Bearer %s hunter2hunter2 is wrong"}`, api.Token), `{"message":"` + strings.Repeat("x", 230) + api.Token + `"}`} {
			s.Meet(operation, api.Meet{Status: 400, Body: body})
			err := call(t.Context())
			if text := fmt.Sprintf("%+v %#v %s", err, err, providers.HintOf(err)); strings.Contains(text, api.Token[:12]) || strings.Contains(text, "hunter2") || err == nil {
				t.Errorf("%s: %s", operation, text)
			}
		}
	}
}

package gitlab

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/gitlab/gitlabtest"
)

const token = "glpat-hunter2hunter2"

var began = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// open makes a server with a job, a deployment and a client of it.
func open(t *testing.T, change func(*gitlabtest.Server)) (*Client, *gitlabtest.Server) {
	t.Helper()
	s := gitlabtest.New(t)
	s.AccessToken, s.SHAs, s.Refs = token, []string{"c0ffee"}, []string{"main"}
	s.Jobs = []gitlabtest.Job{{ID: 71, Pipeline: 17, Name: "approval-25", Status: "success", User: "ada", Created: began}}
	s.Deploy(gitlabtest.Deployment{ID: 41, Environment: "prod", SHA: "c0ffee", Ref: "main", Status: "running", Created: began, Updated: began})
	s.Settings = settings()
	if change != nil {
		change(s)
	}
	return client(t, s, Options{}), s
}

func client(t *testing.T, s *gitlabtest.Server, opts Options) *Client {
	t.Helper()
	opts.Provider, opts.BaseURL, opts.Project, opts.Variable, opts.Masks = "gitlab", s.URL, gitlabtest.Project, "TOKEN", new(providers.Redactor)
	opts.backoff = time.Millisecond
	if opts.Token.Empty() {
		opts.Token = providers.NewSecret(token)
	}
	c, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// calls are all of the client's, each with the method and path that it uses.
func calls() map[string]struct {
	method, path string
	call         func(context.Context, *Client) error
} {
	type row = struct {
		method, path string
		call         func(context.Context, *Client) error
	}
	all := map[string]row{
		"jobs":        {"GET", "/jobs", func(ctx context.Context, c *Client) error { _, err := c.Jobs(ctx, 17); return err }},
		"children":    {"GET", "/bridges", func(ctx context.Context, c *Client) error { _, err := c.Children(ctx, 17); return err }},
		"deployments": {"GET", "/deployments", func(ctx context.Context, c *Client) error { _, err := c.Deployments(ctx, "prod", began); return err }},
		"approvals": {"GET", "/deployments/41", func(ctx context.Context, c *Client) error {
			_, _, err := c.Approvals(ctx, Deployment{ID: 41})
			return err
		}},
		"create": {"POST", "/deployments", func(ctx context.Context, c *Client) error {
			return c.Create(ctx, NewDeployment{Environment: "prod", SHA: "c0ffee", Ref: "main", Status: Running})
		}},
		"set status": {"PUT", "/deployments/41", func(ctx context.Context, c *Client) error {
			return c.SetStatus(ctx, Deployment{ID: 41, Environment: "prod", Status: Running}, Success)
		}},
	}
	for name, setup := range setupCalls() {
		all[name] = row{setup.method, setup.path, setup.call}
	}
	return all
}

func TestEveryCall(t *testing.T) {
	for name, tc := range calls() {
		t.Run(name, func(t *testing.T) {
			c, s := open(t, nil)
			if err := tc.call(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if got := s.Requests(); len(got) != 1 || !strings.HasPrefix(got[0], tc.method+" ") || !strings.HasSuffix(got[0], tc.path) {
				t.Errorf("requests %q, expected one %s …%s", got, tc.method, tc.path)
			}
		})
	}
}

// TestFaults has every status for every call. The answers echo the token.
func TestFaults(t *testing.T) {
	echo := `{"message":"about ` + token + `"}`
	cases := map[string]struct {
		failure gitlabtest.Failure
		kind    providers.Kind
		says    string
		hint    string
	}{
		"400":        {gitlabtest.Failure{Status: 400, Body: echo}, providers.Invalid, `status 400: {"message":"about [redacted]"}`, ""},
		"401":        {gitlabtest.Failure{Status: 401, Body: echo}, providers.Denied, "status 401", "has expired"},
		"403":        {gitlabtest.Failure{Status: 403, Body: echo}, providers.Denied, "status 403", "the token in TOKEN needs scope "},
		"404":        {gitlabtest.Failure{Status: 404, Body: echo}, providers.NotFound, "status 404", "at least the role"},
		"409":        {gitlabtest.Failure{Status: 409, Body: echo}, providers.Conflict, "status 409", ""},
		"422":        {gitlabtest.Failure{Status: 422, Body: echo}, providers.Invalid, "status 422", ""},
		"429":        {gitlabtest.Failure{Status: 429, Header: http.Header{"Retry-After": {"60"}}, Body: "Retry later"}, providers.Throttled, "status 429", ""},
		"502":        {gitlabtest.Failure{Status: 502, Body: "<html>" + token}, providers.Unavailable, "status 502", ""},
		"redirected": {gitlabtest.Failure{Status: 302, Header: http.Header{"Location": {"http://127.0.0.1:1/"}}}, providers.Invalid, "which is not followed", ""},
		"no answer":  {gitlabtest.Failure{}, providers.Unknown, "", ""},
		"cut off":    {gitlabtest.Failure{Status: 200, Body: `{"id":41`, Cut: true}, providers.Unknown, "cut off", ""},
		"no JSON":    {gitlabtest.Failure{Status: 200, Body: "<html>Sign in"}, providers.Unknown, "not the expected JSON", ""},
		"null":       {gitlabtest.Failure{Status: 200, Body: "null"}, providers.Unknown, "unexpected answer", ""},
		"else":       {gitlabtest.Failure{Status: 200, Body: `{"message":"maintenance"}`}, providers.Unknown, "expected", ""},
	}
	for name, tc := range cases {
		for what, call := range calls() {
			t.Run(what+"/"+name, func(t *testing.T) {
				failure, look := tc.failure, tc.failure
				failure.Method, look.Method = call.method, "GET" // after a lost change, the look at it fails too
				c, s := open(t, func(s *gitlabtest.Server) { s.Failures = []gitlabtest.Failure{failure, look} })
				err := call.call(t.Context(), c)
				if err == nil || providers.KindOf(err) != tc.kind || !strings.HasPrefix(err.Error(), "gitlab: ") || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("error %v of kind %v, expected %q of kind %v", err, providers.KindOf(err), tc.says, tc.kind)
				}
				if strings.Contains(err.Error()+providers.HintOf(err), token) || strings.Count(err.Error(), "gitlab: ") != 1 {
					t.Errorf("error %q holds the token, or names the provider again", err)
				}
				if !strings.Contains(providers.HintOf(err), tc.hint) || (tc.hint == "") != (providers.HintOf(err) == "") {
					t.Errorf("hint %q, expected %q", providers.HintOf(err), tc.hint)
				}
				if f, _ := errors.AsType[*providers.Fault](err); name == "429" && f.After != time.Minute {
					t.Errorf("not before %v, expected a minute", f.After)
				}
				if n := len(s.Requests()); slices.Contains([]providers.Kind{providers.Denied, providers.NotFound, providers.Throttled}, tc.kind) && n != 1 {
					t.Errorf("%d requests, expected one: asking on is of no use", n)
				}
				posts := slices.DeleteFunc(s.Requests(), func(r string) bool { return !strings.HasPrefix(r, "POST") })
				if len(posts) > 1 || len(s.Requests()) > 6 {
					t.Errorf("requests %q: too many, or what makes something is repeated", s.Requests())
				}
			})
		}
	}
}

func TestCancelled(t *testing.T) {
	for name, tc := range calls() {
		t.Run(name, func(t *testing.T) {
			c, s := open(t, nil)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := tc.call(ctx, c); !providers.Lost(err) || providers.KindOf(err) != providers.Unknown {
				t.Errorf("error %v, expected the context's", err)
			}
			if got := s.Requests(); len(got) != 0 {
				t.Errorf("requests %q, expected none", got)
			}
		})
	}
}

func TestUnusableOptions(t *testing.T) {
	good := Options{Provider: "gitlab", BaseURL: "https://gitlab.example/api/v4", Project: 7, Token: providers.NewSecret(token), Variable: "TOKEN", Masks: new(providers.Redactor)}
	cases := map[string]struct {
		change func(*Options)
		kind   providers.Kind
		says   string
	}{
		"no address":      {func(o *Options) { o.BaseURL = "" }, providers.Invalid, `"", expected http://HOST or https://HOST`},
		"plain http":      {func(o *Options) { o.BaseURL = "http://gitlab.example/api/v4" }, providers.Invalid, "plain http"},
		"no project":      {func(o *Options) { o.Project = 0 }, providers.Invalid, "project 0"},
		"no token":        {func(o *Options) { o.Token = providers.Secret{} }, providers.Denied, "no usable token"},
		"token of words":  {func(o *Options) { o.Token = providers.NewSecret("to be set") }, providers.Denied, "no usable token"},
		"two-line header": {func(o *Options) { o.Token = providers.NewSecret("a\nX: b") }, providers.Denied, "no usable token"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			opts := good
			tc.change(&opts)
			c, err := New(opts)
			if c != nil || providers.KindOf(err) != tc.kind || err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, expected %q of kind %v", err, tc.says, tc.kind)
			}
		})
	}
}

// TestJobToken checks that a job's own token goes into its own header, and
// that a hint names the way out where it is not enough.
func TestJobToken(t *testing.T) {
	s := gitlabtest.New(t)
	s.JobToken, s.Jobs = "glcbt-64_x", []gitlabtest.Job{{ID: 71, Pipeline: 17, Name: "a", Status: "success", Created: began}}
	c := client(t, s, Options{Token: providers.NewSecret("glcbt-64_x"), JobToken: true})
	if _, err := c.Jobs(t.Context(), 17); err != nil {
		t.Fatal(err)
	}
	s.JobToken = "" // the job has ended
	_, err := c.Jobs(t.Context(), 17)
	for _, want := range []string{"ends with the job", "set TOKEN (Settings > CI/CD > Variables", "scope read_api and at least the role Reporter"} {
		if !strings.Contains(providers.HintOf(err), want) {
			t.Errorf("hint %q, expected %q", providers.HintOf(err), want)
		}
	}
}

func TestPages(t *testing.T) {
	many := func(n int) (out []gitlabtest.Job) {
		for i := range n {
			out = append(out, gitlabtest.Job{ID: int64(i + 1), Pipeline: 17, Name: "test", Status: "success", Created: began})
		}
		return out
	}
	c, s := open(t, func(s *gitlabtest.Server) { s.Jobs = many(250) })
	jobs, err := c.Jobs(t.Context(), 17)
	if err != nil || len(jobs) != 250 || jobs[0].ID != 250 || jobs[249].ID != 1 || len(s.Requests()) != 3 {
		t.Errorf("%d jobs by %d requests, error %v", len(jobs), len(s.Requests()), err)
	}
	const one = `{"id":1,"name":"a","status":"success","created_at":"2026-11-30T12:00:00Z","pipeline":{"id":17}}`
	for name, change := range map[string]func(*gitlabtest.Server){
		"more than is read": func(s *gitlabtest.Server) { s.Jobs = many(30); s.PerPage = 1 },
		"a later page is lost": func(s *gitlabtest.Server) {
			s.Jobs = many(150)
			s.Failures = []gitlabtest.Failure{{Method: "GET", Skip: 1, Status: 403}}
		},
		"a page is skipped": func(s *gitlabtest.Server) {
			s.Failures = []gitlabtest.Failure{{Method: "GET", Times: 1, Status: 200, Body: "[" + one + "]", Header: http.Header{"X-Next-Page": {"3"}}}}
		},
		"pages without end": func(s *gitlabtest.Server) {
			s.Failures = []gitlabtest.Failure{{Method: "GET", Status: 200, Body: "[]", Header: http.Header{"X-Next-Page": {"1"}}}}
		},
		"a full page that says nothing of a next": func(s *gitlabtest.Server) {
			s.Failures = []gitlabtest.Failure{{Method: "GET", Status: 200, Body: "[" + strings.Repeat(one+",", 99) + one + "]"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := open(t, change)
			if jobs, err := c.Jobs(t.Context(), 17); jobs != nil || err == nil || providers.KindOf(err) == providers.Invalid {
				t.Errorf("%d jobs, error %v, expected no part of a list", len(jobs), err)
			}
		})
	}
}

func TestAnswersThatLackSomething(t *testing.T) {
	when := `"created_at":"2026-11-30T12:00:00Z"`
	cases := map[string]struct{ call, body string }{
		"null job":                {"jobs", `[null]`},
		"job of another":          {"jobs", `[{"id":1,"name":"a","status":"success",` + when + `,"pipeline":{"id":18}}]`},
		"job without status":      {"jobs", `[{"id":1,"name":"a",` + when + `,"pipeline":{"id":17}}]`},
		"job without time":        {"jobs", `[{"id":1,"name":"a","status":"success","pipeline":{"id":17}}]`},
		"null trigger":            {"children", `[null]`},
		"child without id":        {"children", `[{"id":1,"downstream_pipeline":{}}]`},
		"null deployment":         {"deployments", `[null]`},
		"of another environment":  {"deployments", `[{"id":1,"status":"running",` + when + `,"environment":{"id":1,"name":"test"}}]`},
		"deployment without time": {"deployments", `[{"id":1,"status":"running","environment":{"id":1,"name":"prod"}}]`},
		"another deployment":      {"approvals", `{"id":42}`},
		"unknown word":            {"approvals", `{"id":41,"approvals":[{"user":{"username":"ada"},"status":"abstained"}]}`},
		"nobody":                  {"approvals", `{"id":41,"approvals":[{"user":null,"status":"approved"}]}`},
		"made with other status":  {"create", `{"id":1,"status":"success",` + when + `,"environment":{"id":1,"name":"prod"}}`},
		"no job, and more":        {"jobs", `[] x`},
		"two lists of jobs":       {"jobs", `[][]`},
		"an approval, and more":   {"approvals", `{"id":41,"approvals":[{"user":{"username":"ada"},"status":"approved"}]}}`},
		"made elsewhere":          {"create", `{"id":1,"status":"running",` + when + `,"environment":{"id":1,"name":"test"}}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			call := calls()[tc.call]
			c, _ := open(t, func(s *gitlabtest.Server) {
				s.Failures = []gitlabtest.Failure{{Method: call.method, Status: 200, Body: tc.body}}
			})
			if err := call.call(t.Context(), c); err == nil || providers.KindOf(err) != providers.Unknown {
				t.Errorf("error %v, expected kind unknown", err)
			}
		})
	}
}

// TestSetStatusLooksAgain has updates that were carried out without an answer.
func TestSetStatusLooksAgain(t *testing.T) {
	for name, failure := range map[string]gitlabtest.Failure{
		"no answer": {Times: 1, After: true},
		"cut off":   {Times: 1, After: true, Status: 200, Cut: true},
		"502":       {Times: 1, After: true, Status: 502, Body: "bad gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			failure.Method = "PUT"
			c, s := open(t, func(s *gitlabtest.Server) { s.Failures = []gitlabtest.Failure{failure} })
			if err := c.SetStatus(t.Context(), Deployment{ID: 41, Environment: "prod", Status: Running}, Success); err != nil {
				t.Fatal(err)
			}
			if got := s.Deployments()[0].Status; got != Success {
				t.Errorf("status %s, expected success", got)
			}
		})
	}
	c, _ := open(t, func(s *gitlabtest.Server) {
		s.Deploy(gitlabtest.Deployment{ID: 42, Environment: "prod", Status: "failed", Job: 7, Pipeline: 17, Created: began})
	})
	if err := c.SetStatus(t.Context(), Deployment{ID: 42, Environment: "prod"}, Success); providers.KindOf(err) != providers.Denied {
		t.Errorf("error %v, expected GitLab to refuse a job's own deployment", err)
	}
	if err := c.SetStatus(t.Context(), Deployment{ID: 41, Environment: "prod"}, "sold out"); providers.KindOf(err) != providers.Invalid || err == nil {
		t.Errorf("error %v, expected GitLab to refuse a status of no kind", err)
	}
}

func TestWhatIsRead(t *testing.T) {
	c, _ := open(t, func(s *gitlabtest.Server) {
		s.Triggers = []gitlabtest.Trigger{
			{Pipeline: 17, Child: 18, Project: gitlabtest.Project}, {Pipeline: 17}, {Pipeline: 17, Child: 19, Project: 8},
			{Pipeline: 20, Child: 21, Project: gitlabtest.Project},
		}
		s.Deploy(gitlabtest.Deployment{
			ID: 42, Environment: "prod", SHA: "c0ffee", Status: "blocked", Job: 72, Pipeline: 18, Created: began.Add(time.Hour), Waiting: 1,
			Said:   []gitlabtest.Approval{{Who: "ada", Status: "approved", Comment: "go"}},
			ByRule: []gitlabtest.Approval{{Who: "ada", Status: "approved", Comment: "go"}, {Who: "bob", Status: "rejected"}},
		})
	})
	children, err := c.Children(t.Context(), 17)
	if diff := cmp.Diff([]int64{18}, children); diff != "" || err != nil {
		t.Errorf("children, error %v:\n%s", err, diff)
	}
	made, err := c.Deployments(t.Context(), "", began.Add(time.Minute))
	want := []Deployment{{ID: 42, Environment: "prod", SHA: "c0ffee", Status: "blocked", Job: 72, Pipeline: 18, Created: began.Add(time.Hour)}}
	if diff := cmp.Diff(want, made); diff != "" || err != nil {
		t.Errorf("deployments, error %v:\n%s", err, diff)
	}
	said, waiting, err := c.Approvals(t.Context(), Deployment{ID: 42})
	if diff := cmp.Diff([]Approval{{"ada", "approved", "go"}, {"bob", "rejected", ""}}, said); diff != "" || err != nil || waiting != 1 {
		t.Errorf("approvals, error %v, %d waiting:\n%s", err, waiting, diff)
	}
}

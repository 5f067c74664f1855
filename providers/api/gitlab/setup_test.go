package gitlab

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/gitlab/gitlabtest"
)

// settings are those of a project that somebody has begun to set up.
func settings() gitlabtest.Settings {
	return gitlabtest.Settings{
		Push: new(false), NewGroups: "unordered", Groups: map[string]string{"shop/web/prod": "unordered"},
		Schedules: []gitlabtest.Schedule{{ID: 13, Description: "manent resume", Ref: "main", Cron: "*/5 * * * *", Variables: map[string]string{"A": "b"}}},
		Protected: map[string][]string{"prod": {"role:40", "user:bob", "group:shop/ops"}},
	}
}

type setupCall struct {
	method, path string
	sends        string // query and body
	call         func(context.Context, *Client) error
}

// setupCalls are all calls of setup.go.
func setupCalls() map[string]setupCall {
	const group = "/resource_groups/shop%2Fweb%2Fprod"
	return map[string]setupCall{
		"project": {"GET", "/projects/7", "", func(ctx context.Context, c *Client) error { _, err := c.Project(ctx); return err }},
		"set project": {"PUT", "/projects/7", `{"ci_push_repository_for_job_token_allowed":true}`, func(ctx context.Context, c *Client) error {
			return c.SetPush(ctx, true)
		}},
		"group": {"GET", group, "", func(ctx context.Context, c *Client) error { _, err := c.GroupMode(ctx, "shop/web/prod"); return err }},
		"set group": {"PUT", group, `{"process_mode":"oldest_first"}`, func(ctx context.Context, c *Client) error {
			return c.SetGroupMode(ctx, "shop/web/prod", "oldest_first")
		}},
		"schedules":         {"GET", "/pipeline_schedules", "page=1&per_page=100", func(ctx context.Context, c *Client) error { _, err := c.Schedules(ctx); return err }},
		"schedule variable": {"GET", "/pipeline_schedules/13", "", func(ctx context.Context, c *Client) error { _, err := c.ScheduleVariable(ctx, 13, "A"); return err }},
		"make schedule": {"POST", "/pipeline_schedules", `{"description":"x","ref":"main","cron":"*/5 * * * *","active":false}`, func(ctx context.Context, c *Client) error {
			_, err := c.MakeSchedule(ctx, Schedule{Description: "x", Branch: "main", Cron: "*/5 * * * *"})
			return err
		}},
		"set schedule": {"PUT", "/pipeline_schedules/13", `{"ref":"main","active":true}`, func(ctx context.Context, c *Client) error {
			return c.SetSchedule(ctx, Schedule{ID: 13, Branch: "main", Active: true})
		}},
		"make variable": {"POST", "/pipeline_schedules/13/variables", `{"key":"B","value":"true"}`, func(ctx context.Context, c *Client) error {
			return c.SetScheduleVariable(ctx, 13, "B", "true", false)
		}},
		"set variable": {"PUT", "/pipeline_schedules/13/variables/A", `{"value":"true"}`, func(ctx context.Context, c *Client) error {
			return c.SetScheduleVariable(ctx, 13, "A", "true", true)
		}},
		"deployers": {"GET", "/protected_environments/prod", "", func(ctx context.Context, c *Client) error { _, err := c.Deployers(ctx, "prod"); return err }},
		"protect": {"POST", "/protected_environments", `{"name":"test","deploy_access_levels":[{"user_id":11},{"access_level":40}]}`, func(ctx context.Context, c *Client) error {
			return c.Protect(ctx, "test", []Access{{User: 11}, {Level: 40}}, false)
		}},
		"admit": {"PUT", "/protected_environments/prod", `{"deploy_access_levels":[{"user_id":11}]}`, func(ctx context.Context, c *Client) error {
			return c.Protect(ctx, "prod", []Access{{User: 11}}, true)
		}},
		"user":       {"GET", "/users", "username=ada", func(ctx context.Context, c *Client) error { _, err := c.User(ctx, "ada"); return err }},
		"user group": {"GET", "/groups/shop%2Fops", "with_projects=false", func(ctx context.Context, c *Client) error { _, err := c.UserGroup(ctx, "shop/ops"); return err }},
	}
}

// TestSetupRequests shows each request as it is sent, by the id of the project
// and by its path; the server has compared it with the documentation.
func TestSetupRequests(t *testing.T) {
	for name, tc := range setupCalls() {
		for project, opts := range map[string]Options{"/projects/7": {}, "/projects/shop%2Fweb": {Path: "shop/web"}} {
			_, s := open(t, nil)
			if err := tc.call(t.Context(), client(t, s, opts)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			path := project + strings.TrimPrefix(tc.path, "/projects/7")
			if strings.HasPrefix(tc.path, "/users") || strings.HasPrefix(tc.path, "/groups") {
				path = tc.path
			}
			want := strings.TrimSpace(tc.method + " " + path + " " + tc.sends)
			if diff := cmp.Diff([]string{want}, s.Sent()); diff != "" {
				t.Errorf("%s:\n%s", name, diff)
			}
		}
	}
}

func TestWhatIsSetUp(t *testing.T) {
	c, s := open(t, nil)
	got, err := c.Project(t.Context())
	if diff := cmp.Diff(Project{Branch: "main", Push: new(false), NewGroups: "unordered"}, got); diff != "" || err != nil {
		t.Errorf("project, error %v:\n%s", err, diff)
	}
	schedules, err := c.Schedules(t.Context())
	want := []Schedule{{ID: 13, Description: "manent resume", Branch: "main", Cron: "*/5 * * * *"}}
	if diff := cmp.Diff(want, schedules); diff != "" || err != nil {
		t.Errorf("schedules, error %v:\n%s", err, diff)
	}
	if value, err := c.ScheduleVariable(t.Context(), 13, "B"); value != "" || err != nil {
		t.Errorf("a variable that is not there: %q, error %v", value, err)
	}
	if err := c.Protect(t.Context(), "prod", []Access{{User: 11}}, true); err != nil {
		t.Fatal(err)
	}
	who, err := c.Deployers(t.Context(), "prod")
	if diff := cmp.Diff([]Access{{Level: 40}, {User: 12}, {Group: 21}, {User: 11}}, who); diff != "" || err != nil {
		t.Errorf("who may deploy, error %v:\n%s", err, diff)
	}
	s.Settings.Push = nil
	if got, err := c.Project(t.Context()); got.Push != nil || err != nil {
		t.Errorf("what an older GitLab does not show is %v, error %v", got.Push, err)
	}
}

// TestNotThere: each is told from what could not be asked.
func TestNotThere(t *testing.T) {
	for name, call := range map[string]func(*Client) error{
		"group":     func(c *Client) error { _, err := c.GroupMode(t.Context(), "shop/web/test"); return err },
		"deployers": func(c *Client) error { _, err := c.Deployers(t.Context(), "test"); return err },
		"user":      func(c *Client) error { _, err := c.User(t.Context(), "zoe"); return err },
		"usergroup": func(c *Client) error { _, err := c.UserGroup(t.Context(), "shop/none"); return err },
	} {
		c, _ := open(t, nil)
		if err := call(c); providers.KindOf(err) != providers.NotFound {
			t.Errorf("%s: error %v, expected not found", name, err)
		}
	}
	c, _ := open(t, func(s *gitlabtest.Server) { s.Settings.Free = true })
	err := c.Protect(t.Context(), "test", []Access{{Level: 40}}, false)
	if providers.KindOf(err) != providers.NotFound || !strings.Contains(providers.HintOf(err), "need GitLab Premium or Ultimate") {
		t.Errorf("error %v, hint %q", err, providers.HintOf(err))
	}
}

func TestSetupAnswersThatLackSomething(t *testing.T) {
	for _, tc := range []struct{ call, body string }{
		{"project", `{"id":7}`},
		{"set project", `{}`},
		{"group", `{"key":"shop/web/test","process_mode":"unordered"}`},
		{"set group", `{"key":"shop/web/prod","process_mode":"unordered"}`},
		{"schedules", `[null]`},
		{"schedules", `[{"id":13}]`},
		{"schedule variable", `{"id":14}`},
		{"make schedule", `{}`},
		{"set schedule", `{"id":14}`},
		{"make variable", `{"key":"B","value":"false"}`},
		{"deployers", `{"name":"test","deploy_access_levels":[]}`},
		{"deployers", `{"name":"prod","deploy_access_levels":[null]}`},
		{"deployers", `{"name":"prod","deploy_access_levels":[{}]}`},
		{"user", `[{"id":11,"username":"bob"}]`},
		{"user", `[{"id":11,"username":"ada"},{"id":12,"username":"ada"}]`},
		{"user group", `{"id":21,"full_path":"shop"}`},
		{"user group", `{"id":21,"full_path":"\u017fhop/ops"}`},
	} {
		call := setupCalls()[tc.call]
		c, _ := open(t, func(s *gitlabtest.Server) {
			s.Failures = []gitlabtest.Failure{{Method: call.method, Status: 200, Body: tc.body}}
		})
		if err := call.call(t.Context(), c); err == nil || providers.KindOf(err) != providers.Unknown {
			t.Errorf("%s: %s: error %v, expected kind unknown", tc.call, tc.body, err)
		}
	}
}

// TestSetupCallsAreAll keeps the table above whole.
func TestSetupCallsAreAll(t *testing.T) {
	var sent []string
	for _, tc := range setupCalls() {
		sent = append(sent, tc.method+" "+tc.path)
	}
	slices.Sort(sent)
	if n := len(slices.Compact(sent)); n != len(gitlabtest.SetupEndpoints()) {
		t.Errorf("%d different calls, the server knows %d", n, len(gitlabtest.SetupEndpoints()))
	}
}

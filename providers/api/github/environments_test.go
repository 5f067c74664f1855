package github

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/github/githubtest"
)

// setupNeeds are the permissions of what only a person or an App calls; a user
// is shown to anybody.
func setupNeeds() map[string]string {
	return map[string]string{
		api.GetRepository: "metadata: read", api.ListEnvironments: "actions: read", api.GetEnvironment: "actions: read", api.ListPatterns: "actions: read",
		api.SetRules: "administration: write", api.AddPattern: "administration: write", api.GetTeam: "members: read", api.GetUser: "metadata: read",
	}
}

// byPersonHint is in the hint of a call that a person makes.
func byPersonHint(operation string, status int) (string, bool) {
	needs, setup := setupNeeds()[operation]
	if status == http.StatusUnauthorized {
		return "is wrong or has expired", setup
	}
	return "a person's or an App's with the permission `" + needs + "`", setup
}

// TestSetupPermissions: the hint names the one that lacks, where it is set,
// and that a job's token cannot have it.
func TestSetupPermissions(t *testing.T) {
	s := api.New(t)
	s.Permit(nil)
	made := calls(t, open(t, s.URL))
	for operation, needs := range setupNeeds() {
		if operation == api.GetUser {
			continue
		}
		err := made[operation](t.Context())
		for _, want := range []string{"`" + needs + "`", "Settings > Developer settings", "a job's own GITHUB_TOKEN cannot have it"} {
			if providers.KindOf(err) != providers.Denied || !strings.Contains(providers.HintOf(err), want) {
				t.Errorf("%s: error %v, hint %q, expected %q", operation, err, providers.HintOf(err), want)
			}
		}
	}
}

// TestSetupRefusals: what a plan does not know, and what is there already.
func TestSetupRefusals(t *testing.T) {
	s := api.New(t)
	s.SetPlan(api.Refuses, true)
	c := open(t, s.URL)
	err := c.SetEnvironment(t.Context(), repo(t), "prod", Rules{Reviewers: []Reviewer{{ID: 1}}})
	if providers.KindOf(err) != providers.Invalid || !strings.Contains(err.Error(), "billing plan") || !strings.Contains(providers.HintOf(err), "public repository or GitHub Enterprise") {
		t.Errorf("error %v, hint %q", err, providers.HintOf(err))
	}
	if n := len(s.Requests()); n != 1 {
		t.Errorf("%d requests: what was refused was asked for again in another way", n)
	}
	if _, err := c.Environment(t.Context(), repo(t), "prod"); providers.KindOf(err) != providers.NotFound {
		t.Errorf("error %v, expected that it is not there", err)
	}
	s.SetEnvironment("prod", api.Environment{Branches: "custom", Patterns: []string{"main"}})
	if err := c.AddPattern(t.Context(), repo(t), "prod", Pattern{Name: "main"}); err != nil {
		t.Errorf("a pattern that is there: %v", err)
	}
	for name, body := range map[string]string{"null": "null", "other type": `"x"`, "text": "<html>"} {
		s.Meet(api.AddPattern, api.Meet{Status: 200, Body: body, Wrong: true})
		if err := c.AddPattern(t.Context(), repo(t), "prod", Pattern{Name: "v*"}); providers.KindOf(err) != providers.Unknown {
			t.Errorf("%s: error %v, expected kind unknown", name, err)
		}
	}
	if _, err := c.User(t.Context(), "shop"); providers.KindOf(err) != providers.Invalid || providers.HintOf(err) != "a team is team:SLUG" {
		t.Errorf("an organization: error %v, hint %q", err, providers.HintOf(err))
	}
	if _, err := c.Team(t.Context(), "shop", "nobody"); providers.KindOf(err) != providers.NotFound {
		t.Errorf("no team: error %v", err)
	}
}

// TestRules: what is set is what is read, whatever it is.
func TestRules(t *testing.T) {
	for name, rules := range map[string]Rules{
		"none":      {},
		"all":       {Wait: 30, NoSelfReview: true, Reviewers: []Reviewer{{ID: 1, Name: "ada"}, {Team: true, ID: 101, Name: "ops"}}, Branches: NamedBranches, NoBypass: true},
		"protected": {Branches: ProtectedBranches},
	} {
		s := api.New(t)
		c := open(t, s.URL)
		if err := c.SetEnvironment(t.Context(), repo(t), "prod", rules); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := c.Environment(t.Context(), repo(t), "prod")
		if diff := cmp.Diff(rules, got); diff != "" || err != nil {
			t.Errorf("%s: error %v\n%s", name, err, diff)
		}
	}
}

// TestPatterns: all pages count.
func TestPatterns(t *testing.T) {
	s := api.New(t)
	e := api.Environment{Branches: "custom", Patterns: []string{"tag:v*"}}
	for range 120 {
		e.Patterns = append(e.Patterns, "main")
	}
	s.SetEnvironment("prod", e)
	got, err := open(t, s.URL).Patterns(t.Context(), repo(t), "prod")
	if err != nil || len(got) != 121 || !slices.Contains(got, Pattern{Name: "v*", Tag: true}) || len(s.Requests()) != 2 {
		t.Errorf("%d patterns, error %v", len(got), err)
	}
}

// TestCapitals: GitHub passes over them, and over nothing else.
func TestCapitals(t *testing.T) {
	for name, known := range map[string]bool{"Staging": true, "\u017ftaging": false} {
		s := api.New(t)
		s.Meet(api.GetEnvironment, api.Meet{Status: 200, Body: `{"id":1,"name":"` + name + `"}`, Wrong: true})
		if _, err := open(t, s.URL).Environment(t.Context(), repo(t), "staging"); (err == nil) != known || !known && providers.KindOf(err) != providers.Unknown {
			t.Errorf("%q: error %v", name, err)
		}
	}
}

// TestEnvironments: all pages count, and a list that lacks something is none.
func TestEnvironments(t *testing.T) {
	s := api.New(t)
	c := open(t, s.URL)
	if got, err := c.Environments(t.Context(), repo(t)); err != nil || got == nil || len(got) != 0 {
		t.Errorf("without any: %v, error %v", got, err)
	}
	for i := range 120 {
		s.SetEnvironment(fmt.Sprintf("e%d", i), api.Environment{})
	}
	s.Requests()
	got, err := c.Environments(t.Context(), repo(t))
	slices.Sort(got)
	if err != nil || len(slices.Compact(got)) != 120 || len(s.Requests()) != 2 {
		t.Errorf("%d environments, error %v", len(got), err)
	}
	for name, body := range map[string]string{
		"fewer than there are": `{"total_count":2,"environments":[{"id":1,"name":"prod"}]}`, "none of two": `{"total_count":2,"environments":[]}`,
		"not how many": `{"environments":[]}`, "no list": `{"total_count":0}`, "no name": `{"total_count":1,"environments":[{"id":1}]}`, "no id": `{"total_count":1,"environments":[{"name":"prod"}]}`,
	} {
		s.Meet(api.ListEnvironments, api.Meet{Status: 200, Body: body, Wrong: true})
		if got, err := c.Environments(t.Context(), repo(t)); providers.KindOf(err) != providers.Unknown || err == nil || got != nil {
			t.Errorf("%s: %v, error %v, expected kind unknown", name, got, err)
		}
	}
}

// TestOddEnvironments: what could not be set again as it is is no answer.
func TestOddEnvironments(t *testing.T) {
	for name, body := range map[string]string{
		"another":         `{"id":1,"name":"test"}`,
		"no id":           `{"name":"prod"}`,
		"neither policy":  `{"id":1,"name":"prod","deployment_branch_policy":{"protected_branches":false,"custom_branch_policies":false}}`,
		"reviewer":        `{"id":1,"name":"prod","protection_rules":[{"type":"required_reviewers","reviewers":[{"type":"User","reviewer":null}]}]}`,
		"unknown kind":    `{"id":1,"name":"prod","protection_rules":[{"type":"required_reviewers","reviewers":[{"type":"App","reviewer":{"id":4}}]}]}`,
		"list":            `[]`,
		"no default":      `{"full_name":"shop/web","private":false}`,
		"not said if so":  `{"full_name":"shop/web","default_branch":"main"}`,
		"a look-alike":    `{"full_name":"\u017fhop/web","default_branch":"main","private":false}`,
		"other privately": `{"full_name":"shop/api","default_branch":"main","private":true}`,
	} {
		s := api.New(t)
		c := open(t, s.URL)
		for operation, call := range map[string]func(context.Context) error{
			api.GetEnvironment: func(ctx context.Context) error { _, err := c.Environment(ctx, repo(t), "prod"); return err },
			api.SetRules:       func(ctx context.Context) error { return c.SetEnvironment(ctx, repo(t), "prod", Rules{}) },
			api.GetRepository:  func(ctx context.Context) error { _, err := c.Repository(ctx, repo(t)); return err },
		} {
			s.Meet(operation, api.Meet{Status: 200, Body: body, Wrong: true})
			if err := call(t.Context()); err == nil || providers.KindOf(err) != providers.Unknown {
				t.Errorf("%s: %s: error %v, expected kind unknown", name, operation, err)
			}
		}
	}
}

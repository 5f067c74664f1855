package generate

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/manent/action/runner/config"
)

// A job may ask for an identity only where something is logged in to with it.
func TestLogins(t *testing.T) {
	router := func(name string) func(*config.Config) {
		return func(c *config.Config) { c.Traffic.Router = &config.Router{Provider: name} }
	}
	secret := func(ref string) func(*config.Config) {
		return func(c *config.Config) { c.Secrets = []config.Secret{{Name: "x", Ref: ref}} }
	}
	for name, tc := range map[string]struct {
		change func(*config.Config)
		want   string
	}{
		"nothing":       {nil, ""},
		"git":           {func(c *config.Config) { c.State = "git:https://git.example/x" }, ""},
		"s3":            {func(c *config.Config) { c.State = "s3://state" }, "aws"},
		"aws-sm":        {secret("aws-sm:x"), "aws"},
		"gcp-sm":        {secret("gcp-sm:x"), "google"},
		"azure-kv":      {secret("azure-kv:x"), "azure"},
		"vault":         {secret("vault:x"), "vault"},
		"file":          {secret("file:vault"), ""},
		"lambda":        {func(c *config.Config) { c.Plugin.Name = "lambda" }, "aws"},
		"cloudrun":      {func(c *config.Config) { c.Plugin.Name = "cloudrun" }, "google"},
		"appservice":    {func(c *config.Config) { c.Plugin.Name = "appservice" }, "azure"},
		"aws-alb":       {router("aws-alb"), "aws"},
		"nginx":         {router("nginx"), ""},
		"cloudwatch":    {func(c *config.Config) { c.Rollout.Health.Alarms = []config.Alarm{{Provider: "cloudwatch"}} }, "aws"},
		"azure-monitor": {func(c *config.Config) { c.Rollout.Health.Metrics = []config.Metric{{Provider: "azure-monitor"}} }, "azure"},
	} {
		cfg := config.Config{State: "git"}
		if tc.change != nil {
			tc.change(&cfg)
		}
		var got []string
		for _, l := range loginsOf(cfg) {
			got = append(got, strings.ToLower(strings.TrimPrefix(l.Token, "MANENT_ID_TOKEN_")))
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: logs in to %q, expected %q", name, got, tc.want)
		}
	}
}

// TestLoginsAreKnown: each use is of a name that a configuration may have.
func TestLoginsAreKnown(t *testing.T) {
	known := config.Known()
	var names []string
	for what, entries := range map[string][]config.Entry{"secret": known.Secrets, "state": known.Stores, "pool": known.Pools} {
		for _, e := range entries {
			names = append(names, what+": "+e.Name)
		}
	}
	for _, e := range known.Plugins {
		names = append(names, "plugin: "+e.Name)
	}
	for _, e := range known.Routers {
		names = append(names, "router: "+e.Name)
	}
	for _, e := range known.Metrics {
		names = append(names, "metrics: "+e.Name)
	}
	for _, l := range logins() {
		for _, use := range l.uses {
			if !slices.Contains(names, use) {
				t.Errorf("%s: %q is no name of the catalog", l.Token, use)
			}
		}
	}
}

// TestIdentities: every job that reads the state or a secret may log in, and a
// job that a reviewer answers only to where the state is.
func TestIdentities(t *testing.T) {
	env := read(t, "canary", inCloud)
	files, err := GitHub([]Environment{env}, githubOptions(func(o *GitHubOptions) {}))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		for id, job := range parse(t, f).Jobs {
			text := fmt.Sprint(job.Permissions)
			approval := strings.HasPrefix(id, "approval")
			steps := fmt.Sprint(job.Steps)
			if !strings.Contains(text, "id-token:write") || !strings.Contains(steps, "vars.AWS_ROLE_ARN") || approval == strings.Contains(steps, "VAULT_ROLE") {
				t.Errorf("%s: %s: permissions %s, steps %s", f.Path, id, text, steps)
			}
		}
	}
	env = read(t, "canary", func(c *config.Config) { inCloud(c); c.Secrets[0].Ref = "env:AWS_ROLE_ARN" })
	if files, err = GitHub([]Environment{env}, githubOptions(nil)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(files[0].Text, "vars.AWS_ROLE_ARN") || !strings.Contains(files[0].Text, "secrets.AWS_ROLE_ARN") {
		t.Error("a variable that is a secret is asked for twice")
	}
}

// TestVariablesAreDocumented: each variable that jobs get is in a table, and so
// is each that a documented login of a job takes beside.
func TestVariablesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/credentials.md")
	if err != nil {
		t.Fatal(err)
	}
	passed := map[string]bool{}
	for _, l := range logins() {
		for _, name := range l.Variables {
			passed[name] = true
			if !regexp.MustCompile("(?m)^\\| [^|]*`" + name + "`[^|]* \\|").Match(page) {
				t.Errorf("%s is in no table of docs/credentials.md", name)
			}
		}
	}
	for _, name := range []string{"VAULT_CACERT", "MANENT_VAULT_AUDIENCE", "MANENT_AWS_AUDIENCE", "AWS_ROLE_SESSION_NAME", "AZURE_CLOUD"} {
		if !passed[name] {
			t.Errorf("%s is documented and reaches no job", name)
		}
	}
}

// TestBinaryPath: with one, every call of the action has it, and none without.
func TestBinaryPath(t *testing.T) {
	for _, path := range []string{"", "/opt/manent/manent"} {
		for _, mode := range []string{Environments, Dispatch} {
			env := read(t, "canary", map[string]func(*config.Config){Dispatch: byResume}[mode])
			files, err := GitHub([]Environment{env}, githubOptions(func(o *GitHubOptions) { o.Mode, o.BinaryPath = mode, path }))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				for id, job := range parse(t, f).Jobs {
					for _, step := range job.Steps[1:] {
						if got := step.With["binary-path"]; got != path {
							t.Errorf("%s: %s of %s has the binary %q, expected %q", mode, id, f.Path, got, path)
						}
					}
				}
			}
		}
	}
}

package generate

import (
	"slices"
	"strings"

	"github.com/manent/action/runner/config"
)

// login is a system that jobs log in to with an identity of their own, which
// the platform gives them as a short-lived token.
type login struct {
	Token     string   // variable of a token that GitLab mints when the job begins
	Audience  string   // of that token; $NAME is a variable of the project
	Variables []string // who to log in as and where, no secrets
	uses      []string // "what: name" of what logs in to it
}

// logins are all that there are. Their variables are those that the clients of
// these systems read.
func logins() []login {
	return []login{
		{
			"MANENT_ID_TOKEN_AWS", "sts.amazonaws.com", []string{"AWS_ROLE_ARN", "AWS_REGION", "AWS_ROLE_SESSION_NAME", "MANENT_AWS_AUDIENCE"},
			[]string{"state: s3", "secret: aws-sm", "plugin: lambda", "plugin: ecs", "router: aws-alb", "pool: aws-elb", "metrics: cloudwatch"},
		},
		{
			"MANENT_ID_TOKEN_GOOGLE", "https://iam.googleapis.com/$GOOGLE_WORKLOAD_IDENTITY_PROVIDER", []string{"GOOGLE_WORKLOAD_IDENTITY_PROVIDER", "GOOGLE_SERVICE_ACCOUNT"},
			[]string{"secret: gcp-sm", "plugin: cloudrun"},
		},
		{
			"MANENT_ID_TOKEN_AZURE", "api://AzureADTokenExchange", []string{"AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLOUD"},
			[]string{"secret: azure-kv", "plugin: appservice", "plugin: containerapps", "metrics: azure-monitor"},
		},
		{
			"MANENT_ID_TOKEN_VAULT", "$VAULT_ADDR", []string{"VAULT_ADDR", "VAULT_NAMESPACE", "VAULT_ROLE", "VAULT_AUTH_PATH", "VAULT_CACERT", "MANENT_VAULT_AUDIENCE"},
			[]string{"secret: vault"},
		},
	}
}

// loginsOf are those that a configuration needs.
func loginsOf(cfg config.Config) []login { return needed(usesOf(cfg)) }

func needed(uses []string) []login {
	return slices.DeleteFunc(logins(), func(l login) bool {
		return !slices.ContainsFunc(uses, func(use string) bool { return slices.Contains(l.uses, use) })
	})
}

func stateUse(cfg config.Config) []string {
	scheme, _, _ := strings.Cut(cfg.State, ":")
	return []string{"state: " + scheme}
}

// usesOf is what a configuration names.
func usesOf(cfg config.Config) []string {
	uses := append(stateUse(cfg), "plugin: "+cfg.Plugin.Name)
	for _, s := range cfg.Secrets {
		scheme, _, _ := strings.Cut(s.Ref, ":")
		uses = append(uses, "secret: "+scheme)
	}
	if cfg.Traffic.Router != nil {
		uses = append(uses, "router: "+cfg.Traffic.Router.Provider)
	}
	if cfg.Traffic.Pool != nil {
		uses = append(uses, "pool: "+cfg.Traffic.Pool.Provider)
	}
	for _, m := range cfg.Rollout.Health.Metrics {
		uses = append(uses, "metrics: "+m.Provider)
	}
	for _, a := range cfg.Rollout.Health.Alarms {
		uses = append(uses, "metrics: "+a.Provider)
	}
	return uses
}

// variables are those of logins, without the ones that are given as secrets.
func variables(all []login, secrets []string) []string {
	var out []string
	for _, l := range all {
		for _, name := range l.Variables {
			if !slices.Contains(secrets, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

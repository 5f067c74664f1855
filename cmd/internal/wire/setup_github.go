package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/github"
	"github.com/manent/action/runner/setup"
)

// DispatchHint is the way out where nobody can be a required reviewer.
const DispatchHint = "a private repository has required reviewers with GitHub Enterprise only: `manent generate github --mode dispatch` does without"

// GitHubRights is what a token needs that sets a repository up.
const GitHubRights = "`administration: write`, `actions: read` and, for a team, `members: read` (classic: the scope repo)"

// GitHubSetup reads and writes the environments of one repository.
type GitHubSetup struct {
	Repository string
	Branch     string // the default one
	Private    bool

	client *github.Client
	repo   github.Repo
}

// GitHubSetup opens a repository: the named one, the one of the job, or the
// checkout's.
func (h Host) GitHubSetup(ctx context.Context, named string) (*GitHubSetup, error) {
	base := h.Getenv("GITHUB_API_URL")
	named = cmp.Or(named, h.Getenv("GITHUB_REPOSITORY"))
	if named == "" || base == "" {
		found, err := h.origin(ctx)
		if err != nil && named == "" {
			return nil, unnamed("github", "--repo OWNER/REPO", "GITHUB_REPOSITORY", err)
		}
		if err == nil && base == "" && found.host != "github.com" { // whose token this may be
			return nil, &providers.Fault{
				Provider: "github", Op: "API", Kind: providers.Invalid, Err: fmt.Errorf("origin is at %s, and GITHUB_API_URL is not set", found.host),
				Hint: fmt.Sprintf("for a GitHub Enterprise Server set GITHUB_API_URL=https://%s/api/v3, for github.com GITHUB_API_URL=%s", found.host, github.PublicAPI),
			}
		}
		named = cmp.Or(named, found.path)
	}
	repo, err := github.ParseRepo(named)
	if err != nil {
		return nil, unnamed("github", "--repo OWNER/REPO", "GITHUB_REPOSITORY", err)
	}
	token, err := h.personal("github", GitHubRights, "GH_TOKEN", "GITHUB_TOKEN")
	if err != nil {
		return nil, err
	}
	client, err := github.New(github.Options{BaseURL: cmp.Or(base, github.PublicAPI), Token: token, Secrets: h.Redactor})
	if err != nil {
		return nil, err
	}
	info, err := client.Repository(ctx, repo)
	return &GitHubSetup{Repository: repo.String(), Branch: info.Branch, Private: info.Private, client: client, repo: repo}, err
}

// Reviewers finds people and teams: "user:LOGIN", "team:SLUG".
func (g *GitHubSetup) Reviewers(ctx context.Context, named []string) ([]setup.Reviewer, error) {
	var out []setup.Reviewer
	for _, text := range named {
		kind, name, _ := strings.Cut(text, ":")
		find := g.client.User
		if kind == "team" {
			find = func(ctx context.Context, slug string) (github.Reviewer, error) {
				return g.client.Team(ctx, g.repo.Owner, slug)
			}
		}
		found, err := find(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, setup.Reviewer(found))
	}
	return out, nil
}

// Read reads an environment; one that is not there is empty.
func (g *GitHubSetup) Read(ctx context.Context, name string) (setup.Environment, error) {
	rules, err := g.client.Environment(ctx, g.repo, name)
	if err != nil && providers.KindOf(err) == providers.NotFound {
		return setup.Environment{}, g.missing(ctx, name, err)
	}
	out := setup.Environment{There: true, Wait: rules.Wait, NoSelfReview: rules.NoSelfReview, NoBypass: rules.NoBypass}
	for _, r := range rules.Reviewers {
		out.Reviewers = append(out.Reviewers, setup.Reviewer(r))
	}
	switch rules.Branches {
	case github.AnyBranch:
		out.Branches = setup.AnyBranch
	case github.ProtectedBranches:
		out.Branches = setup.ProtectedBranches
	case github.NamedBranches:
		out.Branches = setup.NamedBranches
	}
	if err != nil || out.Branches != setup.NamedBranches {
		return out, err
	}
	patterns, err := g.client.Patterns(ctx, g.repo, name)
	for _, p := range patterns {
		out.Patterns = append(out.Patterns, setup.Pattern(p))
	}
	return out, err
}

// missing is no error if the list of all environments is without this one, too:
// GitHub also says that it does not find what a token may not see, and to make
// one anew would take from it what it has.
func (g *GitHubSetup) missing(ctx context.Context, name string, notFound error) error {
	all, err := g.client.Environments(ctx, g.repo)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(one string) bool { return providers.SameName(one, name) }) {
		return nil
	}
	return &providers.Fault{
		Provider: "github", Op: fmt.Sprintf("environment %s of %s", name, g.Repository), Kind: providers.Unknown,
		Err:  errors.New("status 404, and it is in the list of environments"),
		Hint: providers.HintOf(notFound),
	}
}

// Writes carry a part out: the rules, then each name that may deploy.
func (g *GitHubSetup) Writes(part setup.GitHubPart) []func(context.Context) error {
	var out []func(context.Context) error
	if part.Rules {
		out = append(out, func(ctx context.Context) error {
			return g.hinted(g.client.SetEnvironment(ctx, g.repo, part.Name, rulesOf(part.Should)))
		})
	}
	for _, p := range part.Add {
		out = append(out, func(ctx context.Context) error {
			return g.hinted(g.client.AddPattern(ctx, g.repo, part.Name, github.Pattern(p)))
		})
	}
	return out
}

func rulesOf(e setup.Environment) github.Rules {
	rules := github.Rules{Wait: e.Wait, NoSelfReview: e.NoSelfReview, NoBypass: e.NoBypass}
	for _, r := range e.Reviewers {
		rules.Reviewers = append(rules.Reviewers, github.Reviewer(r))
	}
	switch e.Branches {
	case setup.ProtectedBranches:
		rules.Branches = github.ProtectedBranches
	case setup.NamedBranches:
		rules.Branches = github.NamedBranches
	case setup.AnyBranch:
		rules.Branches = github.AnyBranch
	}
	return rules
}

// hinted adds to a refusal about a private repository what its plan may be.
func (g *GitHubSetup) hinted(err error) error {
	f, ok := errors.AsType[*providers.Fault](err)
	if !ok || !g.Private || !f.Kind.Definite() || f.Kind == providers.Conflict {
		return err
	}
	named := *f
	named.Hint = strings.TrimSuffix(DispatchHint+"; otherwise: "+f.Hint, "; otherwise: ")
	return &named
}

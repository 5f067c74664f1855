package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/manent/action/cmd/internal/wire"
	"github.com/manent/action/providers"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/generate"
	"github.com/manent/action/runner/setup"
)

// setupGitHubFlags are those of setup github.
type setupGitHubFlags struct {
	reviewers []string
	repo      string
	tags      string
	apply     bool
}

func (a *app) newSetupGitHub() *cobra.Command {
	var f setupGitHubFlags
	cmd := &cobra.Command{
		Use:   "github -c FILE [FILE...]",
		Short: "make the environments that generated workflows name",
		Long: `Reads the environments of the repository and shows what generated workflows need
of them: for each FILE the one that holds the secrets, without reviewers and for
the default branch only, and for each planned approval one with reviewers, who
may not approve a run that they began. With --apply it makes them, and reads them
again. Nothing that is there is loosened: reviewers, wait timers and rules about
branches stay. Each environment is read again directly before it is written: one
that somebody has changed since is left as it is, and the call ends with 4, or
with 1 after something was written. GitHub cannot be told to write only what is
unchanged: an edit in the moment between that reading and the write is lost.
Secrets are named, and set by you. Without a token it shows what is needed, from
the configuration alone, and ends with 64.

The token in GH_TOKEN or GITHUB_TOKEN is a person's or an App's, with the
permissions administration: write, actions: read and, for a team, members: read;
a job's own token cannot have them. Required reviewers need a public repository
or GitHub Enterprise. With rollout.wait: resume (mode dispatch) nobody reviews.
A GitHub Enterprise Server is named by GITHUB_API_URL.`,
		Example: `  manent setup github -c envconfig/shop/web/prod.yml --reviewer team:release
  manent setup github -c envconfig/shop/web/prod.yml --reviewer user:ada --reviewer user:bob --apply`,
	}
	cmd.Args = cobra.ArbitraryArgs
	fs := cmd.Flags()
	fs.StringArrayVar(&f.reviewers, "reviewer", nil, "`WHO` approves, again for each: user:LOGIN or team:SLUG; at most 6")
	fs.StringVar(&f.repo, "repo", "", "`OWNER/REPO` (GITHUB_REPOSITORY, or the checkout's origin)")
	fs.StringVar(&f.tags, "tags", "", "rollouts begin with a tag of this `PATTERN`, too: let it deploy")
	fs.BoolVar(&f.apply, "apply", false, "make what is shown")
	return a.verb(a.fileFlags(cmd), func(ctx context.Context, more []string) (view, error) { return a.setupGitHub(ctx, more, f) })
}

func (a *app) setupGitHub(ctx context.Context, more []string, f setupGitHubFlags) (view, error) {
	if err := named("reviewer", f.reviewers, "user", "team"); err != nil {
		return view{}, err
	}
	envs, err := a.environments(more)
	if err != nil {
		return view{}, err
	}
	needs, err := generate.GitHubNeeds(envs)
	if err != nil {
		return view{}, planned(err)
	}
	without := setup.UnreadGitHub(needs, f.tags, f.reviewers)
	g, err := a.host.GitHubSetup(ctx, f.repo)
	if err != nil {
		return unread(f.repo, without, letIn(err))
	}
	wish := setup.GitHubWish{Branch: g.Branch, Tags: f.tags}
	if wish.Reviewers, err = g.Reviewers(ctx, f.reviewers); err != nil {
		return unread(g.Repository, without, err)
	}
	have, err := readEnvironments(ctx, g, needs)
	if err != nil {
		return unread(g.Repository, without, err)
	}
	parts, err := setup.PlanGitHub(needs, wish, have)
	plan := a.gitHubPlan(g, needs, have, parts)
	if err != nil {
		return setupView(plan.of, plan.items(), false, "nothing was written"), planned(err)
	}
	return a.setUp(ctx, plan, f.apply)
}

// letIn says what a token needs that does not see the repository: to read it is
// the least of it.
func letIn(err error) error {
	f, ok := errors.AsType[*providers.Fault](err)
	if !ok || f.Kind != providers.NotFound {
		return err
	}
	named := *f
	named.Hint = "either it does not exist, or the token in GH_TOKEN or GITHUB_TOKEN is not let into it: give it this repository, with " + wire.GitHubRights
	return &named
}

func readEnvironments(ctx context.Context, g *wire.GitHubSetup, needs []generate.Needed) ([]setup.Environment, error) {
	out := make([]setup.Environment, len(needs))
	for i, need := range needs {
		var err error
		if out[i], err = g.Read(ctx, need.Name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// gitHubPlan is the plan of parts, from what there was. To write the rules of
// an environment replaces all of them, and GitHub has no condition for it: each
// is read again directly before. What was written is compared with what is read
// then.
func (a *app) gitHubPlan(g *wire.GitHubSetup, needs []generate.Needed, have []setup.Environment, parts []setup.GitHubPart) setupPlan {
	plan := setupPlan{of: g.Repository}
	for i, part := range parts {
		as := func(ctx context.Context) error { return asPlanned(ctx, g, part.Name, have[i]) }
		plan.jobs = append(plan.jobs, setupJob{item: part.Item, as: as, writes: g.Writes(part)})
	}
	plan.check = func(ctx context.Context) ([]setup.Item, error) {
		now, err := readEnvironments(ctx, g, needs)
		if err != nil {
			return nil, err
		}
		items := make([]setup.Item, len(parts))
		for i, part := range parts {
			items[i] = setup.Differ(part.Name, now[i], part.Should).Item
		}
		return items, nil
	}
	return plan
}

// asPlanned refuses to write an environment that somebody has changed since it
// was read.
func asPlanned(ctx context.Context, g *wire.GitHubSetup, name string, was setup.Environment) error {
	now, err := g.Read(ctx, name)
	if err != nil {
		return err
	}
	var said []string
	for _, c := range setup.Differ(name, was, now).Changes {
		said = append(said, fmt.Sprintf("%s: %s → %s", c.Of, c.From, c.To))
	}
	switch {
	case !was.There && now.There:
		said = []string{"it was made"}
	case was.There && !now.There:
		said = []string{"it was deleted"}
	case len(said) == 0:
		return nil
	}
	return &runner.HeldError{
		Reason: fmt.Sprintf("environment %s was changed by somebody else since it was read (%s), and is left as it is", name, strings.Join(said, ", ")),
		Hint:   "the same command without --apply shows what is to be written now",
	}
}

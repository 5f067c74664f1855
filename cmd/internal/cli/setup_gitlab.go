package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/manent/action/cmd/internal/wire"
	"github.com/manent/action/runner/generate"
	"github.com/manent/action/runner/setup"
)

// setupGitLabFlags are those of setup gitlab.
type setupGitLabFlags struct {
	approvers   []string
	project     string
	accessToken bool
	apply       bool
}

func (a *app) newSetupGitLab() *cobra.Command {
	var f setupGitLabFlags
	cmd := &cobra.Command{
		Use:   "gitlab -c FILE [FILE...]",
		Short: "set up the project that generated pipelines run in",
		Long: `Reads the project and shows what generated pipelines need of it: job tokens that
may push, when the state is in this project; a pipeline schedule on the default
branch, every five minutes, with MANENT_RESUME=true; resource groups that keep
the order of rollouts; and with --approver an environment that only some may
deploy to (Premium or Ultimate). With --apply it sets them, and reads them again.
Who may deploy already stays.

The schedule starts every job of the project that no rule keeps out: the rules
are shown. Secrets are named, and set by you. Without a token it shows what is
needed, from the configuration alone, and ends with 64.

GitLab makes a resource group with the first pipeline that names it, so that its
mode can be set only then: run setup again after the first rollout.

The token in GITLAB_TOKEN has the scope api and is of somebody with the role
Maintainer, who owns the schedule; a job's own token cannot do it. The server is
the one of CI_API_V4_URL, else of the checkout's origin.`,
		Example: `  manent setup gitlab -c envconfig/shop/web/prod.yml
  manent setup gitlab -c envconfig/shop/web/prod.yml --approver group:shop/release --apply`,
	}
	cmd.Args = cobra.ArbitraryArgs
	fs := cmd.Flags()
	fs.StringArrayVar(&f.approvers, "approver", nil, "`WHO` may deploy and approve, again for each: user:NAME, group:PATH, role:maintainer, role:developer or role:admin")
	fs.StringVar(&f.project, "project", "", "`PATH` of the project (CI_PROJECT_PATH, or the checkout's origin)")
	fs.BoolVar(&f.accessToken, "access-token", false, "the jobs push the state with MANENT_GITLAB_TOKEN: leave their own token as it is")
	fs.BoolVar(&f.apply, "apply", false, "set what is shown")
	return a.verb(a.fileFlags(cmd), func(ctx context.Context, more []string) (view, error) { return a.setupGitLab(ctx, more, f) })
}

func (f setupGitLabFlags) check() error {
	if err := named("approver", f.approvers, "user", "group", "role"); err != nil {
		return err
	}
	for _, text := range f.approvers {
		if len(text) > 5 && text[:5] == "role:" && !slices.Contains([]string{"developer", "maintainer", "admin"}, text[5:]) {
			return usage("such as role:maintainer", "--approver %q, expected role:developer, role:maintainer or role:admin", text)
		}
	}
	return nil
}

func (a *app) setupGitLab(ctx context.Context, more []string, f setupGitLabFlags) (view, error) {
	if err := f.check(); err != nil {
		return view{}, err
	}
	envs, err := a.environments(more)
	if err != nil {
		return view{}, err
	}
	needs, err := generate.GitLabNeedsOf(envs)
	if err != nil {
		return view{}, planned(err)
	}
	without := setup.UnreadGitLab(needs, f.accessToken, f.approvers)
	g, err := a.host.GitLabSetup(ctx, f.project)
	if err != nil {
		return unread(f.project, without, err)
	}
	wish := setup.GitLabWish{AccessToken: f.accessToken}
	if wish.Approvers, err = g.Approvers(ctx, f.approvers); err != nil {
		return unread(g.Project, without, err)
	}
	plan, err := gitLabPlan(ctx, g, needs, wish)
	if err != nil {
		return unread(g.Project, without, err)
	}
	return a.setUp(ctx, plan, f.apply)
}

// gitLabPlan reads and plans; what was written is as it should be when the
// same plan has nothing left to write.
func gitLabPlan(ctx context.Context, g *wire.GitLabSetup, needs generate.GitLabNeeds, wish setup.GitLabWish) (setupPlan, error) {
	plan := setupPlan{of: g.Project}
	have, err := g.Read(ctx, needs, wish.Approvers)
	if err != nil {
		return plan, err
	}
	for _, part := range setup.PlanGitLab(needs, wish, have) {
		plan.jobs = append(plan.jobs, setupJob{item: part.Item, writes: g.Writes(part)})
	}
	plan.check = func(ctx context.Context) ([]setup.Item, error) {
		now, err := gitLabPlan(ctx, g, needs, wish)
		return now.items(), err
	}
	return plan, nil
}

package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/manent/action/runner/generate"
)

// commitHint says how to find a release's commit, which a build by go install
// does not know.
const commitHint = "`git ls-remote https://github.com/manent/action 'refs/tags/v*'` shows the commit of each release, of two lines for one the one with ^{}"

func (a *app) newGenerateGitHub() *cobra.Command {
	var f fileSetFlags
	var o generate.GitHubOptions
	cmd := &cobra.Command{
		Use:   "github -c FILE [FILE...]",
		Short: "write the GitHub workflows of a rollout",
		Long: `Writes .github/workflows/manent-<application>-<environment>.yml for each FILE,
and manent-decide.yml and manent-traffic-retire.yml, which all environments of
the repository share: name all their files in one call, from its root. Without
--out and --check the files are printed.

Mode environments has a job for each stage, segment or step, and asks reviewers
of environments such as prod-approve-25; required reviewers need a public
repository or GitHub Enterprise. In mode dispatch no job waits: people decide by
workflow, manent.traffic-retire drives, and it needs rollout.wait: resume.

A call of run ends after --max-time, before GitHub ends its job, which would
count as cancelled; a stage that could last longer is split into several jobs.

The files pin the action by the commit that this build is of; --action names
another one, and has to where go install made the build: it does not know its
commit (git ls-remote https://github.com/manent/action 'refs/tags/v*'). They carry the configuration's digest. --check is for a job of your
own that keeps them fresh: with the same flags it ends with 1 and names the file
when one is stale or missing.`,
		Example: `  manent generate github -c envconfig/shop/web/prod.yml --out .
  manent generate github -c envconfig/shop/web/prod.yml envconfig/shop/web/staging.yml --tags 'v*' --out .
  manent generate github -c envconfig/shop/web/prod.yml --mode dispatch --check`,
	}
	f.flags(cmd)
	fs := cmd.Flags()
	fs.StringVar(&o.Mode, "mode", generate.Environments, "`MODE`: environments or dispatch")
	fs.StringVar(&o.Granularity, "granularity", generate.PerStage, "one job for each `PART`: stage, segment (between approvals) or step")
	fs.StringVar(&o.Queue, "queue", "latest", "`WHICH` of the runs that wait are kept: latest or max (all, up to 100)")
	fs.DurationVar(&o.MaxTime, "max-time", 330*time.Minute, "longest `TIME` of one call of run")
	fs.StringVar(&o.RunsOn, "runs-on", "ubuntu-24.04", "`LABEL` of the runners")
	fs.StringVar(&o.BinaryPath, "binary-path", "", "`PATH` of manent on the runners: the action downloads nothing")
	fs.StringVar(&o.Action, "action", "", "`ACTION` by commit, or ./ for the repository's own (the commit of this build)")
	fs.StringVar(&o.Tags, "tags", "", "begin with a pushed tag of this `PATTERN`, too; its name is the version")
	fs.StringVar(&o.Schedule, "schedule", "", "`CRON` of manent.traffic-retire (every 15 minutes, in mode dispatch every 5)")
	fs.BoolVar(&o.IDToken, "id-token", false, "let jobs ask for an identity token, for short-lived credentials (also without it where a secret, the state or a provider needs one)")
	return a.verb(a.fileFlags(cmd), func(_ context.Context, more []string) (view, error) {
		o.Call = f.call(append([]string{a.file}, more...))
		return a.generateGitHub(more, o, f)
	})
}

func (a *app) generateGitHub(more []string, o generate.GitHubOptions, f fileSetFlags) (view, error) {
	envs, err := a.environments(more)
	if err != nil {
		return view{}, err
	}
	if o.Action == "" {
		commit, modified := commitOf()
		if commit == "" || modified {
			return view{}, usage("add --action manent/action@COMMIT: "+commitHint, "this build does not know the commit of a release to pin the action by")
		}
		o.Action = "manent/action@" + commit
		if strings.HasPrefix(a.version, "v") {
			o.Release = a.version
		}
	}
	if o.Schedule == "" {
		o.Schedule = map[string]string{generate.Dispatch: "*/5 * * * *"}[o.Mode]
	}
	if o.Schedule == "" {
		o.Schedule = "4-59/15 * * * *" // not at the full hour, when schedules are left out most
	}
	files, err := generate.GitHub(envs, o)
	v, err := a.files(envs, files, f, err)
	if err == nil && !f.check {
		a.warnReviewers(envs, o)
	}
	return v, err
}

// warnReviewers names the environments that need reviewers, and who can have
// them.
func (a *app) warnReviewers(envs []generate.Environment, o generate.GitHubOptions) {
	if o.Mode != generate.Environments {
		return
	}
	var names []string
	for _, e := range envs {
		for _, s := range e.Plan.Steps {
			if s.Approval {
				names = append(names, generate.ReviewEnvironment(e.Config.Environment, s.Name))
			}
		}
	}
	if len(names) > 0 {
		a.complain("manent: warning: approvals need required reviewers of "+strings.Join(names, ", ")+": `manent setup github --reviewer …` makes them; without them nothing is approved",
			"reviewers need a public repository or GitHub Enterprise; `manent generate github --mode dispatch` does without")
	}
}

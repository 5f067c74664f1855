package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/manent/action/runner/generate"
)

func (a *app) newGenerateGitLab() *cobra.Command {
	var f fileSetFlags
	var o generate.GitLabOptions
	cmd := &cobra.Command{
		Use:   "gitlab -c FILE [FILE...]",
		Short: "write the GitLab pipeline of a rollout",
		Long: `Writes two files for each FILE: .gitlab/manent-<application>-<environment>.yml,
to be included in .gitlab-ci.yml, and beside it the child pipeline that its job
triggers and holds the environment's resource group for. Without --out and
--check the files are printed. Call it from the root of the repository.

An approval is a manual job that blocks the pipeline: started as it is it
approves, with the variable DECISION=reject it returns all traffic and fails. A
pipeline schedule with MANENT_RESUME=true is needed, since nothing else acts
after a cancelled pipeline.

A call of run ends after --max-time, before the runner ends its job; a stage
that could last longer is split into several jobs. The files carry the
configuration's digest. --check is for a job of your own that keeps them fresh:
with the same flags it ends with 1 and names the file when one is stale or
missing.`,
		Example: `  manent generate gitlab -c envconfig/shop/web/prod.yml --out .
  manent generate gitlab -c envconfig/shop/web/prod.yml --check`,
	}
	f.flags(cmd)
	fs := cmd.Flags()
	fs.StringVar(&o.Granularity, "granularity", generate.PerStage, "one job for each `PART`: stage, segment (between approvals) or step")
	fs.DurationVar(&o.MaxTime, "max-time", 150*time.Minute, "longest `TIME` of one call of run")
	fs.StringSliceVar(&o.Tags, "runner-tags", nil, "`TAGS` of the runners that take the jobs, with commas between them (without it those that take untagged ones)")
	fs.StringVar(&o.Image, "image", "", "container `IMAGE` with manent, git and what your own steps need (without it the runner's shell has them)")
	return a.verb(a.fileFlags(cmd), func(_ context.Context, more []string) (view, error) {
		o.Call = f.call(append([]string{a.file}, more...))
		envs, err := a.environments(more)
		if err != nil {
			return view{}, err
		}
		files, err := generate.GitLab(envs, o)
		return a.files(envs, files, f, err)
	})
}

package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) newRevert() *cobra.Command {
	var f wordFlags
	cmd := &cobra.Command{
		Use:   "revert (-c FILE | --state ADDRESS) --version VERSION",
		Short: "return all traffic to stable, whatever the rollout is at",
		Long: `Returns all traffic to the version that served before, from any state and after
any crash, also when the rollout is complete, until the replaced version is
scaled down: that is the fast way back. It ends with 0 only when the router has
been read back at stable, and with 6 while traffic may still reach the
candidate.

With --after it is the return job of a pipeline, which runs whenever a job of
its run was cancelled or has failed, and acts only where that asks for it:

  no rollout of this run, or returned already   nothing, 0
  on its way back                               goes on with it, 1
  cancelled                                     as onCancel says: returns, 1, or holds, 3
  the open approval was rejected or expired     returns, 1
  ended without a verdict                       holds, 3: re-run the failed jobs
  paused for a decision                         nothing, 3
  the environment is another one's by then      nothing, 4`,
		Example: `  manent revert -c envconfig/shop/web/prod.yml --version 2.0 --reason "wrong prices"
  manent revert -c envconfig/shop/web/prod.yml --owner self --after cancelled`,
	}
	f.flags(cmd, false)
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "end instead of waiting")
	cmd.Flags().StringVar(&f.after, "after", "", "`RESULT` of the run's jobs, cancelled or failure: act only as that asks for")
	cmd.Flags().BoolVar(&f.reviews, "reviews", false, "with --after, ask the pipeline's platform whether a reviewer said no to the open approval")
	return a.acting(a.placeFlags(cmd), func(ctx context.Context, _ []string) (view, error) {
		if f.after != "" {
			return a.settle(ctx, f)
		}
		return a.back(ctx, "revert", f)
	})
}

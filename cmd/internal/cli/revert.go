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
candidate.`,
		Example: "  manent revert -c envconfig/shop/web/prod.yml --version 2.0 --reason \"wrong prices\"",
	}
	f.flags(cmd, false)
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "end instead of waiting")
	return a.verb(a.placeFlags(cmd), func(ctx context.Context, _ []string) (view, error) { return a.back(ctx, "revert", f) })
}

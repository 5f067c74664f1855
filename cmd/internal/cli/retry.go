package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) newRetry() *cobra.Command {
	f := runFlags{retry: true}
	cmd := &cobra.Command{
		Use:   "retry -c FILE --version VERSION",
		Short: "begin a new attempt of a version whose rollout has failed",
		Long: `Begins a new attempt of the version whose last rollout has ended without
success, with fresh approvals, readings and scores and the file as it is now,
and drives it like run. A failed attempt is never retried unasked.`,
		Example: "  manent retry -c envconfig/shop/web/prod.yml --version 2.0",
	}
	f.flags(cmd)
	return a.acting(a.placeFlags(cmd), func(ctx context.Context, _ []string) (view, error) { return a.run(ctx, f) })
}

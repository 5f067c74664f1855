package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/manent/action/runner/plan"
	"github.com/manent/action/runner/report"
)

func (a *app) newPlan() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan -c FILE",
		Short: "list every step of a rollout in order",
		Long: `Lists every step in the order in which it is done: its stage and share, how
long it waits and how long it may take at most, who is asked, and what undoes
it; then what to know before. A gate is one row, however often it reads. Also
what this build cannot do yet is planned. With --json the document is
{"steps":[{"name","kind","pass","stage","share",…}],"warnings":[…]}.`,
		Example: "  manent plan -c envconfig/shop/web/prod.yml",
	}
	return a.verb(a.fileFlags(cmd), func(context.Context, []string) (view, error) { return a.plan() })
}

func (a *app) plan() (view, error) {
	cfg, err := a.load(true, false)
	if err != nil {
		return view{}, err
	}
	p := plan.Warned(cfg, a.host.Catalog())
	return view{JSON: p, Text: report.PlanText(p)}, nil
}

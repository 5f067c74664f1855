package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/manent/action/runner"
	"github.com/manent/action/state"
)

func (a *app) newReject() *cobra.Command {
	var f wordFlags
	cmd := &cobra.Command{
		Use:   "reject (-c FILE | --state ADDRESS) --version VERSION",
		Short: "answer an open pause with no, and return all traffic",
		Long: `Records a no to the open pause and then returns all traffic to stable itself,
or waits for the process that is at it. It ends with 0 only when the router has
been read back at stable, and with 6 while traffic may still reach the
candidate.`,
		Example: "  manent reject -c envconfig/shop/web/prod.yml --version 2.0 --pause approval@25 --reason \"checkout is slow\"",
	}
	f.flags(cmd, true)
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "end instead of waiting")
	return a.acting(a.placeFlags(cmd), func(ctx context.Context, _ []string) (view, error) { return a.back(ctx, "reject", f) })
}

// back records the decision and drives the return to its end.
func (a *app) back(ctx context.Context, verb string, f wordFlags) (view, error) {
	p, e, err := a.decide(ctx, verb, f)
	if err != nil {
		return view{}, err
	}
	if f.dryRun {
		return a.acted(ctx, p, true, runner.Outcome{Result: runner.Progress, Message: "would " + verb + " and return all traffic to stable"}, nil)
	}
	out, err := e.Back(ctx)
	if err != nil {
		return view{}, a.replacedOr(ctx, p, e.Only, err)
	}
	doc, err := a.late(ctx, p)
	if err != nil {
		return view{}, unreturned(err)
	}
	if r := doc.Rollout; r != nil && r.ID == e.Only && r.Status == state.Returned {
		if out, err = e.AtStable(ctx); err != nil {
			return view{}, err
		}
		if out.Result != runner.Complete {
			return view{Outcome: &out, Rollout: r}, nil
		}
		out = runner.Outcome{Result: runner.Progress, Message: fmt.Sprintf("version %s is returned, all traffic is at stable, read at the router", r.Version)}
	}
	return view{Outcome: &out, Rollout: doc.Rollout}, nil
}

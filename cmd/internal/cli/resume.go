package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/manent/action/runner"
	"github.com/manent/action/state"
)

func (a *app) newResume() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "resume (-c FILE | --state ADDRESS)",
		Short: "do what is due and nobody waits for: to be run on a schedule",
		Long: `Finishes returns, takes the readings that are due while an approval is waited
for, drives rollouts begun with wait: resume, returns rollouts whose job has
been gone for orphanAfter, and scales down what is due. Elsewhere it never
raises a share. Without -c it does so for every environment of the state.

It ends with 6 when a return is unfinished, else with 5 when somebody did not
answer, else with 1 when it has returned a rollout, and otherwise with 0, also
when there is still something to wait for, or a rollout's own job is at work.`,
		Example: `  manent resume --state git
  manent resume -c envconfig/shop/web/prod.yml`,
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "read everything, write nothing, print what would be done")
	return a.acting(a.placeFlags(cmd), func(ctx context.Context, _ []string) (view, error) { return a.resume(ctx, dryRun) })
}

// resume goes through all environments; one that fails keeps no other one.
func (a *app) resume(ctx context.Context, dryRun bool) (view, error) {
	all, err := a.places(ctx)
	if err != nil {
		return view{}, err
	}
	var v view
	var failed []error
	var text strings.Builder
	for _, p := range all {
		outs, err := a.resumeOne(ctx, p, dryRun)
		if ctx.Err() != nil {
			if worst := sweep(v.Past, nil); worst.Result == runner.Unfinished {
				v.Outcome = &worst // of one before this; the signal does not change that
				return v, nil
			}
			return view{}, a.interrupted(ctx, p, errors.Join(ctx.Err(), err))
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.key, err))
			fmt.Fprintf(&text, "%s: %v\n", p.key, err)
		}
		for _, out := range outs {
			out.Message = p.key + ": " + strings.TrimPrefix(out.Step+": "+out.Message, ": ")
			out.Step = ""
			v.Past = append(v.Past, out)
			fmt.Fprintln(&text, out.Message)
		}
	}
	if text.Len() == 0 {
		text.WriteString("nothing is due\n")
	}
	v.Text = text.String()
	bad := errors.Join(failed...)
	worst := sweep(v.Past, bad)
	v.Outcome = &worst
	if worst.Result == runner.Unsure && bad != nil && endingOfError(bad).Code == exitInternal {
		return v, bad
	}
	return v, nil
}

func (a *app) resumeOne(ctx context.Context, p place, dryRun bool) (outs []runner.Outcome, err error) {
	defer defect(&err)
	doc, err := a.document(ctx, p)
	if err != nil || doc.Rollout == nil {
		return nil, err
	}
	e, err := a.engine(ctx, p)
	if err != nil {
		return nil, err
	}
	e.DryRun, e.NoWait = dryRun, true
	outs, err = e.Resume(ctx)
	if held, ok := errors.AsType[*runner.HeldError](err); ok {
		return append(outs, busy(doc.Rollout, held)), nil
	}
	if len(outs) == 0 && err == nil {
		a.drives = a.drives[:len(a.drives)-1] // nothing to tell of
	}
	return outs, err
}

// busy is the outcome of an environment that somebody else is at work on: no
// failure, but a return that is not seen to its end stays one.
func busy(r *state.Rollout, held *runner.HeldError) runner.Outcome {
	out := runner.Outcome{Result: runner.NotYet, Message: held.Reason, Remedy: held.Hint}
	if r.Status == state.Returning {
		out.Result = runner.Unfinished
	}
	return out
}

// defect makes a panic the error of one environment, so that it keeps nobody
// from the others.
func defect(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("internal: panic: %v", p)
	}
}

// sweep is how a whole round ended: by the worst that needs somebody.
func sweep(outs []runner.Outcome, failed error) runner.Outcome {
	found := func(want runner.Result) *runner.Outcome {
		for i := range outs {
			if outs[i].Result == want {
				return &outs[i]
			}
		}
		return nil
	}
	if out := found(runner.Unfinished); out != nil {
		return *out
	}
	if out := found(runner.Unsure); out != nil || failed != nil {
		if failed != nil {
			return runner.Outcome{Result: runner.Unsure, Message: failed.Error()}
		}
		return *out
	}
	if out := found(runner.Failure); out != nil {
		return *out
	}
	return runner.Outcome{Result: runner.Progress}
}

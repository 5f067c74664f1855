package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/manent/action/providers"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/generate"
	"github.com/manent/action/runner/setup"
)

// setupJSON is the document of setup.
type setupJSON struct {
	Of      string       `json:"of"`      // repository or project
	Applied bool         `json:"applied"` // false: nothing was written
	Items   []setup.Item `json:"items"`   // what it has, and what of it differs
}

func (a *app) newSetup() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "setup WHAT",
		Short: "make what generated pipelines need on their platform",
		Args:  cobra.ArbitraryArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage("for example `manent setup github -c FILE`", "what is to be set up? expected github or gitlab")
		}
		return usage("expected github or gitlab", "cannot set up %q", args[0])
	}
	cmd.AddCommand(a.newSetupGitHub(), a.newSetupGitLab())
	return cmd
}

// setupJob is one thing of the platform.
type setupJob struct {
	item   setup.Item
	as     func(context.Context) error   // an error unless it is as it was planned from; nil where no write replaces anything
	writes []func(context.Context) error // in this order
}

// write carries a job out and counts what it has written.
func (j setupJob) write(ctx context.Context) (made int, err error) {
	if j.as != nil && len(j.writes) > 0 {
		if err := j.as(ctx); err != nil {
			return 0, err
		}
	}
	for _, write := range j.writes {
		if err := write(ctx); err != nil {
			return made, err
		}
		made++
	}
	return made, nil
}

// setupPlan is what to do to a repository or project.
type setupPlan struct {
	of    string
	jobs  []setupJob
	check func(context.Context) ([]setup.Item, error) // reads again, once something was written
}

func (p setupPlan) items() []setup.Item {
	out := make([]setup.Item, len(p.jobs))
	for i, j := range p.jobs {
		out[i] = j.item
	}
	return out
}

// setUp shows a plan, or carries it out and reads what has become of it.
func (a *app) setUp(ctx context.Context, p setupPlan, apply bool) (view, error) {
	writes := slices.ContainsFunc(p.jobs, func(j setupJob) bool { return len(j.writes) > 0 })
	if !apply {
		end := "nothing was written; the same command with --apply does it"
		if !writes {
			end = "nothing is to be written"
		}
		return setupView(p.of, p.items(), false, end), nil
	}
	made := 0
	for i, j := range p.jobs {
		n, err := j.write(ctx)
		if made += n; err != nil {
			return setupView(p.of, p.items(), true, ""), cutShort(err, j.item, made)
		}
		if len(j.writes) > 0 {
			p.jobs[i].item = j.item.Done()
		}
	}
	if made == 0 {
		return setupView(p.of, p.items(), true, "nothing was to be written"), nil
	}
	now, err := p.check(ctx)
	if err != nil {
		return view{}, fmt.Errorf("everything was written, but not read again: %w", err)
	}
	v := setupView(p.of, p.items(), true, "all of it was read again")
	return v, notAsWritten(now)
}

// cutShort is the ending of a setup that could not write an item. What a
// platform definitely refuses has changed nothing, unless something was
// written before.
func cutShort(err error, item setup.Item, made int) error {
	hint := providers.HintOf(err)
	held, changed := errors.AsType[*runner.HeldError](err)
	if changed {
		hint = held.Hint
	}
	if made == 0 || !changed && !providers.KindOf(err).Definite() {
		return beforehand(err)
	}
	return &exitError{err: err, ending: ending{
		Code: exitFailed, Message: fmt.Sprintf("%s: %v; what comes before it is written", item.What, err), Hint: hint,
	}}
}

// notAsWritten is the error of items that are not as they were written: a
// platform may pass over what its plan does not know.
func notAsWritten(now []setup.Item) error {
	var wrong []string
	hint := "look at it in the platform's settings, for somebody may have changed it since, then run the same command again"
	for _, item := range now {
		if item.State == setup.Kept || item.State == setup.ByHand {
			continue
		}
		for _, c := range item.Changes {
			wrong = append(wrong, fmt.Sprintf("%s: %s is %s, not %s", item.What, c.Of, c.From, c.To))
			if c.Of == "reviewers" {
				hint = "the plan may not know required reviewers, which need a public repository or GitHub Enterprise: `manent generate github --mode dispatch` does without; or a reviewer may not read the repository"
			}
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return &exitError{ending: ending{Code: exitFailed, Message: "the platform said yes and did something else: " + strings.Join(wrong, "; "), Hint: hint}}
}

// setupView is what a person sees of items.
func setupView(of string, items []setup.Item, applied bool, end string) view {
	var b strings.Builder
	for _, item := range items {
		fmt.Fprintf(&b, "%s %s\n", item.What, item.State)
		for _, c := range item.Changes {
			fmt.Fprintf(&b, "  %s: %s → %s\n", c.Of, c.From, c.To)
		}
		for _, note := range item.Notes {
			fmt.Fprintf(&b, "  note: %s\n", note)
		}
	}
	b.WriteString(end)
	return view{JSON: setupJSON{Of: of, Applied: applied, Items: items}, Text: b.String()}
}

// unread shows what is needed where the platform could not be asked what there
// is: for want of a token, of a permission or of a network.
func unread(of string, items []setup.Item, err error) (view, error) {
	return setupView(of, items, false, "this is from the configuration alone; nothing was read or written"), beforehand(err)
}

// planned turns what a planner refuses into a usage error.
func planned(err error) error {
	if wrong, ok := errors.AsType[*generate.Error](err); ok {
		return usage(wrong.Hint, "%s", wrong.Reason)
	}
	if wrong, ok := errors.AsType[*setup.Error](err); ok {
		return usage(wrong.Hint, "%s", wrong.Reason)
	}
	return err
}

// named checks flags of the form KIND:NAME before anything is asked.
func named(flag string, given []string, known ...string) error {
	for _, text := range given {
		kind, name, ok := strings.Cut(text, ":")
		if !ok || name == "" || !slices.Contains(known, kind) {
			return usage("such as "+known[0]+":ada", "--%s %q, expected %s followed by a name", flag, text, strings.Join(known, ": or ")+":")
		}
	}
	return nil
}

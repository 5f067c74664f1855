package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/plan"
	"github.com/manent/action/runner/report"
	"github.com/manent/action/state"
)

func (a *app) newStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status (-c FILE | --state ADDRESS)",
		Short: "show what serves, how far the rollout is and what is next",
		Long: `Shows the state document: what serves, the slots, each stage with its share,
status, score and last reading, an open question with the commands that answer
it, a scale-down that is still to come, who is at work, and what is next. It
reads the state only; the router is asked by doctor.

With --json it is the document itself (rollout.stages[].score and so on) and
"next". Without -c the state's only environment is shown, or all of them, one
per line; one that cannot be read is a line too, and the call ends with 5.`,
		Example: `  manent status -c envconfig/shop/web/prod.yml
  manent status --state file:./state --json`,
	}
	return a.verb(a.placeFlags(cmd), func(ctx context.Context, _ []string) (view, error) { return a.status(ctx) })
}

func (a *app) status(ctx context.Context) (view, error) {
	all, err := a.places(ctx)
	if err != nil {
		return view{}, err
	}
	if len(all) != 1 {
		return a.overview(ctx, all)
	}
	doc, err := a.document(ctx, all[0])
	if err != nil {
		return view{}, err
	}
	s := report.Status{Document: doc, Next: a.next(doc)}
	return view{JSON: s, Text: report.StatusText(s)}, nil
}

// overview is one line for each environment of a store.
func (a *app) overview(ctx context.Context, all []place) (view, error) {
	docs := []report.Status{}
	var past []runner.Outcome
	var lines strings.Builder
	var failed []error
	for _, p := range all {
		s, line, err := a.statusOf(ctx, p)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.key, err))
			line = fmt.Sprintf("%s: %s: %v", p.key, word(endingOfError(err).Code), err)
			past = append(past, runner.Outcome{Result: runner.Unsure, Message: line})
		} else {
			docs = append(docs, s)
			past = append(past, runner.Outcome{Result: runner.Progress, Message: line})
		}
		lines.WriteString(line + "\n")
	}
	if len(all) == 0 {
		fmt.Fprintf(&lines, "%s holds no environment yet\n", a.state)
	}
	if len(failed) > 0 {
		return view{Past: past, Text: lines.String()}, errors.Join(failed...)
	}
	return view{JSON: docs, Text: lines.String()}, nil
}

// statusOf is one environment of many.
func (a *app) statusOf(ctx context.Context, p place) (s report.Status, line string, err error) {
	defer defect(&err)
	doc, err := a.document(ctx, p)
	if err != nil {
		return s, "", err
	}
	return report.Status{Document: doc, Next: a.next(doc)}, report.StatusLine(doc), nil
}

// next is what the engine would do now, from the document alone.
func (a *app) next(doc *state.Document) report.Next {
	r := doc.Rollout
	if r == nil {
		return report.Next{Do: string(runner.DoNothing), Commands: []string{"manent run --version VERSION"}}
	}
	cfg, err := config.Unpin(r.Config)
	if err != nil {
		return report.Next{Reason: err.Error()}
	}
	p := plan.Build(cfg, a.host.Catalog())
	copied, err := clone(doc)
	if err != nil {
		return report.Next{Reason: err.Error()}
	}
	now := a.now().UTC()
	runner.Apply(p, copied, cfg, now)
	act := runner.Next(p, copied, cfg, now)
	n := report.Next{Do: string(act.Do), Step: act.Step.Name, Until: act.Until, Reason: act.Reason}
	if act.Do == runner.DoReturn {
		n.Step = plan.Name{Kind: plan.Revert, Pass: act.Pass}.String()
	}
	n.Commands = report.Commands(copied, n.Do)
	if runner.InRun(copied.Rollout) {
		n.Commands = n.Commands[1:]
		n.Reason += "; a yes is given in its own run, by a job of it"
	}
	return n
}

// clone copies a document, since applying decisions changes it.
func clone(doc *state.Document) (*state.Document, error) {
	data, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("copy the document: %w", err)
	}
	var out state.Document
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("copy the document: %w", err)
	}
	return &out, nil
}

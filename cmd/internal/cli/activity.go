package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/manent/action/runner/report"
)

// activityJSON is the document of `manent activity --json`.
type activityJSON struct {
	Key    string         `json:"key"`    // project/application/environment
	Events []report.Event `json:"events"` // oldest first
}

func (a *app) newActivity() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "activity (-c FILE | --state ADDRESS)",
		Short: "list what happened, newest last",
		Long: `Lists what the state document knows: ended rollouts, then the steps, readings,
decisions and pauses of the current one, newest last. Where the state is kept
in Git, each write is also a commit of its ref.`,
		Example: "  manent activity -c envconfig/shop/web/prod.yml",
	}
	return a.verb(a.placeFlags(cmd), func(ctx context.Context, _ []string) (view, error) {
		p, err := a.place(ctx)
		if err != nil {
			return view{}, err
		}
		doc, err := a.document(ctx, p)
		if err != nil {
			return view{}, err
		}
		events := report.Activity(doc)
		if events == nil {
			events = []report.Event{}
		}
		return view{JSON: activityJSON{Key: p.key, Events: events}, Text: report.ActivityText(events)}, nil
	})
}

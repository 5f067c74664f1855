package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/manent/action/runner"
	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

// unlockJSON is the document of `manent unlock --json`.
type unlockJSON struct {
	Key    string       `json:"key"`    // project/application/environment
	Lease  *state.Lease `json:"lease"`  // as found; null when nobody is at work
	Broken bool         `json:"broken"` // it was taken away
}

func (a *app) newUnlock() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "unlock (-c FILE | --state ADDRESS)",
		Short: "take the lease away from a process that is certainly dead",
		Long: `Shows which process is at work, and with --yes takes its lease away. That is
hardly ever needed: a lease lapses by itself 30 s after its holder's last sign
of life. If that process is alive after all, two may act on the router at a
time; the one whose lease is broken stops at its next write of the state.
A rollout keeps others out without a lease, too: that is ended by an answer or
by revert, not by unlock.`,
		Example: "  manent unlock -c envconfig/shop/web/prod.yml --yes",
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "take the lease away")
	return a.verb(a.placeFlags(cmd), func(ctx context.Context, _ []string) (view, error) { return a.unlock(ctx, yes) })
}

func (a *app) unlock(ctx context.Context, yes bool) (view, error) {
	p, err := a.place(ctx)
	if err != nil {
		return view{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, runner.CallLimit)
	defer cancel()
	doc, err := p.session.Load(ctx)
	if err != nil {
		return view{}, &runner.UnsureError{Step: "state", Err: err}
	}
	out := unlockJSON{Key: p.key, Lease: doc.Lease}
	if doc.Lease == nil {
		return view{JSON: out, Text: p.key + ": nobody is at work, there is no lease" + holds(doc)}, nil
	}
	whose := a.atWork(doc)
	if !yes {
		return view{JSON: out, Text: whose}, usage("make sure that it is dead, then `manent unlock --yes`; if it is alive, two may act on the router at a time, and it stops at its next write of the state",
			"%s; nothing was done", whose)
	}
	if err := a.breakLease(ctx, p.session, doc); err != nil {
		return view{}, err
	}
	out.Broken = true
	return view{JSON: out, Text: whose + "\nits lease is taken away; the next call continues from what it finds"}, nil
}

// atWork says whose lease there is, and what of.
func (a *app) atWork(doc *state.Document) string {
	l := doc.Lease
	text := fmt.Sprintf("%s: process %d on %s is at work on %s since %s", doc.Key, l.PID, l.Host, l.Step, l.Since.UTC().Format(time.RFC3339))
	text += fmt.Sprintf(", its last sign of life %s ago, for %s", a.now().Sub(doc.Written).Round(time.Second), whose(l.Owner))
	if l.Owner.Actor != "" {
		text += " by " + l.Owner.Actor
	}
	if r := doc.Rollout; r != nil {
		text += fmt.Sprintf("; it drives version %s, which is %s", r.Version, r.Status)
	}
	return text
}

// holds says which rollout keeps others out, which no lease is needed for.
func holds(doc *state.Document) string {
	r := doc.Rollout
	if r == nil || r.Status.Terminal() {
		return ""
	}
	return fmt.Sprintf("\nversion %s (%s), begun by %s, has the environment: answer it, or `manent revert --version %s` ends it", r.Version, r.Status, whose(r.Owner), r.Version)
}

// breakLease writes the document without the lease, on condition that it
// still is the document that was shown.
func (a *app) breakLease(ctx context.Context, session *checkpoint.Session, doc *state.Document) error {
	id, pid := doc.Lease.ID, doc.Lease.PID
	checkpoint.Give(doc, id)
	for i := range doc.Passes { // what it was doing may still land
		doc.Passes[i].Unsettled = a.now().UTC().Add(runner.CallLimit)
	}
	err := session.Save(ctx, doc, fmt.Sprintf("lease of process %d taken away", pid), nil, nil)
	if err != nil {
		return &runner.HeldError{Reason: "the lease was not taken away: " + err.Error(), Hint: "its holder may be alive; look again with `manent status`"}
	}
	return nil
}

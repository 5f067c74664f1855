package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/manent/action/state"
)

// Word is a person's decision, as given on the command line.
type Word struct {
	Verb    string // approve, reject, revert
	Rollout string // id; "" = by version or owner
	Version string
	Attempt int    // 0 = the current one
	Pause   string // id of the pause; for approve and reject
	Seen    string // digest of the weights, for a drift
	Who     string
	From    string // where: run URL or host
	Reason  string
}

// Decide appends a decision by compare-and-set, whatever process works right
// now. One that matches no open pause is refused. It does not act; reject and
// revert are followed by Back.
func (e *Engine) Decide(ctx context.Context, w Word) error {
	for range staleTries {
		err := e.decide(ctx, w)
		if !errors.Is(err, errStale) {
			return err
		}
	}
	return &UnsureError{Step: "state", Err: fmt.Errorf("the document changed %d times while this call tried to decide", staleTries)}
}

func (e *Engine) decide(ctx context.Context, w Word) error {
	doc, err := e.load(ctx)
	if err != nil {
		return err
	}
	if err := w.matches(doc, e.World.Now()); err != nil {
		return err
	}
	if e.DryRun {
		return nil
	}
	r := doc.Rollout
	r.Decisions = append(r.Decisions, state.Decision{
		Verb: w.Verb, Pause: w.Pause, Attempt: r.Attempt, Seen: w.Seen,
		Who: w.Who, From: w.From, At: e.World.Now().UTC(), Reason: w.Reason,
	})
	s := &session{e: e, doc: doc}
	return s.put(ctx, false, fmt.Sprintf("%s %s by %s", w.Verb, w.Pause, w.Who))
}

// matches refuses a decision that names another rollout, attempt or pause than
// the one that is open.
func (w Word) matches(d *state.Document, now time.Time) error {
	r := d.Rollout
	switch {
	case r == nil:
		return &UsageError{Reason: d.Key + " has no rollout", Hint: "`manent status` shows what there is"}
	case w.Rollout != "" && w.Rollout != r.ID:
		return &HeldError{Reason: fmt.Sprintf("rollout %s is not the current one, %s is, begun by %s", w.Rollout, r.ID, whose(r.Owner)), Hint: "`manent status` shows it"}
	case w.Version != "" && w.Version != r.Version:
		return &HeldError{Reason: fmt.Sprintf("version %s is not the current one, %s is, begun by %s", w.Version, r.Version, whose(r.Owner)), Hint: "`manent status` shows it"}
	case w.Rollout == "" && w.Version == "":
		return &UsageError{Reason: w.Verb + " names no rollout", Hint: "add --version " + r.Version}
	case w.Attempt != 0 && w.Attempt != r.Attempt:
		return &HeldError{Reason: fmt.Sprintf("attempt %d is not the current one, %d is", w.Attempt, r.Attempt), Hint: "`manent status` shows it"}
	case w.Verb == "revert":
		return revertible(d)
	case r.Pause == nil:
		return &UsageError{Reason: fmt.Sprintf("rollout %s waits for no decision, it is %s", r.ID, r.Status), Hint: "`manent status` shows what is next"}
	case w.Pause != r.Pause.ID:
		return &UsageError{Reason: fmt.Sprintf("pause %q is not open, %q is", w.Pause, r.Pause.ID), Hint: "add --pause " + r.Pause.ID}
	case !r.Pause.Until.IsZero() && !now.Before(r.Pause.Until):
		return &UsageError{Reason: fmt.Sprintf("the time to answer pause %s ended at %s, it counts as rejected", r.Pause.ID, r.Pause.Until.UTC().Format(time.RFC3339)),
			Hint: "the next `manent run` or `manent resume` returns traffic; then `manent retry`"}
	case w.Verb == "approve" && answered(r) != nil:
		by := answered(r)
		return &UsageError{Reason: fmt.Sprintf("pause %s was answered by %s at %s (%s)", r.Pause.ID, by.Who, by.At.UTC().Format(time.RFC3339), by.Verb),
			Hint: "the next `manent run` acts on it; `manent reject` and `manent revert` still bring traffic back"}
	case w.Seen != r.Pause.Seen:
		return &UsageError{Reason: fmt.Sprintf("the decision names weights %q, the pause is about %q", w.Seen, r.Pause.Seen),
			Hint: "look at the weights with `manent status`, then add --seen " + r.Pause.Seen}
	}
	return nil
}

// answered returns the decision on the open pause that nobody has acted on yet.
func answered(r *state.Rollout) *state.Decision {
	for i := range r.Decisions {
		if d := &r.Decisions[i]; !d.Applied && d.Attempt == r.Attempt && d.Pause == r.Pause.ID {
			return d
		}
	}
	return nil
}

// revertible: until the replaced version is scaled down there is a way back.
func revertible(d *state.Document) error {
	r := d.Rollout
	switch {
	case r.Status == state.Returned:
		return nil
	case r.First:
		return &UsageError{Reason: "a first release has no stable version to return to", Hint: "release another version"}
	case r.Status == state.Completed && retired(d):
		return &UsageError{Reason: "the replaced version is scaled down, there is no way back by weights", Hint: "roll out the old version again"}
	}
	return nil
}

// retired reports whether a pass's replaced version has been scaled down.
func retired(d *state.Document) bool {
	for _, p := range d.Passes {
		if ours(&p, d.Rollout.ID) && p.Retired {
			return true
		}
	}
	return false
}

// Back drives a return until the router confirms, waiting for the process
// that holds the lease. It succeeds only when traffic is back.
func (e *Engine) Back(ctx context.Context) (Outcome, error) {
	back := *e
	back.backOnly = true
	return back.drive(ctx, RunOptions{NoWait: e.NoWait})
}

package runner

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
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

	// Review says that the platform was asked, and that this is its reviewers'
	// yes. It is recorded besides a yes that somebody else has given before.
	Review bool
	Noes   int // reviews of before that said no: the platform lists those of all attempts
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
	err = w.matches(doc, e.World.Now())
	if err == nil && w.Verb == "approve" {
		err = fromElsewhere(doc.Rollout, e.World.Process.Owner)
	}
	if err != nil || e.DryRun {
		return err
	}
	w.record(doc.Rollout, e.World.Now().UTC())
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
	case w.confirmed(r) != "":
		return nil
	case r.Pause == nil:
		return &UsageError{Reason: fmt.Sprintf("rollout %s waits for no decision, it is %s", r.ID, r.Status), Hint: "`manent status` shows what is next"}
	case w.Pause != r.Pause.ID:
		return &UsageError{Reason: fmt.Sprintf("pause %q is not open, %q is", w.Pause, r.Pause.ID), Hint: "add --pause " + r.Pause.ID}
	case !r.Pause.Until.IsZero() && !now.Before(r.Pause.Until):
		return &UsageError{Reason: fmt.Sprintf("the time to answer pause %s ended at %s, it counts as rejected", r.Pause.ID, r.Pause.Until.UTC().Format(time.RFC3339)),
			Hint: "the next `manent run` or `manent resume` returns traffic; then `manent retry`"}
	case w.second(r) != nil:
		by := w.second(r)
		return &UsageError{Reason: fmt.Sprintf("pause %s was answered by %s at %s (%s)", r.Pause.ID, by.Who, by.At.UTC().Format(time.RFC3339), by.Verb),
			Hint: "the next `manent run` acts on it; `manent reject` and `manent revert` still bring traffic back"}
	case w.Seen != r.Pause.Seen:
		return &UsageError{Reason: fmt.Sprintf("the decision names weights %q, the pause is about %q", w.Seen, r.Pause.Seen),
			Hint: "look at the weights with `manent status`, then add --seen " + r.Pause.Seen}
	}
	return nil
}

// record writes the word down. A review takes the place of a yes that nobody
// has acted on; to one that was acted on it adds the reviewers.
func (w Word) record(r *state.Rollout, now time.Time) {
	d := state.Decision{
		Verb: w.Verb, Pause: w.Pause, Attempt: r.Attempt, Seen: w.Seen,
		Who: w.Who, From: w.From, At: now, Reason: w.Reason,
	}
	if id := w.confirmed(r); id != "" {
		d.Pause, d.Applied = id, true
		r.Step(w.Pause).Receipt["approved"] = w.Who
	} else if w.Review {
		for i := range r.Decisions {
			if by := &r.Decisions[i]; by.Verb == w.Verb && by.Pause == w.Pause {
				by.Applied = true
			}
		}
	}
	r.Decisions = append(r.Decisions, d)
	if step := r.Step(stepOfPause(d.Pause)); w.Review && step != nil {
		if step.Receipt == nil {
			step.Receipt = state.Receipt{}
		}
		step.Receipt[noes] = strconv.Itoa(w.Noes)
	}
}

// noes holds, in the receipt of a planned approval, how many reviews had said
// no when the reviewers' yes was taken.
const noes = "noes"

// Noes is how many reviews that say no the last yes to a planned approval has
// come after, 0 without one: only later ones are an answer.
func Noes(r *state.Rollout, step string) int {
	rec := r.Step(step)
	if rec == nil {
		return 0
	}
	n, err := strconv.Atoi(rec.Receipt[noes])
	if err != nil {
		return 0 // then all count
	}
	return n
}

// confirmed is, for a review, the id of the pause that a planned approval had
// which has been given and acted on, while the rollout is on its way; "" for
// none. The word names it by its step.
func (w Word) confirmed(r *state.Rollout) string {
	if !w.Review || Given(w.Pause, r) == "" || r.Status.Terminal() || r.Status == state.Returning {
		return ""
	}
	for i := len(r.Decisions) - 1; i >= 0; i-- {
		d := r.Decisions[i]
		if d.Verb == "approve" && d.Attempt == r.Attempt && stepOfPause(d.Pause) == w.Pause {
			return d.Pause
		}
	}
	return ""
}

// stepOfPause is the step that a pause's id names in front of its number.
func stepOfPause(id string) string { return id[:max(0, strings.LastIndexByte(id, '.'))] }

// inRun marks, in its step's receipt, a planned approval that a job of the same
// run answers.
const inRun = "answer"

// InRun reports whether the open pause is a planned approval that a run has
// stopped in front of, for its own next job to answer.
func InRun(r *state.Rollout) bool {
	if r == nil || r.Pause == nil || r.Pause.Kind != state.PauseApproval {
		return false
	}
	rec := r.Step(r.Pause.Step)
	return rec != nil && rec.Receipt[inRun] == "run"
}

// fromElsewhere refuses a yes from another run than the one whose next job
// answers: that job is where the platform asks its reviewers, and one that
// found its question answered would pass them by. A no is taken from everywhere.
func fromElsewhere(r *state.Rollout, me state.RunRef) error {
	if !InRun(r) || r.Owner.Same(me) {
		return nil
	}
	return &UsageError{
		Reason: fmt.Sprintf("approval %s is given in the run that asks for it, %s; a yes from elsewhere is not taken", r.Pause.Step, whose(r.Owner)),
		Hint:   "approve it there; a no is taken from everywhere, as `manent reject` or `manent revert`",
	}
}

// second returns the answer that a yes comes after. A review may come after
// another yes.
func (w Word) second(r *state.Rollout) *state.Decision {
	by := answered(r)
	if w.Verb != "approve" || by != nil && w.Review && by.Verb == "approve" {
		return nil
	}
	return by
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

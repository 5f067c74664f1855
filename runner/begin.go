package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/plan"
	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

// Request is a call for a version.
type Request struct {
	Version string
	Config  config.Config // as the file says now
	Force   bool          // let an older run go on
	Retry   bool          // a new attempt of a version whose last one failed
}

// Claim is what the document says to a request.
type Claim string

// What run finds, see the table in design §7.
const (
	Fresh     Claim = "fresh"     // a new rollout begins
	Continue  Claim = "continue"  // active and ours
	Repeat    Claim = "repeat"    // ended, and ours: the recorded outcome again
	Serves    Claim = "serves"    // this version serves already
	Supersede Claim = "supersede" // another version is on its way and has to go back first
	Held      Claim = "held"      // another rollout's, or we are an older run
)

// Decide says what a request finds. It is pure.
func (q Request) Decide(d *state.Document, owner state.RunRef) (Claim, error) {
	r := d.Rollout
	if owner.OlderThan(d.Newest) && !q.Force {
		reason := fmt.Sprintf("this is run %s, run %s has started a rollout of %s since", owner.Run, d.Newest.Run, d.Key)
		if d.Newest.URL != "" {
			reason += ", " + d.Newest.URL
		}
		return Held, &HeldError{Reason: reason, Hint: "start a new pipeline; --force lets this older one go on"}
	}
	switch {
	case r == nil:
		return q.fresh()
	case !r.Status.Terminal() && r.Version == q.Version && r.Owner.Same(owner):
		return q.continues(r)
	case !r.Status.Terminal() && r.Version != q.Version && q.Config.Rollout.OnNewVersion == "supersede":
		return Supersede, nil
	case !r.Status.Terminal():
		return Held, heldBy(d, "version "+q.Version+" cannot start")
	case q.Retry:
		return q.retries(r)
	case serving(d, q.Version):
		return Serves, nil
	case r.Version == q.Version && r.Owner.Same(owner):
		return Repeat, nil
	}
	return Fresh, nil
}

func (q Request) fresh() (Claim, error) {
	if q.Retry {
		return Held, &UsageError{Reason: "there is no rollout to retry", Hint: "start one with `manent run --version V`"}
	}
	return Fresh, nil
}

func (q Request) continues(r *state.Rollout) (Claim, error) {
	if q.Retry {
		return Held, &UsageError{Reason: fmt.Sprintf("rollout %s of version %s is %s, not ended", r.ID, r.Version, r.Status),
			Hint: "go on with `manent run`, or end it with `manent revert`"}
	}
	return Continue, nil
}

func (q Request) retries(r *state.Rollout) (Claim, error) {
	if r.Version != q.Version {
		return Held, &UsageError{Reason: fmt.Sprintf("the last rollout was of version %s, not %s", r.Version, q.Version),
			Hint: "start a new one with `manent run --version " + q.Version + "`"}
	}
	if r.Status == state.Completed {
		return Serves, nil
	}
	return Fresh, nil
}

// serving reports whether the version already has all traffic everywhere, by
// a rollout that completed.
func serving(d *state.Document, version string) bool {
	if len(d.Passes) == 0 {
		return false
	}
	for _, p := range d.Passes {
		if p.Serving == "" || p.Slots.Get(p.Serving).Version != version {
			return false
		}
	}
	return true
}

// Begin finds out what a request means and, for a new rollout, writes it down.
// A version that has to be superseded is returned first; the caller drives
// that and calls Begin again.
func (e *Engine) Begin(ctx context.Context, q Request) (Claim, error) {
	for range staleTries {
		claim, err := e.begin(ctx, q)
		if !errors.Is(err, errStale) {
			return claim, err
		}
	}
	return Held, &UnsureError{Step: "state", Err: fmt.Errorf("the document changed %d times while this call tried to begin", staleTries)}
}

func (e *Engine) begin(ctx context.Context, q Request) (Claim, error) {
	e.Only = ""
	s, err := e.open(ctx)
	if err != nil {
		return Held, err
	}
	owner := e.World.Process.Owner
	claim, err := q.Decide(s.doc, owner)
	if err != nil || e.DryRun {
		return claim, err
	}
	switch claim {
	case Continue:
		err = s.adoptAttempt(ctx, owner)
	case Supersede:
		err = s.supersede(ctx, q)
	case Fresh:
		err = s.fresh(ctx, q)
	}
	if err == nil && s.doc.Rollout != nil {
		e.Only, e.Fresh = s.doc.Rollout.ID, true
		e.spendsAnew(claim, q, s.doc.Rollout.Attempt)
	}
	return claim, err
}

// spendsAnew says what a new attempt does to a bound on false alarms.
func (e *Engine) spendsAnew(claim Claim, q Request, attempt int) {
	chance, _ := plan.FalseAlarm(q.Config, e.World.Catalog)
	if claim != Fresh || !q.Retry || chance == 0 {
		return
	}
	e.World.Say(fmt.Sprintf("attempt %d begins without evidence: it may be a false alarm with the same chance as the one before, %.2g %%", attempt, 100*chance))
}

// adoptAttempt records that a later attempt of the same run drives now.
func (s *session) adoptAttempt(ctx context.Context, owner state.RunRef) error {
	if s.doc.Rollout.Owner == owner {
		return nil
	}
	s.doc.Rollout.Owner, s.dirty = owner, true
	return s.save(ctx, fmt.Sprintf("attempt %d of run %s drives", owner.Attempt, owner.Run))
}

// supersede turns the active rollout around for a newer version.
func (s *session) supersede(ctx context.Context, q Request) error {
	r := s.doc.Rollout
	if r.Status == state.Returning {
		return nil
	}
	now := s.e.World.Now().UTC()
	r.Superseded = q.Version
	beginReturn(s.plan, s.doc, s.cfg, state.Failure{
		Step: currentStep(s.plan, r), Reason: "superseded by version " + q.Version, At: now,
	}, true)
	s.dirty = true
	return s.save(ctx, "superseded by version "+q.Version)
}

// fresh writes a new rollout down, with its configuration pinned.
func (s *session) fresh(ctx context.Context, q Request) error {
	e, d := s.e, s.doc
	raw, err := q.Config.Pin()
	if err != nil {
		return err
	}
	digest, err := checkpoint.Digest(q.Config)
	if err != nil {
		return fmt.Errorf("pin configuration: %w", err)
	}
	attempt := 1
	if d.Rollout != nil {
		if q.Retry {
			attempt = d.Rollout.Attempt + 1
		}
		for i := range d.Passes {
			d.Passes[i].Half = halfDone(d.Rollout, &d.Passes[i])
		}
		if s.drop, err = checkpoint.Archive(d, s.replaced()); err != nil {
			return err
		}
	}
	passed := passedOver(d.Newest, e.World.Process.Owner)
	d.Newest = newest(d.Newest, e.World.Process.Owner)
	d.Rollout = &state.Rollout{
		ID: e.World.NewID(), Version: q.Version, Owner: e.World.Process.Owner, Attempt: attempt,
		Status: state.Running, Started: e.World.Now().UTC(), Config: raw, Digest: digest,
		Resume: q.Config.Rollout.Wait == "resume", Passed: passed,
	}
	p := plan.Build(q.Config, e.World.Catalog)
	for _, pass := range p.Passes {
		if d.Pass(pass.Name) == nil {
			d.Passes = append(d.Passes, state.Pass{Name: pass.Name})
		}
	}
	d.Rollout.Stages = stagesOf(p)
	note := fmt.Sprintf("rollout %s of version %s begins", d.Rollout.ID, q.Version)
	if passed != "" {
		note += "; superseded: " + passed
		e.World.Say("superseded: " + passed + " of this workflow, which began nothing here")
	}
	return s.put(ctx, false, note)
}

// halfDone is the last write of weights in a pass, if it was never proven: it
// may be done in part.
func halfDone(r *state.Rollout, pass *state.Pass) *state.Intent {
	last := lastShare(r, pass.Name)
	switch {
	case last == nil:
		return pass.Half // of the one before that
	case last.State == state.Done || r.Status == state.Returned:
		return nil
	}
	return last.Intent
}

// passedOver names the runs between the newest one that began a rollout and
// this one. Nothing is heard of a run that waited in its platform's queue and
// was replaced there, but that its number is left out; whatever kept it, from
// now on it is an older run, and refused.
func passedOver(before, owner state.RunRef) string {
	first, last := owner.Between(before)
	switch {
	case last < first:
		return ""
	case last == first:
		return fmt.Sprintf("run #%d", first)
	}
	return fmt.Sprintf("runs #%d to #%d", first, last)
}

// replaced is the version that served before the rollout that makes room.
func (s *session) replaced() string {
	for _, p := range s.doc.Passes {
		if ours(&p, s.doc.Rollout.ID) {
			return p.Slots.Get(p.Slots.Candidate.Other()).Version
		}
	}
	return ""
}

func newest(have, owner state.RunRef) state.RunRef {
	if owner.OlderThan(have) {
		return have
	}
	return owner
}

// stagesOf lists one stage per share and pass, in order.
func stagesOf(p plan.Plan) []state.Stage {
	var out []state.Stage
	for _, s := range p.Steps {
		known := slices.ContainsFunc(out, func(st state.Stage) bool { return st.Name == s.Stage })
		if (s.Kind == plan.Traffic || s.Kind == plan.Gate) && !known {
			out = append(out, state.Stage{Name: s.Stage, Pass: s.Pass, Share: s.Share, Status: state.StagePending})
		}
	}
	return out
}

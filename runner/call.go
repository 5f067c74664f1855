package runner

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/runner/plan"
	"github.com/manent/action/state"
)

// call is one entry into one step.
type call struct {
	*session
	step plan.Step
	pass *state.Pass
	now  time.Time
}

// result is how a step ended, when it could tell. An error beside it means
// that it could not.
type result struct {
	state   string // see below
	message string
	remedy  string
	until   time.Time    // pending: come back then
	pause   *state.Pause // paused
}

const (
	isDone    = "done"
	isPending = "pending"
	isPaused  = "paused"
	isFailed  = "failed"
)

func done(format string, args ...any) result {
	return result{state: isDone, message: fmt.Sprintf(format, args...)}
}

func failed(message, remedy string) result {
	return result{state: isFailed, message: message, remedy: remedy}
}

func pending(until time.Time, format string, args ...any) result {
	return result{state: isPending, until: until, message: fmt.Sprintf(format, args...)}
}

// record returns the step's record, made on first use.
func (c *call) record() *state.Step {
	return c.recordOf(c.step.Name, c.step.Kind, c.step.Pass)
}

func (s *session) recordOf(name string, kind plan.Kind, pass string) *state.Step {
	r := s.doc.Rollout
	if rec := r.Step(name); rec != nil {
		return rec
	}
	r.Steps = append(r.Steps, state.Step{
		Name: name, Kind: string(kind), Pass: pass, State: state.Started, Began: s.e.World.Now().UTC(),
		ID: r.ID + "." + strconv.Itoa(r.Attempt) + "." + name,
	})
	s.dirty = true
	return r.Step(name)
}

// intend checkpoints the step as started, with what it is about to write.
func (c *call) intend(ctx context.Context, intent *state.Intent) error {
	c.begun(intent)
	return c.session.intend(ctx, c.step.Name)
}

// begun notes in the record that the step is entered.
func (c *call) begun(intent *state.Intent) {
	rec := c.record()
	rec.State, rec.Due = state.Started, time.Time{}
	rec.Tries++
	if intent != nil {
		rec.Intent = intent
	}
}

func (c *call) router() router.Router { return c.e.World.Router(c.step.Pass) }

func (c *call) bundle() plugin.Bundle { return c.e.World.Plugin(c.step.Pass) }

func (c *call) candidate() state.Slot { return c.pass.Slots.Candidate }

// stage returns the stage the step belongs to, made when the plan has one that
// the document does not know yet.
func (c *call) stage() *state.Stage {
	name := plan.StageName(c.step.Pass, c.step.Share)
	r := c.doc.Rollout
	if r.Stage(name) == nil {
		r.Stages = append(r.Stages, state.Stage{Name: name, Pass: c.step.Pass, Share: c.step.Share, Status: state.StagePending})
	}
	return r.Stage(name)
}

// limit is the context of one provider call.
func limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return graceful(ctx, CallLimit)
}

// poll asks ok again and again, for as long as a step may take before it says
// "not yet". It reports whether ok said yes.
func (c *call) poll(ctx context.Context, ok func(context.Context) (bool, error)) (bool, error) {
	deadline := c.e.World.Now().Add(pollLimit)
	for {
		if err := c.beat(ctx); err != nil {
			return false, err
		}
		one, cancel := limit(ctx)
		yes, err := ok(one)
		cancel()
		if yes || err != nil {
			return yes, err
		}
		if c.e.NoWait || !c.e.World.Now().Before(deadline) {
			return false, nil
		}
		if err := c.e.World.Sleep(ctx, pollEvery); err != nil {
			return false, err
		}
	}
}

// beat renews this process's own lease when it is time to. It is called before
// each provider call: a step that takes long is not taken for dead, and one
// that was (a suspended machine) learns it before it writes. A store that does
// not answer keeps no call until leaseEnd.
func (c *call) beat(ctx context.Context) error {
	l := c.doc.Lease
	if l == nil || !c.leased {
		return nil
	}
	now, last := c.e.World.Now().UTC(), l.Since
	if now.Sub(last) < BeatEvery {
		return nil
	}
	l.Beat++
	l.Since = now
	err := c.putWithin(ctx, beatLimit, true, "still at "+c.step.Name)
	if err == nil || errors.Is(err, errStale) {
		return err
	}
	l.Since = last
	if now.Sub(last) >= leaseEnd {
		return errLeaseLost
	}
	return nil
}

// errLeaseLost: the lease could not be renewed for so long that another
// process may take it any moment; what ran under it has been stopped.
var errLeaseLost = errors.New("the lease could not be renewed, what was under way is stopped before another process may begin")

// gone reports whether this process may not act any more.
func gone(err error) bool { return errors.Is(err, errStale) || errors.Is(err, errLeaseLost) }

// during runs long, renewing the lease beside it. When the lease is lost, or
// cannot be renewed in time, long's context ends: another process may act. The
// renewal works on a copy, so that long may read the document.
func (c *call) during(ctx context.Context, long func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	beating, quit := context.WithCancel(ctx)
	doc, lease := *c.doc, *c.doc.Lease
	doc.Lease = &lease
	if c.doc.Rollout != nil { // else it is Exclusive's
		rollout := *c.doc.Rollout
		doc.Rollout = &rollout
	}
	renewing := &call{session: &session{e: c.e, doc: &doc}, step: c.step}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := renewing.renew(beating); err != nil {
			stop(err)
		}
	})
	err := long(ctx)
	quit()
	wg.Wait()
	c.doc.Lease = doc.Lease
	if c.doc.Rollout != nil {
		c.doc.Rollout.Decisions = doc.Rollout.Decisions
	}
	if cause := context.Cause(ctx); errors.Is(cause, errStale) || errors.Is(cause, errLeaseLost) {
		return cause
	}
	return err
}

// renew renews the lease until its context ends, and returns nil then; else
// why it cannot go on. A renewal that does not get through is tried again, but
// not past leaseEnd.
func (c *call) renew(ctx context.Context) error {
	now := c.e.World.Now
	wait, good := BeatEvery, now()
	for c.e.World.Sleep(ctx, wait) == nil {
		c.doc.Lease.Beat++
		err := c.putWithin(ctx, beatLimit, true, "still at "+c.step.Name)
		switch {
		case err == nil:
			wait, good = BeatEvery, now()
		case errors.Is(err, errStale):
			return err
		case now().Sub(good) >= leaseEnd:
			return errLeaseLost
		default:
			wait = time.Second
		}
	}
	return nil
}

// vars are the MANENT_* variables of a command or deployment.
func (c *call) vars() map[string]string {
	r := c.doc.Rollout
	v := map[string]string{
		"MANENT_PROJECT": c.cfg.Project, "MANENT_APPLICATION": c.cfg.Application, "MANENT_ENVIRONMENT": c.cfg.Environment,
		"MANENT_VERSION": r.Version, "MANENT_ROLLOUT": r.ID, "MANENT_ATTEMPT": strconv.Itoa(r.Attempt),
		"MANENT_STEP": c.step.Name, "MANENT_STEP_ID": c.record().ID,
	}
	if c.pass != nil {
		v["MANENT_PASS"], v["MANENT_SLOT"], v["MANENT_TRACK"] = c.pass.Name, string(c.candidate()), string(c.candidate())
		v["MANENT_STABLE_VERSION"] = c.pass.Slots.Get(c.candidate().Other()).Version
		v["MANENT_SHARE"] = strconv.FormatFloat(c.pass.Share, 'f', -1, 64)
		v["MANENT_STAGE"] = plan.StageName(c.pass.Name, c.pass.Share)
	}
	return v
}

package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/plan"
	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

// session is one load of the document and what this call does to it.
type session struct {
	e    *Engine
	doc  *state.Document // working copy, written by save
	cfg  config.Config   // pinned
	plan plan.Plan

	objects map[string][]byte // readings that go with the next save
	drop    []string          // prefixes of readings no longer named
	dirty   bool              // the copy differs from what is stored
	leased  bool              // our lease is in the stored document
}

// open loads the document of the environment, waiting for another process
// that works on it, and decodes what the rollout pinned.
func (e *Engine) open(ctx context.Context) (*session, error) {
	doc, took, err := e.await(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{e: e, doc: doc}
	if doc.Rollout == nil {
		return s, nil
	}
	if took {
		s.unsettle("")
	}
	if e.Only != "" && e.Only != doc.Rollout.ID {
		return nil, e.replaced(doc)
	}
	if err := s.unpin(); err != nil {
		return nil, err
	}
	return s, nil
}

// replaced says what became of the rollout that this call was about.
func (e *Engine) replaced(d *state.Document) error {
	reason := "rollout " + e.Only + " is not here any more"
	for _, past := range d.History {
		if past.ID == e.Only {
			reason = fmt.Sprintf("rollout %s of version %s has ended: %s", past.ID, past.Version, past.Status)
			if past.Reason != "" {
				reason += ", " + past.Reason
			}
		}
	}
	r := d.Rollout
	return &HeldError{Reason: fmt.Sprintf("%s; the current one is rollout %s of version %s (%s), begun by %s", reason, r.ID, r.Version, r.Status, whose(r.Owner)),
		Hint: "`manent status` shows it"}
}

// unsettle notes that a call of the named step, or of any step that was found
// begun, may still land: until the longest one is over nothing is raised, and
// nothing that goes the other way is final.
func (s *session) unsettle(step string) {
	until := s.e.World.Now().UTC().Add(CallLimit)
	if l := s.doc.Lease; step == "" && l != nil && (s.doc.Rollout == nil || s.doc.Rollout.Step(l.Step) == nil) && l.Step != RetireStep {
		for i := range s.doc.Passes {
			s.doc.Passes[i].Unsettled, s.dirty = until, true // work that is no step: see Exclusive
		}
	}
	if s.doc.Rollout == nil {
		return
	}
	for _, rec := range s.doc.Rollout.Steps {
		if pass := s.doc.Pass(rec.Pass); pass != nil && rec.State == state.Started && routes(rec.Kind) && (step == "" || rec.Name == step) {
			pass.Unsettled, s.dirty = until, true
		}
	}
	if step != RetireStep && (s.doc.Lease == nil || s.doc.Lease.Step != RetireStep) {
		return
	}
	for i := range s.doc.Passes {
		if s.doc.Passes[i].Retirement != nil {
			s.doc.Passes[i].Unsettled, s.dirty = until, true
		}
	}
}

// routes reports whether a step of this kind writes to the router or changes
// capacity. A deployment that lands late puts the same release into its slot.
func routes(kind string) bool {
	switch plan.Kind(kind) {
	case plan.Traffic, plan.Testers, plan.Promote, plan.Revert:
		return true
	}
	return false
}

// pinned is what a rollout pinned, decoded and planned.
type pinned struct {
	raw    []byte
	digest string
	cfg    config.Config
	plan   plan.Plan
}

// unpin decodes the pinned configuration and plans it. The engine keeps what
// came of the last one: each of its calls opens the same, and only reads it.
func (s *session) unpin() error {
	r, last := s.doc.Rollout, &s.e.pinned
	if last.digest != r.Digest || !bytes.Equal(last.raw, r.Config) {
		cfg, err := s.decode()
		if err != nil {
			return err
		}
		*last = pinned{raw: r.Config, digest: r.Digest, cfg: cfg, plan: plan.Build(cfg, s.e.World.Catalog)}
	}
	s.cfg, s.plan = last.cfg, last.plan
	return s.e.wire(r.Digest, s.cfg)
}

func (s *session) decode() (config.Config, error) {
	cfg, err := config.Unpin(s.doc.Rollout.Config)
	if err != nil {
		return cfg, &UnsureError{Err: fmt.Errorf("rollout %s: %w", s.doc.Rollout.ID, err)}
	}
	if digest, err := checkpoint.Digest(cfg); err != nil || digest != s.doc.Rollout.Digest {
		return cfg, &UnsureError{Err: &providers.Fault{
			Provider: "state", Op: s.doc.Key, Kind: providers.Invalid, Err: errors.New("the pinned configuration is not the one that the rollout began with"),
			Hint: "somebody has edited the state; find out who can write it, then end the rollout by hand at the router",
		}}
	}
	return cfg, nil
}

// wire connects the engine to what the rollout's own configuration names,
// which need not be what the file says by now.
func (e *Engine) wire(digest string, cfg config.Config) error {
	if e.Wire == nil || e.wired == digest {
		return nil
	}
	w, err := e.Wire(cfg)
	if err != nil {
		return &UnsureError{Err: fmt.Errorf("pinned configuration %.12s: %w", digest, err)}
	}
	e.World, e.wired = w, digest
	return nil
}

// await loads the document; while another process holds the lease it waits,
// and after its patience it gives up. The lease lapses by this process's clock.
func (e *Engine) await(ctx context.Context) (*state.Document, bool, error) {
	me, w := *e.lease(""), e.World
	for began := w.Now(); ; {
		doc, err := e.load(ctx)
		if err != nil {
			return nil, false, err
		}
		by, until := checkpoint.Held(doc, me, e.watch.See(doc, w.Now()), w.Now(), w.Process.Alive)
		if by == nil || e.DryRun {
			return doc, doc.Lease != nil, nil
		}
		if end := began.Add(e.patience()); !w.Now().Before(end) || e.NoWait && until.After(end) {
			return nil, false, atWork(doc.Key, by)
		}
		e.doing(atWork(doc.Key, by).Error(), time.Time{})
		if err := w.Sleep(ctx, time.Second); err != nil {
			return nil, false, err
		}
	}
}

// patience is how long a call waits for another process. Without waiting it
// still stays until a dead one's lease has lapsed, which no later call could
// find out any sooner; it leaves at the first sign of life, after which that
// would take longer.
func (e *Engine) patience() time.Duration {
	if e.NoWait {
		return checkpoint.Patience + time.Second
	}
	return LeaseWait
}

func atWork(key string, by *state.Lease) *HeldError {
	return &HeldError{
		Reason: fmt.Sprintf("process %d on %s is at work on %s (%s)", by.PID, by.Host, key, by.Step),
		Hint:   "wait for it; if it is dead, its lease lapses 30 s after its last sign of life",
	}
}

func (e *Engine) load(ctx context.Context) (*state.Document, error) {
	if e.Fresh {
		e.Fresh = false
		return e.State.Last()
	}
	ctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	doc, err := e.State.Load(ctx)
	if err != nil {
		return nil, storeError(err)
	}
	return doc, nil
}

func (e *Engine) lease(step string) *state.Lease {
	p := e.World.Process
	return &state.Lease{ID: p.ID, Owner: p.Owner, Host: p.Host, PID: p.PID, Step: step, Since: e.World.Now().UTC()}
}

// intend takes the lease, together with whatever the copy holds by now, in one
// strict write: if anybody wrote since the copy was read, nothing is done and
// errStale says so. After it, and only then, the world may be changed.
func (s *session) intend(ctx context.Context, step string) error { return s.take(ctx, step, false) }

// intendBack is intend for the way back: a decision that came meanwhile changes
// nothing about it, and the reading that decided must not be lost to it.
func (s *session) intendBack(ctx context.Context, step string) error { return s.take(ctx, step, true) }

func (s *session) take(ctx context.Context, step string, rebase bool) error {
	if ctx.Err() != nil {
		return ctx.Err() // no new write begins after a signal
	}
	s.e.doing(step, time.Time{})
	s.doc.Lease = s.e.lease(step)
	err := s.put(ctx, rebase, "begin "+step)
	s.leased = err == nil
	return err
}

// save records the outcome and gives the lease back. Decisions that people
// added meanwhile are kept.
func (s *session) save(ctx context.Context, note string) error {
	if !s.dirty && !s.leased {
		return nil
	}
	s.doc.Lease = nil
	err := s.put(ctx, true, note)
	if err == nil {
		s.leased = false
	}
	return err
}

// put writes the copy. A signal does not keep it from being written: what was
// done must be recorded, within SignalGrace.
func (s *session) put(ctx context.Context, rebase bool, note string) error {
	return s.putWithin(ctx, CallLimit, rebase, note)
}

func (s *session) putWithin(ctx context.Context, within time.Duration, rebase bool, note string) error {
	ctx, cancel := graceful(ctx, within)
	defer cancel()
	write := s.e.State.Save
	if rebase {
		write = s.e.State.SaveOutcome
	}
	if err := write(ctx, s.doc, note, s.objects, s.drop); err != nil {
		return storeError(err)
	}
	s.objects, s.drop, s.dirty = nil, nil, false
	return nil
}

// attach adds a side object to the next write.
func (s *session) attach(name string, data []byte) {
	if s.objects == nil {
		s.objects = map[string][]byte{}
	}
	s.objects[name] = data
	s.dirty = true
}

// storeError tells a conflict from an answer that never came.
func storeError(err error) error {
	if _, ok := errors.AsType[*checkpoint.Conflict](err); ok {
		return errStale
	}
	return &UnsureError{Step: "state", Err: err}
}

// graceful returns a context for a call that is under way when a signal
// comes: it outlives the signal by SignalGrace, and limit in any case.
func graceful(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(SignalGrace, cancel)
	})
	return out, func() { stop(); cancel() }
}

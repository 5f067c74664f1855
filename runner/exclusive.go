package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/manent/action/runner/plan"
	"github.com/manent/action/state"
)

// Exclusive does what in an environment without an active rollout, under the
// lease that a step takes: no rollout begins or goes on meanwhile, and who
// waits for it is told what holds it. Of what is done the document keeps
// nothing. The lease is given back however it ends, also after a signal and in
// a panic; when it is lost, the context of do ends, with a cause other than
// context.Canceled.
//
// A HeldError says who is at work instead: nothing was done then.
func (e *Engine) Exclusive(ctx context.Context, what string, do func(context.Context, *state.Document) error) error {
	for range staleTries {
		s, err := e.alone(ctx, what)
		if err == nil {
			return s.exclusive(ctx, what, do)
		}
		if !errors.Is(err, errStale) {
			return err
		}
	}
	return &UnsureError{Step: "state", Err: fmt.Errorf("the document changed %d times while this call tried to take the lease", staleTries)}
}

// alone takes the lease, if no rollout is active.
func (e *Engine) alone(ctx context.Context, what string) (*session, error) {
	doc, took, err := e.await(ctx)
	if err != nil {
		return nil, err
	}
	if doc.Active() {
		return nil, heldBy(doc, "a rollout is active")
	}
	s := &session{e: e, doc: doc}
	if took && doc.Rollout != nil {
		s.unsettle("") // the dead process's last call may still land
	}
	return s, s.intend(ctx, what)
}

func (s *session) exclusive(ctx context.Context, what string, do func(context.Context, *state.Document) error) (err error) {
	defer func() {
		if failed := s.save(ctx, what+" has ended"); failed != nil && err == nil {
			err = fmt.Errorf("give the lease back: %w", failed)
		}
	}()
	c := &call{session: s, step: plan.Step{Name: what}}
	return c.during(ctx, func(ctx context.Context) error { return do(ctx, s.doc) })
}

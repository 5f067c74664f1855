package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/runner"
	"github.com/manent/action/state"
)

const exercise = "doctor --exercise"

// waiting is an engine of a process of its own, with real waits in a bubble of
// fake time.
func waiting(s *sim, process int) *runner.Engine {
	e := s.engineOn(s.store.Again(), process)
	e.NoWait = true
	e.World.Now = time.Now
	e.World.Sleep = func(ctx context.Context, d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return e
}

// TestExclusiveKeepsRolloutsOut, for as long as it takes, and lets go also when
// a signal ends it.
func TestExclusiveKeepsRolloutsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, routertest.MemoryOptions{})
		ctx, signal := context.WithCancel(t.Context())
		err := waiting(s, 1).Exclusive(ctx, exercise, func(ctx context.Context, doc *state.Document) error {
			time.Sleep(time.Minute) //nolint:forbidigo // the time is the bubble's
			if l := s.doc().Lease; doc.Rollout != nil || l == nil || l.Step != exercise || l.Beat == 0 {
				t.Errorf("lease %+v, expected one that is renewed", l)
			}
			_, run := waiting(s, 2).Run(t.Context(), runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{NoWait: true})
			second := waiting(s, 3).Exclusive(t.Context(), exercise, func(context.Context, *state.Document) error { return nil })
			for _, err := range []error{run, second} {
				if held, ok := errors.AsType[*runner.HeldError](err); !ok || !strings.Contains(held.Reason, "is at work on shop/shop/prod ("+exercise+")") {
					t.Errorf("error %v, expected who is at work", err)
				}
			}
			signal()
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) || s.doc().Lease != nil {
			t.Errorf("error %v, lease %+v, expected none", err, s.doc().Lease)
		}
		is(t, run(t, s, "v2", runner.RunOptions{Until: "config"}), runner.Reached)
	})
}

// TestExclusiveIsRefused while a rollout is active.
func TestExclusiveIsRefused(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	is(t, run(t, s, "v2", runner.RunOptions{Until: "traffic@5"}), runner.Reached)
	err := s.process().Exclusive(t.Context(), exercise, func(context.Context, *state.Document) error {
		t.Error("it was done")
		return nil
	})
	if held, ok := errors.AsType[*runner.HeldError](err); !ok || !strings.Contains(held.Reason, "is held by rollout ") || held.Hint == "" {
		t.Errorf("error %v, expected who holds it", err)
	}
}

// TestExclusiveLetsGo in a panic, and tells why it failed.
func TestExclusiveLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, routertest.MemoryOptions{})
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_ = waiting(s, 1).Exclusive(t.Context(), exercise, func(context.Context, *state.Document) error { panic("a defect") })
		}()
		if s.doc().Lease != nil {
			t.Errorf("lease %+v after a panic", s.doc().Lease)
		}
		failed := errors.New("it failed")
		if err := waiting(s, 2).Exclusive(t.Context(), exercise, func(context.Context, *state.Document) error { return failed }); !errors.Is(err, failed) || s.doc().Lease != nil {
			t.Errorf("error %v, lease %+v", err, s.doc().Lease)
		}
	})
}

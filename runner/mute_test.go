package runner_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/runner"
)

// TestRunGivesUpOnAMuteRouter: between two tries run waits until the lost call
// can land no more. That wait is no progress, or run would ask for ever.
func TestRunGivesUpOnAMuteRouter(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	writes := 0
	s.mute, s.onWrite = true, func() { writes++ }
	began := s.clock
	out, err := s.process().Run(context.Background(), runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{})
	if _, ok := errors.AsType[*runner.UnsureError](err); !ok {
		t.Fatalf("run ended with %+v, %v after %d writes, expected that it could not tell", out, err, writes)
	}
	if took := s.clock.Sub(began); writes != 8 || took > 10*time.Minute {
		t.Errorf("%d writes in %s, expected 8 in less than ten minutes", writes, took)
	}
}

package runner_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/manent/action/providers/router/routertest"
	storemem "github.com/manent/action/providers/store/memory"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
)

// longCommand runs one command under the lease, with real waits in a bubble of
// fake time, and returns how long the command was let run.
func longCommand(t *testing.T, takes time.Duration, stored func(op string) storemem.Fault) (ran time.Duration, out runner.Outcome, err error) {
	t.Helper()
	s := newSim(t, routertest.MemoryOptions{})
	s.cfg.Steps = []config.Command{{Name: "migrate", At: "initial", Run: "true", Timeout: config.Duration(time.Hour), Rerun: "safe"}}
	handle := s.store.Again()
	handle.Hook = func(op, _ string) storemem.Fault { return stored(op) }
	e := s.engineOn(handle, 1)
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
	e.World.Command = func(ctx context.Context, _ runner.Command) (map[string]string, error) {
		began := time.Now()
		defer func() { ran = time.Since(began) }()
		select {
		case <-time.After(takes):
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	out, err = e.Run(context.Background(), runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{Until: "traffic:prepare"})
	return ran, out, err
}

// TestLongCommandKeepsItsLease: the record changes often enough that nobody
// takes a command of five minutes for dead.
func TestLongCommandKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var puts []time.Time
		ran, out, err := longCommand(t, 5*time.Minute, func(op string) storemem.Fault {
			if op == "put" {
				puts = append(puts, time.Now())
			}
			return storemem.None
		})
		if err != nil || out.Result != runner.Reached || ran != 5*time.Minute {
			t.Fatalf("ran %v, %s, %v", ran, out.Result, err)
		}
		for i := 1; i < len(puts); i++ {
			if gap := puts[i].Sub(puts[i-1]); gap > 15*time.Second {
				t.Errorf("%v without a sign of life", gap)
			}
		}
		if len(puts) < 30 {
			t.Errorf("%d writes in five minutes, expected one every 10 s", len(puts))
		}
	})
}

// TestCommandIsStoppedWhenTheLeaseCannotBeRenewed: another process may take
// over 30 s after the last sign of life; by then the command has ended.
func TestCommandIsStoppedWhenTheLeaseCannotBeRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var puts atomic.Int64
		ran, _, err := longCommand(t, 5*time.Minute, func(op string) storemem.Fault {
			if op == "put" && puts.Add(1) > 4 { // begin, two steps, the command's intent
				return storemem.Refused
			}
			return storemem.None
		})
		if err == nil {
			t.Fatal("no error though the state could not be written")
		}
		if ran < 15*time.Second || ran > 25*time.Second {
			t.Fatalf("the command ran %v, expected to be stopped between 15 s and 25 s", ran)
		}
	})
}

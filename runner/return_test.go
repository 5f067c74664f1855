package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	pluginmem "github.com/manent/action/providers/plugin/memory"
	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/runner"
	"github.com/manent/action/state"
)

// TestReturnAndCapacityOfStable: what the plugin says of stable's slot delays a
// return for a minute at most, unless nothing of stable could serve.
func TestReturnAndCapacityOfStable(t *testing.T) {
	away := &providers.Fault{Provider: "memory", Kind: providers.Unavailable, Err: errors.New("host unreachable")}
	gone := &providers.Fault{Provider: "memory", Kind: providers.NotFound, Err: errors.New("no such deployment")}
	for name, tt := range map[string]struct {
		until  string
		ready  func(share float64) error // what Ready says of stable
		units  int                       // servers of stable that the router sees up, -1 when it does not know; 0 = as they are
		none   bool                      // it sees none
		want   runner.Result
		within time.Duration
		says   string
	}{
		"never wholly ready, and it serves": {until: "gate@traffic@50", ready: func(float64) error { return pluginmem.ErrNotYet },
			want: runner.Failure, within: 70 * time.Second, says: "slot a is not ready: no capacity yet; its weight is written all the same"},
		"nobody can say": {until: "gate@traffic@50", ready: func(float64) error { return away },
			want: runner.Failure, within: 5 * time.Second, says: "whether slot a is ready cannot be told"},
		"no share left, its servers are up": {until: "gate@traffic@100", ready: func(float64) error { return pluginmem.ErrNotYet },
			want: runner.Failure, within: 70 * time.Second, says: "written all the same"},
		"no share left, partly ready": {until: "gate@traffic@100", units: -1, ready: func(share float64) error {
			if share > 90 {
				return pluginmem.ErrNotYet
			}
			return nil
		}, want: runner.Failure, within: 70 * time.Second, says: "written all the same"},
		"gone, and no server is up": {until: "gate@traffic@100", none: true, ready: func(float64) error { return gone },
			want: runner.Unfinished},
		"nobody can say, and no server is up": {until: "gate@traffic@100", none: true, ready: func(float64) error { return away },
			want: runner.Unfinished},
		"no share left, nothing is ready": {until: "gate@traffic@100", units: -1, ready: func(float64) error { return pluginmem.ErrNotYet },
			want: runner.Unfinished},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, routertest.MemoryOptions{})
			is(t, run(t, s, "v2", runner.RunOptions{Until: tt.until}), runner.Reached)
			if tt.units != 0 || tt.none {
				s.router.SetUnits(state.SlotA, tt.units)
			}
			s.slots.Hook(func(_ context.Context, e pluginmem.Event) error {
				if e.Op == pluginmem.Ready && e.Call.Slot == state.SlotA && !e.After {
					return tt.ready(e.Share)
				}
				return nil
			})
			began := s.clock
			out := revert(t, s, tt.want == runner.Unfinished)
			is(t, out, tt.want)
			if tt.want != runner.Failure {
				shares(t, s, "a 0, b 100")
				if !strings.Contains(out.Message, "slot a is") {
					t.Errorf("message %q, want what keeps it", out.Message)
				}
				return
			}
			shares(t, s, "a 100, b 0")
			if took := s.clock.Sub(began); took > tt.within {
				t.Errorf("the return took %s, want %s at most", took, tt.within)
			}
			if all := strings.Join(s.says, "\n"); !strings.Contains(all, tt.says) {
				t.Errorf("said %q, want %q", all, tt.says)
			}
		})
	}
}

// TestReturnIsNotCompleteBesideForeignTraffic: weights as wanted are not all
// when an entry that is in no slot serves, such as a renamed server.
func TestReturnIsNotCompleteBesideForeignTraffic(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	is(t, run(t, s, "v2", runner.RunOptions{Until: "gate@traffic@50"}), runner.Reached)
	s.router.SetUnowned(0, "b-renamed", 100)
	out := revert(t, s, true)
	is(t, out, runner.Unfinished)
	if !strings.Contains(out.Message, "b-renamed") || s.doc().Rollout.Status != state.Returning {
		t.Fatalf("%s with %q, want returning and the entry's name", s.doc().Rollout.Status, out.Message)
	}
	s.router.SetUnowned(0, "b-renamed", 0)
	is(t, revert(t, s, false), runner.Failure)
}

// TestReturnWritesEveryPartBeforeItWaits: a part that comes into force late
// keeps no other one.
func TestReturnWritesEveryPartBeforeItWaits(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{Parts: 2, Lag: 40})
	is(t, run(t, s, "v2", runner.RunOptions{Until: "gate@traffic@50"}), runner.Reached)
	began := s.clock
	is(t, revert(t, s, false), runner.Failure)
	var last time.Time
	for _, c := range s.router.Changes() {
		if c.At.After(began) && c.By == "write" {
			last = c.At
		}
	}
	if last.Sub(began) > time.Second {
		t.Fatalf("the last part was written %s after the first", last.Sub(began))
	}
}

// TestWeightsThatAreInForceNoMore: a gate that finds traffic moved past the
// weights takes no reading; it asks.
func TestWeightsThatAreInForceNoMore(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	is(t, run(t, s, "v2", runner.RunOptions{Until: "gate@traffic@5"}), runner.Reached)
	s.router.SetShare(0, 78)
	s.router.Freeze(true)
	s.router.SetShare(0, 5) // 78 % stay in force
	out := run(t, s, "v2", runner.RunOptions{})
	is(t, out, runner.PausedNow)
	if !strings.Contains(out.Message, "not in force any more: it gives slot b 78 %") {
		t.Fatalf("message %q", out.Message)
	}
	s.router.Freeze(false)
	s.router.SetShare(0, 5)
	is(t, revert(t, s, false), runner.Failure)
}

// revert returns v2; with once it is one call of many after a long time.
func revert(t *testing.T, s *sim, once bool) runner.Outcome {
	t.Helper()
	if s.doc().Rollout.Status != state.Returning {
		decide(t, s, runner.Word{Verb: "revert", Version: "v2"})
	}
	var out runner.Outcome
	for range 20 {
		e := s.process()
		e.NoWait = once
		var err error
		if out, err = e.Back(context.Background()); err != nil {
			t.Fatal(err)
		}
		if out.Result != runner.Unfinished {
			break
		}
		_ = s.sleepAlive(10 * time.Second)
	}
	return out
}

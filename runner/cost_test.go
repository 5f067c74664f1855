package runner_test

import (
	"testing"

	"github.com/manent/action/providers/router/routertest"
	storemem "github.com/manent/action/providers/store/memory"
	"github.com/manent/action/runner"
)

// A step that changes nothing but the document costs one read and one write of
// the state, also as the first of a process that has looked at it before.
func TestStepReadsAndWritesOnce(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	request := runner.Request{Version: "2.0", Config: simConfig()}
	if out, err := s.process().Run(t.Context(), request, runner.RunOptions{Until: "secrets"}); err != nil || out.Result != runner.Reached {
		t.Fatalf("%+v, %v", out, err)
	}
	handle := s.store.Again()
	calls := ""
	handle.Hook = func(op, _ string) storemem.Fault {
		calls += op + " "
		return storemem.None
	}
	s.processes++
	e := s.engineOn(handle, s.processes)
	if _, err := e.State.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.Fresh = true
	if out, err := e.Step(t.Context(), request); err != nil || out.Step != "secrets" {
		t.Fatalf("%+v, %v", out, err)
	}
	if calls != "get put " {
		t.Errorf("the store was called by %q, expected one get and one put", calls)
	}
}

// What somebody wrote after the state was read is not overwritten by a step
// that was told not to read it again.
func TestFreshIsNoMoreThanFresh(t *testing.T) {
	s := newSim(t, routertest.MemoryOptions{})
	request := runner.Request{Version: "2.0", Config: simConfig()}
	if out, err := s.process().Run(t.Context(), request, runner.RunOptions{Until: "traffic@5"}); err != nil || out.Result != runner.Reached {
		t.Fatalf("%+v, %v", out, err)
	}
	slow := s.process()
	if _, err := slow.State.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	slow.Fresh = true
	person := s.process()
	if out, err := person.Step(t.Context(), request); err != nil || out.Step != "traffic@5" {
		t.Fatalf("%+v, %v", out, err)
	}
	if out, err := slow.Step(t.Context(), request); err != nil || out.Step == "traffic@5" {
		t.Fatalf("%+v, %v, expected the step after the one that somebody else has done", out, err)
	}
	if tries := s.doc().Rollout.Step("traffic@5").Tries; tries != 1 {
		t.Errorf("the share was set %d times", tries)
	}
}

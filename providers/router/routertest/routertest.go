// Package routertest is the conformance suite of routers, with an in-memory
// router (Memory) that passes it and a fault-injecting HTTP handler (Faulty)
// for those that talk HTTP. It must not know any system.
//
// A router's test calls Run with a function that gives a Harness: a fresh
// router on a fresh world, and ways to disturb that world. What a world
// cannot do stays nil, and the subtests that need it are not run; Run logs
// their names.
package routertest

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// Calls says which calls to the system a fault hits.
type Calls uint8

// The calls. A write is what changes weights at the system.
const (
	Reads Calls = 1 << iota
	Writes
	All = Reads | Writes
)

// Harness is one fresh world: the stable slot has all the traffic, the
// candidate none, testers are off.
type Harness struct {
	Router router.Router
	Again  func() router.Router // another instance on the same world, as a new process would make it
	Slots  state.Slots          // with Candidate set
	Traits router.Traits        // of the router's Spec

	// Shares are two rising shares between 0 and 100 that this world can
	// reach within Tolerance; default 25 and 50, and 0.5 points.
	Shares    [2]float64
	Tolerance float64

	// Foreign sets the candidate's share of one part (by its place in the
	// reading) to something none of Shares gives, as somebody else would.
	Foreign func(part int)

	// From here on optional.

	Patience time.Duration // how long a change may take to be in force, default 10 s

	// Writes counts the changes of weights that the router made and the
	// system accepted so far; PerPart is how many of them a part takes:
	// default 1, negative if it depends.
	Writes  func() int
	PerPart int

	Touch   func()                              // changes every part's revision and no weight
	Hold    func() (release func())             // what is written from now on is not in force before release
	Unowned func() string                       // all that is not the router's: must never change
	Sneak   func(change func())                 // runs change just before the next write reaches the system
	Serve   func(n int) map[state.Slot]int      // sends n ordinary requests, says who answered
	Probe   func(router.Access) state.Slot      // sends one request as a tester, says who answered
	Down    func(part int) (up func())          // that part does not answer until up
	Secret  string                              // a credential the router uses
	Match   router.Match                        // for a Targeter; default x-canary: always, tag candidate
	Status  func(code int, on Calls)            // the system answers such calls so, and does nothing; 0 ends it
	Hang    func(on Calls) (heal func())        // such calls are not answered
	Cut     func(write int) (heal func())       // the n-th write (from 1) and all calls after it never arrive
	Mute    func(write int) (heal func())       // the n-th write arrives; its answer and all calls after it are lost
	Late    func(write int) (heal, land func()) // as Cut, but the n-th write arrives at land
	Shorten func(on Calls) (heal func())        // answers to such calls are cut off; writes are done
}

// Run runs the suite, each subtest on a fresh world.
func Run(t *testing.T, start func(*testing.T) Harness) {
	t.Helper()
	able := start(t)
	var left []string
	for _, group := range [][]check{readChecks(), writeChecks(), crashChecks(), foreignChecks(), faultChecks(), optionChecks()} {
		for _, c := range group {
			if c.needs != nil && !c.needs(able) {
				left = append(left, c.name)
				continue
			}
			t.Run(c.name, func(t *testing.T) { c.run(newWorld(t, start(t))) })
		}
	}
	if len(left) > 0 {
		t.Logf("not applicable: %s", strings.Join(left, ", "))
	}
}

// check is one subtest; needs says whether a harness can do it, nil for any.
type check struct {
	name  string
	needs func(Harness) bool
	run   func(*world)
}

// world is a harness within a subtest.
type world struct {
	*testing.T
	Harness
	cand state.Slot
}

func newWorld(t *testing.T, h Harness) *world {
	t.Helper()
	if h.Shares == [2]float64{} {
		h.Shares = [2]float64{25, 50}
	}
	if h.Tolerance == 0 {
		h.Tolerance = 0.5
	}
	if h.Patience == 0 {
		h.Patience = 10 * time.Second
	}
	if h.PerPart == 0 {
		h.PerPart = 1
	}
	if h.Match == (router.Match{}) {
		h.Match = router.Match{Header: "x-canary", Value: "always", Tag: "candidate"}
	}
	if h.Router == nil || h.Again == nil || h.Foreign == nil || h.Slots.Candidate == "" {
		t.Fatal("the harness lacks Router, Again, Foreign or Slots.Candidate")
	}
	return &world{T: t, Harness: h, cand: h.Slots.Candidate}
}

// hung is after what time a call counts as one that never ends. It is no
// measure of speed: a call may start several processes, on a machine that has
// other things to do.
const hung = 2 * time.Minute

// ctx bounds one call, so that a router that hangs fails its test.
func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(w.Context(), hung)
	w.Cleanup(cancel)
	return ctx
}

// read reads every part or ends the test.
func (w *world) read() router.Reading {
	w.Helper()
	seen, err := w.Again().Read(w.ctx(), w.Slots)
	if err == nil {
		err = seen.Err()
	}
	if err != nil {
		w.Fatalf("read: %v", err)
	}
	if len(seen.Parts) == 0 {
		w.Fatal("read: no parts and no error")
	}
	return seen
}

// plan gives the weights of a share of the candidate.
func (w *world) plan(share float64, seen router.Reading) []state.PartWeights {
	w.Helper()
	want, achieved, err := planOf(w.Harness, share, w.Tolerance, seen)
	if err != nil {
		w.Fatalf("plan %v %%: %v", share, err)
	}
	if math.Abs(achieved-share) > w.Tolerance {
		w.Fatalf("plan %v %% achieves %v %%, tolerance is %v", share, achieved, w.Tolerance)
	}
	return want
}

func planOf(h Harness, share, tolerance float64, seen router.Reading) ([]state.PartWeights, float64, error) {
	if p, ok := h.Router.(router.Planner); ok {
		return p.Plan(h.Slots.Candidate, share, tolerance, seen)
	}
	step := h.Traits.Step
	if step == 0 {
		step = 1
	}
	return router.Percent(h.Slots.Candidate, share, step, tolerance, seen)
}

// write writes or ends the test.
func (w *world) write(r router.Router, want []state.PartWeights, expect router.Reading) state.Receipt {
	w.Helper()
	receipt, err := r.Write(w.ctx(), w.Slots, want, expect)
	if err != nil {
		w.Fatalf("write %v: %v", want, err)
	}
	return receipt
}

// move reads, plans and writes a share, and checks that it can be read back.
func (w *world) move(share float64) ([]state.PartWeights, state.Receipt) {
	w.Helper()
	seen := w.read()
	want := w.plan(share, seen)
	receipt := w.write(w.Router, want, seen)
	w.at(want)
	return want, receipt
}

// at checks that the world has these weights.
func (w *world) at(want []state.PartWeights) {
	w.Helper()
	if got := w.read().Weights(); !router.SameParts(got, want) {
		w.Errorf("weights %v, want %v", got, want)
	}
}

// writes counts, 0 for a world that cannot.
func (w *world) writes() int {
	if w.Writes == nil {
		return 0
	}
	return w.Writes()
}

// wrote checks that so many parts were changed since before, each once.
func (w *world) wrote(before, parts int) {
	w.Helper()
	if w.Writes == nil {
		return
	}
	got := w.Writes() - before
	if w.PerPart < 0 && parts > 0 {
		if got < parts {
			w.Errorf("%d changes at the system for %d parts", got, parts)
		}
		return
	}
	if want := parts * w.PerPart; got != want {
		w.Errorf("%d changes at the system, want %d", got, want)
	}
}

// kind checks an error's kind and that it tells no secret.
func (w *world) kind(op string, err error, want ...providers.Kind) {
	w.Helper()
	if err == nil {
		w.Errorf("%s: no error, want one of kind %v", op, want)
		return
	}
	w.discreet(op, err)
	for _, k := range want {
		if providers.KindOf(err) == k {
			return
		}
	}
	w.Errorf("%s: kind %v, want %v: %v", op, providers.KindOf(err), want, err)
}

// discreet checks that an error tells no secret and is named.
func (w *world) discreet(op string, err error) {
	w.Helper()
	if err == nil {
		return
	}
	if w.Secret != "" && strings.Contains(err.Error()+providers.HintOf(err), w.Secret) {
		w.Errorf("%s: the error tells the secret", op)
	}
	if strings.Contains(err.Error(), "\n") {
		w.Errorf("%s: the error has several lines: %q", op, err)
	}
}

// settled looks until want is in force, as long as the harness allows.
func (w *world) settled(want []state.PartWeights, receipt state.Receipt) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), w.Patience)
	defer cancel()
	for {
		ok, err := w.Again().Settled(ctx, want, receipt)
		switch {
		case err != nil && ctx.Err() == nil:
			w.Fatalf("settled: %v", err)
		case ok:
			return
		}
		select {
		case <-ctx.Done():
			w.Fatalf("%v was not in force within %v", want, w.Patience)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// parts is how many parts a harness's world has.
func parts(h Harness) int {
	seen, err := h.Router.Read(context.Background(), h.Slots)
	if err != nil {
		return 0
	}
	return len(seen.Parts)
}

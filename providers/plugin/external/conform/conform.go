// Package conform is what a program has to do to be a plugin, as cases that
// can be run against any configured program: by the tests of this project and
// by manent doctor. Where the conformance suites of the contracts plugin and
// router have the same case, it has the same name.
//
// It must not know any program, and nothing of how the results are shown.
package conform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	api "github.com/manent/action/providers/api/external"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/plugin/external"
	"github.com/manent/action/providers/plugin/external/conform/slots"
	"github.com/manent/action/providers/plugin/external/conform/weights"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// Options say what is done with a program.
type Options struct {
	// Exercise runs also the cases that deploy, scale and move traffic. They
	// put the weights back, and retire what they deployed.
	Exercise bool
	Slots    state.Slots // what is in the slots; the free one is found out by reading
	Serving  state.Slot  // the one that serves by the records, "" for none; it is never taken for free
	// Read reads the environment's router if the program is not one; nil
	// without a router.
	Read   func(context.Context, state.Slots) (router.Reading, error)
	Shares [2]float64 // two rising shares that the router can reach; default 25 and 50
	// Tolerance is how far off these may be, points; default 0.5.
	Tolerance float64
	Patience  time.Duration // how long a change may take to be in force, or a slot to be ready; default 1 min
	Poll      time.Duration // between two looks at it; default 1 s
	// Restoring is how long the weights are put back for after a signal, less
	// than a lease lasts that is no longer renewed; default 10 s.
	Restoring time.Duration
}

// Version is what is deployed.
const Version = "manent-conformance"

// NotAsked is why a case is left out without Exercise.
const NotAsked = "it deploys, scales or moves traffic"

// Result is how a case ended.
type Result struct {
	Name    string
	Err     error  // why it failed, nil when it passed or was left out
	LeftOut string // why it was not run, "" when it was
}

// Case is one thing that a program has to do.
type Case struct {
	Name  string
	Needs string // capability, "" for all programs
	Stage Stage

	trait func(external.Settings) bool // needed too; nil for none
	run   func(*bench) error
}

// Stage is what a case does to the environment.
type Stage int

// The stages, in their order.
const (
	looks   Stage = iota // it changes nothing
	fills                // it brings a version into the free slot
	moves                // it moves traffic
	retires              // it moves all traffic away from the slot, and takes the version out
	ends                 // it works on the slot that was retired
)

// Exercises says whether anything is changed.
func (s Stage) Exercises() bool { return s != looks }

// after is the stage without which one makes no sense, and does harm: traffic
// goes to no slot that has no capacity, and nothing is taken from one that may
// have traffic.
func (s Stage) after() Stage {
	return map[Stage]Stage{moves: fills, ends: retires}[s]
}

// Cases are all cases, in the order in which they are run.
func Cases() []Case {
	plans := func(s external.Settings) bool { return s.Plans }
	testers := func(s external.Settings) bool { return s.Testers != "" }
	conditional := func(s external.Settings) bool { return s.Conditional }
	ready := func(s external.Settings) bool { return slices.Contains(s.Capabilities, api.Slots) }
	deploys := func(s external.Settings) bool { return ready(s) && slices.Contains(s.Capabilities, api.Deploys) }
	return []Case{
		{"describes itself as the settings say", "", looks, nil, describes},
		{"refuses a request that it does not know", "", looks, nil, probed((*api.Client).RefusesUnknown)},
		{"refuses another protocol", "", looks, nil, probed((*api.Client).RefusesProtocol)},
		{"what is no request is no success", "", looks, nil, probed((*api.Client).RefusesGarbage)},
		{"a request that is given up ends", "", looks, nil, probed((*api.Client).EndsWhenGivenUp)},
		{"reading is complete and changes nothing", api.Routes, looks, nil, reads(readIsComplete)},
		{"present weights are in force", api.Routes, looks, nil, inForce(weights.PresentInForce)},
		{"weights that are not there are not in force", api.Routes, looks, nil, inForce(weights.AbsentNotInForce)},
		{"plan is monotone and exact at its ends", api.Routes, looks, plans, planned(weights.PlanMonotone)},
		{"plan refuses and names the nearest", api.Routes, looks, plans, planned(weights.PlanRefuses)},
		{"ready tells yes, not yet and no apart", api.Slots, looks, nil, onSlot(slots.ReadyAnswers)},
		{"what serves is ready", api.Routes, looks, ready, reads(servingIsReady)},
		{"deploy again ends in the same place", api.Deploys, fills, nil, onSlot(slots.DeployAgain)},
		{"scale may be repeated", api.Scales, fills, nil, onSlot(slots.ScaleTwice)},
		{"ready after a deployment", api.Slots, fills, nil, onSlot(slots.ReadyInTheEnd)},
		{"its servers are up", api.Routes, fills, nil, serversUp},
		{"write then read", api.Routes, moves, nil, writeThenRead},
		{"write twice is one change", api.Routes, moves, nil, reads(writeTwice)},
		{"as wanted already is no write", api.Routes, moves, nil, asWantedAlready},
		{"zero and hundred", api.Routes, moves, nil, zeroAndHundred},
		{"unknown part is refused", api.Routes, moves, nil, reads(unknownPart)},
		{"foreign change is a conflict", api.Routes, moves, nil, staleWrite},
		{"two writers, one wins", api.Routes, moves, conditional, twoWriters},
		{"testers on and off twice", api.Routes, moves, testers, reads(testersTwice)},
		{"retire may be repeated", api.Scales, retires, nil, retireTwice},
		{"what is retired is not ready", api.Scales, ends, ready, onSlot(slots.RetiredIsNotReady)},
		{"a deployment after a retirement has capacity", api.Scales, ends, deploys, onSlot(slots.DeployAfterRetirement)},
	}
}

// bench is one program under test.
type bench struct {
	context.Context
	opts    Options
	program *external.Program
	bundle  plugin.Bundle
	free    state.Slot
	failed  map[Stage]string // the first case of each that failed
}

// Run runs the cases that the program's settings are about, and reports each.
func Run(ctx context.Context, p *external.Program, opts Options, report func(Result)) {
	b := &bench{Context: ctx, opts: opts.filled(), program: p, bundle: p.Bundle(), free: state.SlotB, failed: map[Stage]string{}}
	start, none := b.begin()
	if none != nil && opts.Exercise {
		report(Result{Name: "a slot is free", Err: none})
	}
	if none == nil && opts.Exercise && b.bundle.Router != nil {
		defer b.end(start, report)
	}
	for _, c := range Cases() {
		if ctx.Err() != nil || !c.about(p.Settings) {
			continue
		}
		r := Result{Name: c.Name, LeftOut: b.leaves(c, none)}
		if r.LeftOut == "" {
			r.Err = c.run(b)
		}
		if r.Err != nil && b.failed[c.Stage] == "" {
			b.failed[c.Stage] = c.Name
		}
		report(r)
	}
}

// leaves says why a case is left out, "" when it is not.
func (b *bench) leaves(c Case, noSlot error) string {
	first := b.failed[c.Stage.after()]
	switch {
	case !c.Stage.Exercises():
		return ""
	case !b.opts.Exercise:
		return NotAsked
	case noSlot != nil:
		return "no slot is free"
	case c.Stage == moves && first != "":
		return fmt.Sprintf("slot %s may have no capacity: %q failed", b.free, first)
	case c.Stage == ends && first != "":
		return fmt.Sprintf("slot %s may not be retired: %q failed", b.free, first)
	}
	return ""
}

func (c Case) about(s external.Settings) bool {
	return (c.Needs == "" || slices.Contains(s.Capabilities, c.Needs)) && (c.trait == nil || c.trait(s))
}

func (o Options) filled() Options {
	o.Shares, o.Tolerance = cmp.Or(o.Shares, [2]float64{25, 50}), cmp.Or(o.Tolerance, 0.5)
	o.Patience, o.Poll, o.Restoring = cmp.Or(o.Patience, time.Minute), cmp.Or(o.Poll, time.Second), cmp.Or(o.Restoring, 10*time.Second)
	return o
}

// read reads every part.
func (b *bench) read() (router.Reading, error) {
	seen, err := b.bundle.Router.Read(b, b.opts.Slots)
	if err == nil {
		err = seen.Err()
	}
	return seen, err
}

// reads is a case that begins with a reading.
func reads(run func(*bench, router.Reading) error) func(*bench) error {
	return func(b *bench) error {
		seen, err := b.read()
		if err != nil {
			return err
		}
		return run(b, seen)
	}
}

// until asks until yes, as long as there is patience.
func (b *bench) until(what string, ask func() (ok bool, why string, err error)) error {
	look, late := time.NewTicker(b.opts.Poll), time.After(b.opts.Patience)
	defer look.Stop()
	for {
		ok, why, err := ask()
		if err != nil || ok {
			return err
		}
		select {
		case <-b.Done():
			return fmt.Errorf("%w: %s", b.Err(), why)
		case <-late:
			return fmt.Errorf("%s within %v: %s", what, b.opts.Patience, why)
		case <-look.C:
		}
	}
}

// settle waits until weights are in force, and reads them back.
func (b *bench) settle(want []state.PartWeights, receipt state.Receipt) (router.Reading, error) {
	err := b.until("the weights were not in force", func() (bool, string, error) {
		ok, err := b.bundle.Router.Settled(b, want, receipt)
		return ok, "settled says no", err
	})
	if err != nil {
		return router.Reading{}, err
	}
	return b.at(want)
}

// at checks what is read.
func (b *bench) at(want []state.PartWeights) (router.Reading, error) {
	seen, err := b.read()
	if err == nil && !router.SameParts(seen.Weights(), want) {
		err = fmt.Errorf("read says %v, expected %v", seen.Weights(), want)
	}
	return seen, err
}

// planner is there in every program's router.
func (b *bench) planner() router.Planner {
	p, _ := b.bundle.Router.(router.Planner)
	return p
}

// move moves the free slot's share, waits for it and reads it back.
func (b *bench) move(share float64) ([]state.PartWeights, router.Reading, error) {
	seen, err := b.read()
	if err != nil {
		return nil, seen, err
	}
	want, _, err := b.planner().Plan(b.free, share, b.opts.Tolerance, seen)
	if err != nil {
		return nil, seen, err
	}
	receipt, err := b.bundle.Router.Write(b, b.opts.Slots, want, seen)
	if err != nil {
		return nil, seen, fmt.Errorf("write %v %%: %w", share, err)
	}
	seen, err = b.settle(want, receipt)
	return want, seen, err
}

// call is one call for the free slot.
func (b *bench) call() plugin.Call {
	return plugin.Call{
		Slot: b.free, StepID: "conformance/deploy", Vars: map[string]string{"MANENT_VERSION": Version, "MANENT_SLOT": string(b.free)},
		Release: state.Release{Version: Version, Ref: state.Ref{state.RefRollout: "conformance"}},
	}
}

// unlike is an answer that should have been another.
func unlike(err error, expected string) error {
	if err == nil {
		return errors.New("it said yes, expected " + expected)
	}
	return fmt.Errorf("%w, expected %s", err, expected)
}

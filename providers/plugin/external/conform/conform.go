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
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// Options say what is done with a program.
type Options struct {
	// Exercise runs also the cases that deploy, scale and move traffic. They
	// put the weights back, and retire what they deployed.
	Exercise bool
	Slots    state.Slots // what is in the slots; the free one is found out by reading
	Shares   [2]float64  // two rising shares that the router can reach; default 25 and 50
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
	Moves bool   // it deploys, scales or moves traffic

	trait func(external.Settings) bool // needed too; nil for none
	run   func(*bench) error
}

// Cases are all cases, in the order in which they are run.
func Cases() []Case {
	plans := func(s external.Settings) bool { return s.Plans }
	testers := func(s external.Settings) bool { return s.Testers != "" }
	conditional := func(s external.Settings) bool { return s.Conditional }
	ready := func(s external.Settings) bool { return slices.Contains(s.Capabilities, api.Slots) }
	deploys := func(s external.Settings) bool { return ready(s) && slices.Contains(s.Capabilities, api.Deploys) }
	return []Case{
		{"describes itself as the settings say", "", false, nil, describes},
		{"refuses a request that it does not know", "", false, nil, probed((*api.Client).RefusesUnknown)},
		{"refuses another protocol", "", false, nil, probed((*api.Client).RefusesProtocol)},
		{"what is no request is no success", "", false, nil, probed((*api.Client).RefusesGarbage)},
		{"a request that is given up ends", "", false, nil, probed((*api.Client).EndsWhenGivenUp)},
		{"reading is complete and changes nothing", api.Routes, false, nil, reads(readIsComplete)},
		{"present weights are in force", api.Routes, false, nil, reads(presentInForce)},
		{"weights that are not there are not in force", api.Routes, false, nil, reads(absentNotInForce)},
		{"plan is monotone and exact at its ends", api.Routes, false, plans, reads(planMonotone)},
		{"plan refuses and names the nearest", api.Routes, false, plans, reads(planRefuses)},
		{"ready tells yes, not yet and no apart", api.Slots, false, nil, readyAnswers},
		{"what serves is ready", api.Routes, false, ready, reads(servingIsReady)},
		{"deploy again ends in the same place", api.Deploys, true, nil, onSlot(slots.DeployAgain)},
		{"scale may be repeated", api.Scales, true, nil, onSlot(slots.ScaleTwice)},
		{"ready after a deployment", api.Slots, true, nil, readyInTheEnd},
		{"write then read", api.Routes, true, nil, writeThenRead},
		{"write twice is one change", api.Routes, true, nil, reads(writeTwice)},
		{"as wanted already is no write", api.Routes, true, nil, asWantedAlready},
		{"zero and hundred", api.Routes, true, nil, zeroAndHundred},
		{"unknown part is refused", api.Routes, true, nil, reads(unknownPart)},
		{"foreign change is a conflict", api.Routes, true, nil, staleWrite},
		{"two writers, one wins", api.Routes, true, conditional, twoWriters},
		{"testers on and off twice", api.Routes, true, testers, reads(testersTwice)},
		{"retire may be repeated", api.Scales, true, nil, retireTwice},
		{"what is retired is not ready", api.Scales, true, ready, onSlot(slots.RetiredIsNotReady)},
		{"a deployment after a retirement has capacity", api.Scales, true, deploys, onSlot(slots.DeployAfterRetirement)},
	}
}

// bench is one program under test.
type bench struct {
	context.Context
	opts    Options
	program *external.Program
	bundle  plugin.Bundle
	free    state.Slot
}

// Run runs the cases that the program's settings are about, and reports each.
func Run(ctx context.Context, p *external.Program, opts Options, report func(Result)) {
	b := &bench{Context: ctx, opts: opts.filled(), program: p, bundle: p.Bundle(), free: state.SlotB}
	moves := opts.Exercise
	start, err := b.begin()
	if err != nil && moves {
		report(Result{Name: "a slot is free", Err: err})
		moves = false
	}
	if moves && b.bundle.Router != nil {
		defer b.end(start, report)
	}
	for _, c := range Cases() {
		if ctx.Err() != nil || !c.about(p.Settings) {
			continue
		}
		r := Result{Name: c.Name}
		switch {
		case c.Moves && !opts.Exercise:
			r.LeftOut = "it deploys, scales or moves traffic"
		case c.Moves && !moves:
			r.LeftOut = "no slot is free"
		default:
			r.Err = c.run(b)
		}
		report(r)
	}
}

// end puts the weights back, also after a signal; not when something else has
// ended the context, as somebody else may be at work by then.
func (b *bench) end(start router.Reading, report func(Result)) {
	if b.Err() != nil {
		if !errors.Is(context.Cause(b), context.Canceled) {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context), b.opts.Restoring)
		defer cancel()
		b.Context = ctx
	}
	report(Result{Name: "the weights are as they were", Err: b.restore(start)})
}

func (c Case) about(s external.Settings) bool {
	return (c.Needs == "" || slices.Contains(s.Capabilities, c.Needs)) && (c.trait == nil || c.trait(s))
}

func (o Options) filled() Options {
	o.Shares, o.Tolerance = cmp.Or(o.Shares, [2]float64{25, 50}), cmp.Or(o.Tolerance, 0.5)
	o.Patience, o.Poll, o.Restoring = cmp.Or(o.Patience, time.Minute), cmp.Or(o.Poll, time.Second), cmp.Or(o.Restoring, 10*time.Second)
	return o
}

// begin finds the free slot: the one without traffic.
func (b *bench) begin() (router.Reading, error) {
	b.opts.Slots.Candidate = b.free
	if b.bundle.Router == nil {
		return router.Reading{}, nil
	}
	seen, err := b.read()
	if err != nil {
		return seen, err
	}
	for _, slot := range []state.Slot{state.SlotB, state.SlotA} {
		if seen.Share(slot) == 0 {
			b.free, b.opts.Slots.Candidate = slot, slot
			return seen, nil
		}
	}
	return seen, fmt.Errorf("both slots have traffic: a %v %%, b %v %%", seen.Share(state.SlotA), seen.Share(state.SlotB))
}

func (b *bench) restore(start router.Reading) error {
	seen, err := b.read()
	if err != nil {
		return err
	}
	receipt, err := b.bundle.Router.Write(b, b.opts.Slots, start.Weights(), seen)
	if err == nil {
		_, err = b.settle(start.Weights(), receipt)
	}
	return err
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
			return b.Err()
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

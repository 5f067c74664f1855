// Package runner is the engine: it loads the rollout's state, decides what is
// next, does that one step and checkpoints. It must not know any provider by
// name, where state lives, or which platform calls it: all of that comes in as
// a World. Nothing is remembered between calls but the document.
package runner

import (
	"context"
	"time"

	"github.com/manent/action/providers/metric"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

// Times of the engine. CallLimit is shorter than a lease's takeover (30 s),
// so that no call of a process that lost its lease is still under way.
const (
	CallLimit   = 20 * time.Second // deadline of one provider call
	ReadyLimit  = 10 * time.Minute // capacity and weights that are not there after it have failed
	SignalGrace = 5 * time.Second  // what a call in flight gets after a signal
	LeaseWait   = 2 * time.Minute  // how long run waits for another process
	BeatEvery   = 10 * time.Second // a lease is renewed so often in a long call
	beatLimit   = 4 * time.Second  // how long a renewal may take
	leaseEnd    = 18 * time.Second // without a renewal for so long, a command is stopped: it ends before a takeover
	pollEvery   = 200 * time.Millisecond
	pollLimit   = time.Minute // a step polls so long before it says "not yet"
	notYetAfter = 5 * time.Second
)

// World is everything the engine touches.
type World struct {
	Router  func(pass string) router.Router // nil result: the build has none for this pass
	Traits  router.Traits
	Plugin  func(pass string) plugin.Bundle
	Metrics map[string]metric.System
	Systems map[string]metric.Traits
	Command func(context.Context, Command) (map[string]string, error)
	Probe   func(context.Context, Probe) (status int, body []byte, err error)
	Secrets func(context.Context) error // resolves every secret of the configuration once

	Now   func() time.Time
	Sleep func(context.Context, time.Duration) error // ends early with the context's error
	Say   func(line string)                          // progress for a person; never secrets
	Doing func(what string, until time.Time)         // what is done or waited for from now on, until when if that is known; may be nil
	NewID func() string                              // unique, short, sortable by time

	Process Process
	Catalog config.Catalog
}

// Process says who this process is, for leases.
type Process struct {
	ID    string // nonce, new for each process
	Owner state.RunRef
	Host  string
	PID   int
	Alive func(pid int) bool // whether a process of this host lives
}

// Command is a user's command to be run.
type Command struct {
	Run     string
	Env     map[string]string // MANENT_* variables
	Timeout time.Duration
}

// Probe is one request of a gate.
type Probe struct {
	URL     string
	Header  map[string]string
	Timeout time.Duration
}

// Engine drives the rollouts of one environment.
type Engine struct {
	State *checkpoint.Session
	World World

	// Wire gives what a configuration names: routers, plugin, metric systems,
	// secrets. It is called with the pinned configuration whenever a rollout is
	// loaded that pins another one than the last; nil keeps World as it is.
	Wire func(config.Config) (World, error)

	DryRun bool // read everything, write nothing
	NoWait bool // never poll or sleep: report "not yet" at once; only a lease is waited for until it lapses

	backOnly bool             // nothing but the way back
	inRun    string           // planned approval that a job of this run answers
	watch    checkpoint.Watch // since when a lease of another process stands still

	// Only is the id of the rollout that may be acted on; another one in its
	// place is a HeldError. Begin sets it to the rollout it began or found.
	Only string

	// Fresh says that State has just read the document: the next look takes
	// what it has instead of reading it again. What has changed since is found
	// by the first write, which is then refused.
	Fresh bool

	wired  string // digest of the configuration that World was wired from
	pinned pinned // of the rollout that was opened last
}

// Result is how one call ended. The results stay apart all the way up to the
// exit codes.
type Result string

// The results.
const (
	Progress   Result = "progress"   // a step was done, another may be due
	Complete   Result = "complete"   // this version serves, read at the router
	Failure    Result = "failed"     // and the return is complete, or stop left it
	NotYet     Result = "not-yet"    // come back at Until
	PausedNow  Result = "paused"     // a decision the plan did not foresee
	Approval   Result = "approval"   // a planned approval is open
	Unfinished Result = "unfinished" // a return the router has not confirmed
	Unsure     Result = "unsure"     // a provider or store did not answer
	Reached    Result = "reached"    // what --until named
)

// Outcome is what one call did.
type Outcome struct {
	Result  Result
	Step    string    // of the plan, or traffic:revert
	Until   time.Time // for NotYet
	Message string    // what was read, decided and why
	Remedy  string

	lost bool // for NotYet: the wait is part of not being able to tell
}

// Package plugin is the contract of how a version is put into a slot. It must
// not know when or why; an implementation keeps nothing between calls: what a
// later process needs is in the release's Ref.
package plugin

import (
	"context"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// Call is what every deployment call is told.
type Call struct {
	Slot    state.Slot
	Release state.Release
	StepID  string            // the same when a step is entered again
	Vars    map[string]string // MANENT_* variables
	Output  func(line string) // takes each line that the deployment prints; may be nil
	Gradual bool              // capacity follows the share by Scale: Deploy begins with the least, and Ready asks for no more than the share needs
}

// Deployer puts a release into a slot. It may be called again with the same
// StepID after a crash and must then end in the same place.
type Deployer interface {
	Deploy(ctx context.Context, call Call) (state.Release, error)
}

// Ready says whether a slot has the capacity for a share of the traffic.
type Ready interface {
	Ready(ctx context.Context, call Call, share float64) (ok bool, reason string, err error)
}

// SlotScaler changes a slot's capacity. Both calls are idempotent. Scale may
// leave more than it was asked for, so that it takes nothing from a slot that
// has traffic.
type SlotScaler interface {
	Scale(ctx context.Context, call Call, share float64) error // capacity for at least this share, percent
	Retire(ctx context.Context, call Call) error               // to nothing
}

// Bundle is what one settings block gives. Deployer may be nil only in a
// plugin that is just a router; the others are optional.
type Bundle struct {
	Deployer Deployer
	Ready    Ready
	Scaler   SlotScaler
	Router   router.Router

	RouterTraits router.Traits // of Router, with these settings

	// Check looks, before a rollout begins, at what the plugin will need and a
	// reading of the router does not show, without changing anything: an
	// error says what is missing. May be nil.
	Check func(ctx context.Context) error

	// CheckSlot does the same for what a deployment into the slot will need
	// there; free is the one that does not serve. May be nil.
	CheckSlot func(ctx context.Context, free state.Slot) error

	// Findings is what doctor says beside its own checks; may be nil.
	Findings func(ctx context.Context) []Finding
}

// Finding is one thing that whoever sets a plugin up should know.
type Finding struct {
	Name string // what was looked at, "rights"
	Text string // what was found
	Hint string // what to do, "" for nothing
	Err  error  // it could not be looked at, and why
	Warn bool   // it is likely to stop a rollout
}

// Traits say what a plugin can do, for documentation. With some it depends on
// the settings: validate and plan build the bundle, which does no I/O, and
// look at its own Traits.
type Traits struct {
	Router bool // brings its own router
	Scales bool // implements SlotScaler
}

// Traits say what a plugin can do with the settings it was built with.
func (b Bundle) Traits() Traits { return Traits{Router: b.Router != nil, Scales: b.Scaler != nil} }

// Spec describes one plugin.
type Spec struct {
	providers.Spec[Bundle]
	Traits  Traits
	Routers []router.Entry // the routers that it can bring, for documentation
}

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

// SlotScaler changes a slot's capacity. Both calls are idempotent.
type SlotScaler interface {
	Scale(ctx context.Context, call Call, share float64) error // capacity for this share, percent
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
	Traits Traits
}

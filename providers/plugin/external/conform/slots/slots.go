// Package slots has the cases of conformance that are about what is in a slot
// and how much of the traffic it could take. It must not know what a router is.
package slots

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/external"
	"github.com/manent/action/providers/plugin"
)

// Bench is a plugin under test and a slot that nobody needs.
type Bench struct {
	context.Context
	Bundle plugin.Bundle
	Call   plugin.Call
	Share  float64 // a share that the slot may be asked for, percent

	// Until asks until yes, as long as there is patience.
	Until func(what string, ask func() (ok bool, why string, err error)) error
}

// DeployAgain is the same step, entered again.
func DeployAgain(b Bench) error {
	first, err := b.Bundle.Deployer.Deploy(b, b.Call)
	if err != nil {
		return err
	}
	second, err := b.Bundle.Deployer.Deploy(b, b.Call)
	if err == nil && !maps.Equal(first.Ref, second.Ref) {
		err = fmt.Errorf("the same step, entered again, returned %v, the first time %v", second.Ref, first.Ref)
	}
	return err
}

// ScaleTwice asks for the same share twice.
func ScaleTwice(b Bench) error {
	for range 2 {
		if err := b.Bundle.Scaler.Scale(b, b.Call, b.Share); err != nil {
			return err
		}
	}
	return nil
}

// ReadyAnswers asks about nothing that has to be there.
func ReadyAnswers(b Bench) error {
	_, _, err := b.Bundle.Ready.Ready(b, b.Call, 0)
	if err != nil && !no(err) {
		return fmt.Errorf("%w, expected ready, not yet with a reason, or a definite no of the program's own", err)
	}
	return nil
}

// no is a definite no that the program itself has said: one that could not be
// asked has said nothing.
func no(err error) bool {
	_, own := errors.AsType[*api.Refusal](err)
	return own && providers.KindOf(err).Definite()
}

// ReadyInTheEnd asks for all of it, which deploy has brought and scale has not
// taken away.
func ReadyInTheEnd(b Bench) error {
	return b.Until("the slot was not ready", func() (bool, string, error) {
		return b.Bundle.Ready.Ready(b, b.Call, 100)
	})
}

// RetiredIsNotReady asks for capacity that is gone: else nobody sees that a slot has no capacity. Whether it
// is up is asked as well, as of what was there before manent.
func RetiredIsNotReady(b Bench) error {
	for _, call := range []plugin.Call{b.Call, b.unversioned()} {
		err := b.Until("the slot still had capacity for all traffic", func() (bool, string, error) {
			ok, _, err := b.Bundle.Ready.Ready(b, call, 100)
			if no(err) {
				return true, "", nil
			}
			return !ok, fmt.Sprintf("ready says yes for version %q, although the slot is retired", call.Release.Version), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// DeployAfterRetirement asks for capacity once more: nothing but deploy brings capacity when it is not
// gradual. The slot is retired again.
func DeployAfterRetirement(b Bench) error {
	deployed := b.Call
	release, err := b.Bundle.Deployer.Deploy(b, deployed)
	deployed.Release = release
	for _, call := range []plugin.Call{deployed, b.unversioned()} {
		if err == nil {
			err = b.Until("deploy brought no capacity for all traffic", func() (bool, string, error) {
				return b.Bundle.Ready.Ready(b, call, 100)
			})
		}
	}
	if gone := b.Bundle.Scaler.Retire(b, b.Call); err == nil {
		err = gone
	}
	return err
}

func (b Bench) unversioned() plugin.Call {
	return plugin.Call{Slot: b.Call.Slot, StepID: "conformance/ready"}
}

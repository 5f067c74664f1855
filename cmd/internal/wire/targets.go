package wire

import (
	"errors"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

// targets are those of a configuration as providers get them.
func targets(configured []config.Target) []providers.Target {
	out := make([]providers.Target, len(configured))
	for i, t := range configured {
		out[i] = providers.Target{Host: t.Host, Port: t.Port, Labels: t.Labels}
	}
	return out
}

// reach asks a router what it can reach. Settings that it cannot be built with
// are found by their own check; what is wrong with them and these targets
// together is found here.
func reach(env providers.Env, s router.Spec) func(map[string]any, []config.Target, string, float64, float64) (float64, string, error) {
	return func(settings map[string]any, configured []config.Target, slot string, share, tolerance float64) (got float64, hint string, err error) {
		if _, err := s.Build(env, settings); err != nil {
			return share, "", nil //nolint:nilerr // said already
		}
		with := env
		with.Targets = targets(configured)
		r, err := s.Build(with, settings)
		if reacher, ok := r.(router.Reacher); ok && err == nil {
			got, err = reacher.Reach(state.Slot(slot), share, tolerance)
		}
		if fault, ok := errors.AsType[*providers.Fault](err); ok {
			return 0, fault.Hint, fault.Err
		}
		return got, "", err
	}
}

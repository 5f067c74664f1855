// Package ci is the contract of the platform whose pipeline calls manent. It
// must not know what a rollout is; it gets text and key-value pairs.
package ci

import (
	"context"

	"github.com/manent/action/providers"
	"github.com/manent/action/state"
)

// Platform is the pipeline's platform.
type Platform interface {
	// Identity says which run this process belongs to.
	Identity(ctx context.Context) (state.RunRef, error)
	// Output hands values to later steps of the pipeline.
	Output(values map[string]string) error
	// Summary shows Markdown where the platform shows a job's result.
	Summary(markdown string) error
	// Annotate shows a message with a level ("error", "warning", "notice").
	Annotate(level, message string) error
	// Mask keeps a value out of everything that the platform prints.
	Mask(secret providers.Secret) error
}

// Spec describes one platform. Detect reports whether this process runs on it.
type Spec struct {
	Name    string
	Summary string
	Detect  func(providers.Env) bool
	New     func(providers.Env) (Platform, error)
}

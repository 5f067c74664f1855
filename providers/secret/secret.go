// Package secret is the contract of where secrets come from. It must not know
// what they are for.
package secret

import (
	"context"

	"github.com/manent/action/providers"
)

// Source resolves references of one scheme.
type Source interface {
	// Resolve returns the secret a reference names, without its scheme
	// ("HAPROXY_CREDENTIALS" for "env:HAPROXY_CREDENTIALS"). A missing or
	// empty secret is NotFound, never "". No error text holds the value.
	Resolve(ctx context.Context, ref string) (providers.Secret, error)
}

// Spec describes one source.
type Spec struct {
	Scheme  string // "env"
	Summary string
	Example string // "env:HAPROXY_CREDENTIALS"
	New     func(providers.Env) (Source, error)
}

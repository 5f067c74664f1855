// Package env takes secrets from environment variables. It must not know
// what they are for.
package env

import (
	"context"
	"errors"
	"fmt"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/secret"
)

var _ secret.Source = (*Source)(nil)

const scheme = "env"

// Spec describes the source.
func Spec() secret.Spec {
	return secret.Spec{
		Scheme: scheme, Summary: "an environment variable of the process", Example: "env:HAPROXY_CREDENTIALS", New: New,
	}
}

// Source reads the process's environment as providers.Env gives it.
type Source struct{ getenv func(string) string }

// New returns the source.
func New(env providers.Env) (secret.Source, error) {
	if env.Getenv == nil {
		return nil, &providers.Fault{Provider: scheme, Kind: providers.Invalid, Err: errors.New("no environment to read")}
	}
	return &Source{getenv: env.Getenv}, nil
}

// Resolve implements secret.Source. The value is taken as it is; a variable
// that is set to nothing counts as missing, as in a shell's ${NAME:?}.
func (s *Source) Resolve(ctx context.Context, ref string) (providers.Secret, error) {
	if err := ctx.Err(); err != nil {
		return providers.Secret{}, fault(ref, providers.Unknown, err, "")
	}
	if !isName(ref) {
		return providers.Secret{}, fault(ref, providers.Invalid,
			errors.New("not the name of a variable, expected letters, digits and _, not a digit first"),
			"a reference is env: and a name, never the secret itself")
	}
	value := s.getenv(ref)
	if value == "" {
		return providers.Secret{}, fault(ref, providers.NotFound, errors.New("not set, or empty"),
			fmt.Sprintf("pass %s to the job that runs manent; a pipeline gives a secret only to jobs that name it", ref))
	}
	return providers.NewSecret(value), nil
}

// fault names the variable only if it is the name of one: somebody may have
// written the secret in its place.
func fault(ref string, kind providers.Kind, err error, hint string) error {
	op := "secret"
	if isName(ref) {
		op = "variable " + ref
	}
	return &providers.Fault{Provider: scheme, Op: op, Kind: kind, Err: err, Hint: hint}
}

// isName reports whether text is a name by POSIX, 1 to 255 bytes long.
func isName(text string) bool {
	for i, c := range []byte(text) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return text != "" && len(text) <= 255
}

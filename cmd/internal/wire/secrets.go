package wire

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/secret"
	"github.com/manent/action/providers/secret/azurekv"
	"github.com/manent/action/providers/secret/env"
	"github.com/manent/action/providers/secret/file"
	"github.com/manent/action/providers/secret/gcpsm"
	"github.com/manent/action/runner/config"
)

// Secrets are the sources of secrets of this build.
func Secrets() []secret.Spec {
	return []secret.Spec{
		env.Spec(),
		file.Spec(),
		gcpsm.Spec(),
		azurekv.Spec(),
	}
}

// secret resolves a secret by its configured name. It is masked before
// anybody else gets it. Nothing is kept: a source may change what it gives.
func (h Host) secret(ctx context.Context, secrets []config.Secret, name string) (providers.Secret, error) {
	i := slices.IndexFunc(secrets, func(s config.Secret) bool { return s.Name == name })
	if i < 0 {
		return providers.Secret{}, &providers.Fault{
			Op: "secret " + name, Kind: providers.NotFound,
			Err: fmt.Errorf("not among the secrets of the configuration"), Hint: "add it to secrets, with its ref",
		}
	}
	scheme, ref, _ := strings.Cut(secrets[i].Ref, ":")
	spec, err := named("secret "+name, scheme, Secrets(), func(s secret.Spec) string { return s.Scheme })
	if err != nil {
		return providers.Secret{}, err
	}
	source, err := spec.New(h.env(nil))
	if err != nil {
		return providers.Secret{}, err
	}
	value, err := source.Resolve(ctx, ref)
	if err != nil {
		return providers.Secret{}, err
	}
	h.Redactor.Add(value)
	return value, h.Mask(value)
}

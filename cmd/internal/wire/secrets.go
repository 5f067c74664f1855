package wire

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/secret"
	"github.com/manent/action/providers/secret/awssm"
	"github.com/manent/action/providers/secret/azurekv"
	"github.com/manent/action/providers/secret/env"
	"github.com/manent/action/providers/secret/file"
	"github.com/manent/action/providers/secret/gcpsm"
	"github.com/manent/action/providers/secret/vault"
	"github.com/manent/action/runner/config"
)

// Secrets are the sources of secrets of this build.
func Secrets() []secret.Spec {
	return []secret.Spec{
		env.Spec(),
		file.Spec(),
		vault.Spec(),
		awssm.Spec(),
		gcpsm.Spec(),
		azurekv.Spec(),
	}
}

// Sources are the sources that this process has made: one that logs in keeps
// its session, so that not every secret takes a login of its own.
type Sources struct {
	mu   sync.Mutex
	made map[string]secret.Source
}

// get returns the source of a spec, made at the first call. Of no Sources it
// is made anew each time.
func (s *Sources) get(spec secret.Spec, env providers.Env) (secret.Source, error) {
	if s == nil {
		return spec.New(env)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if made, ok := s.made[spec.Scheme]; ok {
		return made, nil
	}
	made, err := spec.New(env)
	if err != nil {
		return nil, err
	}
	if s.made == nil {
		s.made = map[string]secret.Source{}
	}
	s.made[spec.Scheme] = made
	return made, nil
}

// secret resolves a secret by its configured name. It is masked before
// anybody else gets it. No value is kept: a source may change what it gives.
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
	source, err := h.Sources.get(spec, h.env(nil))
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

// Package vault takes secrets from the KV engines of HashiCorp Vault. It must
// not know what they are for, nor how one logs in to Vault.
package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/vault"
	"github.com/manent/action/providers/secret"
)

var _ secret.Source = (*Source)(nil)

const scheme = "vault"

// Spec describes the source.
func Spec() secret.Spec {
	return secret.Spec{
		Scheme: scheme, Summary: "a field of a secret in a KV engine of Vault; the path is that of the API, with data/ behind the mount in version 2",
		Example: "vault:secret/data/shop/haproxy#password", New: New,
	}
}

// Source reads Vault.
type Source struct{ vault *api.Client }

// New returns the source. It does no I/O.
func New(env providers.Env) (secret.Source, error) {
	client, err := api.New(env)
	if err != nil {
		return nil, err
	}
	return &Source{vault: client}, nil
}

// Resolve implements secret.Source. A secret of Vault is a set of fields, so
// the field has to be named.
// API: GET v1/<path>, of the KV engines version 1 and 2.
func (s *Source) Resolve(ctx context.Context, ref string) (providers.Secret, error) {
	if err := ctx.Err(); err != nil {
		return providers.Secret{}, fault("secret", providers.Unknown, err, "")
	}
	path, field, given := secret.CutField(ref)
	if !given || path == "" || field == "" {
		return providers.Secret{}, fault("secret", providers.Invalid, errors.New("not a reference, expected PATH#FIELD"),
			"such as secret/data/shop/haproxy#password; a reference is never the secret itself")
	}
	data, err := s.vault.Read(ctx, path)
	if err != nil {
		return providers.Secret{}, err
	}
	value, err := secret.Field(providers.NewSecret(string(fields(data))), field)
	if f, ok := errors.AsType[*providers.Fault](err); ok {
		return providers.Secret{}, fault(fmt.Sprintf("secret %q", path), f.Kind, f.Err, f.Hint)
	}
	return value, err
}

// fields are those of the secret itself. Version 2 of the engine puts them
// into data, beside metadata with the version's number.
func fields(data json.RawMessage) json.RawMessage {
	var v2 map[string]json.RawMessage
	var metadata struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(data, &v2) != nil || len(v2) != 2 || json.Unmarshal(v2["metadata"], &metadata) != nil || metadata.Version < 1 {
		return data
	}
	if inner := v2["data"]; len(inner) > 0 && inner[0] == '{' {
		return inner
	}
	return data
}

func fault(op string, kind providers.Kind, err error, hint string) error {
	return &providers.Fault{Provider: scheme, Op: op, Kind: kind, Err: err, Hint: hint}
}

// Package azurekv takes secrets from Azure's Key Vault. It must not know what
// they are for, nor how one logs in to Azure.
package azurekv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/azure"
	"github.com/manent/action/providers/api/bearer"
	"github.com/manent/action/providers/httpx"
	"github.com/manent/action/providers/secret"
)

var _ secret.Source = (*Source)(nil)

const (
	scheme  = "azure-kv"
	version = "7.4" // of the API, the same in all clouds
	answer  = 256 << 10
)

// Spec describes the source.
func Spec() secret.Spec {
	return secret.Spec{
		Scheme: scheme, Summary: "a secret of a vault of Azure's Key Vault, its current version unless one is named",
		Example: "azure-kv:shop-vault/haproxy#password", New: New,
	}
}

// Source reads key vaults.
type Source struct {
	azure  *bearer.Client
	vaults string // their domain
}

// New returns the source. It does no I/O.
func New(env providers.Env) (secret.Source, error) { return open(env, azure.Options{}) }

func open(env providers.Env, o azure.Options) (secret.Source, error) {
	in, err := azure.CloudOf(env, scheme)
	if err != nil {
		return nil, err
	}
	o.Provider, o.MaxBody = scheme, answer
	client, err := azure.New(env, in, "https://"+in.Vaults, o)
	if err != nil {
		return nil, err
	}
	return &Source{azure: client, vaults: in.Vaults}, nil
}

// Resolve implements secret.Source. The value is taken as it is; with #field
// it is a JSON object and the field is taken. A vault is named without its
// domain, which is the cloud's: so a token goes to no other host.
// API: GET https://VAULT.vault.azure.net/secrets/NAME/VERSION?api-version=7.4.
func (s *Source) Resolve(ctx context.Context, ref string) (providers.Secret, error) {
	if err := ctx.Err(); err != nil {
		return providers.Secret{}, fault("secret", providers.Unknown, err, "")
	}
	r, ok := parse(ref)
	if !ok {
		return providers.Secret{}, fault("secret", providers.Invalid, errors.New("not a reference, expected VAULT/NAME, then /VERSION and #FIELD if wanted"),
			"the vault is named without https:// and without its domain, "+s.vaults+"; a reference is never the secret itself")
	}
	op := fmt.Sprintf("secret %q", r.path())
	var got struct {
		ID    string  `json:"id"`
		Value *string `json:"value"`
	}
	url := fmt.Sprintf("https://%s.%s/secrets/%s/%s?api-version=%s", r.vault, s.vaults, r.name, r.version, version)
	resp, err := s.azure.Send(ctx, httpx.Request{Method: http.MethodGet, URL: url, Into: &got, Op: op})
	switch {
	case err != nil:
		return providers.Secret{}, s.refused(err, resp)
	case got.Value == nil || got.ID == "":
		return providers.Secret{}, s.azure.Unexpected(op, "no id or no value")
	case *got.Value == "":
		return providers.Secret{}, fault(op, providers.NotFound, errors.New("empty"), "set the secret to a value")
	case r.field == "":
		return providers.NewSecret(*got.Value), nil
	}
	value, err := secret.Field(providers.NewSecret(*got.Value), r.field)
	if f, ok := errors.AsType[*providers.Fault](err); ok {
		return providers.Secret{}, fault(op, f.Kind, f.Err, f.Hint)
	}
	return value, err
}

type reference struct{ vault, name, version, field string }

// parse reads a reference by the rules for names.
// https://learn.microsoft.com/azure/key-vault/general/about-keys-secrets-certificates#objects-identifiers-and-versioning
func parse(ref string) (reference, bool) {
	rest, field, given := secret.CutField(ref)
	parts := regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]{1,22}[A-Za-z0-9])/([A-Za-z0-9-]{1,127})(?:/([0-9a-f]{32}))?$`).FindStringSubmatch(rest)
	if parts == nil || (given && field == "") {
		return reference{}, false
	}
	return reference{parts[1], parts[2], parts[3], field}, true
}

func (r reference) path() string {
	return strings.TrimSuffix(r.vault+"/"+r.name+"/"+r.version, "/")
}

// refusal is how Key Vault refuses.
// https://learn.microsoft.com/azure/key-vault/general/rest-error-codes
type refusal struct {
	Error struct {
		Code  string `json:"code"`
		Inner struct {
			Code string `json:"code"`
		} `json:"innererror"`
	} `json:"error"`
}

// refused says what to do about a refusal of the vault's own.
func (s *Source) refused(err error, resp *httpx.Response) error {
	f, ok := errors.AsType[*providers.Fault](err)
	if !ok || resp == nil {
		return err
	}
	var r refusal
	_ = json.Unmarshal(resp.Body, &r) // stays empty
	switch {
	case resp.Status == http.StatusUnauthorized:
		f.Hint = s.challenged(resp.Header.Get("WWW-Authenticate"))
	case f.Kind == providers.Denied && r.Error.Inner.Code == "ForbiddenByFirewall":
		f.Hint = "the vault's firewall does not let the runner's address in"
	case f.Kind == providers.Denied && r.Error.Inner.Code == "SecretDisabled":
		f.Hint = "the secret's version is disabled, or its dates exclude now"
	case f.Kind == providers.Denied:
		f.Hint = "assign the role Key Vault Secrets User on this secret to whom manent logs in as, or with access policies the permission get on secrets"
	case f.Kind == providers.NotFound:
		f.Hint = "is it in this vault, and not deleted?"
	}
	return f
}

// challenged says what a vault asks for that refuses a fresh token: one of
// another tenant, or for another system than a vault. Neither is fetched.
func (s *Source) challenged(header string) string {
	said := func(name string) string {
		found := regexp.MustCompile(name + `="https://([A-Za-z0-9./-]{1,200})"`).FindStringSubmatch(header)
		if found == nil {
			return ""
		}
		return found[1]
	}
	resource, authority := said("resource"), said("authorization")
	switch {
	case resource == "" || authority == "":
		return "the vault refuses a fresh token too and does not say which it takes"
	case resource != s.vaults:
		return fmt.Sprintf("the vault asks for a token for %s, expected %s: is it the right cloud (AZURE_CLOUD)?", resource, s.vaults)
	}
	return "the vault takes tokens of " + authority + ": is that the tenant of AZURE_TENANT_ID?"
}

func fault(op string, kind providers.Kind, err error, hint string) error {
	return &providers.Fault{Provider: scheme, Op: op, Kind: kind, Err: err, Hint: hint}
}

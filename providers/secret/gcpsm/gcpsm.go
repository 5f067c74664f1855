// Package gcpsm takes secrets from Google Cloud's Secret Manager. It must not
// know what they are for, nor how one logs in to Google.
package gcpsm

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"regexp"
	"strconv"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/bearer"
	"github.com/manent/action/providers/api/google"
	"github.com/manent/action/providers/httpx"
	"github.com/manent/action/providers/secret"
)

var _ secret.Source = (*Source)(nil)

const (
	scheme = "gcp-sm"
	api    = "https://secretmanager.googleapis.com/v1/"
	most   = 64 << 10  // bytes of a value; https://cloud.google.com/secret-manager/quotas
	answer = 128 << 10 // bytes of an answer: the value in base64, and names
)

// Spec describes the source.
func Spec() secret.Spec {
	return secret.Spec{
		Scheme: scheme, Summary: "a secret of Google Cloud's Secret Manager, its latest version unless one is named",
		Example: "gcp-sm:projects/shop/secrets/haproxy#password", New: New,
	}
}

// Source reads Secret Manager.
type Source struct{ google *bearer.Client }

// New returns the source. It does no I/O.
func New(env providers.Env) (secret.Source, error) { return open(env, google.Options{}) }

func open(env providers.Env, o google.Options) (secret.Source, error) {
	o.Provider, o.MaxBody = scheme, answer
	client, err := google.New(env, o)
	if err != nil {
		return nil, err
	}
	return &Source{google: client}, nil
}

// Resolve implements secret.Source. The value is taken as it is; with #field
// it is a JSON object and the field is taken.
// API: GET v1/projects/…/secrets/…/versions/…:access.
func (s *Source) Resolve(ctx context.Context, ref string) (providers.Secret, error) {
	if err := ctx.Err(); err != nil {
		return providers.Secret{}, fault("secret", providers.Unknown, err, "")
	}
	path, field, ok := parse(ref)
	if !ok {
		return providers.Secret{}, fault("secret", providers.Invalid, errors.New("not a reference, expected projects/PROJECT/secrets/NAME, then /versions/VERSION and #FIELD if wanted"),
			"a reference is never the secret itself")
	}
	op := fmt.Sprintf("secret %q", path)
	var got access
	resp, err := s.google.Send(ctx, httpx.Request{Method: http.MethodGet, URL: api + path + ":access", Into: &got, Op: op})
	if err != nil {
		return providers.Secret{}, refused(err, resp)
	}
	value, problem := got.value()
	switch {
	case problem != "":
		return providers.Secret{}, s.google.Unexpected(op, problem)
	case value.Empty():
		return providers.Secret{}, fault(op, providers.NotFound, errors.New("empty"), "add a version that holds the secret")
	case field == "":
		return value, nil
	}
	return fieldOf(op, value, field)
}

// parse reads a reference. Projects are named by id or number, secrets by letters, digits,
// - and _, versions by number, by the word latest, or by an alias.
// https://cloud.google.com/secret-manager/docs/reference/rest/v1/projects.secrets
func parse(ref string) (path, field string, ok bool) {
	path, field, given := secret.CutField(ref)
	parts := regexp.MustCompile(`^projects/(?:[a-z0-9][a-z0-9.-]*:)?[a-z0-9][a-z0-9-]*/secrets/[A-Za-z0-9_-]{1,255}(/versions/[A-Za-z0-9_-]{1,63})?$`).FindStringSubmatch(path)
	if parts == nil || (given && field == "") {
		return "", "", false
	}
	if parts[1] == "" {
		path += "/versions/latest"
	}
	return path, field, true
}

// access is the answer to :access.
type access struct {
	Name    string `json:"name"`
	Payload struct {
		Data     string `json:"data"`       // base64
		Checksum string `json:"dataCrc32c"` // CRC-32C of the data, in decimal; absent for data added before Google computed it
	} `json:"payload"`
}

func (a access) value() (value providers.Secret, problem string) {
	data, err := base64.StdEncoding.DecodeString(a.Payload.Data)
	switch {
	case a.Name == "":
		return value, "no name"
	case err != nil:
		return value, "the payload is not base64"
	case len(data) > most:
		return value, fmt.Sprintf("a payload of more than %d bytes", most)
	case a.Payload.Checksum != "" && a.Payload.Checksum != strconv.FormatUint(uint64(crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))), 10):
		return value, "the payload does not match its checksum"
	}
	return providers.NewSecret(string(data)), ""
}

func fieldOf(op string, value providers.Secret, field string) (providers.Secret, error) {
	got, err := secret.Field(value, field)
	if f, ok := errors.AsType[*providers.Fault](err); ok {
		return providers.Secret{}, fault(op, f.Kind, f.Err, f.Hint)
	}
	return got, err
}

// refused says what to do about a refusal of Secret Manager's own.
func refused(err error, resp *httpx.Response) error {
	f, ok := errors.AsType[*providers.Fault](err)
	if !ok || resp == nil {
		return err
	}
	switch {
	case f.Kind == providers.Denied && resp.Status == http.StatusUnauthorized:
		f.Hint = "Google refuses the token, a fresh one too"
	case f.Kind == providers.Denied:
		f.Hint = "grant roles/secretmanager.secretAccessor on this secret to whom manent logs in as; is the API enabled in the project?"
	case f.Kind == providers.NotFound:
		f.Hint = "is the version there? without one the latest is meant; a secret in a region is not supported"
	case google.StatusOf(resp.Body) == "FAILED_PRECONDITION":
		f.Hint = "the version is disabled or destroyed: enable it, or name another"
	}
	return f
}

func fault(op string, kind providers.Kind, err error, hint string) error {
	return &providers.Fault{Provider: scheme, Op: op, Kind: kind, Err: err, Hint: hint}
}

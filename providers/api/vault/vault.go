// Package vault is a client of the part of HashiCorp Vault's HTTP API that
// manent uses, which OpenBao shares: logging in as the pipeline's job, and
// reading. It must not know what is read.
//
// A login gives a token with an end. It is renewed in the last third of its
// life, or when Vault does not extend it, there is another login.
package vault

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/identity"
	"github.com/manent/action/providers/httpx"
)

const (
	name    = "vault"
	maxBody = 2 << 20 // bytes of an answer; Vault's own limit for a secret is about 1 MiB
)

// Client makes calls as one user. It may be used from several goroutines.
type Client struct {
	env       providers.Env
	http      *httpx.Client
	base      string // without a slash at its end
	namespace string
	given     providers.Secret // VAULT_TOKEN
	login     login

	mu    sync.Mutex
	lease lease
}

// New returns a client of the Vault at VAULT_ADDR. The variables are those of
// Vault's own program; VAULT_ROLE and VAULT_AUTH_PATH are of the login, and
// MANENT_VAULT_AUDIENCE is the audience of the job's token, VAULT_ADDR without
// it. It does no I/O.
func New(env providers.Env) (*Client, error) { return newClient(env, httpx.Options{}) }

func newClient(env providers.Env, o httpx.Options) (*Client, error) {
	if env.Getenv == nil {
		env.Getenv = func(string) string { return "" }
	}
	address := env.Getenv("VAULT_ADDR")
	if address == "" {
		return nil, fault("address", providers.Invalid, errors.New("VAULT_ADDR is not set"), "set it to the address of Vault, such as https://vault.example:8200")
	}
	if u, err := providers.CheckURL(address, false); err != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fault("address", providers.Invalid, fmt.Errorf("VAULT_ADDR: %w", cmp.Or(err, errors.New("expected no ? and no #"))), "")
	}
	c := &Client{
		env: env, base: strings.TrimRight(address, "/"), namespace: strings.Trim(env.Getenv("VAULT_NAMESPACE"), "/"),
		given: providers.NewSecret(env.Getenv("VAULT_TOKEN")),
	}
	o.Provider, o.MaxBody, o.CAFile, o.Secrets = name, maxBody, env.Getenv("VAULT_CACERT"), env.Redactor
	c.http = httpx.New(o)
	var err error
	c.login, err = newLogin(env, c.base)
	return c, err
}

// Read returns the data of a path of the API, "secret/data/shop" for
// /v1/secret/data/shop. A token that Vault took back is replaced once.
func (c *Client) Read(ctx context.Context, path string) (json.RawMessage, error) {
	target, err := c.path(path)
	if err != nil {
		return nil, err
	}
	token, err := c.token(ctx)
	if err != nil {
		return nil, err
	}
	data, err := c.read(ctx, target, path, token)
	if providers.KindOf(err) != providers.Denied || !c.given.Empty() {
		return data, err
	}
	if c.drop(token); ctx.Err() != nil {
		return nil, fault(opOf(path), providers.Unknown, ctx.Err(), "")
	}
	if token, err = c.token(ctx); err != nil {
		return nil, err
	}
	return c.read(ctx, target, path, token)
}

func opOf(path string) string { return "read " + path }

func (c *Client) read(ctx context.Context, target, path string, token providers.Secret) (json.RawMessage, error) {
	var answer struct {
		Data json.RawMessage `json:"data"`
	}
	resp, err := c.http.Send(ctx, httpx.Request{Method: http.MethodGet, URL: target, Header: c.header(token), Into: &answer, Op: opOf(path)})
	if err != nil {
		return nil, c.refused(err, resp, path)
	}
	if len(answer.Data) == 0 || answer.Data[0] != '{' {
		return nil, c.http.Unexpected(opOf(path), "no data")
	}
	return answer.Data, nil
}

// path makes the URL of a path. Vault keeps secrets under nearly any name, so
// each segment is escaped; dots would lead elsewhere.
func (c *Client) path(path string) (string, error) {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if s == "" || s == "." || s == ".." || strings.ContainsAny(s, "\x00\r\n?#") {
			return "", fault("read", providers.Invalid, fmt.Errorf("path %.100q, expected one of the API such as secret/data/shop/haproxy, without /v1/", path), "a reference is never the secret itself")
		}
		segments[i] = url.PathEscape(s)
	}
	if len(segments) < 2 || segments[0] == "v1" {
		return "", fault("read", providers.Invalid, fmt.Errorf("path %.100q, expected one of the API such as secret/data/shop/haproxy, without /v1/", path), "a reference is never the secret itself")
	}
	return c.base + "/v1/" + strings.Join(segments, "/"), nil
}

func (c *Client) header(token providers.Secret) http.Header {
	h := http.Header{"X-Vault-Request": {"true"}}
	if !token.Empty() {
		h.Set("X-Vault-Token", token.Reveal())
	}
	if c.namespace != "" {
		h.Set("X-Vault-Namespace", c.namespace)
	}
	return h
}

// refused says what to do about a refusal.
func (c *Client) refused(err error, resp *httpx.Response, path string) error {
	f, ok := errors.AsType[*providers.Fault](err)
	if !ok || resp == nil {
		return err
	}
	switch {
	case f.Kind == providers.Denied && !c.given.Empty():
		f.Hint = "VAULT_TOKEN has expired, or its policies do not allow to read this path; a token that manent takes by VAULT_ROLE is renewed"
	case f.Kind == providers.Denied:
		f.Hint = fmt.Sprintf("the policies of role %q have to allow to read %s", c.login.role, path)
	case f.Kind == providers.NotFound:
		f.Hint = "the path is that of the API: in a KV engine of version 2 data/ follows the mount; is VAULT_NAMESPACE right?"
	}
	return f
}

func fault(op string, kind providers.Kind, err error, hint string) error {
	return &providers.Fault{Provider: name, Op: op, Kind: kind, Err: err, Hint: hint}
}

// job returns the identity of the pipeline's job, and what lacks without one.
func job(env providers.Env) (identity.Source, error) {
	source, ok := identity.From(env)
	if !ok {
		return source, fault("login", providers.Denied, errors.New("neither VAULT_TOKEN nor the identity of a pipeline's job"), "set VAULT_TOKEN, or VAULT_ROLE in a job that has an identity")
	}
	return source, nil
}

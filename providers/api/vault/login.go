package vault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

// lastUse is what a token must still last to be sent at all.
const lastUse = 2 * time.Second

// login is how one gets a token.
type login struct {
	role     string
	path     string // of the auth method, escaped
	audience string
}

func newLogin(env providers.Env, base string) (login, error) {
	l := login{role: env.Getenv("VAULT_ROLE"), audience: cmp.Or(env.Getenv("MANENT_VAULT_AUDIENCE"), base)}
	segments := strings.Split(strings.Trim(cmp.Or(env.Getenv("VAULT_AUTH_PATH"), "jwt"), "/"), "/")
	for i, s := range segments {
		if s == "" || s == "." || s == ".." {
			return l, fault("login", providers.Invalid, fmt.Errorf("VAULT_AUTH_PATH %.100q, expected the mount of the auth method such as jwt", env.Getenv("VAULT_AUTH_PATH")), "")
		}
		segments[i] = url.PathEscape(s)
	}
	l.path = strings.Join(segments, "/")
	return l, nil
}

// lease is a token with its end.
type lease struct {
	token     providers.Secret
	begun     time.Time
	life      time.Duration
	renewable bool
}

func (l lease) end() time.Time { return l.begun.Add(l.life) }

// fresh reports whether the token is in the first two thirds of its life. One
// without an end, as root's are, always is.
func (l lease) fresh() bool {
	return !l.token.Empty() && (l.life == 0 || time.Since(l.begun) < l.life*2/3)
}

func (l lease) usable() bool { return !l.token.Empty() && time.Until(l.end()) > lastUse }

// auth is the part of an answer that holds a token.
type auth struct {
	Auth *struct {
		Token     string `json:"client_token"`
		Seconds   int    `json:"lease_duration"`
		Renewable bool   `json:"renewable"`
	} `json:"auth"`
}

// token returns one to use: VAULT_TOKEN, or the one of the last login while it
// lasts. One that can neither be renewed nor replaced for now is used to its
// end.
func (c *Client) token(ctx context.Context) (providers.Secret, error) {
	if !c.given.Empty() {
		return c.given, c.env.Hide(c.given)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lease.fresh() {
		return c.lease.token, nil
	}
	if err := ctx.Err(); err != nil {
		return providers.Secret{}, fault("login", providers.Unknown, err, "")
	}
	next, err := c.renewed(ctx)
	if err != nil {
		next, err = c.loggedIn(ctx)
	}
	switch {
	case err == nil:
		c.lease = next
		return next.token, nil
	case c.lease.usable() && ctx.Err() == nil:
		return c.lease.token, nil
	}
	return providers.Secret{}, err
}

// drop forgets a token that Vault refuses, unless there is another by now.
func (c *Client) drop(token providers.Secret) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lease.token == token {
		c.lease = lease{}
	}
}

var errKept = errors.New("not to be renewed")

// renewed asks for a longer life. Vault gives less and less towards the most
// that a token may live; then a login gives a new one.
// API: POST auth/token/renew-self.
func (c *Client) renewed(ctx context.Context) (lease, error) {
	if !c.lease.renewable || !c.lease.usable() {
		return lease{}, errKept
	}
	next, err := c.ask(ctx, "renew the token", "auth/token/renew-self", c.lease.token, map[string]string{})
	if err == nil && next.life < c.lease.life/2 {
		return lease{}, errKept
	}
	return next, err
}

// loggedIn logs in with a token of the job.
// API: POST auth/<path>/login of the auth method JWT.
func (c *Client) loggedIn(ctx context.Context) (lease, error) {
	op := "login as " + c.login.role
	if c.login.role == "" {
		return lease{}, fault("login", providers.Denied, errors.New("neither VAULT_TOKEN nor VAULT_ROLE is set"), "set VAULT_ROLE to the role that the job logs in as")
	}
	who, err := job(c.env)
	if err != nil {
		return lease{}, err
	}
	jwt, err := who.Token(ctx, c.login.audience)
	if err != nil {
		return lease{}, &providers.Fault{Provider: name, Op: op, Kind: providers.KindOf(err), Err: err, Hint: providers.HintOf(err)}
	}
	next, err := c.ask(ctx, op, "auth/"+c.login.path+"/login", providers.Secret{}, map[string]string{"role": c.login.role, "jwt": jwt.Reveal()})
	f, ok := errors.AsType[*providers.Fault](err)
	if ok && (f.Kind == providers.Invalid || f.Kind == providers.NotFound || f.Kind == providers.Denied) {
		f.Kind = providers.Denied // Vault says 400 to a role and a token that do not fit
		f.Hint = fmt.Sprintf("is VAULT_ROLE a role of auth method %s, do its bound_claims allow this job and its bound_audiences %q, and is VAULT_NAMESPACE right?", c.login.path, c.login.audience)
	}
	return next, err
}

// ask makes a call that answers with a token. It may be made again: a token
// whose answer was lost ends by itself.
func (c *Client) ask(ctx context.Context, op, path string, token providers.Secret, body map[string]string) (lease, error) {
	var answer auth
	begun := time.Now()
	_, err := c.http.Send(ctx, httpx.Request{
		Method: http.MethodPost, URL: c.base + "/v1/" + path, Header: c.header(token), Body: body, Into: &answer, Op: op, Retry: httpx.RetryAlways,
	})
	if err != nil {
		return lease{}, err
	}
	if answer.Auth == nil || answer.Auth.Token == "" || answer.Auth.Seconds < 0 {
		return lease{}, c.http.Unexpected(op, "no token")
	}
	next := lease{
		token: providers.NewSecret(answer.Auth.Token), begun: begun,
		life: time.Duration(answer.Auth.Seconds) * time.Second, renewable: answer.Auth.Renewable,
	}
	return next, c.env.Hide(next.token)
}

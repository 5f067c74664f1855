// Package bearer makes calls with a short-lived token: it renews the token
// before it expires, and once more when the system says that it is no good.
// It must not know which system that is, nor how one logs in to it.
package bearer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

// early is how long before its end a token is renewed. A service of tokens
// that is down for less than this goes unnoticed.
const early = 5 * time.Minute

// least is what a token must still last to be sent at all.
const least = 10 * time.Second

// Token is what a system gave for an identity.
type Token struct {
	Value   providers.Secret
	Expires time.Time
}

func (t Token) lasts(d time.Duration) bool {
	return !t.Value.Empty() && time.Until(t.Expires) > d
}

// Client makes calls to one system. It may be used from several goroutines.
type Client struct {
	http  *httpx.Client
	fetch func(context.Context) (Token, error)
	hide  func(providers.Secret) error

	turn  chan struct{} // holds one, for who reads or writes token
	token Token
}

// New returns a client; it does no I/O. The fetch gets a new token each time;
// its errors are faults. The hide gets every token before it is used, as
// providers.Env's does.
func New(o httpx.Options, fetch func(context.Context) (Token, error), hide func(providers.Secret) error) *Client {
	return &Client{http: httpx.New(o), fetch: fetch, hide: hide, turn: make(chan struct{}, 1)}
}

// Send makes a call as httpx.Client does. When the system answers 401 it is
// made once more with a new token: one may have been withdrawn, or the clocks
// differ. A call answered so was not carried out, whatever its method.
func (c *Client) Send(ctx context.Context, r httpx.Request) (*httpx.Response, error) {
	token, err := c.current(ctx, providers.Secret{})
	if err != nil {
		return nil, named(r.Op, err)
	}
	resp, err := c.http.Send(ctx, with(r, token))
	if resp == nil || resp.Status != http.StatusUnauthorized {
		return resp, err
	}
	if token, err = c.current(ctx, token); err != nil {
		return nil, named(r.Op, err)
	}
	return c.http.Send(ctx, with(r, token))
}

// Unexpected is httpx's.
func (c *Client) Unexpected(op, what string) error { return c.http.Unexpected(op, what) }

// current returns a token to use: the one there is while it lasts, unless it
// is the refused one.
func (c *Client) current(ctx context.Context, refused providers.Secret) (providers.Secret, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return providers.Secret{}, lost(ctx)
	}
	if !refused.Empty() && refused == c.token.Value {
		c.token = Token{}
	}
	if c.token.lasts(early) {
		return c.token.Value, nil
	}
	fresh, err := c.renew(ctx)
	if err != nil {
		if kind := providers.KindOf(err); !kind.Definite() && ctx.Err() == nil && c.token.lasts(least) {
			return c.token.Value, nil
		}
		return providers.Secret{}, err
	}
	c.token = fresh
	return fresh.Value, nil
}

func (c *Client) renew(ctx context.Context) (Token, error) {
	if ctx.Err() != nil {
		return Token{}, lost(ctx)
	}
	fresh, err := c.fetch(ctx)
	if err != nil {
		return Token{}, err
	}
	if fresh.Value.Empty() {
		return Token{}, &providers.Fault{Kind: providers.Unknown, Err: errors.New("the answer to the login holds no token")}
	}
	return fresh, c.hide(fresh.Value)
}

func lost(ctx context.Context) error {
	return &providers.Fault{Kind: providers.Unknown, Err: fmt.Errorf("no answer: %w", ctx.Err())}
}

func with(r httpx.Request, token providers.Secret) httpx.Request {
	header := http.Header{}
	maps.Copy(header, r.Header)
	header.Set("Authorization", "Bearer "+token.Reveal())
	r.Header = header
	return r
}

// named puts what the token was for in front of a fault of getting one.
func named(op string, err error) error {
	f, ok := errors.AsType[*providers.Fault](err)
	if !ok || op == "" {
		return err
	}
	out := *f
	out.Op = op
	if f.Op != "" {
		out.Op += ": " + f.Op
	}
	return &out
}

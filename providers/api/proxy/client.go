package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

// Client talks to the admin interface of one proxy. Its errors are
// *providers.Fault; a stale revision is a Conflict.
type Client struct {
	http *httpx.Client
	base string
}

// NewClient returns a client of the admin interface at base.
func NewClient(opts httpx.Options, base string) *Client {
	opts.NoRedirects = true // the interface sends none
	return &Client{http: httpx.New(opts), base: strings.TrimSuffix(base, "/")}
}

// State reads the present state.
func (c *Client) State(ctx context.Context) (State, error) {
	return c.call(ctx, httpx.Request{Method: http.MethodGet, URL: c.base + "/v1/state", Op: "read state of " + httpx.CleanURL(c.base)})
}

// SetWeights sets the weights if the state is still at a revision.
func (c *Client) SetWeights(ctx context.Context, weights map[string]float64, revision string) (State, error) {
	return c.put(ctx, "weights", weights, revision)
}

// SetTesters sets the testers' entry if the state is still at a revision.
func (c *Client) SetTesters(ctx context.Context, testers Testers, revision string) (State, error) {
	return c.put(ctx, "testers", testers, revision)
}

func (c *Client) put(ctx context.Context, what string, body any, revision string) (State, error) {
	return c.call(ctx, httpx.Request{
		Method: http.MethodPut, URL: c.base + "/v1/" + what, Body: body,
		Header: http.Header{"If-Match": {`"` + revision + `"`}}, Op: "write " + what + " of " + httpx.CleanURL(c.base),
	})
}

// call asks for a State; one without revision or weights is no answer.
func (c *Client) call(ctx context.Context, r httpx.Request) (State, error) {
	var state State
	r.Into = &state
	if resp, err := c.http.Send(ctx, r); err != nil {
		return State{}, itself(resp, err)
	}
	if _, err := hundredths(state.Weights); err != nil || state.Revision == "" {
		return State{}, c.http.Unexpected(r.Op, "no revision or no usable weights")
	}
	return state, nil
}

// itself leaves a refusal as it is when the admin interface made it, which says
// so in JSON. What something in front of it refuses says nothing about the
// weights: that is Unavailable.
func itself(resp *httpx.Response, err error) error {
	var said struct {
		Error string `json:"error"`
	}
	fault, ok := errors.AsType[*providers.Fault](err)
	if !ok || resp == nil || !fault.Kind.Definite() || json.Unmarshal(resp.Body, &said) == nil && said.Error != "" {
		return err
	}
	return &providers.Fault{
		Provider: fault.Provider, Op: fault.Op, Kind: providers.Unavailable, Err: fmt.Errorf("not an answer of manent proxy: %w", fault.Err),
		Hint: "see what answers at the address of the admin interface in its place",
	}
}

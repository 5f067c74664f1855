package proxy

import (
	"context"
	"net/http"
	"strings"

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
	if _, err := c.http.Send(ctx, r); err != nil {
		return State{}, err
	}
	if _, err := hundredths(state.Weights); err != nil || state.Revision == "" {
		return State{}, c.http.Unexpected(r.Op, "no revision or no usable weights")
	}
	return state, nil
}

package haproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

// send makes a call. Whatever refuses it without being the API (the HTML of a
// proxy in front, a redirect to a login) has not said what the API holds, nor
// who may do what: that is Unavailable.
func (c *Client) send(ctx context.Context, r httpx.Request) (*httpx.Response, error) {
	resp, err := c.http.Send(ctx, r)
	fault, ok := errors.AsType[*providers.Fault](err)
	if !ok || resp == nil || !fault.Kind.Definite() || itself(resp) {
		return resp, err
	}
	return resp, &providers.Fault{
		Provider: fault.Provider, Op: fault.Op, Kind: providers.Unavailable, Err: fmt.Errorf("not an answer of the Data Plane API: %w", fault.Err),
		Hint: "see what answers at dataplane_urls in its place, and whether the URL and api_version are right",
	}
}

// itself reports whether the API refused a call: it says so in JSON, with the
// status again and a message (its specification, object error).
func itself(resp *httpx.Response) bool {
	var said struct {
		Code    *int    `json:"code"`
		Message *string `json:"message"`
	}
	return resp.Status >= http.StatusBadRequest && json.Unmarshal(resp.Body, &said) == nil && said.Code != nil && said.Message != nil
}

func (c *Client) get(ctx context.Context, op, path string, query url.Values, into any) error {
	_, err := c.send(ctx, httpx.Request{Method: http.MethodGet, URL: c.url(path, query), Into: into, Op: op})
	return err
}

// configured reads an object of the configuration, which version 2 wraps.
func (c *Client) configured(ctx context.Context, op, path string, query url.Values, into any) error {
	if c.version == V3 {
		return c.get(ctx, op, path, query, into)
	}
	var wrapped struct {
		Data json.RawMessage `json:"data"`
	}
	if err := c.get(ctx, op, path, query, &wrapped); err != nil {
		return err
	}
	if len(wrapped.Data) == 0 || json.Unmarshal(wrapped.Data, into) != nil {
		return c.http.Unexpected(op, "no data")
	}
	return nil
}

// hint says what to do about an error.
func (c *Client) hint(err error, hint string) error {
	return &providers.Fault{Kind: providers.KindOf(err), Err: err, Hint: hint}
}

// lostSocket is what a failure of anything about the running HAProxy is: as
// the API answers 404 or 400 when it has lost HAProxy's socket, such an answer
// says nothing about a server.
func lostSocket(err error) error {
	switch providers.KindOf(err) {
	case providers.NotFound, providers.Invalid, providers.Unavailable:
		return &providers.Fault{Kind: providers.Unavailable, Err: err,
			Hint: "the Data Plane API does not reach HAProxy's stats socket: see its log and its haproxy settings, and restart it"}
	}
	return err
}

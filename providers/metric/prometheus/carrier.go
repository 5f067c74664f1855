package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/prometheus/client_golang/api"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

var _ api.Client = (*carrier)(nil)

// carrier takes the library's requests to the server through httpx, so that
// they have its retries, limits and faults, and reads answers more strictly
// than the library, which turns a null value into 0.
type carrier struct {
	base    string
	headers map[string]string
	http    *httpx.Client
}

// URL implements api.Client. The two endpoints used have no parameters.
func (c *carrier) URL(endpoint string, _ map[string]string) *url.URL {
	u, err := url.Parse(c.base)
	if err != nil {
		return &url.URL{} // refused by New and, as no address, by httpx
	}
	u.Path = strings.TrimRight(u.Path, "/") + endpoint
	u.RawPath = ""
	return u
}

// Do implements api.Client. The library sees success, the two statuses that
// carry the server's word on a query, and 405, upon which it asks with GET.
func (c *carrier) Do(ctx context.Context, r *http.Request) (*http.Response, []byte, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, nil, err
		}
	}
	for k, v := range c.headers {
		r.Header.Set(k, v)
	}
	resp, err := c.http.Send(ctx, httpx.Request{
		Method: r.Method, URL: r.URL.String(), Header: r.Header, Body: body, Retry: httpx.RetryAlways,
	})
	if resp == nil {
		return nil, nil, err
	}
	switch resp.Status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusMethodNotAllowed:
		return &http.Response{StatusCode: resp.Status}, resp.Body, nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, nil, hinted(err, "token_secret, or username and password_secret, name the credentials")
	case http.StatusNotFound:
		return nil, nil, hinted(err, "url is the address without /api/v1; does it have a path prefix, such as /prometheus?")
	}
	switch {
	case err == nil && resp.Status != http.StatusOK: // 206 is a piece of an answer
		err = unreadable(fmt.Sprintf("status %d, expected 200", resp.Status))
	case err == nil:
		err = strict(resp.Body)
	}
	return &http.Response{StatusCode: http.StatusOK}, resp.Body, err
}

func hinted(err error, hint string) error {
	if f, ok := errors.AsType[*providers.Fault](err); ok && f.Hint == "" {
		f.Hint = hint
	}
	return err
}

// strict refuses an answer that the library would take for something else:
// none at all, text, and a vector whose value is null or missing. It knows
// the library to refuse the same in a matrix and in a scalar.
func strict(body []byte) error {
	var answer struct {
		Status string `json:"status"`
		Data   struct {
			Type   string          `json:"resultType"`
			Result json.RawMessage `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return unreadable("cut off or malformed")
	}
	switch {
	case answer.Status == "error":
		return nil // told by the library
	case answer.Status != "success":
		return unreadable("no status")
	case answer.Data.Type == "string":
		return &providers.Fault{Kind: providers.Invalid, Err: errors.New("result is text, expected a number")}
	case answer.Data.Type != "vector":
		return nil
	}
	var samples []*struct {
		Value     []json.RawMessage `json:"value"`
		Histogram json.RawMessage   `json:"histogram"`
	}
	if err := json.Unmarshal(answer.Data.Result, &samples); err != nil {
		return unreadable("vector of an unknown form")
	}
	for _, s := range samples {
		if s == nil || (s.Histogram == nil && (len(s.Value) != 2 || s.Value[1][0] != '"')) {
			return unreadable("sample without a value")
		}
	}
	return nil
}

func unreadable(why string) error {
	return &providers.Fault{Kind: providers.Unknown, Err: errors.New("unreadable answer: " + why)}
}

package bearer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

// maxSent is the longest request of a login, in bytes.
const maxSent = 1 << 20

// Login carries what a vendor's library sends to get one token. Libraries tell
// errors apart by text, or not at all; a Login remembers what it saw itself.
type Login struct {
	http *httpx.Client
	hide func(providers.Secret) error
	read func(*httpx.Response) Refusal

	fault   *providers.Fault
	expired bool
}

// Refusal is what the answer to a login says besides its status.
type Refusal struct {
	Hint    string
	Expired bool // what was shown had expired: with a new one it may work
}

// NewLogin returns a login. The hide gets a token that is only a step on the
// way to the one that is wanted; the read explains an answer outside 2xx.
func NewLogin(client *httpx.Client, hide func(providers.Secret) error, read func(*httpx.Response) Refusal) *Login {
	return &Login{http: client, hide: hide, read: read}
}

// Do implements the interface that SDKs take in place of an HTTP client.
func (l *Login) Do(r *http.Request) (*http.Response, error) { return l.RoundTrip(r) }

// RoundTrip implements http.RoundTripper. A request for a token may be made
// again: it changes nothing.
func (l *Login) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := sent(r)
	if err != nil {
		return nil, err
	}
	if step, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		if err := l.hide(providers.NewSecret(step)); err != nil {
			l.Failed(err)
			return nil, err
		}
	}
	header := r.Header.Clone()
	header.Del("Content-Length") // httpx says it
	resp, err := l.http.Send(r.Context(), httpx.Request{
		Method: r.Method, URL: r.URL.String(), Header: header, Body: body, Retry: httpx.RetryAlways,
		Op: "login at " + r.URL.Host,
	})
	l.saw(resp, err)
	if resp == nil {
		return nil, err
	}
	resp.Header.Del("Location") // the library's http.Client would follow it, with the job's token in the body
	return &http.Response{
		Status: fmt.Sprintf("%d %s", resp.Status, http.StatusText(resp.Status)), StatusCode: resp.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: resp.Header, Request: r,
		Body: io.NopCloser(bytes.NewReader(resp.Body)), ContentLength: int64(len(resp.Body)),
	}, nil
}

func sent(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer func() { _ = r.Body.Close() }() // read to its end, or of no use
	body, err := io.ReadAll(io.LimitReader(r.Body, maxSent+1))
	if err == nil && len(body) > maxSent {
		err = fmt.Errorf("request of more than %d bytes", maxSent)
	}
	return body, err
}

// saw keeps the last fault; an answer after it lifts it.
func (l *Login) saw(resp *httpx.Response, err error) {
	l.fault, l.expired = nil, false
	if err != nil {
		l.Failed(err)
	}
	if l.fault == nil || resp == nil {
		return
	}
	r := l.read(resp)
	l.expired = r.Expired
	l.fault.Hint = r.Hint
	if l.fault.Kind.Definite() {
		// Whatever the answer is called, it is about who asks.
		l.fault.Kind = providers.Denied
	}
}

// Failed records an error of what the library called back.
func (l *Login) Failed(err error) {
	if f, ok := errors.AsType[*providers.Fault](err); ok {
		seen := *f
		l.fault = &seen
	}
}

// Expired reports whether the login was refused only because what was shown
// had expired.
func (l *Login) Expired() bool { return l.expired }

// Fault is the fault that a library's error stands for. The text of an error
// that nobody saw is left out: it may quote an answer, with the token in it.
func (l *Login) Fault(ctx context.Context, provider string) error {
	switch {
	case l.fault != nil:
		return l.fault
	case ctx.Err() != nil:
		return lost(ctx)
	}
	return &providers.Fault{Provider: provider, Op: "login", Kind: providers.Unknown, Err: errors.New("unexpected answer, of which no token could be read")}
}

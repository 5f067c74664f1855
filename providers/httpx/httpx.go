// Package httpx is the one HTTP client of all providers: a timeout for each
// attempt and for the whole call, bounded retries, bounded bodies, strict TLS,
// and errors that are providers.Fault without a secret in them.
//
// It must not know any system's API; paths, bodies and vendor error codes are
// the provider's.
package httpx

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/manent/action/providers"
)

// Defaults of Options. A whole call stays shorter than the 30 s after which
// another process may take the lease over.
const (
	DefaultTimeout  = 8 * time.Second
	DefaultDeadline = 20 * time.Second
	DefaultRetries  = 2
	DefaultBackoff  = 250 * time.Millisecond
	DefaultMaxBody  = 8 << 20
	userAgent       = "manent"
)

// Options configure a Client; zero values are the defaults above.
type Options struct {
	Provider string        // named in every fault
	Timeout  time.Duration // one attempt, body included
	Deadline time.Duration // no attempt begins later than this after the call began, or ends later
	Retries  int           // attempts after the first; negative for none
	Backoff  time.Duration // before the first retry; doubles with each, with jitter
	MaxBody  int64         // longest answer read, in bytes
	CAFile   string        // PEM file of authorities trusted instead of the system's; read at the first call

	// Auth adds credentials to a request before each attempt. The header
	// values it sets are blanked in error texts.
	Auth func(*http.Request) error

	// Secrets known beyond those Auth sets (in a body, say), blanked in error
	// texts. May be nil.
	Secrets *providers.Redactor

	// NoRedirects makes a redirect the answer, also to a read and within one
	// host: for an API that never sends one, so that it is somebody else's.
	NoRedirects bool

	// Transport carries the requests; nil for verified TLS and the proxy of
	// the environment. CAFile does not apply to it.
	Transport http.RoundTripper
}

// Client makes calls. It may be used from several goroutines.
type Client struct {
	opts Options
	http *http.Client
}

// New returns a client. It does no I/O; a CAFile that cannot be used is an
// Invalid fault of the first call.
func New(opts Options) *Client {
	opts.Timeout = or(opts.Timeout, DefaultTimeout)
	opts.Deadline = or(opts.Deadline, DefaultDeadline)
	opts.Retries = max(or(opts.Retries, DefaultRetries), 0)
	opts.Backoff = or(opts.Backoff, DefaultBackoff)
	opts.MaxBody = or(opts.MaxBody, DefaultMaxBody)
	c := &Client{opts: opts}
	c.http = &http.Client{Transport: newRetrier(opts), CheckRedirect: checkRedirect}
	if opts.NoRedirects {
		c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	return c
}

// RoundTripper is the same transport for a library's client: retries,
// timeouts, credentials, TLS and the rule about redirects. The library sees
// statuses as they came; what was lost on the way is a *providers.Fault.
// Answers are read whole, so it suits no stream.
func (c *Client) RoundTripper() http.RoundTripper { return c.http.Transport }

// Retry says when a call may be made again. A call that surely did not reach
// the system is repeated under Auto whatever its method.
type Retry uint8

// The rules.
const (
	// RetryAuto repeats GET, HEAD and OPTIONS, and PUT and DELETE without
	// If-Match or If-None-Match: the second try of a conditional write that
	// was applied would be refused, and look like somebody else's change.
	RetryAuto Retry = iota
	// RetryAlways is for a POST that only reads.
	RetryAlways
	// RetryNever is for a write made conditional by its path or body.
	RetryNever
)

// Request is one call.
type Request struct {
	Method string
	URL    string
	Header http.Header
	Body   any    // nil; []byte as it is; url.Values as a form; anything else as JSON
	Into   any    // where to decode a JSON answer, nil for nowhere
	Op     string // for faults: "write weights of …"; default is method and URL without query
	Retry  Retry
}

// Response is an answer, read whole.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do sends body as JSON and decodes the answer into into; either may be nil.
func (c *Client) Do(ctx context.Context, method, url string, body, into any) error {
	_, err := c.Send(ctx, Request{Method: method, URL: url, Body: body, Into: into})
	return err
}

// Send makes a call. A status outside 2xx is a fault of the kind that KindOf
// gives, and the response comes with it; every other fault has no response.
// An answer that is cut off, too long or not the expected JSON is Unknown.
func (c *Client) Send(ctx context.Context, r Request) (*Response, error) {
	req, err := c.build(ctx, r)
	if err != nil {
		return nil, err
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return nil, c.lost(r.op(), err)
	}
	defer func() { _ = answer.Body.Close() }() // in memory
	resp := &Response{Status: answer.StatusCode, Header: answer.Header}
	resp.Body, err = readAll(answer.Body, c.opts.MaxBody)
	switch {
	case err != nil:
		return nil, c.fault(r.op(), providers.Unknown, err)
	case resp.Status < 200 || resp.Status > 299:
		return resp, c.refused(r.op(), resp, answer.Request)
	case r.Into == nil || resp.Status == http.StatusNoContent:
		return resp, nil
	}
	if err := json.Unmarshal(resp.Body, r.Into); err != nil {
		return nil, c.fault(r.op(), providers.Unknown, fmt.Errorf("answer of %d bytes is not the expected JSON: %s", len(resp.Body), jsonProblem(err)))
	}
	return resp, nil
}

// Unexpected is the fault of an answer that was read but does not hold what
// it should: Unknown, since nobody can say what the system did.
func (c *Client) Unexpected(op, what string) error {
	return c.fault(op, providers.Unknown, fmt.Errorf("unexpected answer: %s", what))
}

func (c *Client) build(ctx context.Context, r Request) (*http.Request, error) {
	body, contentType, err := encode(r.Body)
	if err != nil {
		return nil, c.fault(r.op(), providers.Invalid, err)
	}
	ctx = context.WithValue(ctx, retryKey{}, r.Retry)
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(body))
	if err != nil || req.URL.Host == "" || (req.URL.Scheme != "http" && req.URL.Scheme != "https") {
		return nil, c.fault(r.op(), providers.Invalid, errors.New("not a usable method or URL"))
	}
	if len(body) == 0 {
		req.Body, req.GetBody, req.ContentLength = http.NoBody, nil, 0
	}
	if r.Header != nil {
		req.Header = r.Header.Clone()
	}
	if contentType != "" && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", contentType)
	}
	if r.Into != nil && req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	return req, nil
}

func encode(body any) (data []byte, contentType string, err error) {
	switch b := body.(type) {
	case nil:
		return nil, "", nil
	case []byte:
		return b, "", nil
	case url.Values:
		return []byte(b.Encode()), "application/x-www-form-urlencoded", nil
	}
	data, err = json.Marshal(body)
	return data, "application/json", err
}

func (r Request) op() string {
	if r.Op != "" {
		return r.Op
	}
	return r.Method + " " + CleanURL(r.URL)
}

// checkRedirect follows redirects of reads only; the transport refuses those
// to another host, so that credentials go nowhere else.
func checkRedirect(_ *http.Request, via []*http.Request) error {
	if m := via[0].Method; (m != http.MethodGet && m != http.MethodHead) || len(via) > 5 {
		return http.ErrUseLastResponse
	}
	return nil
}

// newTransport is the default transport, with the authorities of caFile.
func newTransport(caFile string) (http.RoundTripper, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file %s holds no PEM certificate", caFile)
		}
	}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSClientConfig:        conf,
		TLSHandshakeTimeout:    5 * time.Second,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 1 << 20,
	}, nil
}

// CleanURL returns a URL without credentials, query and fragment, for texts.
func CleanURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "a malformed URL"
	}
	clean := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if u.RawQuery != "" {
		return clean.String() + "?…"
	}
	return clean.String()
}

func jsonProblem(err error) string {
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		return fmt.Sprintf("%q is a %s", typ.Field, strings.SplitN(typ.Value, " ", 2)[0])
	}
	return "cut off or malformed"
}

func or[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

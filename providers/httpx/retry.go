package httpx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/manent/action/providers"
)

type retryKey struct{}

// retrier is the transport: it makes the attempts of one call.
type retrier struct {
	opts Options
	base func() (http.RoundTripper, error)
}

func newRetrier(opts Options) *retrier {
	base := func() (http.RoundTripper, error) { return opts.Transport, nil }
	if opts.Transport == nil {
		base = sync.OnceValues(func() (http.RoundTripper, error) { return newTransport(opts.CAFile) })
	}
	return &retrier{opts: opts, base: base}
}

// RoundTrip implements http.RoundTripper.
func (t *retrier) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer func() { _ = req.Body.Close() }() // what is sent is GetBody's copy
	}
	if from := req.Response; from != nil && !sameOrigin(from.Request, req) {
		return nil, t.fault(providers.Invalid, fmt.Errorf("redirected to %s, which is not followed", req.URL.Host))
	}
	base, err := t.base()
	if err != nil {
		return nil, t.fault(providers.Invalid, err)
	}
	began := time.Now()
	for try := 0; ; try++ {
		left := t.opts.Deadline - time.Since(began)
		resp, err := t.attempt(base, req, min(t.opts.Timeout, left))
		if try >= t.opts.Retries || !again(req, resp, err) {
			return resp, err
		}
		wait := t.pause(try, resp)
		if time.Since(began)+wait >= t.opts.Deadline || !sleep(req.Context(), wait) {
			return resp, err
		}
	}
}

// attempt sends the request once and reads the answer whole, so that the
// timeout covers the body.
func (t *retrier) attempt(base http.RoundTripper, req *http.Request, timeout time.Duration) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), timeout)
	defer cancel()
	out := req.Clone(ctx)
	out.Response = nil
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, t.fault(providers.Invalid, err)
		}
		out.Body = body
	}
	if out.Header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", userAgent)
	}
	if t.opts.Auth != nil {
		if err := t.opts.Auth(out); err != nil {
			return nil, err
		}
	}
	resp, err := base.RoundTrip(out)
	if err != nil {
		return nil, t.network(req.Context(), ctx, timeout, err)
	}
	resp.Request = out // as sent: what Auth set is known to be secret
	return t.slurp(req.Context(), ctx, timeout, resp)
}

func (t *retrier) slurp(caller, attempt context.Context, timeout time.Duration, resp *http.Response) (*http.Response, error) {
	data, err := readAll(resp.Body, t.opts.MaxBody)
	_ = resp.Body.Close()
	if errors.Is(err, errTooLong) {
		return nil, t.fault(providers.Unknown, err)
	}
	if err != nil {
		return nil, t.network(caller, attempt, timeout, fmt.Errorf("answer cut off after %d bytes: %w", len(data), err))
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp, nil
}

// again reports whether another attempt may help and can do no harm.
func again(req *http.Request, resp *http.Response, err error) bool {
	if req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
		return false // the body is used up
	}
	switch {
	case req.Context().Err() != nil:
		return false
	case err != nil && unsent(err):
		return true
	case err != nil:
		return repeatable(req) && errors.Is(err, errNetwork)
	}
	return repeatable(req) && (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500)
}

func repeatable(req *http.Request) bool {
	switch rule, _ := req.Context().Value(retryKey{}).(Retry); rule {
	case RetryAlways:
		return true
	case RetryNever:
		return false
	}
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	case http.MethodPut, http.MethodDelete:
		return req.Header.Get("If-Match") == "" && req.Header.Get("If-None-Match") == ""
	}
	return false
}

// pause is the wait before the next attempt: what the system asks for, else
// the doubled backoff with up to half of it as jitter.
func (t *retrier) pause(try int, resp *http.Response) time.Duration {
	if resp != nil {
		if asked := retryAfter(resp.Header); asked > 0 {
			return asked
		}
	}
	wait := t.opts.Backoff << min(try, 10)
	return wait + rand.N(wait/2+1) //nolint:gosec // jitter is no secret
}

// retryAfter reads the header of that name: seconds or a date.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, 0), 24*3600)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(time.Until(at), 0), 24*time.Hour)
	}
	return 0
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func sameOrigin(a, b *http.Request) bool {
	return a != nil && a.URL.Scheme == b.URL.Scheme && a.URL.Host == b.URL.Host
}

var errTooLong = errors.New("answer too long")

func readAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", errTooLong, limit)
	}
	return data, err
}

package httpx

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/manent/action/providers"
)

const secret = "s3cr3t-t0ken"

// tripFunc is a transport without a network.
type tripFunc func(*http.Request) (*http.Response, error)

func (f tripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, header http.Header, body string) *http.Response {
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body))}
}

func bearer(r *http.Request) error {
	r.Header.Set("Authorization", "Bearer "+secret)
	return nil
}

func TestStatusBecomesKind(t *testing.T) {
	tests := map[int]providers.Kind{
		301: providers.Invalid, 400: providers.Invalid, 401: providers.Denied, 403: providers.Denied,
		404: providers.NotFound, 408: providers.Unavailable, 409: providers.Conflict, 410: providers.NotFound,
		412: providers.Conflict, 422: providers.Invalid, 429: providers.Throttled, 500: providers.Unavailable,
		502: providers.Unavailable, 503: providers.Unavailable, 504: providers.Unavailable,
	}
	for status, want := range tests {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(status)
				_, _ = fmt.Fprintf(w, "no: %s\nsecond ::error:: line", r.Header.Get("Authorization"))
			})
			resp, err := New(Options{Provider: "sys", Retries: -1, Auth: bearer}).
				Send(t.Context(), Request{Method: "GET", URL: srv.URL + "/x?key=" + secret})
			if got := providers.KindOf(err); got != want {
				t.Errorf("kind %v, want %v (%v)", got, want, err)
			}
			if resp == nil || resp.Status != status {
				t.Errorf("response %+v, want status %d with the fault", resp, status)
			}
			if text := err.Error(); strings.Contains(text, secret) || strings.Contains(text, "\n") || !strings.HasPrefix(text, "sys: GET http://") {
				t.Errorf("text %q", text)
			}
		})
	}
}

func TestDecodesAndSends(t *testing.T) {
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || string(body) != `{"n":1}` || r.Header.Get("Content-Type") != "application/json" || r.UserAgent() != userAgent {
			t.Errorf("got %s %s %v", r.Method, body, r.Header)
		}
		_, _ = fmt.Fprint(w, `{"n":2}`)
	})
	var into struct{ N int }
	if err := New(Options{}).Do(t.Context(), "POST", srv.URL, map[string]int{"n": 1}, &into); err != nil || into.N != 2 {
		t.Errorf("n %d, error %v", into.N, err)
	}
}

func TestFormAndEmptyAnswer(t *testing.T) {
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("query") != "a&b" {
			t.Errorf("form %v", r.PostForm)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	into := map[string]any{}
	if err := New(Options{}).Do(t.Context(), "POST", srv.URL, url.Values{"query": {"a&b"}}, &into); err != nil {
		t.Error(err)
	}
}

func TestUnreadableAnswersAreUnknown(t *testing.T) {
	tests := map[string]string{
		"truncated": "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{\"n\":",
		"malformed": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{\"n\":",
		"two":       "HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{\"N\":1}{\"N\":2}",
		"behind it": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"N\":1}\nx",
		"empty":     "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"too long":  "HTTP/1.1 200 OK\r\nContent-Length: 80\r\n\r\n" + strings.Repeat("1", 80),
		"wrong":     "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"N\":\"x\"}",
		"no answer": "",
	}
	for name, raw := range tests {
		t.Run(name, func(t *testing.T) {
			srv := serve(t, func(w http.ResponseWriter, _ *http.Request) { hijack(t, w, raw) })
			var into struct{ N int }
			err := New(Options{Provider: "sys", Retries: -1, MaxBody: 60}).Do(t.Context(), "POST", srv.URL, nil, &into)
			if err == nil || providers.KindOf(err) != providers.Unknown || providers.Lost(err) {
				t.Errorf("error %v of kind %v, lost %v", err, providers.KindOf(err), providers.Lost(err))
			}
		})
	}
}

// TestRetries counts attempts and, in a bubble, the time they took.
func TestRetries(t *testing.T) {
	lost := errors.New("connection reset by peer")
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	cond := http.Header{"If-Match": {"1"}}
	tests := []struct {
		name     string
		req      Request
		status   int
		header   http.Header
		err      error
		attempts int
		least    time.Duration
		kind     providers.Kind
	}{
		{name: "read 500", req: Request{Method: "GET"}, status: 500, attempts: 3, least: 750 * time.Millisecond, kind: providers.Unavailable},
		{name: "read 429 with delay", req: Request{Method: "GET"}, status: 429, header: http.Header{"Retry-After": {"3"}}, attempts: 3, least: 6 * time.Second, kind: providers.Throttled},
		{name: "read 429 beyond the deadline", req: Request{Method: "GET"}, status: 429, header: http.Header{"Retry-After": {"60"}}, attempts: 1, kind: providers.Throttled},
		{name: "read lost", req: Request{Method: "GET"}, err: lost, attempts: 3, kind: providers.Unknown},
		{name: "read 404", req: Request{Method: "GET"}, status: 404, attempts: 1, kind: providers.NotFound},
		{name: "put lost", req: Request{Method: "PUT", Body: 1}, err: lost, attempts: 3, kind: providers.Unknown},
		{name: "conditional put lost", req: Request{Method: "PUT", Body: 1, Header: cond}, err: lost, attempts: 1, kind: providers.Unknown},
		{name: "conditional put refused at the door", req: Request{Method: "PUT", Body: 1, Header: cond}, err: refused, attempts: 3, kind: providers.Unavailable},
		{name: "put made conditional otherwise", req: Request{Method: "PUT", Retry: RetryNever}, err: lost, attempts: 1, kind: providers.Unknown},
		{name: "post lost", req: Request{Method: "POST"}, err: lost, attempts: 1, kind: providers.Unknown},
		{name: "post 503", req: Request{Method: "POST"}, status: 503, attempts: 1, kind: providers.Unavailable},
		{name: "post that reads", req: Request{Method: "POST", Body: 1, Retry: RetryAlways}, status: 503, attempts: 3, kind: providers.Unavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts, bodies := 0, 0
				trip := tripFunc(func(r *http.Request) (*http.Response, error) {
					attempts++
					if data, _ := io.ReadAll(r.Body); len(data) > 0 {
						bodies++
					}
					if tt.err != nil {
						return nil, tt.err
					}
					return answer(tt.status, tt.header, ""), nil
				})
				began := time.Now()
				tt.req.URL = "http://127.0.0.1/"
				_, err := New(Options{Transport: trip}).Send(t.Context(), tt.req)
				if attempts != tt.attempts || providers.KindOf(err) != tt.kind {
					t.Errorf("%d attempts, kind %v, want %d, %v (%v)", attempts, providers.KindOf(err), tt.attempts, tt.kind, err)
				}
				if tt.req.Body != nil && bodies != attempts {
					t.Errorf("%d bodies in %d attempts", bodies, attempts)
				}
				if took := time.Since(began); took < tt.least || took > DefaultDeadline {
					t.Errorf("took %v, want at least %v", took, tt.least)
				}
			})
		})
	}
}

func TestRetryAfterReachesTheFault(t *testing.T) {
	trip := tripFunc(func(*http.Request) (*http.Response, error) {
		return answer(429, http.Header{"Retry-After": {"90"}}, ""), nil
	})
	err := New(Options{Transport: trip}).Do(t.Context(), "GET", "http://127.0.0.1/", nil, nil)
	f, ok := errors.AsType[*providers.Fault](err)
	if !ok || f.After != 90*time.Second {
		t.Errorf("fault %+v, want After 90s", f)
	}
}

// TestTimes tells the attempt's timeout, the deadline and the caller's
// context apart: only the last is the caller's.
func TestTimes(t *testing.T) {
	silent := tripFunc(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	tests := []struct {
		name   string
		limit  time.Duration // of the caller
		method string
		took   time.Duration
		lost   bool
	}{
		{"attempts", time.Hour, "POST", 8 * time.Second, false},
		{"deadline", time.Hour, "GET", 20 * time.Second, false},
		{"caller", 3 * time.Second, "GET", 3 * time.Second, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
				defer cancel()
				began := time.Now()
				err := New(Options{Transport: silent}).Do(ctx, tt.method, "http://127.0.0.1/", nil, nil)
				if took := time.Since(began); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
				if providers.KindOf(err) != providers.Unknown || providers.Lost(err) != tt.lost {
					t.Errorf("error %v, kind %v, lost %v, want unknown, lost %v", err, providers.KindOf(err), providers.Lost(err), tt.lost)
				}
			})
		})
	}
}

func TestRedirects(t *testing.T) {
	other := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the other host was called") })
	var auth atomic.Int32
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer "+secret {
			auth.Add(1)
		}
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL+"/?t="+secret, http.StatusTemporaryRedirect)
		case "/near":
			http.Redirect(w, r, "/end", http.StatusFound)
		}
	})
	c := New(Options{Provider: "sys", Auth: bearer, Retries: -1})
	if err := c.Do(t.Context(), "GET", srv.URL+"/near", nil, nil); err != nil || auth.Load() != 2 {
		t.Errorf("error %v, %d calls with credentials, want 2", err, auth.Load())
	}
	for _, method := range []string{"GET", "PUT"} {
		err := c.Do(t.Context(), method, srv.URL+"/away", nil, nil)
		if providers.KindOf(err) != providers.Invalid || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "not followed") {
			t.Errorf("%s: %v", method, err)
		}
	}
	if err := c.Do(t.Context(), "POST", srv.URL+"/near", nil, nil); providers.KindOf(err) != providers.Invalid {
		t.Errorf("redirected write: %v, want it not followed", err)
	}
	before := auth.Load()
	resp, err := New(Options{Auth: bearer, NoRedirects: true}).Send(t.Context(), Request{Method: "GET", URL: srv.URL + "/near"})
	if resp == nil || resp.Status != http.StatusFound || err == nil || auth.Load() != before+1 {
		t.Errorf("response %+v, error %v, %d calls, want the redirect itself", resp, err, auth.Load()-before)
	}
}

func TestTLS(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are the test
	srv.StartTLS()
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	tests := []struct {
		name, file string
		kind       providers.Kind
		hint       bool
	}{
		{"not trusted", "", providers.Unavailable, true},
		{"no certificate in it", write("empty.pem", []byte("x")), providers.Invalid, false},
		{"no file", filepath.Join(dir, "none"), providers.Invalid, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := New(Options{CAFile: tt.file}).Do(t.Context(), "GET", srv.URL, nil, nil)
			if err == nil || providers.KindOf(err) != tt.kind || (providers.HintOf(err) != "") != tt.hint {
				t.Errorf("error %v, kind %v, hint %q", err, providers.KindOf(err), providers.HintOf(err))
			}
		})
	}
	if err := New(Options{CAFile: good}).Do(t.Context(), "GET", srv.URL, nil, nil); err != nil {
		t.Errorf("trusted: %v", err)
	}
}

// TestEchoedSecrets: nothing a system echoes brings a secret into a text.
func TestEchoedSecrets(t *testing.T) {
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprint(w, strings.Repeat("x", 230), password, r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"), " body-secret")
	})
	var known providers.Redactor
	known.Add(providers.NewSecret("body-secret"))
	auth := func(r *http.Request) error {
		r.SetBasicAuth("me", secret)
		r.Header.Set("X-Api-Key", "key-"+secret)
		return nil
	}
	err := New(Options{Auth: auth, Secrets: &known}).Do(t.Context(), "GET", srv.URL, nil, nil)
	for _, bad := range []string{"s3cr", "key-", "body-s", "Basic "} {
		if strings.Contains(err.Error(), bad) {
			t.Errorf("%q in %q", bad, err)
		}
	}
}

func TestRefusesBadCalls(t *testing.T) {
	c := New(Options{Provider: "sys"})
	for name, r := range map[string]Request{
		"scheme": {Method: "GET", URL: "file:///etc/passwd"},
		"no URL": {Method: "GET", URL: "http://u:" + secret + "@%zz/"},
		"body":   {Method: "PUT", URL: "http://127.0.0.1/", Body: func() {}},
		"method": {Method: "G T", URL: "http://127.0.0.1/"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.Send(t.Context(), r)
			if providers.KindOf(err) != providers.Invalid || strings.Contains(err.Error(), secret) {
				t.Errorf("error %v, kind %v, want invalid", err, providers.KindOf(err))
			}
		})
	}
}

func TestAuthFailure(t *testing.T) {
	denied := &providers.Fault{Provider: "env", Kind: providers.NotFound, Err: errors.New("no such secret")}
	err := New(Options{Provider: "sys", Auth: func(*http.Request) error { return denied }}).
		Do(t.Context(), "GET", "http://127.0.0.1:1/", nil, nil)
	if providers.KindOf(err) != providers.NotFound {
		t.Errorf("error %v, kind %v, want the one of the secret", err, providers.KindOf(err))
	}
}

// TestRoundTripper: a library's client gets retries, faults and the rule
// about redirects.
func TestRoundTripper(t *testing.T) {
	calls := 0
	trip := tripFunc(func(r *http.Request) (*http.Response, error) {
		if calls++; calls == 1 {
			return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		}
		return answer(307, http.Header{"Location": {"http://127.0.0.2/"}}, ""), nil
	})
	lib := &http.Client{Transport: New(Options{Transport: trip, Auth: bearer, Backoff: 1}).RoundTripper()}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := lib.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	if calls != 2 || providers.KindOf(err) != providers.Invalid {
		t.Errorf("%d calls, error %v, want 2 and the redirect refused", calls, err)
	}
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

// hijack sends raw bytes and closes the connection.
func hijack(t *testing.T, w http.ResponseWriter, raw string) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, raw); err != nil {
		t.Error(err)
	}
}

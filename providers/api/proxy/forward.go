package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"syscall"
	"time"
)

// statusGone is logged and counted when the client went away before an
// answer; no slot is to blame for it.
const statusGone = 499

// Handler is the data plane.
func (p *Proxy) Handler() http.Handler { return http.HandlerFunc(p.serve) }

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		http.Error(w, "this is a reverse proxy", http.StatusMethodNotAllowed)
		return
	}
	t := p.table.Load()
	slot, via := p.choose(t, r)
	if via != viaTesters {
		t.served[slot].Add(1)
	}
	if via == viaSplit && p.opts.Sticky.Cookie != "" {
		p.pin(w, r, slot)
	}
	// An answer may begin before the request's body has ended; HTTP/2 needs
	// no permission for it and says that it does not know the call.
	_ = http.NewResponseController(w).EnableFullDuplex()
	rec := &recorder{ResponseWriter: w}
	began := time.Now()
	p.metrics.flying[slot].Inc()
	whole := false
	defer func() { // also when ReverseProxy aborts
		p.metrics.flying[slot].Dec()
		p.done(r, rec, slot, via, time.Since(began), whole)
	}()
	p.slots[slot].proxy.ServeHTTP(rec, r)
	whole = true
}

// done counts and logs a request. An answer that the slot did not finish
// counts as 502, whatever its status said.
func (p *Proxy) done(r *http.Request, rec *recorder, slot int, via string, took time.Duration, whole bool) {
	status := rec.status
	if status == 0 {
		status = http.StatusOK
	}
	if !whole {
		status, rec.err = http.StatusBadGateway, "answer cut off"
		if r.Context().Err() != nil {
			status, rec.err = statusGone, "client went away"
		}
	}
	p.log.add(Line{
		Time: p.now(), Method: r.Method, Path: r.URL.Path, Status: status, Slot: slotName(slot), Duration: took.Seconds(),
		Bytes: rec.bytes, Client: host(r.RemoteAddr), Via: via, Error: rec.err,
	})
	p.metrics.observe(slot, status, took)
}

func host(addr string) string {
	if h, _, err := net.SplitHostPort(addr); err == nil {
		return h
	}
	return addr
}

func (p *Proxy) newBackend(target *url.URL, slot int) *backend {
	timeout := p.opts.HeaderTimeout
	if timeout == 0 {
		timeout = 60 * time.Second
	}
	transport := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 3 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		ResponseHeaderTimeout: timeout,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       30 * time.Second,
		DisableCompression:    true, // bodies pass as they are
		ForceAttemptHTTP2:     true,
	}
	return &backend{url: target, transport: transport, proxy: &httputil.ReverseProxy{
		Rewrite:       p.rewrite(target),
		Transport:     &retrier{base: transport, retried: p.metrics.retried[slot].Inc},
		FlushInterval: -1, // nothing is held back
		BufferPool:    &buffers{},
		ErrorHandler:  failed,
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}}
}

// rewrite points a request at the slot. Host and query stay as the client
// sent them.
func (p *Proxy) rewrite(target *url.URL) func(*httputil.ProxyRequest) {
	return func(pr *httputil.ProxyRequest) {
		pr.SetURL(target)
		pr.Out.Host = pr.In.Host
		pr.Out.URL.RawQuery = pr.In.URL.RawQuery
		if p.opts.TrustForwarded {
			pr.Out.Header["X-Forwarded-For"] = pr.In.Header["X-Forwarded-For"]
		}
		pr.SetXForwarded()
		if !p.opts.TrustForwarded {
			return
		}
		for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto"} {
			if v := pr.In.Header.Get(name); v != "" {
				pr.Out.Header.Set(name, v)
			}
		}
	}
}

// failed answers for a slot that gave no answer.
func failed(w http.ResponseWriter, r *http.Request, err error) {
	rec, _ := w.(*recorder)
	status := http.StatusBadGateway
	var timeout net.Error
	switch {
	case r.Context().Err() != nil:
		status = statusGone
	case errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &timeout) && timeout.Timeout()):
		status = http.StatusGatewayTimeout
	}
	if rec != nil {
		rec.err = err.Error()
	}
	w.Header().Del("Set-Cookie") // no pin to a slot that did not answer
	w.WriteHeader(status)
}

// retrier sends a request once more when the slot closed the connection
// before its answer: only methods without effect when repeated, and only
// without a body.
type retrier struct {
	base    http.RoundTripper
	retried func()
}

// RoundTrip implements http.RoundTripper.
func (t *retrier) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(r)
	if err == nil || !reset(err) || !harmless(r) || r.Context().Err() != nil {
		return resp, err
	}
	t.retried()
	return t.base.RoundTrip(r)
}

func reset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func harmless(r *http.Request) bool {
	if (r.Body != nil && r.Body != http.NoBody) || r.Header.Get("Upgrade") != "" {
		return false
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// recorder notes what went to the client.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
	err    string
}

// WriteHeader notes the final status; 1xx other than 101 come before it.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write counts.
func (r *recorder) Write(data []byte) (int, error) {
	n, err := r.ResponseWriter.Write(data)
	r.bytes += int64(n)
	return n, err
}

// Hijack is called for an upgrade, whose header ReverseProxy writes itself.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r.status = http.StatusSwitchingProtocols
	return http.NewResponseController(r.ResponseWriter).Hijack()
}

// Unwrap lets http.ResponseController reach Flush.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// buffers implements httputil.BufferPool.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return *buf
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(buf []byte) { b.pool.Put(&buf) }

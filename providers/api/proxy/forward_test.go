package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// both sends both slots to one server.
func both(u *url.URL) map[string]*url.URL { return map[string]*url.URL{SlotA: u, SlotB: u} }

func TestForwardsAsSent(t *testing.T) {
	for _, trust := range []bool{false, true} {
		t.Run(fmt.Sprint(trust), func(t *testing.T) {
			seen := make(chan *http.Request, 1)
			target := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				w.Header().Set("Connection", "X-Hop")
				w.Header().Set("X-Hop", "1")
				w.Header().Add("X-Two", "1")
				w.Header().Add("X-Two", "2")
				w.WriteHeader(http.StatusTeapot)
				_, _ = w.Write(body)
				seen <- r
			})
			target.Path = "/base"
			_, front := start(t, Options{Slots: both(target), TrustForwarded: trust})
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, front+"/p%2Fq//r?a=1;b=2&c=%zz", strings.NewReader("hello"))
			if err != nil {
				t.Fatal(err)
			}
			r.Host = "shop.test"
			for k, v := range map[string]string{
				"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "outer.test",
				"Connection": "X-Private", "X-Private": "1", "Te": "trailers", "Accept-Encoding": "br",
			} {
				r.Header.Set(k, v)
			}
			back, err := send(http.DefaultTransport, r)
			if err != nil {
				t.Fatal(err)
			}
			got := <-seen
			if back.status != http.StatusTeapot || back.body != "hello" || len(back.header["X-Two"]) != 2 || back.header.Get("X-Hop") != "" {
				t.Errorf("answer %+v", back)
			}
			if got.Method != http.MethodPatch || got.Host != "shop.test" || got.RequestURI != "/base/p%2Fq//r?a=1;b=2&c=%zz" {
				t.Errorf("the slot got %s %s on %s", got.Method, got.RequestURI, got.Host)
			}
			want := map[string]string{"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "shop.test"}
			if trust {
				want = map[string]string{"X-Forwarded-For": "192.0.2.7, 127.0.0.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "outer.test"}
			}
			want["X-Private"], want["Accept-Encoding"], want["Te"] = "", "br", "trailers"
			for k, v := range want {
				if got.Header.Get(k) != v {
					t.Errorf("the slot got %s: %q, want %q", k, got.Header.Get(k), v)
				}
			}
		})
	}
}

func TestLargeBodies(t *testing.T) {
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		sum := sha256.New()
		_, _ = io.Copy(io.MultiWriter(sum, w), r.Body)
		w.Header().Set(http.TrailerPrefix+"X-Sum", hex.EncodeToString(sum.Sum(nil)))
	})
	_, front := start(t, Options{Slots: both(target)})
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	sum := sha256.Sum256(data)
	if err != nil || !bytes.Equal(body, data) || resp.Trailer.Get("X-Sum") != hex.EncodeToString(sum[:]) {
		t.Errorf("%d bytes back of %d, trailer %v, %v", len(body), len(data), resp.Trailer, err)
	}
}

// TestStreams: a piece reaches the client before the next is made.
func TestStreams(t *testing.T) {
	next := make(chan struct{})
	target := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
		<-next
		_, _ = io.WriteString(w, "then.")
	})
	_, front := start(t, Options{Slots: both(target)})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	piece := make([]byte, 5)
	if _, err := io.ReadFull(resp.Body, piece); err != nil || string(piece) != "first" {
		t.Fatalf("%q, %v", piece, err)
	}
	close(next)
	if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "then." {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestUpgrade(t *testing.T) {
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "echo" {
			t.Errorf("upgrade header %q", r.Header.Get("Upgrade"))
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := rw.ReadString('\n')
		_, _ = io.WriteString(conn, "you said "+line)
	})
	var log bytes.Buffer
	p, front := start(t, Options{Slots: both(target), Log: &log})
	conn := dial(t, front)
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil) //nolint:bodyclose // its body is the connection
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v, %v", resp, err)
	}
	_, _ = io.WriteString(conn, "hello\n")
	if line, err := in.ReadString('\n'); err != nil || line != "you said hello\n" {
		t.Errorf("%q, %v", line, err)
	}
	_ = conn.Close()
	eventually(t, func() bool { return count(p, SlotA, 101) == 1 })
}

// raw is a server that answers each connection with its own text and closes.
func raw(t *testing.T, answer func(n int) string) *url.URL {
	l := listen(t)
	go func() {
		for n := 1; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(conn)
			if r, err := http.ReadRequest(in); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(conn, answer(n))
			}
			_ = conn.Close()
		}
	}()
	return &url.URL{Scheme: "http", Host: l.Addr().String()}
}

const fine = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfine"

// TestRetriesOnceWhatIsHarmless: the slot closes the first connection without
// an answer.
func TestRetriesOnceWhatIsHarmless(t *testing.T) {
	tests := []struct {
		method, body string
		bad          int // connections closed
		status       int
		retried      float64
	}{
		{"GET", "", 1, 200, 1},
		{"PUT", "", 1, 200, 1},
		{"DELETE", "", 1, 200, 1},
		{"GET", "", 2, 502, 1},
		{"POST", "", 1, 502, 0},
		{"PUT", "x", 1, 502, 0},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.method, tt.body, tt.bad), func(t *testing.T) {
			var seen atomic.Int32
			target := raw(t, func(n int) string {
				seen.Add(1)
				if n <= tt.bad {
					return ""
				}
				return fine
			})
			p, front := start(t, Options{Slots: both(target)})
			back := call(t, tt.method, front, tt.body)
			if got := metric(p, "manent_proxy_retried_total", SlotA); back.status != tt.status || got != tt.retried || seen.Load() != int32(tt.retried)+1 {
				t.Errorf("status %d, %v retries, %d seen by the slot, want %d, %v", back.status, got, seen.Load(), tt.status, tt.retried)
			}
			if p.table.Load().n.Load() != 1 {
				t.Error("the retry was dealt again")
			}
		})
	}
}

// TestBadSlots: what a client, the metrics and the log see of a slot that
// does not answer well.
func TestBadSlots(t *testing.T) {
	tests := []struct {
		name   string
		target func(*testing.T) *url.URL
		status int // for the client; 0: the answer is cut off
		code   int
		err    string
	}{
		{"refuses", func(*testing.T) *url.URL { return &url.URL{Scheme: "http", Host: "127.0.0.1:1"} }, 502, 502, "refused"},
		{"silent", func(t *testing.T) *url.URL {
			return serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		}, 504, 504, "timeout"},
		{"nonsense", func(t *testing.T) *url.URL { return raw(t, func(int) string { return "SMTP ready\r\n\r\n" }) }, 502, 502, "malformed"},
		{"cut off", func(t *testing.T) *url.URL {
			return raw(t, func(int) string { return "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf" })
		}, 0, 502, "cut off"},
		{"says 503", func(t *testing.T) *url.URL {
			return serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
		}, 503, 503, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			p, front := start(t, Options{Slots: both(tt.target(t)), Log: &log, HeaderTimeout: 50 * time.Millisecond, Sticky: Sticky{Cookie: "pin", TTL: time.Hour}})
			got := get(t, front)
			if tt.status == 0 && got.cut == nil || tt.status != 0 && got.status != tt.status {
				t.Errorf("answer %+v, want %d", got, tt.status)
			}
			if pinned := len(got.cookies) > 0; pinned == (tt.status == 502 || tt.status == 504) {
				t.Errorf("cookies %v", got.cookies)
			}
			eventually(t, func() bool { return count(p, SlotA, tt.code) == 1 })
			if err := p.Close(); err != nil || !strings.Contains(log.String(), tt.err) || !strings.Contains(log.String(), fmt.Sprintf(`"status":%d`, tt.code)) {
				t.Errorf("log %q, %v", log.String(), err)
			}
			if got := metric(p, "manent_proxy_requests_in_flight", SlotA); got != 0 {
				t.Errorf("%v in flight afterwards", got)
			}
		})
	}
}

// TestClientGoesAway: no slot is blamed.
func TestClientGoesAway(t *testing.T) {
	arrived := make(chan struct{}, 1)
	target := serve(t, func(_ http.ResponseWriter, r *http.Request) { arrived <- struct{}{}; <-r.Context().Done() })
	p, front := start(t, Options{Slots: both(target)})
	conn := dial(t, front)
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n")
	<-arrived
	_ = conn.Close()
	eventually(t, func() bool { return count(p, SlotA, statusGone) == 1 })
}

func TestConnectIsRefused(t *testing.T) {
	_, front := start(t, Options{})
	conn := dial(t, front)
	_, _ = io.WriteString(conn, "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil) //nolint:bodyclose // its body is the connection
	if err != nil || resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("%+v, %v", resp, err)
	}
}

func count(p *Proxy, track string, code int) float64 {
	return metric(p, "manent_proxy_requests_total", fmt.Sprint(code), track)
}

// metric is the value with these labels (sorted by name), 0 when there is none.
func metric(p *Proxy, name string, labels ...string) float64 {
	families, err := p.metrics.registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var have []string
			for _, l := range m.GetLabel() {
				have = append(have, l.GetValue())
			}
			if slices.Equal(have, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// eventually waits for what another goroutine is about to do.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatal("it did not happen within 30 s")
		case <-time.After(time.Millisecond):
		}
	}
}

func BenchmarkProxy(b *testing.B) {
	target := slot(b, "a")
	opts := Options{Slots: both(target), Log: io.Discard, Weights: percent(500)}
	for name, opts := range map[string]Options{"bare": {}, "proxy": opts, "sticky": {Slots: opts.Slots, Log: io.Discard, Sticky: Sticky{Cookie: "pin", TTL: time.Hour}}} {
		b.Run(name, func(b *testing.B) {
			handler := bare(target)
			if name != "bare" {
				p, err := New(opts)
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = p.Close() }()
				handler = p.Handler()
			}
			r, _ := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://shop.test/", nil)
			r.RemoteAddr = "127.0.0.1:1234"
			b.ReportAllocs()
			for b.Loop() {
				handler.ServeHTTP(&nowhere{header: http.Header{}}, r)
			}
		})
	}
}

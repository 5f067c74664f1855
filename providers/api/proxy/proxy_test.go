package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// slot is a server that says its name.
func slot(t testing.TB, name string) *url.URL {
	return serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) })
}

func serve(t testing.TB, h http.HandlerFunc) *url.URL {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.Start()
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// start runs a proxy; slots that the options lack say their name.
func start(t testing.TB, opts Options) (*Proxy, string) {
	t.Helper()
	if opts.Slots == nil {
		opts.Slots = map[string]*url.URL{}
	}
	for _, name := range []string{SlotA, SlotB} {
		if opts.Slots[name] == nil {
			opts.Slots[name] = slot(t, name)
		}
	}
	p, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p, serve(t, p.Handler().ServeHTTP).String()
}

// set changes the weights in the process, as the admin interface does.
func set(t testing.TB, p *Proxy, b float64) {
	t.Helper()
	err := p.change(p.State().Revision, func(k *kept) error {
		k.Weights = map[string]float64{SlotA: 100 - b, SlotB: b}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func testers(t testing.TB, p *Proxy, to Testers) {
	t.Helper()
	if err := p.change(p.State().Revision, func(k *kept) error { k.Testers = to; return nil }); err != nil {
		t.Fatal(err)
	}
}

// reply is an answer as a client saw it.
type reply struct {
	status  int
	header  http.Header
	cookies []*http.Cookie
	body    string
	cut     error // of the body
}

// get is one request on a connection of its own.
func get(t testing.TB, url string, header ...string) reply {
	t.Helper()
	return call(t, http.MethodGet, url, "", header...)
}

func call(t testing.TB, method, url, body string, header ...string) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	r.Close = true
	got, err := send(http.DefaultTransport, r)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func send(via http.RoundTripper, r *http.Request) (reply, error) {
	resp, err := via.RoundTrip(r)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, cookies: resp.Cookies(), body: string(body), cut: err}, nil
}

// dial is a connection to a server.
func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(addr, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestChangesUnderLoad moves the weights through a whole rollout while
// clients without keep-alive send requests: none fails, and under each set of
// weights slot b got exactly its share.
func TestChangesUnderLoad(t *testing.T) {
	const workers, requests = 4, 600
	var backend [2]atomic.Int64
	slots := map[string]*url.URL{}
	for i, name := range []string{SlotA, SlotB} {
		slots[name] = serve(t, func(w http.ResponseWriter, _ *http.Request) { backend[i].Add(1); _, _ = io.WriteString(w, name) })
	}
	p, front := start(t, Options{Slots: slots})
	client := &http.Transport{DisableKeepAlives: true}
	var wg sync.WaitGroup
	var sent, failed atomic.Int64
	for range workers {
		wg.Go(func() {
			for range requests {
				sent.Add(1)
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := send(client, r); err != nil || got.status != http.StatusOK || got.cut != nil {
					failed.Add(1)
				}
			}
		})
	}
	splits := []*split{p.table.Load().split}
	shares := []float64{1, 5, 25, 50, 100, 0}
	for i, b := range shares {
		part := int64((i + 1) * workers * requests / (len(shares) + 2))
		eventually(t, func() bool { return sent.Load() >= part })
		set(t, p, b)
		splits = append(splits, p.table.Load().split)
	}
	wg.Wait()
	if failed.Load() != 0 {
		t.Errorf("%d of %d requests failed", failed.Load(), sent.Load())
	}
	var all, toB uint64
	for _, s := range splits {
		n := s.n.Load()
		want := (n*s.b + hundred/2) / hundred
		if got := s.served[1].Load(); got != want || s.served[0].Load()+got != n || n == 0 {
			t.Errorf("at %v %%: b got %d of %d requests, want %d", float64(s.b)/100, got, n, want)
		}
		all, toB = all+n, toB+s.served[1].Load()
	}
	if all != workers*requests || backend[1].Load() != int64(toB) || backend[0].Load() != int64(all-toB) {
		t.Errorf("%d requests dealt, %d to b; the slots got %d and %d", all, toB, backend[0].Load(), backend[1].Load())
	}
}

func TestOptions(t *testing.T) {
	ok := func() Options {
		return Options{Slots: map[string]*url.URL{SlotA: {Scheme: "http", Host: "127.0.0.1:1"}, SlotB: {Scheme: "http", Host: "127.0.0.1:2"}}}
	}
	tests := map[string]func(*Options){
		"slot missing":     func(o *Options) { delete(o.Slots, SlotB) },
		"slot too many":    func(o *Options) { o.Slots["c"] = o.Slots[SlotA] },
		"scheme":           func(o *Options) { o.Slots[SlotA] = &url.URL{Scheme: "ftp", Host: "127.0.0.1"} },
		"credentials":      func(o *Options) { o.Slots[SlotA] = &url.URL{Scheme: "http", Host: "127.0.0.1", User: url.User("x")} },
		"weights":          func(o *Options) { o.Weights = map[string]float64{SlotA: 50, SlotB: 49} },
		"testers":          func(o *Options) { o.Testers = Testers{On: true, Slot: SlotB} },
		"cookie":           func(o *Options) { o.Sticky = Sticky{Cookie: "a b", TTL: time.Hour} },
		"cookie's life":    func(o *Options) { o.Sticky = Sticky{Cookie: "ab"} },
		"log file":         func(o *Options) { o.LogFile = filepath.Join(os.DevNull, "x") },
		"state not a file": func(o *Options) { o.StateFile = t.TempDir() },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			opts := ok()
			spoil(&opts)
			if p, err := New(opts); err == nil {
				_ = p.Close()
				t.Error("no error")
			}
		})
	}
	p, err := New(ok())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestStateFile: a proxy started again has the weights and testers it had,
// and no revision of the one before.
func TestStateFile(t *testing.T) {
	opts := Options{StateFile: filepath.Join(t.TempDir(), "state.json"), Weights: map[string]float64{SlotA: 0, SlotB: 100}}
	first, _ := start(t, opts)
	set(t, first, 12.34)
	entry := Testers{On: true, Header: "x-canary", Value: "always", Slot: SlotB}
	testers(t, first, entry)
	second, _ := start(t, opts)
	got := second.State()
	if got.Weights[SlotB] != 12.34 || got.Weights[SlotA] != 87.66 || got.Testers != entry {
		t.Errorf("after a restart %+v", got)
	}
	if got.Revision == first.State().Revision {
		t.Errorf("revision %s is that of the process before", got.Revision)
	}
	if info, err := os.Stat(opts.StateFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("state file %v, %v, want mode 0600", info, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(opts.StateFile), ".manent-proxy-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	for name, text := range map[string]string{"cut off": `{"changes":2,"weig`, "other": `{"x":1}`, "sum": `{"changes":1,"weights":{"a":1,"b":1}}`} {
		if err := os.WriteFile(opts.StateFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		opts.Slots = first.opts.Slots
		if p, err := New(opts); err == nil {
			_ = p.Close()
			t.Errorf("%s: started on a broken state file", name)
		}
	}
}

// TestUnkeptIsNotDone: weights that the state file could not keep do not come
// into force, or a restart would bring others.
func TestUnkeptIsNotDone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	p, _ := start(t, Options{StateFile: filepath.Join(dir, "state.json")})
	before := p.State()
	resp := admin(p, "PUT", "/v1/weights", `{"a":50,"b":50}`, "If-Match", tag(p))
	if after := p.State(); resp.Code != http.StatusInternalServerError || after.Revision != before.Revision || after.Weights[SlotB] != 0 {
		t.Errorf("status %d, state %+v, want 500 and no change", resp.Code, after)
	}
}

// TestServe: both interfaces work, and at the end a request in flight is
// answered and the log is written.
func TestServe(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	slow := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		_, _ = io.WriteString(w, "done")
	})
	var log bytes.Buffer
	p, err := New(Options{Slots: map[string]*url.URL{SlotA: slow, SlotB: slow}, Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	data, admin := listen(t), listen(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(ctx, data, admin) }()
	if got := get(t, "http://"+admin.Addr().String()+"/v1/state"); got.status != http.StatusOK || !strings.Contains(got.body, `"up":true`) {
		t.Errorf("admin: %+v", got)
	}
	body := make(chan string, 1)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+data.Addr().String()+"/slow?token=hush", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		got, err := send(http.DefaultTransport, r)
		body <- got.body + fmt.Sprint(err, got.cut)
	}()
	<-arrived
	stop()
	close(release)
	if got := <-body; got != "done<nil> <nil>" {
		t.Errorf("request in flight got %q", got)
	}
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
	var line Line
	if err := json.Unmarshal(log.Bytes(), &line); err != nil || line.Path != "/slow" || strings.Contains(log.String(), "hush") {
		t.Errorf("log %q, %v", log.String(), err)
	}
}

func TestServeRefusesPublicAdmin(t *testing.T) {
	p, _ := start(t, Options{})
	public := &addressed{Listener: listen(t), addr: &net.TCPAddr{IP: net.IPv4zero, Port: 9901}}
	if err := p.Serve(t.Context(), listen(t), public); err == nil {
		t.Error("served the admin interface on every address")
	}
}

type addressed struct {
	net.Listener
	addr net.Addr
}

func (a *addressed) Addr() net.Addr { return a.addr }

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

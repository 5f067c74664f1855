package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/proxy"
	"github.com/manent/action/providers/httpx"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/state"
)

var slots = state.Slots{A: state.Release{Version: "1"}, B: state.Release{Version: "2"}, Candidate: state.SlotB}

func TestConformance(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			routertest.Run(t, func(t *testing.T) routertest.Harness { return newWorld(t, n).harness(t) })
		})
	}
}

// world is real proxies in front of two real servers, each admin interface
// behind one fault-injecting handler.
type world struct {
	slots   map[string]*url.URL
	proxies []*api.Proxy
	fronts  []*httptest.Server // data
	admins  []*httptest.Server
	down    []atomic.Bool
	writes  atomic.Int32
	faulty  *routertest.Faulty
}

func newWorld(t *testing.T, n int) *world {
	w := &world{slots: map[string]*url.URL{}, down: make([]atomic.Bool, n)}
	for _, slot := range []string{"a", "b"} {
		srv := serve(t, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, slot) }))
		w.slots[slot], _ = url.Parse(srv.URL)
	}
	hosts := map[string]http.Handler{} // real admin interface by address
	w.faulty = &routertest.Faulty{
		Next:    http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.count(hosts[r.Host], rw, r) }),
		IsWrite: isWrite, Refuse: refuse,
	}
	for i := range n {
		p, err := api.New(api.Options{Slots: w.slots})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		w.proxies = append(w.proxies, p)
		w.fronts = append(w.fronts, serve(t, p.Handler()))
		admin := serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if w.down[i].Load() {
				panic(http.ErrAbortHandler)
			}
			w.faulty.ServeHTTP(rw, r)
		}))
		w.admins = append(w.admins, admin)
		hosts[strings.TrimPrefix(admin.URL, "http://")] = p.Admin()
	}
	return w
}

// refuse answers as the admin interface does.
func refuse(w http.ResponseWriter, text string, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text})
}

func isWrite(r *http.Request) bool { return r.Method == http.MethodPut && r.URL.Path == "/v1/weights" }

// count counts the changes of weights that a proxy accepted.
func (w *world) count(admin http.Handler, rw http.ResponseWriter, r *http.Request) {
	rec := &statusOf{ResponseWriter: rw}
	admin.ServeHTTP(rec, r)
	if isWrite(r) && rec.status == http.StatusOK {
		w.writes.Add(1)
	}
}

type statusOf struct {
	http.ResponseWriter
	status int
}

func (s *statusOf) WriteHeader(status int) { s.status = status; s.ResponseWriter.WriteHeader(status) }

func (w *world) router(t *testing.T) *Router {
	var s Settings
	for _, a := range w.admins {
		s.Admin = append(s.Admin, a.URL)
	}
	r, err := New(s, httpx.Options{Backoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *world) harness(t *testing.T) routertest.Harness {
	h := routertest.Harness{
		Router: w.router(t), Again: func() router.Router { return w.router(t) }, Slots: slots, Traits: Spec().Traits,
		Foreign: func(part int) { w.set(t, part, 33) },
		Writes:  func() int { return int(w.writes.Load()) },
		Touch:   func() { w.touch(t) },
		Serve:   func(n int) map[state.Slot]int { return w.serve(t, n) },
		Probe:   func(a router.Access) state.Slot { return w.ask(t, w.fronts[0], a.Header) },
		Down: func(part int) func() {
			w.down[part].Store(true)
			return func() { w.down[part].Store(false) }
		},
	}
	w.faulty.Fill(&h)
	return h
}

// set is somebody with curl.
func (w *world) set(t *testing.T, part int, b float64) {
	direct(t, w.proxies[part], "weights", fmt.Sprintf(`{"a": %v, "b": %v}`, 100-b, b))
}

// touch changes the testers' entry to and fro, and so only the revision.
func (w *world) touch(t *testing.T) {
	for _, p := range w.proxies {
		direct(t, p, "testers", `{"on": true, "header": "x", "value": "y", "slot": "b"}`)
		direct(t, p, "testers", `{"on": false}`)
	}
}

func direct(t *testing.T, p *api.Proxy, what, body string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "http://127.0.0.1/v1/"+what, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("If-Match", `"`+p.State().Revision+`"`)
	rec := httptest.NewRecorder()
	p.Admin().ServeHTTP(rec, r)
	if rec.Code != http.StatusOK {
		t.Errorf("%s %s: %d %s", what, body, rec.Code, rec.Body)
	}
}

func (w *world) serve(t *testing.T, n int) map[state.Slot]int {
	got := map[state.Slot]int{}
	for i := range n {
		got[w.ask(t, w.fronts[i%len(w.fronts)], nil)]++
	}
	return got
}

func (w *world) ask(t *testing.T, front *httptest.Server, header map[string]string) state.Slot {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		r.Header.Set(k, v)
	}
	resp, err := front.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	return state.Slot(body)
}

// TestSlotDown: a slot that does not answer has no units.
func TestSlotDown(t *testing.T) {
	w := newWorld(t, 1)
	w.slots["b"].Host = "127.0.0.1:1" // nothing listens there; the proxy reads it at each look
	seen, err := w.router(t).Read(t.Context(), slots)
	if err != nil || seen.Parts[0].Units[state.SlotA] != 1 || seen.Parts[0].Units[state.SlotB] != 0 {
		t.Errorf("units %v, error %v, want a up and b down", seen.Parts, err)
	}
}

// TestSomethingInFront: a page or a redirect in the place of the admin
// interface is no answer about weights, and no login follows it.
func TestSomethingInFront(t *testing.T) {
	for _, status := range []int{302, 400, 403, 404, 412} {
		w := newWorld(t, 1)
		r := w.router(t)
		seen, err := r.Read(t.Context(), slots)
		if err != nil {
			t.Fatal(err)
		}
		w.faulty.Refuse = func(rw http.ResponseWriter, _ string, _ int) {
			rw.Header().Set("Location", "/v1/state")
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, "<html>who are you?</html>")
		}
		var h routertest.Harness
		w.faulty.Fill(&h)
		h.Status(status, routertest.All)
		_, readErr := r.Read(t.Context(), slots)
		want, _, _ := r.Plan(state.SlotB, 25, 0, seen)
		_, writeErr := r.Write(t.Context(), slots, want, seen)
		ok, err := r.Settled(t.Context(), want, nil)
		for _, err := range []error{readErr, writeErr, err} {
			if err == nil || providers.KindOf(err) != providers.Unavailable || !strings.Contains(err.Error(), "not an answer of manent proxy") || providers.HintOf(err) == "" || ok {
				t.Errorf("status %d: %v of kind %v, want unavailable", status, err, providers.KindOf(err))
			}
		}
	}
}

// TestDecimals: weights come back as written, to the hundredth.
func TestDecimals(t *testing.T) {
	r := newWorld(t, 1).router(t)
	for _, share := range []float64{0.01, 0.1, 33.33, 66.67, 99.99} {
		seen, err := r.Read(t.Context(), slots)
		if err != nil {
			t.Fatal(err)
		}
		want, got, err := r.Plan(state.SlotB, share, 0, seen)
		if err != nil || got != share {
			t.Fatalf("plan %v: %v, %v", share, got, err)
		}
		if _, err := r.Write(t.Context(), slots, want, seen); err != nil {
			t.Fatal(err)
		}
		if ok, err := r.Settled(t.Context(), want, nil); !ok || err != nil {
			t.Errorf("%v %%: settled %v, %v", share, ok, err)
		}
	}
}

func TestSettings(t *testing.T) {
	tests := []struct {
		name     string
		settings map[string]any
		want     string // in the error; "" for none
	}{
		{"one", map[string]any{"admin": "http://127.0.0.1:9901"}, ""},
		{"list", map[string]any{"admin": []any{"http://127.0.0.1:9901", "https://proxy.test:9901"}, "pinned_for": "1m"}, ""},
		{"none", map[string]any{}, "missing"},
		{"empty", map[string]any{"admin": ""}, "no address"},
		{"twice", map[string]any{"admin": "http://127.0.0.1:9901, http://127.0.0.1:9901/"}, "given twice"},
		{"credentials", map[string]any{"admin": "http://me:hush@127.0.0.1:9901"}, "carries credentials"},
		{"plain http", map[string]any{"admin": "http://proxy.test:9901"}, "plain http"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Spec().Build(providers.Env{}, tt.settings)
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hush") {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			if providers.KindOf(err) != providers.Invalid {
				t.Errorf("kind %v, want invalid", providers.KindOf(err))
			}
		})
	}
}

func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

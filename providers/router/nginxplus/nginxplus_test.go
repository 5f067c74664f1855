package nginxplus

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/nginxplus/nginxplustest"
	"github.com/manent/action/providers/httpx"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/state"
)

const secret = "hush-hush-0815"

// Slot a has two servers, slot b three.
func slots() map[state.Slot][]string {
	return map[state.Slot][]string{
		state.SlotA: {"10.0.1.1:8080", "10.0.1.2:8080"},
		state.SlotB: {"10.0.2.1:8080", "10.0.2.2:8080", "10.0.2.3:8080"},
	}
}

func targets() []providers.Target {
	var out []providers.Target
	for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
		for _, address := range slots()[slot] {
			host, _, _ := strings.Cut(address, ":")
			out = append(out, providers.Target{Host: host, Port: 8080, Labels: map[string]string{"slot": string(slot)}})
		}
	}
	return out
}

func candidateB() state.Slots {
	return state.Slots{A: state.Release{Version: "1.0"}, B: state.Release{Version: "1.1"}, Candidate: state.SlotB}
}

// world is two instances behind one faulty wire.
type world struct {
	nginx  []*nginxplustest.Instance
	urls   []string
	faulty routertest.Faulty

	mu   sync.Mutex
	down map[string]bool
}

func newWorld(t *testing.T) *world {
	w := &world{down: map[string]bool{}}
	byHost := map[string]http.Handler{}
	w.faulty.Next = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { byHost[r.Host].ServeHTTP(rw, r) })
	w.faulty.IsWrite = func(r *http.Request) bool {
		return r.Method == http.MethodPatch && !strings.HasSuffix(r.URL.Path, "/1073741824")
	}
	w.faulty.Refuse = func(rw http.ResponseWriter, text string, code int) {
		nginxplustest.Refuse(rw, code, "Other", text)
	}
	for i := range 2 {
		n := nginxplustest.New(t, initial(10*i)...)
		n.User, n.Password = "manent", secret
		srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.mu.Lock()
			down := w.down[r.Host]
			w.mu.Unlock()
			if down {
				panic(http.ErrAbortHandler)
			}
			w.faulty.ServeHTTP(rw, r)
		}))
		t.Cleanup(srv.Close)
		w.nginx, w.urls = append(w.nginx, n), append(w.urls, srv.URL+"/api")
		byHost[strings.TrimPrefix(srv.URL, "http://")] = n
	}
	return w
}

// initial has all traffic on slot a, and servers that are nobody's.
func initial(firstID int) []nginxplustest.Server {
	var out []nginxplustest.Server
	add := func(address string) *nginxplustest.Server {
		out = append(out, nginxplustest.Add(firstID+len(out), address, 1))
		return &out[len(out)-1]
	}
	for _, address := range slots()[state.SlotB] {
		add(address).Drain = true
	}
	spare := add("10.0.9.1:8080")
	spare.Backup, spare.Weight = true, 7
	for _, address := range slots()[state.SlotA] {
		add(address)
	}
	add("10.0.9.2:8080").Drain = true
	add("10.0.9.3:8080").Down = true
	return out
}

func (w *world) settings() Settings {
	return Settings{URLs: w.urls, Upstream: "app", Member: "{host}:{port}", Credentials: "api", Timeout: 8 * time.Second}
}

func env() providers.Env {
	return providers.Env{
		Targets: targets(),
		Secret: func(context.Context, string) (providers.Secret, error) {
			return providers.NewSecret("manent:" + secret + "\n"), nil
		},
	}
}

// router makes one, as a new process would.
func (w *world) router(t *testing.T) *Router {
	t.Helper()
	r, err := New(env(), w.settings(), httpx.Options{Backoff: 1})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *world) patches() int { return w.nginx[0].Changes() + w.nginx[1].Changes() }

func TestConformance(t *testing.T) {
	routertest.Run(t, func(t *testing.T) routertest.Harness { return harness(t, newWorld(t)) })
}

func harness(t *testing.T, w *world) routertest.Harness {
	slotOf := map[string]state.Slot{}
	var ours []string
	for slot, all := range slots() {
		for _, address := range all {
			slotOf[address], ours = slot, append(ours, address)
		}
	}
	h := routertest.Harness{
		Router: w.router(t), Again: func() router.Router { return w.router(t) },
		Slots: candidateB(), Traits: Spec().Traits, Secret: secret,
		Writes: w.patches, PerPart: -1,
		Foreign: func(part int) {
			w.nginx[part].Edit("10.0.2.2:8080", func(s *nginxplustest.Server) { s.Weight, s.Drain = 13, false })
		},
		Touch: func() {
			for _, n := range w.nginx {
				n.Renumber()
			}
		},
		Unowned: func() string { return w.nginx[0].Dump(ours...) + w.nginx[1].Dump(ours...) },
		Serve: func(n int) map[state.Slot]int {
			got := map[state.Slot]int{}
			for i := range n {
				got[slotOf[w.nginx[i%2].Request()]]++
			}
			return got
		},
		Down: func(part int) func() {
			host := strings.TrimSuffix(strings.TrimPrefix(w.urls[part], "http://"), "/api")
			w.set(host, true)
			return func() { w.set(host, false) }
		},
	}
	w.faulty.Fill(&h)
	return h
}

func (w *world) set(host string, down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down[host] = down
}

// move brings the candidate to a share and returns the weights.
func (w *world) move(t *testing.T, share float64) []state.PartWeights {
	t.Helper()
	r := w.router(t)
	seen := read(t, r)
	want, _, err := r.Plan(state.SlotB, share, 0.5, seen)
	if err == nil {
		_, err = r.Write(t.Context(), candidateB(), want, seen)
	}
	if err != nil {
		t.Fatal(err)
	}
	return want
}

func read(t *testing.T, r *Router) router.Reading {
	t.Helper()
	seen, err := r.Read(t.Context(), candidateB())
	if err == nil {
		err = seen.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

func wantKind(t *testing.T, err error, kind providers.Kind, text string) {
	t.Helper()
	if err == nil || providers.KindOf(err) != kind || !strings.Contains(err.Error()+" hint: "+providers.HintOf(err), text) {
		t.Errorf("error %v of kind %v with hint %q, want kind %v with %q", err, providers.KindOf(err), providers.HintOf(err), kind, text)
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("%q tells the secret", err)
	}
}

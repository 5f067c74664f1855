//go:build peers

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/state"
)

const killConfig = `
project: shop
application: web
environment: prod
state: file:state
steps:
  - {name: copy, at: deploy, run: "true"}
rollout:
  traffic: {steps: [50, 100], bake: 600ms, maxBake: 30s, finalBake: 600ms}
  providers:
    accesslog: {files: [access.log], format: proxy}
  health:
    interval: 200ms
    metrics:
      - {name: errors, provider: accesslog, query: error_rate, max: 0.3, samplesQuery: requests, minSamples: 5, delay: 50ms}
traffic:
  router: {provider: proxy, settings: {admin: $ADMIN}}
`

// The process of a rollout is killed, with no signal that it could see: before
// a write of weights arrives, after it has arrived and is not answered, or so
// that it arrives late, when the next process has already written; and while
// it watches. The same command again ends in the place where an undisturbed
// rollout ends.
func TestPeersKilled(t *testing.T) {
	t.Parallel()
	for _, rollout := range []struct {
		name   string
		every  int64 // the last but one of so many of the candidate's requests fails
		code   int
		writes int
		says   string // while it watches
	}{
		{"healthy", 0, 0, 2, "stage 50%: reading 1 is "},
		{"failing", 2, 1, 2, "share 50 % in force"},
	} {
		t.Run(rollout.name, func(t *testing.T) {
			t.Parallel()
			undisturbed := newKillShop(t, rollout.every)
			undisturbed.exits(rollout.code, "run", "--version", "2.0")
			want := undisturbed.ending()
			for write := range rollout.writes {
				for _, when := range []string{before, unanswered, late} {
					t.Run(fmt.Sprintf("write %d %s", write+1, when), func(t *testing.T) {
						t.Parallel()
						s := newKillShop(t, rollout.every)
						s.toll.kill(write+1, when)
						run := s.start("run", "--version", "2.0")
						s.toll.victim <- run.cmd
						s.killed(run)
						close(s.toll.dead)
						s.ends(rollout.code, want)
					})
				}
			}
			t.Run("in the bake", func(t *testing.T) {
				t.Parallel()
				s := newKillShop(t, rollout.every)
				run := s.start("run", "--version", "2.0")
				run.prints(rollout.says)
				run.signal(syscall.SIGKILL)
				s.killed(run)
				s.ends(rollout.code, want)
			})
		})
	}
}

// A signal while a call is under way: no new write begins, the call gets its
// grace and no more, and the same command goes on.
func TestPeersSignalled(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s := newKillShop(t, 0)
			s.toll.kill(1, hangs)
			run := s.start("run", "--version", "2.0")
			s.toll.victim <- run.cmd
			run.reaches(s.toll.reached)
			began := time.Now()
			run.signal(sig)
			code := run.wait()
			took := time.Since(began)
			close(s.toll.dead)
			if code != 2 || !strings.Contains(run.err.String(), "interrupted: nothing new was begun") {
				t.Errorf("ended with %d, expected 2\n%s\n%s", code, &run.out, &run.err)
			}
			if took < 4*time.Second || took > 9*time.Second {
				t.Errorf("ended %v after the signal, expected the 5 s of grace that a call in flight gets", took)
			}
			if doc, _ := s.status(); doc.Lease != nil || doc.Rollout.Status != state.Running {
				t.Errorf("left lease %+v and status %s", doc.Lease, doc.Rollout.Status)
			}
			s.exits(0, "run", "--version", "2.0")
		})
	}
}

// killShop is a shop whose manent reaches the proxy through a toll.
type killShop struct {
	*shop
	toll *toll
}

func newKillShop(t *testing.T, every int64) killShop {
	s := killShop{shop: newShop(t)}
	s.proxy()
	s.toll = newToll(t, s.vars["ADMIN"])
	s.vars["ADMIN"] = s.toll.url
	s.configure(killConfig)
	s.b.every.Store(every)
	s.crowd(40)
	return s
}

// killed waits for the end of a run and demands that it was not its own.
func (s killShop) killed(run *running) {
	s.t.Helper()
	if code := run.wait(); code != -1 {
		s.t.Fatalf("was not killed but ended with %d\n%s\n%s", code, &run.out, &run.err)
	}
}

// ends runs the rollout to its end and demands that this is the one expected.
func (s killShop) ends(code int, want ending) {
	s.t.Helper()
	s.exits(code, "run", "--version", "2.0")
	if diff := cmp.Diff(want, s.ending()); diff != "" {
		s.t.Errorf("ended in another place than an undisturbed rollout (-undisturbed +killed):\n%s", diff)
	}
}

// ending is where a rollout ends: what is stored, and what the router does,
// without times, names of rollouts, and counts of tries.
type ending struct {
	Status  state.Status
	Attempt int
	Failed  string
	Steps   []string
	Stages  []string
	Passes  []state.Pass
	Lease   *state.Lease
	Router  string   // what it holds
	Serves  []string // slots that answer
}

func (s killShop) ending() ending {
	s.t.Helper()
	return s.endingAt(s.toll.weights())
}

func (s *shop) endingAt(router string) ending {
	s.t.Helper()
	doc, _ := s.status()
	r := doc.Rollout
	e := ending{Status: r.Status, Attempt: r.Attempt, Passes: doc.Passes, Lease: doc.Lease, Router: router}
	if r.Failure != nil {
		e.Failed = r.Failure.Step
	}
	for _, step := range r.Steps {
		e.Steps = append(e.Steps, fmt.Sprintf("%s %s", step.Name, step.State))
	}
	for _, stage := range r.Stages {
		e.Stages = append(e.Stages, fmt.Sprintf("%s %s %v", stage.Name, stage.Status, stage.Achieved))
	}
	for i := range e.Passes {
		for _, release := range []*state.Release{&e.Passes[i].Slots.A, &e.Passes[i].Slots.B} {
			delete(release.Ref, state.RefRollout)
		}
		e.Passes[i].Unsettled = time.Time{}
		for j := range e.Passes[i].Weights {
			e.Passes[i].Weights[j].ID = "" // a port
		}
	}
	seen, _ := s.visits(people("guest", 20))
	e.Serves = slices.Sorted(maps.Keys(seen.Slots))
	return e
}

// What a toll does to the write that it waits for, and to its sender.
const (
	before     = "before it arrives"
	unanswered = "before it is answered"
	late       = "and arrives late"
	hangs      = "hangs"
)

// toll stands between manent and the proxy's admin interface.
type toll struct {
	t       *testing.T
	url     string
	admin   string
	victim  chan *exec.Cmd // who is killed
	reached chan struct{}  // closed when the write has come
	dead    chan struct{}  // to be closed when the victim is gone
	mu      sync.Mutex
	at      int // of the write that is waited for; 0: none
	when    string
	writes  int
	held    func() // sends a write that is late
}

func newToll(t *testing.T, admin string) *toll {
	l := &toll{t: t, admin: admin, victim: make(chan *exec.Cmd, 1), reached: make(chan struct{}), dead: make(chan struct{})}
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	l.url = server.URL
	return l
}

// kill waits for the nth write of weights.
func (l *toll) kill(n int, when string) { l.at, l.when = n, when }

// ServeHTTP implements http.Handler.
func (l *toll) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if r.Method != http.MethodPut {
		l.pass(w, r, body)
		return
	}
	l.mu.Lock()
	l.writes++
	mine := l.at > 0 && l.writes == l.at
	held := l.held
	l.mu.Unlock()
	switch {
	case mine:
		l.take(r, body)
		panic(http.ErrAbortHandler)
	case held != nil:
		l.pass(w, r, body)
		l.held = nil
		held()
	default:
		l.pass(w, r, body)
	}
}

// take does to a write what was asked for. It returns when its sender is gone.
func (l *toll) take(r *http.Request, body []byte) {
	victim := <-l.victim
	close(l.reached)
	if l.when == unanswered {
		l.pass(httptest.NewRecorder(), r, body)
	}
	if l.when == late {
		header := r.Header.Clone()
		l.held = func() {
			again := r.Clone(l.t.Context())
			again.Header = header
			answer := httptest.NewRecorder()
			l.pass(answer, again, body)
			l.t.Logf("the late write is answered with %d", answer.Code)
		}
	}
	if l.when != hangs {
		if err := victim.Process.Kill(); err != nil {
			l.t.Error(err)
		}
	}
	<-l.dead
}

// pass forwards a request and its answer.
func (l *toll) pass(w http.ResponseWriter, r *http.Request, body []byte) {
	// The sender may be dead, and its write goes on all the same.
	request, err := http.NewRequestWithContext(l.t.Context(), r.Method, l.admin+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	request.Header = r.Header.Clone()
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = answer.Body.Close() }()
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body)
}

// weights are what the proxy has.
func (l *toll) weights() string {
	l.t.Helper()
	answer := httptest.NewRecorder()
	l.pass(answer, httptest.NewRequestWithContext(l.t.Context(), http.MethodGet, "/v1/state", nil), nil)
	var shown struct{ Weights map[string]float64 }
	if err := json.Unmarshal(answer.Body.Bytes(), &shown); err != nil {
		l.t.Fatal(err)
	}
	return fmt.Sprint(shown.Weights)
}

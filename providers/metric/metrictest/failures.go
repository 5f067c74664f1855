package metrictest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/metric"
	"github.com/manent/action/state"
)

// Failure is how a server fails. A stand-in over HTTP wraps its handler with
// Handler; one without returns a fault of Kind.
type Failure struct {
	Name   string
	Kind   providers.Kind // what it has to become
	Status int            // of the answer; 0 for 200
	Body   string         // of the answer
	Cut    bool           // the answer breaks off
	Hang   bool           // no answer comes; the system under test should give up within 1 s
	Times  int32          // that many requests fail, then the server recovers; 0 for all

	met     atomic.Int32
	arrived chan struct{}
	once    sync.Once
}

// Meet reports whether the next request fails. It counts as that request.
func (f *Failure) Meet() bool {
	if f.arrived != nil {
		f.once.Do(func() { close(f.arrived) })
	}
	n := f.met.Add(1)
	return f.Times == 0 || n <= f.Times
}

// Met is the number of requests so far.
func (f *Failure) Met() int { return int(f.met.Load()) }

// Handler fails requests and hands those beyond Times to next. An answer that
// carries text echoes the request's headers, as some gateways do, so that the
// suite sees whether a credential finds its way into an error.
func (f *Failure) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil { // reads the body, so that a client that goes away is noticed
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		switch {
		case !f.Meet():
			next.ServeHTTP(w, r)
		case f.Hang:
			<-r.Context().Done()
		case f.Cut:
			w.Header().Set("Content-Length", "4096")
			_, _ = fmt.Fprint(w, f.Body)
		default:
			f.answer(w, r)
		}
	})
}

func (f *Failure) answer(w http.ResponseWriter, r *http.Request) {
	if f.Status == 0 {
		_, _ = fmt.Fprint(w, f.Body)
		return
	}
	w.WriteHeader(f.Status)
	_, _ = fmt.Fprintf(w, "%s request was %v", f.Body, r.Header) //nolint:gosec // no browser reads it
}

// table is made anew for each run, since a Failure counts.
func table() []*Failure {
	return []*Failure{
		{Name: "401", Kind: providers.Denied, Status: http.StatusUnauthorized, Body: "who are you"},
		{Name: "403", Kind: providers.Denied, Status: http.StatusForbidden, Body: "not you"},
		{Name: "404", Kind: providers.NotFound, Status: http.StatusNotFound, Body: "404 page not found"},
		{Name: "429", Kind: providers.Throttled, Status: http.StatusTooManyRequests, Body: "slow down"},
		{Name: "500", Kind: providers.Unavailable, Status: http.StatusInternalServerError, Body: "oops"},
		{Name: "502", Kind: providers.Unavailable, Status: http.StatusBadGateway, Body: "<html>bad gateway</html>"},
		{Name: "503", Kind: providers.Unavailable, Status: http.StatusServiceUnavailable, Body: "overloaded"},
		{Name: "timeout", Kind: providers.Unknown, Hang: true},
		{Name: "truncated", Kind: providers.Unknown, Cut: true, Body: `{"status":"success","data":{"res`},
		{Name: "empty", Kind: providers.Unknown},
		{Name: "garbage", Kind: providers.Unknown, Body: "<html>please sign in</html>"},
		{Name: "other JSON", Kind: providers.Unknown, Body: `{"ok":true}`},
		{Name: "null", Kind: providers.Unknown, Body: `null`},
	}
}

func (s Suite) failures(t *testing.T) {
	for _, f := range table() {
		t.Run(f.Name, func(t *testing.T) {
			scene := one(state.SlotA, 1)
			scene.Failure = f
			sub := s.Setup(t, scene)
			queries := []metric.Query{instant(sub, "one", state.SlotA), ranged(sub, "series", state.SlotB)}
			answers, err := sub.System.Query(t.Context(), queries)
			expectFailed(t, sub, answers, err, func(err error) bool {
				return providers.KindOf(err) == f.Kind && !providers.Lost(err)
			}, f.Kind.String())
		})
	}
}

func (s Suite) recovers(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		scene := one(state.SlotA, 7)
		scene.Failure = &Failure{Status: status, Times: 1, Kind: httpKind(status)}
		sub := s.Setup(t, scene)
		expect(t, ask(t, sub, instant(sub, "q", state.SlotA))[0], metric.Point{At: End(), Value: 7})
	}
}

func httpKind(status int) providers.Kind {
	if status == http.StatusTooManyRequests {
		return providers.Throttled
	}
	return providers.Unavailable
}

func (s Suite) cancelledDuring(t *testing.T) {
	scene := one(state.SlotA, 1)
	scene.Failure = &Failure{Hang: true, arrived: make(chan struct{})}
	sub := s.Setup(t, scene)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-scene.Failure.arrived
		cancel()
	}()
	answers, err := sub.System.Query(ctx, []metric.Query{instant(sub, "q", state.SlotA)})
	expectFailed(t, sub, answers, err, func(err error) bool { return errors.Is(err, context.Canceled) }, "cancelled")
}

// expectFailed: the call as a whole or each answer failed as wanted, nothing
// pretends to be data, and no text holds the secret.
func expectFailed(t *testing.T, sub Subject, answers []metric.Answer, err error, right func(error) bool, want string) {
	t.Helper()
	failed := []error{err}
	if err == nil {
		failed = nil
		for _, a := range answers {
			failed = append(failed, a.Err)
			if len(a.Points) != 0 || errors.Is(a.Err, metric.ErrNoData) {
				t.Errorf("%s: points %v, error %v: a failure must not look like data or their absence", a.ID, a.Points, a.Err)
			}
		}
	}
	if len(failed) == 0 {
		t.Fatal("no error and no answer")
	}
	for _, err := range failed {
		if err == nil || !right(err) {
			t.Errorf("error %v of kind %v, want %s", err, providers.KindOf(err), want)
			continue
		}
		text := fmt.Sprintf("%v %+v %s", err, answers, providers.HintOf(err))
		if sub.Secret != "" && strings.Contains(text, sub.Secret) {
			t.Errorf("the secret is in %q", text)
		}
	}
}

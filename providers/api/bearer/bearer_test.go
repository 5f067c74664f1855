package bearer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

// system accepts the tokens that it issued: "token-1", "token-2", ...
type system struct {
	mu      sync.Mutex
	issued  int
	good    map[string]bool
	calls   []string // method and token
	down    error    // of the service of tokens
	life    time.Duration
	deaf    bool          // refuses every token
	waiting chan struct{} // if not nil, a fetch waits for it
}

func (s *system) fetch(ctx context.Context) (Token, error) {
	if s.waiting != nil {
		select {
		case <-s.waiting:
		case <-ctx.Done():
			return Token{}, &providers.Fault{Err: ctx.Err()}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return Token{}, s.down
	}
	s.issued++
	value := fmt.Sprintf("token-%d", s.issued)
	s.good[value] = true
	return Token{providers.NewSecret(value), time.Now().Add(s.life)}, nil
}

func (s *system) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	s.calls = append(s.calls, r.Method+" "+token)
	w := httptest.NewRecorder()
	if s.deaf || !s.good[token] {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprint(w, "no good: ", token)
	}
	return w.Result(), nil
}

func setup() (*system, *Client) {
	s := &system{good: map[string]bool{}, life: time.Hour}
	return s, New(httpx.Options{Provider: "test", Transport: s, Backoff: time.Millisecond}, s.fetch, providers.Env{}.Hide)
}

func send(t *testing.T, c *Client, method string) error {
	_, err := c.Send(t.Context(), httpx.Request{Method: method, URL: "https://system.example/", Op: "thing"})
	return err
}

func (s *system) expect(t *testing.T, calls ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got, want := strings.Join(s.calls, ", "), strings.Join(calls, ", "); got != want {
		t.Errorf("calls %s, want %s", got, want)
	}
}

func TestRenewsBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := setup()
		for _, wait := range []time.Duration{0, time.Hour - early - time.Second, 2 * time.Second, 0} {
			<-time.After(wait)
			if err := send(t, c, http.MethodGet); err != nil {
				t.Error(err)
			}
		}
		s.expect(t, "GET token-1", "GET token-1", "GET token-2", "GET token-2")
	})
}

func TestTokensDown(t *testing.T) {
	for kind, served := range map[providers.Kind]bool{
		providers.Unavailable: true, providers.Unknown: true, providers.Throttled: true, providers.Denied: false, providers.Invalid: false,
	} {
		synctest.Test(t, func(t *testing.T) {
			s, c := setup()
			if err := send(t, c, http.MethodGet); err != nil {
				t.Fatal(err)
			}
			s.down = &providers.Fault{Provider: "test", Kind: kind, Err: errors.New("down")}
			<-time.After(time.Hour - early + time.Second)
			if err := send(t, c, http.MethodGet); (err == nil) != served {
				t.Errorf("%v: error %v while the token lasts", kind, err)
			}
			<-time.After(early - least)
			if err := send(t, c, http.MethodGet); providers.KindOf(err) != kind || err == nil {
				t.Errorf("%v: error %v after the token's end", kind, err)
			}
		})
	}
}

// TestRefusedToken: a call refused for its token was not carried out, so that
// one that changes something is made again too, once.
func TestRefusedToken(t *testing.T) {
	s, c := setup()
	if err := send(t, c, http.MethodPost); err != nil {
		t.Fatal(err)
	}
	delete(s.good, "token-1")
	if err := send(t, c, http.MethodPost); err != nil {
		t.Error(err)
	}
	s.expect(t, "POST token-1", "POST token-1", "POST token-2")
	s.down = &providers.Fault{Provider: "test", Kind: providers.Unavailable, Err: errors.New("down")}
	delete(s.good, "token-2")
	if err := send(t, c, http.MethodPost); providers.KindOf(err) != providers.Unavailable {
		t.Errorf("error %v", err)
	}
	s.expect(t, "POST token-1", "POST token-1", "POST token-2", "POST token-2")
}

func TestRefusedForGood(t *testing.T) {
	s, c := setup()
	s.deaf = true
	err := send(t, c, http.MethodGet)
	if err == nil || providers.KindOf(err) != providers.Denied || strings.Contains(err.Error(), "token-") {
		t.Errorf("error %v", err)
	}
	s.expect(t, "GET token-1", "GET token-2")
}

func TestAtOnce(t *testing.T) {
	s, c := setup()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := send(t, c, http.MethodGet); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if s.issued != 1 {
		t.Errorf("%d tokens, want one for all", s.issued)
	}
}

// TestCancelled: who waits for somebody else's login can be cancelled too.
func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := setup()
		s.waiting = make(chan struct{})
		first := make(chan error)
		go func() { first <- send(t, c, http.MethodGet) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Send(ctx, httpx.Request{Method: http.MethodGet, URL: "https://system.example/", Op: "thing"})
		if !errors.Is(err, context.DeadlineExceeded) || providers.KindOf(err) != providers.Unknown {
			t.Errorf("error %v", err)
		}
		close(s.waiting)
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

// TestHidden: a token that cannot be hidden is not used.
func TestHidden(t *testing.T) {
	s := &system{good: map[string]bool{}, life: time.Hour}
	c := New(httpx.Options{Provider: "test", Transport: s}, s.fetch, func(providers.Secret) error { return errors.New("no log to hide it in") })
	if err := send(t, c, http.MethodGet); err == nil {
		t.Error("no error")
	}
	s.expect(t)
}

func TestNoToken(t *testing.T) {
	s, _ := setup()
	c := New(httpx.Options{Provider: "test", Transport: s}, func(context.Context) (Token, error) { return Token{}, nil }, providers.Env{}.Hide)
	if err := send(t, c, http.MethodGet); err == nil || providers.KindOf(err) != providers.Unknown {
		t.Errorf("error %v", err)
	}
	s.expect(t)
}

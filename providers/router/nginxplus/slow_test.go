package nginxplus

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/nginxplus/nginxplustest"
	"github.com/manent/action/providers/httpx"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// slowly answers each call after a time, without a network.
type slowly struct {
	takes time.Duration
	next  map[string]http.Handler
}

func (s slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(s.takes):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	answer := httptest.NewRecorder()
	s.next[r.URL.Host].ServeHTTP(answer, r)
	return answer.Result(), nil
}

// Each call of a return ends in the 20 s that it has where every call of the
// API takes seconds.
func TestSlowReturn(t *testing.T) {
	for name, tt := range map[string]struct {
		takes time.Duration
		share float64
		old   bool // an instance that does not know version 9
	}{
		"5 s": {5 * time.Second, 25, false}, "8 s": {7900 * time.Millisecond, 50, false},
		"old, 5 s": {5 * time.Second, 25, true}, "from 100 %, 6 s": {6 * time.Second, 100, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := slowly{next: map[string]http.Handler{}}
				s := (&world{urls: []string{"https://lb1/api", "https://lb2/api"}}).settings()
				for i, host := range []string{"lb1", "lb2"} {
					n := nginxplustest.New(t, initial(10*i)...)
					if n.User, n.Password = "manent", secret; tt.old {
						n.Versions = []int{1, 2, 3, 7}
					}
					net.next[host] = n
				}
				slow := func(takes time.Duration) *Router {
					net.takes = takes
					r, err := New(env(), s, httpx.Options{Transport: net})
					if err != nil {
						t.Fatal(err)
					}
					return r
				}
				quick := slow(0)
				want, _, err := quick.Plan(state.SlotB, tt.share, 0.5, read(t, quick))
				if err == nil {
					_, err = quick.Write(t.Context(), candidateB(), want, read(t, quick))
				}
				if err != nil {
					t.Fatal(err)
				}
				comeBack(t, slow(tt.takes))
				if p := read(t, slow(0)).Parts[1]; p.Shares["a"] != 100 {
					t.Errorf("shares %v", p.Shares)
				}
			})
		})
	}
}

// An answer of 30 s is not waited for.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&world{urls: []string{"https://lb1/api"}}).settings()
		r, err := New(env(), s, httpx.Options{Transport: slowly{takes: 30 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		seen, err := r.Read(t.Context(), candidateB())
		if err != nil {
			t.Fatal(err)
		}
		wantKind(t, seen.Err(), providers.Unknown, "no answer within 8s")
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("took %v, want 8 s", took)
		}
	})
}

// comeBack is a return as the runner makes one: part by part, each call in 20 s.
func comeBack(t *testing.T, r *Router) {
	t.Helper()
	limit := func(do func(context.Context) error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		began := time.Now()
		if err := do(ctx); err != nil {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	}
	var seen router.Reading
	limit(func(ctx context.Context) (err error) { seen, err = r.Read(ctx, candidateB()); return err })
	want, _, err := r.Plan(state.SlotB, 0, 0.5, seen)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range want {
		one := []state.PartWeights{p}
		limit(func(ctx context.Context) error {
			_, err := r.Write(ctx, candidateB(), one, router.Reading{Parts: seen.Parts[i : i+1]})
			return err
		})
		limit(func(ctx context.Context) error {
			ok, err := r.Settled(ctx, one, nil)
			if !ok {
				t.Errorf("part %s is not settled", p.ID)
			}
			return err
		})
	}
}

//go:build peers

package nginx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/manent/action/providers/api/accesslog"
	"github.com/manent/action/providers/api/nginx/split"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// The share of requests is exact in mode weight, over all workers.
func TestPeersWeightIsExact(t *testing.T) {
	p := newPeer(t, split.Weighted, 2)
	for share, n := range map[float64]int{10: 1000, 0.5: 400, 37.5: 400, 100: 100, 0: 100} {
		p.move(t, candidateB(), share)
		want := int(math.Round(float64(n) * share / 100))
		if got := p.serve(t, n); got[state.SlotB] != want || got[state.SlotA] != n-want {
			t.Errorf("at %v %%: %v of %d requests, want exactly %d on b", share, got, n, want)
		}
	}
}

// The share of users in mode split_clients lies where a correct build leaves
// it out once in a million runs.
func TestPeersHashedShare(t *testing.T) {
	p := newPeer(t, split.Hashed, 2)
	const n = 4000
	slots := randomRollout(t)
	for _, share := range []float64{1, 5, 50} {
		p.move(t, slots, share)
		low, high := binomialInterval(n, share/100, 1e-6)
		got := p.serve(t, n)
		t.Logf("at %v %%: %d of %d users, interval %d–%d", share, got[state.SlotB], n, low, high)
		if got[state.SlotB] < low || got[state.SlotB] > high || got[state.SlotA]+got[state.SlotB] != n {
			t.Errorf("at %v %%: %v of %d users, want %d to %d on b", share, got, n, low, high)
		}
	}
}

// binomialInterval holds a binomial variable but for probability out, half of
// it on either side.
func binomialInterval(n int, p, out float64) (low, high int) {
	logs := func(k int) float64 {
		lg := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
		return lg(n) - lg(k) - lg(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log(1-p)
	}
	for below := 0.0; ; low++ {
		if below += math.Exp(logs(low)); below > out/2 {
			break
		}
	}
	high = n
	for above := 0.0; ; high-- {
		if above += math.Exp(logs(high)); above > out/2 {
			break
		}
	}
	return low, high
}

// Users that the candidate has it keeps as its share grows; anonymous users
// are not all in one slot; testers go where their header says.
func TestPeersUsersStay(t *testing.T) {
	p := newPeer(t, split.Hashed, 2)
	slots, last := randomRollout(t), map[string]state.Slot{}
	for _, share := range []float64{1, 5, 25, 50, 100} {
		p.move(t, slots, share)
		grew := 0
		for i := range 600 {
			user := fmt.Sprintf("user-%d", i)
			slot, err := p.get(map[string]string{"X-User-Id": user})
			if err != nil {
				t.Fatal(err)
			}
			if last[user] == state.SlotB && slot != state.SlotB {
				t.Fatalf("at %v %%: %s went back to %s", share, user, slot)
			}
			if slot == state.SlotB && last[user] != state.SlotB {
				grew++
			}
			last[user] = slot
		}
		if grew == 0 {
			t.Errorf("at %v %%: nobody came to the candidate", share)
		}
	}
	p.move(t, slots, 50)
	anonymous := map[state.Slot]int{}
	for i := range 200 {
		slot, err := p.get(map[string]string{"User-Agent": fmt.Sprintf("browser/%d", i)})
		if err != nil {
			t.Fatal(err)
		}
		anonymous[slot]++
	}
	if low, high := binomialInterval(200, 0.5, 1e-6); anonymous[state.SlotB] < low || anonymous[state.SlotB] > high {
		t.Errorf("%v of 200 anonymous users, want about half", anonymous)
	}
}

func TestPeersTesters(t *testing.T) {
	for _, mode := range []string{split.Hashed, split.Weighted} {
		t.Run(mode, func(t *testing.T) {
			p := newPeer(t, mode, 1)
			slots := randomRollout(t)
			ask := func(value string) state.Slot {
				slot, err := p.get(map[string]string{"X-Canary": value})
				if err != nil {
					t.Fatal(err)
				}
				return slot
			}
			if got := ask("always"); got != state.SlotA {
				t.Errorf("before testers are on, always reaches %s", got)
			}
			if _, err := p.router(t).Target(t.Context(), slots, state.SlotB, router.Match{Value: "always"}, true); err != nil {
				t.Fatal(err)
			}
			for _, share := range []float64{0, 50, 100} {
				p.move(t, slots, share)
				for range 6 {
					if always, never := ask("always"), ask("never"); always != state.SlotB || never != state.SlotA {
						t.Errorf("at %v %%: always reaches %s, never %s", share, always, never)
					}
				}
			}
			p.move(t, slots, 0.01)
			if _, err := p.router(t).Target(t.Context(), slots, state.SlotB, router.Match{Value: "always"}, false); err != nil {
				t.Fatal(err)
			}
			p.move(t, slots, 0)
			if got := ask("always"); got != state.SlotA {
				t.Errorf("after testers are off, always reaches %s", got)
			}
		})
	}
}

// Weights move under load, clients without keep-alive: no request fails. A
// connection that was reset before any answer is tried once more, as browsers
// do, and counted.
func TestPeersNoFailedRequest(t *testing.T) {
	for _, mode := range []string{split.Hashed, split.Weighted} {
		t.Run(mode, func(t *testing.T) {
			p := newPeer(t, mode, 2)
			ctx, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			var mu sync.Mutex
			sent, resets, failures := 0, 0, []error(nil)
			for i := range 4 {
				wg.Go(func() {
					for n := 0; ctx.Err() == nil; n++ {
						header := map[string]string{"X-User-Id": fmt.Sprintf("user-%d-%d", i, n)}
						_, err := p.get(header)
						reset := errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)
						if reset {
							_, err = p.get(header)
						}
						mu.Lock()
						sent++
						if reset {
							resets++
						}
						if err != nil {
							failures = append(failures, err)
						}
						mu.Unlock()
					}
				})
			}
			slots := randomRollout(t)
			for range 2 {
				for _, share := range []float64{1, 5, 25, 50, 100, 0} {
					p.move(t, slots, share)
				}
			}
			stop()
			wg.Wait()
			t.Logf("%d requests over 12 reloads, %d resets retried, %d failed", sent, resets, len(failures))
			if len(failures) > 0 {
				t.Errorf("%d of %d requests failed, first: %v", len(failures), sent, failures[0])
			}
			if sent < 200 {
				t.Errorf("only %d requests were sent", sent)
			}
		})
	}
}

// Before the first release no slot serves; the first one gets everything.
func TestPeersFirstRelease(t *testing.T) {
	for _, mode := range []string{split.Hashed, split.Weighted} {
		t.Run(mode, func(t *testing.T) {
			p := newPeer(t, mode, 1)
			p.edit(func(string) string { return p.generate(t).Empty })
			slots := randomRollout(t)
			seen, err := p.router(t).Read(t.Context(), slots)
			if err = errors.Join(err, seen.Err()); err != nil {
				t.Fatal(err)
			}
			if seen.Share(state.SlotA) != 0 || seen.Share(state.SlotB) != 0 {
				t.Errorf("shares %v before the first release", seen.Parts[0].Shares)
			}
			// The reload is asynchronous, and nobody writes who could prove it.
			for end := time.Now().Add(10 * time.Second); ; {
				if _, err := p.get(nil); err != nil && strings.Contains(err.Error(), "status 503") {
					break
				} else if time.Now().After(end) {
					t.Fatalf("a request before the first release: %v, want status 503", err)
				}
			}
			p.move(t, slots, 100)
			if got := p.serve(t, 20); got[state.SlotB] != 20 {
				t.Errorf("%v of 20 after the first release", got)
			}
		})
	}
}

// The log tells which slot a request was for and how it fared there, also if
// the other slot answered in the end.
func TestPeersLog(t *testing.T) {
	for _, mode := range []string{split.Hashed, split.Weighted} {
		t.Run(mode, func(t *testing.T) {
			p := newPeer(t, mode, 1)
			slots := randomRollout(t)
			p.move(t, slots, 50)
			p.serve(t, 100)
			alive := p.logged(t, 100)
			if a, b := alive["a 200"], alive["b 200"]; a != int(p.a.Served.Load()) || b != int(p.b.Served.Load()) || a+b != 100 {
				t.Errorf("logged %v, the slots served %d and %d", alive, p.a.Served.Load(), p.b.Served.Load())
			}
			p.b.Stop()
			for i := range 100 {
				_, err := p.get(map[string]string{"X-User-Id": fmt.Sprintf("user-%d", i)})
				if mode == split.Weighted && err != nil {
					t.Errorf("a request for a dead candidate was not answered by the stable: %v", err)
				}
			}
			dead := p.logged(t, 200)
			if got := dead["b 502"]; got == 0 || got+dead["a 200"]-alive["a 200"] != 100 || dead["b 200"] != alive["b 200"] {
				t.Errorf("logged %v, then with a dead candidate %v", alive, dead)
			}
		})
	}
}

// logged counts the lines of the log by track and status. A line is written
// after the answer, so it waits for n lines.
func (p *peer) logged(t *testing.T, n int) map[string]int {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); strings.Count(p.Read("logs/manent.log"), "\n") < n; {
		if time.Now().After(end) {
			t.Fatalf("no %d lines in the log within 10 s", n)
		}
	}
	parse, err := accesslog.JSON(accesslog.Fields{Time: "time", Status: "status", Track: "track", Duration: "request_time", Unit: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for line := range strings.Lines(p.Read("logs/manent.log")) {
		entry, err := parse([]byte(line))
		if err != nil || !entry.Timed || time.Since(entry.At) > time.Minute {
			t.Fatalf("line %q: %+v, %v", line, entry, err)
		}
		var fields struct{ Key string }
		if err := json.Unmarshal([]byte(line), &fields); err != nil || !strings.HasPrefix(fields.Key, "user-") {
			t.Fatalf("line %q: key %q, %v", line, fields.Key, err)
		}
		count[fmt.Sprintf("%s %d", entry.Track, entry.Status)]++
	}
	return count
}

// A long request of an old worker does not hinder the proof, and is answered.
func TestPeersLongRequest(t *testing.T) {
	p := newPeer(t, split.Hashed, 1)
	begun, goOn := make(chan struct{}), make(chan struct{})
	p.a.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-goOn
		_, _ = w.Write([]byte("a"))
	})
	answer := make(chan error, 1)
	go func() {
		slot, err := p.get(nil)
		if err == nil && slot != state.SlotA {
			err = fmt.Errorf("slot %s", slot)
		}
		answer <- err
	}()
	<-begun
	p.move(t, randomRollout(t), 100)
	close(goOn)
	if err := <-answer; err != nil {
		t.Errorf("the request that was on its way: %v", err)
	}
}

// One connection that the stable breaks does not give its traffic to the
// candidate: the request is answered by the other slot, the share stays.
func TestPeersWeightHoldsAfterAFailure(t *testing.T) {
	p := newPeer(t, split.Weighted, 1)
	p.move(t, candidateB(), 1)
	var broken atomic.Bool
	p.a.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if broken.CompareAndSwap(false, true) {
			panic(http.ErrAbortHandler) // closes the connection
		}
		_, _ = w.Write([]byte("a"))
	})
	got := p.serve(t, 200)
	if !broken.Load() {
		t.Fatal("no connection was broken")
	}
	// One for the broken connection, and 1 % of 200; the count of turns may
	// begin anew once.
	if got[state.SlotB] > 4 || got[state.SlotA]+got[state.SlotB] != 200 {
		t.Errorf("%v of 200 requests after one broken connection at 1 %%", got)
	}
}

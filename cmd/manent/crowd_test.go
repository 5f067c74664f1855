package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// tally is what clients saw.
type tally struct {
	Sent   int
	Slots  map[string]int // answers by slot
	Errors map[string]int // of those, with a status of 500 or more
	Lost   map[string]int // of those, with one from 400 to 499
	Resets int            // connections reset before any answer, tried once more
	Failed []error        // requests without an answer, or with one of no slot
}

func newTally() tally {
	return tally{Slots: map[string]int{}, Errors: map[string]int{}, Lost: map[string]int{}}
}

func (c *tally) add(v visit) {
	c.Sent++
	if v.reset {
		c.Resets++
	}
	if v.err != nil {
		c.Failed = append(c.Failed, v.err)
		return
	}
	c.Slots[v.slot]++
	switch {
	case v.status >= 500:
		c.Errors[v.slot]++
	case v.status >= 400:
		c.Lost[v.slot]++
	}
}

// unbroken demands that every request had an answer of a slot, and that none
// of these was an error.
func (c *tally) unbroken(t *testing.T) {
	t.Helper()
	t.Logf("%d requests, %v by slot, %d resets tried again, %d failed", c.Sent, c.Slots, c.Resets, len(c.Failed))
	if len(c.Failed) > 0 {
		t.Errorf("%d of %d requests failed, first: %v", len(c.Failed), c.Sent, c.Failed[0])
	}
	if len(c.Errors) > 0 {
		t.Errorf("%v of %d requests were answered with an error", c.Errors, c.Sent)
	}
}

// visit is one request.
type visit struct {
	slot   string
	status int
	reset  bool
	err    error
}

// visitOf sends a user's request. A connection that is reset before any answer is
// tried once more, as browsers do.
func visitOf(ctx context.Context, client *http.Client, url, user string) visit {
	slot, status, err := once(ctx, client, url, user)
	v := visit{reset: errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)}
	if v.reset {
		slot, status, err = once(ctx, client, url, user)
	}
	v.slot, v.status, v.err = slot, status, err
	return v
}

func once(ctx context.Context, client *http.Client, url, user string) (slot string, status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", 0, err
	}
	request.Header.Set("X-User-Id", user)
	answer, err := client.Do(request)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", 0, err
	}
	slot = answer.Header.Get("X-Slot")
	if slot == "" {
		err = fmt.Errorf("status %d of no slot: %.200q", answer.StatusCode, body)
	}
	return slot, answer.StatusCode, err
}

// crowd sends requests until it is stopped, at most rate a second and at most
// sixty thousand, each over a connection of its own.
type crowd struct {
	stopped context.CancelFunc
	clients sync.WaitGroup
	mu      sync.Mutex
	seen    tally
}

func (s *shop) crowd(rate int) *crowd {
	ctx, stop := context.WithCancel(s.t.Context())
	c := &crowd{stopped: stop, seen: newTally()}
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	users := make(chan string)
	c.clients.Go(func() {
		defer close(users)
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for n := range 60_000 {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			users <- fmt.Sprintf("guest-%d", n)
		}
	})
	for range 8 {
		c.clients.Go(func() {
			for user := range users {
				v := visitOf(s.t.Context(), client, s.front, user)
				c.mu.Lock()
				c.seen.add(v)
				c.mu.Unlock()
			}
		})
	}
	s.t.Cleanup(func() { c.stop() })
	return c
}

// stop returns what the crowd saw.
func (c *crowd) stop() *tally {
	c.stopped()
	c.clients.Wait()
	return &c.seen
}

// visits sends one request of each user, as fast as a few clients can; users
// who are lost ask for what is missing. The clients keep their connections,
// none of which is older than this call.
func (s *shop) visits(users []string) (tally, map[string]string) {
	transport := &http.Transport{MaxIdleConnsPerHost: 4}
	defer transport.CloseIdleConnections()
	client := &http.Client{Timeout: 20 * time.Second, Transport: transport}
	all := make(chan string)
	seen, slots := newTally(), map[string]string{}
	var mu sync.Mutex
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for user := range all {
				url := s.front + "/"
				if strings.HasPrefix(user, "lost") {
					url = s.front + missing
				}
				v := visitOf(s.t.Context(), client, url, user)
				mu.Lock()
				seen.add(v)
				slots[user] = v.slot
				mu.Unlock()
			}
		})
	}
	for _, user := range users {
		all <- user
	}
	close(all)
	clients.Wait()
	return seen, slots
}

// people names n users.
func people(name string, n int) []string {
	users := make([]string, n)
	for i := range users {
		users[i] = fmt.Sprintf("%s-%d", name, i)
	}
	return users
}

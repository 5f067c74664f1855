// Package demo is a small world on loopback to roll out into: two versions of
// a service and a steady load. It must not know what a rollout is; the verb
// demo drives one over it with the public verbs.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Service is one version of the application.
type Service struct {
	URL    string
	server *http.Server
}

// StartService serves a version on a free loopback port. A share of fault
// (0–1) of the answers is 500, each answer takes latency longer than at once.
func StartService(ctx context.Context, version string, fault float64, latency time.Duration) (*Service, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start version %s: %w", version, err)
	}
	handler := func(w http.ResponseWriter, r *http.Request) {
		if latency > 0 {
			select {
			case <-time.After(latency):
			case <-r.Context().Done():
			}
		}
		if rand.Float64() < fault { //nolint:gosec // a made-up fault needs no secret randomness
			http.Error(w, "version "+version+" failed", http.StatusInternalServerError)
			return
		}
		_, _ = fmt.Fprintln(w, "version", version)
	}
	s := &Service{
		URL:    "http://" + listener.Addr().String(),
		server: &http.Server{Handler: http.HandlerFunc(handler), ReadHeaderTimeout: 5 * time.Second},
	}
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
}

// Close ends the service.
func (s *Service) Close() error { return s.server.Close() }

// Load is a steady stream of requests.
type Load struct {
	sent   atomic.Int64
	failed atomic.Int64 // no answer at all
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// workers bounds the requests in flight.
const workers = 64

// StartLoad sends rate requests a second to url until Stop.
func StartLoad(ctx context.Context, url string, rate int) *Load {
	ctx, stop := context.WithCancel(ctx)
	l := &Load{stop: stop}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: workers}}
	due := make(chan struct{}, workers)
	for range workers {
		l.done.Go(func() {
			for range due {
				l.request(ctx, client, url)
			}
		})
	}
	l.done.Go(func() {
		defer close(due)
		pace(ctx, rate, due)
	})
	return l
}

// pace hands out a request whenever one is due; one that nobody can take is
// left out, so that a slow service is not drowned.
func pace(ctx context.Context, rate int, due chan<- struct{}) {
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			select {
			case due <- struct{}{}:
			default:
			}
		}
	}
}

func (l *Load) request(ctx context.Context, client *http.Client, url string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		l.failed.Add(1)
		return
	}
	l.sent.Add(1)
	resp, err := client.Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
		_ = resp.Body.Close()
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		l.failed.Add(1)
	}
}

// Stop ends the load and returns how many requests were sent, and how many of
// them got no answer.
func (l *Load) Stop() (sent, failed int64) {
	l.stop()
	l.done.Wait()
	return l.sent.Load(), l.failed.Load()
}

package demo

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestServiceFailsAsAsked(t *testing.T) {
	for _, row := range []struct {
		fault float64
		want  int
	}{{0, http.StatusOK}, {1, http.StatusInternalServerError}} {
		s, err := StartService(t.Context(), "1.0.0", row.fault, time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if got := statusOf(t, s.URL); got != row.want {
			t.Errorf("fault %v: status %d, want %d", row.fault, got, row.want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestLoadCountsWhatItSends(t *testing.T) {
	var seen atomic.Int64
	enough := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if seen.Add(1) == 20 {
			close(enough)
		}
	}))
	defer server.Close()
	l := StartLoad(context.Background(), server.URL, 500)
	<-enough
	sent, failed := l.Stop()
	if sent < 20 || failed != 0 {
		t.Errorf("sent %d, failed %d; want at least 20 and none", sent, failed)
	}
}

func TestLoadCountsWhatFails(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	l := StartLoad(context.Background(), server.URL, 500)
	for l.failed.Load() == 0 {
		runtime.Gosched()
	}
	if sent, failed := l.Stop(); failed == 0 || failed > sent {
		t.Errorf("sent %d, failed %d; want some failed", sent, failed)
	}
}

func statusOf(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode
}

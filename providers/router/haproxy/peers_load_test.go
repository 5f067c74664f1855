//go:build peers

package haproxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// load is a stream of requests over kept connections, to all instances.
type load struct {
	sent, again, failed atomic.Int64
	mu                  sync.Mutex
	first               error
	got                 map[string]int
}

// run sends rate requests a second until the context ends.
func (l *load) run(ctx context.Context, p *peers, rate int) {
	const workers = 32
	began, wg, next := time.Now(), sync.WaitGroup{}, atomic.Int64{}
	for k := range workers {
		wg.Go(func() {
			line := line{address: p.processes[k%len(p.processes)].Address}
			defer line.close()
			for {
				n := next.Add(1)
				wait := time.NewTimer(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(rate))))
				select {
				case <-ctx.Done():
					return
				case <-wait.C:
				}
				server, err := line.get()
				if errors.Is(err, errClosed) { // as every client does
					l.again.Add(1)
					server, err = line.get()
				}
				l.count(server, err)
			}
		})
	}
	wg.Wait()
}

func (l *load) count(server string, err error) {
	l.sent.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.got[server]++
	} else if l.failed.Add(1); l.first == nil {
		l.first = err
	}
}

// since takes what was counted since the last call.
func (l *load) since() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	got := l.got
	l.got = map[string]int{}
	return got
}

func wait(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// errClosed: a kept connection was closed before any byte of the answer, so
// that the request may be sent again on a new one.
var errClosed = errors.New("the kept connection was closed")

// line is one kept connection.
type line struct {
	address string
	conn    net.Conn
	read    *bufio.Reader
}

func (l *line) close() {
	if l.conn != nil {
		_ = l.conn.Close()
	}
	l.conn = nil
}

// get sends one request and says which server answered.
func (l *line) get() (string, error) {
	kept := l.conn != nil
	if !kept {
		conn, err := (&net.Dialer{Timeout: 10 * time.Second}).Dial("tcp", l.address)
		if err != nil {
			return "", err
		}
		l.conn, l.read = conn, bufio.NewReader(conn)
	}
	_ = l.conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, err := io.WriteString(l.conn, "GET / HTTP/1.1\r\nHost: shop\r\n\r\n")
	if err == nil {
		_, err = l.read.Peek(1)
	}
	var late net.Error
	if err != nil {
		l.close()
		if !kept || errors.As(err, &late) && late.Timeout() {
			return "", err
		}
		return "", errClosed
	}
	return l.answer()
}

func (l *line) answer() (string, error) {
	resp, err := http.ReadResponse(l.read, nil)
	if err != nil {
		l.close()
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.Close {
		l.close()
	}
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, body)
	}
	return string(body), err
}

package kubernetes

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/manent/action/providers"
)

// maxBody bounds an answer; the API server itself keeps objects below 1.5 MiB.
const maxBody = 16 << 20

// answer is what a response said outside its body.
type answer struct{ after time.Duration }

type answerKey struct{}

// transport is the innermost: it sees requests as they are sent.
type transport struct {
	next   http.RoundTripper
	client *Client
}

func (c *Client) wrap(next http.RoundTripper) http.RoundTripper {
	return &transport{next: next, client: c}
}

// RoundTrip implements http.RoundTripper. It takes Retry-After off the answer,
// since client-go would wait and send again, ten times over.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.client.hide(req.Header.Get("Authorization")); err != nil {
		return nil, err
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, &lostError{err: err}
	}
	if a, ok := req.Context().Value(answerKey{}).(*answer); ok {
		a.after = retryAfter(resp.Header.Get("Retry-After"))
	}
	resp.Header.Del("Retry-After")
	if err := whole(resp); err != nil {
		return nil, err
	}
	return resp, nil
}

// whole reads the body here: client-go would print an error of it.
func whole(resp *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	_ = resp.Body.Close() // it has been read
	if len(data) > maxBody {
		err = errors.New("the answer is longer than 16 MiB")
	}
	if err != nil {
		return &lostError{err: err}
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return nil
}

func retryAfter(text string) time.Duration {
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, time.Hour)
}

// hide keeps a credential out of whatever is printed. It says so once for each:
// programs give new tokens while a rollout lasts.
func (c *Client) hide(authorization string) error {
	words := strings.Fields(authorization)
	if len(words) == 0 {
		return nil
	}
	last := words[len(words)-1]
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hidden[last] {
		return nil
	}
	token := providers.NewSecret(last)
	c.redact.Add(token)
	if c.opts.Hide != nil {
		if err := c.opts.Hide(token); err != nil {
			return fmt.Errorf("hide the token: %w", err)
		}
	}
	c.hidden[last] = true
	return nil
}

// lostError is an error of the way. It does not unwrap: client-go looks for a
// closed connection in the chain and would send again.
type lostError struct{ err error }

func (e *lostError) Error() string { return "connection: " + e.err.Error() }

package kubernetes

import (
	"bytes"
	"encoding/json"
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

// answer is what a response said that client-go does not tell.
type answer struct {
	code  int
	after time.Duration
	own   bool   // the body is a Status, as the API server's own answers are
	to    string // the host that a redirect names
}

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
	t.client.dated(resp)
	a := answer{code: resp.StatusCode, after: retryAfter(resp.Header.Get("Retry-After"))}
	resp.Header.Del("Retry-After")
	data, err := whole(resp)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		a.own = isStatus(data)
		if to, err := resp.Location(); err == nil {
			a.to = to.Host
		}
	}
	if into, ok := req.Context().Value(answerKey{}).(*answer); ok {
		*into = a
	}
	return resp, nil
}

// isStatus reports whether a body is what the API server says no with. Its
// 404 for a path that it does not know at all is plain text, like anybody's.
func isStatus(data []byte) bool {
	var s struct{ Kind, APIVersion, Status string }
	return json.Unmarshal(data, &s) == nil && s.Kind == "Status" && s.APIVersion == "v1" && s.Status == "Failure"
}

// whole reads the body here: client-go would print an error of it.
func whole(resp *http.Response) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	_ = resp.Body.Close() // it has been read
	if len(data) > maxBody {
		err = errors.New("the answer is longer than 16 MiB")
	}
	if err != nil {
		return nil, &lostError{err: err}
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return data, nil
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

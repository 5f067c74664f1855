package httpx

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/manent/action/providers"
)

// KindOf maps a status outside 2xx to what it means.
func KindOf(status int) providers.Kind {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return providers.Denied
	case http.StatusNotFound, http.StatusGone:
		return providers.NotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return providers.Conflict
	case http.StatusTooManyRequests:
		return providers.Throttled
	case http.StatusRequestTimeout, http.StatusTooEarly:
		return providers.Unavailable
	}
	if status >= 500 {
		return providers.Unavailable
	}
	return providers.Invalid
}

// errNetwork and errUnsent mark what happened on the way; errUnsent means
// that the system surely did not see the call.
var (
	errNetwork = errors.New("network")
	errUnsent  = errors.New("unsent")
)

func unsent(err error) bool { return errors.Is(err, errUnsent) }

// network turns an error of the transport into a fault. Only an end of the
// caller's own context stays in the chain: the attempt's timeout is not it.
func (t *retrier) network(caller, attempt context.Context, timeout time.Duration, err error) error {
	kind, mark := providers.Unknown, errNetwork
	text, hint := plain(err), ""
	var dial *net.OpError
	var cert *tls.CertificateVerificationError
	switch {
	case caller.Err() != nil:
		return t.fault(kind, fmt.Errorf("no answer: %w", caller.Err()))
	case errors.As(err, &cert):
		kind, mark = providers.Unavailable, nil // the same certificate next time
		hint = "trust the authority that signed it with ca_file"
	case errors.As(err, &dial) && dial.Op == "dial":
		kind, mark = providers.Unavailable, errUnsent
	case attempt.Err() != nil:
		text = fmt.Sprintf("no answer within %v", timeout.Round(time.Millisecond))
	}
	return &providers.Fault{Provider: t.opts.Provider, Kind: kind, Hint: hint, Err: &lostError{text: text, mark: mark}}
}

// lostError keeps the text of a transport error and drops its chain, which
// may hold the URL and claims to be the caller's deadline.
type lostError struct {
	text string
	mark error
}

func (e *lostError) Error() string { return e.text }

// Is matches the mark.
func (e *lostError) Is(target error) bool { return e.mark != nil && target == e.mark }

func plain(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return err.Error()
}

func (t *retrier) fault(kind providers.Kind, err error) error {
	return &providers.Fault{Provider: t.opts.Provider, Kind: kind, Err: err}
}

func (c *Client) fault(op string, kind providers.Kind, err error) error {
	return &providers.Fault{Provider: c.opts.Provider, Op: op, Kind: kind, Err: err}
}

// lost names the call in a fault of the transport.
func (c *Client) lost(op string, err error) error {
	if f, ok := errors.AsType[*providers.Fault](err); ok {
		named := *f
		named.Provider, named.Op = or(f.Provider, c.opts.Provider), or(f.Op, op)
		return &named
	}
	return c.fault(op, providers.Unknown, errors.New(c.clean(plain(err), nil)))
}

// refused is the fault of a status outside 2xx, with the first words of the
// body.
func (c *Client) refused(op string, resp *Response, sent *http.Request) error {
	text := fmt.Sprintf("status %d", resp.Status)
	if where := resp.Header.Get("Location"); resp.Status < 400 && where != "" {
		text += ", redirected to " + CleanURL(where) + ", which is not followed"
	} else if said := excerpt(c.clean(string(resp.Body[:min(len(resp.Body), 8<<10)]), sent)); said != "" {
		text += ": " + said
	}
	return &providers.Fault{
		Provider: c.opts.Provider, Op: op, Kind: KindOf(resp.Status), Err: errors.New(text),
		After: retryAfter(resp.Header),
	}
}

// excerpt is the beginning of a body on one line, without control characters.
// It is cut after the secrets are blanked, so that no half of one remains.
func excerpt(body string) string {
	const most = 240
	runes := []rune(strings.Join(strings.Fields(body), " "))
	cut := ""
	if len(runes) > most {
		runes, cut = runes[:most], "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, string(runes)) + cut
}

// clean blanks what is known to be secret: a system may echo what it was sent.
func (c *Client) clean(text string, sent *http.Request) string {
	if c.opts.Secrets != nil {
		text = c.opts.Secrets.Clean(text)
	}
	if sent == nil {
		return text
	}
	var known providers.Redactor
	for name, values := range sent.Header {
		if publicHeader(name) {
			continue
		}
		for _, v := range values {
			addCredential(&known, v)
		}
	}
	if password, ok := sent.URL.User.Password(); ok {
		known.Add(providers.NewSecret(password))
	}
	return known.Clean(text)
}

func publicHeader(name string) bool {
	switch name {
	case "Accept", "Content-Type", "User-Agent", "If-Match", "If-None-Match":
		return true
	}
	return false
}

// addCredential adds a header's value, its last word ("Bearer …") and the
// password of basic credentials.
func addCredential(known *providers.Redactor, value string) {
	words := strings.Fields(value)
	if len(words) == 0 {
		return
	}
	last := words[len(words)-1]
	if decoded, err := base64.StdEncoding.DecodeString(last); err == nil {
		if _, password, ok := strings.Cut(string(decoded), ":"); ok {
			known.Add(providers.NewSecret(password))
		}
	}
	known.Add(providers.NewSecret(last))
	known.Add(providers.NewSecret(value))
}

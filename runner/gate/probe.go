package gate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"

	"github.com/manent/action/runner/config"
)

// ProbeLimit is how much of a probe's body is read and looked at.
const ProbeLimit = 1 << 20

var probePlaceholder = regexp.MustCompile(`\{([^{}]*)\}`)

// ExpandProbe returns the address of a probe. Values are escaped for where
// they stand: in the path, in the query, or as host and port, where only what
// can be a host or a port is taken. A placeholder without a value, an address
// that is not http or https and one with credentials are errors.
func ExpandProbe(p config.Probe, vars map[string]string) (string, error) {
	scheme, rest, ok := strings.Cut(p.URL, "://")
	if !ok || (scheme != "http" && scheme != "https") {
		return "", fmt.Errorf("probe %s: %q, expected https://HOST/PATH", p.Name, p.URL)
	}
	cut := strings.IndexAny(rest, "/?#")
	if cut < 0 {
		cut = len(rest)
	}
	path, query, hasQuery := strings.Cut(rest[cut:], "?")
	parts := []struct {
		text   string
		escape func(string) (string, error)
	}{{rest[:cut], hostValue}, {path, pathValue}, {query, queryValue}}
	for i := range parts {
		text, err := fillProbe(parts[i].text, vars, parts[i].escape)
		if err != nil {
			return "", fmt.Errorf("probe %s: %w", p.Name, err)
		}
		parts[i].text = text
	}
	address := scheme + "://" + parts[0].text + parts[1].text
	if hasQuery {
		address += "?" + parts[2].text
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return "", fmt.Errorf("probe %s: %q, expected https://HOST/PATH without credentials", p.Name, p.URL)
	}
	return address, nil
}

func fillProbe(text string, vars map[string]string, escape func(string) (string, error)) (string, error) {
	var problem error
	filled := probePlaceholder.ReplaceAllStringFunc(text, func(word string) string {
		value := vars[word[1:len(word)-1]]
		if value == "" {
			problem = fmt.Errorf("placeholder %s has no value here", word)
			return ""
		}
		escaped, err := escape(value)
		if err != nil {
			problem = fmt.Errorf("placeholder %s: %w", word, err)
		}
		return escaped
	})
	return filled, problem
}

var hostPlain = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

func hostValue(value string) (string, error) {
	if ip := net.ParseIP(value); ip != nil && strings.Contains(value, ":") {
		return "[" + value + "]", nil
	}
	if !hostPlain.MatchString(value) {
		return "", fmt.Errorf("%q, expected a host or a port", value)
	}
	return value, nil
}

func pathValue(value string) (string, error) {
	if value == "." || value == ".." {
		return "", fmt.Errorf("%q, which would change the path", value)
	}
	return url.PathEscape(value), nil
}

func queryValue(value string) (string, error) { return url.QueryEscape(value), nil }

// JudgeProbe says what one request of a probe to address means. The request
// follows no redirect, and body is at most its first ProbeLimit bytes.
//
// A probe speaks to the candidate, so a refused or reset connection, a
// timeout, a wrong certificate and a cut or garbled answer are failures of it.
// What went wrong on this side is an error: a name that cannot be resolved, no
// network or no socket of our own, a call that was cancelled, a request never
// sent.
func JudgeProbe(p config.Probe, address string, status int, body []byte, err error) ProbeResult {
	r := ProbeResult{Name: p.Name, URL: address, Result: Fail, Status: status}
	want := p.Status
	if want == 0 {
		want = http.StatusOK
	}
	switch {
	case err != nil:
		r.Reason = err.Error()
		if !candidatesFault(err) {
			r.Result = Errored
		}
	case status != want:
		r.Reason = fmt.Sprintf("status %d, expected %d", status, want)
		if status >= 300 && status < 400 {
			r.Reason += " (redirects are not followed)"
		}
	case !bytes.Contains(body, []byte(p.Contains)):
		r.Reason = fmt.Sprintf("status %d, %q is not in the body of %d bytes", status, p.Contains, len(body))
		if len(body) >= ProbeLimit {
			r.Reason = fmt.Sprintf("status %d, %q is not in the first %d bytes of the body", status, p.Contains, ProbeLimit)
		}
	default:
		r.Result, r.Reason = Pass, fmt.Sprintf("status %d", status)
	}
	return r
}

// candidatesFault reports whether err came out of talking to the candidate.
func candidatesFault(err error) bool {
	if _, ok := errors.AsType[*net.DNSError](err); ok || errors.Is(err, context.Canceled) {
		return false
	}
	for _, own := range []error{syscall.ENETUNREACH, syscall.EADDRNOTAVAIL, syscall.EMFILE, syscall.ENFILE, syscall.EACCES, syscall.EPERM} {
		if errors.Is(err, own) {
			return false
		}
	}
	_, sent := errors.AsType[*url.Error](err) // of http.Client, around all that a request met
	_, network := errors.AsType[net.Error](err)
	return sent || network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded)
}

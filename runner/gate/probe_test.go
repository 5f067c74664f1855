package gate

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/manent/action/runner/config"
)

func TestExpandProbe(t *testing.T) {
	vars := map[string]string{
		"host": "10.0.1.10", "port": "8080", "version": "1.1/0 beta&x", "track": "b", "six": "fd00::1", "up": "..",
		"evil": "10.0.1.10/@x", "application": "shöp",
	}
	tests := []struct{ raw, want, problem string }{
		{"https://{host}/", "https://10.0.1.10/", ""},
		{"http://{host}:{port}/{track}/health", "http://10.0.1.10:8080/b/health", ""},
		{"https://{host}", "https://10.0.1.10", ""},
		{"https://{six}:{port}/", "https://[fd00::1]:8080/", ""},
		{"https://{track}.shop.example/v/{version}", "https://b.shop.example/v/1.1%2F0%20beta&x", ""},
		{"https://{host}/?v={version}&a={application}", "https://10.0.1.10/?v=1.1%2F0+beta%26x&a=sh%C3%B6p", ""},
		{"https://{host}?v={track}", "https://10.0.1.10?v=b", ""},
		{"https://{evil}/", "", "expected a host or a port"},
		{"https://{host}/{up}/admin", "", "would change the path"},
		{"https://{host}/{wave}", "", "{wave} has no value"},
		{"https://{}/", "", "{} has no value"},
		{"https://user:pw@{host}/", "", "without credentials"},
		{"https:///path", "", "expected https://HOST"},
		{"ftp://{host}/", "", "expected https://HOST"},
		{"{host}/", "", "expected https://HOST"},
		{"https://{host}:http/", "", "expected https://HOST"},
	}
	for _, tt := range tests {
		t.Run(tt.raw, func(t *testing.T) {
			got, err := ExpandProbe(config.Probe{Name: "home", URL: tt.raw}, vars)
			if tt.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tt.problem) || !strings.HasPrefix(err.Error(), "probe home: ") {
					t.Fatalf("%q, error %v, want %q in it", got, err, tt.problem)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("%q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestJudgeProbe(t *testing.T) {
	get := func(err error) error { return &url.Error{Op: "Get", URL: "https://10.0.1.10/", Err: err} }
	dial := func(err error) error {
		return get(&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)})
	}
	ok := config.Probe{Name: "home", Contains: "ok"}
	tests := []struct {
		name   string
		probe  config.Probe
		status int
		body   string
		err    error
		want   Result
		reason string
	}{
		{"as expected", ok, 200, "all ok", nil, Pass, "status 200"},
		{"no text asked for", config.Probe{Status: 204}, 204, "", nil, Pass, "status 204"},
		{"text missing", ok, 200, "down", nil, Fail, `"ok" is not in the body of 4 bytes`},
		{"text not in what was read", ok, 200, strings.Repeat("x", ProbeLimit), nil, Fail, "first 1048576 bytes"},
		{"wrong status", ok, 503, "ok", nil, Fail, "status 503, expected 200$"},
		{"just below a redirect", ok, 299, "ok", nil, Fail, "status 299, expected 200$"},
		{"redirect", ok, 300, "ok", nil, Fail, "redirects are not followed"},
		{"last redirect", ok, 399, "ok", nil, Fail, "redirects are not followed"},
		{"just above a redirect", ok, 400, "ok", nil, Fail, "status 400, expected 200$"},
		{"redirect expected", config.Probe{Status: 302}, 302, "", nil, Pass, "status 302"},
		{"no status at all", ok, 0, "ok", nil, Fail, "status 0"},
		{"connection refused", ok, 0, "", dial(syscall.ECONNREFUSED), Fail, "refused"},
		{"connection reset", ok, 0, "", get(syscall.ECONNRESET), Fail, "reset"},
		{"host unreachable", ok, 0, "", dial(syscall.EHOSTUNREACH), Fail, "no route"},
		{"timeout", ok, 0, "", get(context.DeadlineExceeded), Fail, "deadline"},
		{"wrong certificate", ok, 0, "", get(x509.UnknownAuthorityError{}), Fail, "certificate"},
		{"garbled answer", ok, 0, "", get(errors.New(`malformed HTTP response "x"`)), Fail, "malformed"},
		{"reset within the answer", ok, 200, "o", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, Fail, "reset"},
		{"timeout within the answer", ok, 200, "o", fmt.Errorf("read body: %w", context.DeadlineExceeded), Fail, "deadline"},
		{"closed within the answer", ok, 200, "o", io.EOF, Fail, "EOF"},
		{"cut answer", ok, 200, "o", io.ErrUnexpectedEOF, Fail, "EOF"},
		{"cut answer that holds the text", ok, 200, "ok", fmt.Errorf("read body: %w", io.ErrUnexpectedEOF), Fail, "EOF"},
		{"name not found", ok, 0, "", get(&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}), Errored, "no such host"},
		{"name server silent", ok, 0, "", get(&net.DNSError{Err: "timeout", Name: "x", IsTimeout: true}), Errored, "timeout"},
		{"no network", ok, 0, "", dial(syscall.ENETUNREACH), Errored, "unreachable"},
		{"no sockets left", ok, 0, "", dial(syscall.EMFILE), Errored, "too many open files"},
		{"cancelled", ok, 0, "", get(context.Canceled), Errored, "canceled"},
		{"never sent", ok, 0, "", errors.New("probe home: placeholder {wave} has no value here"), Errored, "placeholder"},
		{"an answer and an error", ok, 200, "ok", errors.New("own fault"), Errored, "own fault"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := JudgeProbe(tt.probe, "https://10.0.1.10/", tt.status, []byte(tt.body), tt.err)
			if r.Result != tt.want || !strings.Contains(r.Reason+"$", tt.reason) || r.Status != tt.status || r.URL != "https://10.0.1.10/" {
				t.Errorf("%+v, want %s: %s", r, tt.want, tt.reason)
			}
		})
	}
}

// A probe of several hosts is one result each, and each has to pass.
func TestEveryHostIsProbed(t *testing.T) {
	h := config.Health{Probes: []config.Probe{{Name: "home"}}}
	seen := []ProbeResult{{Name: "home", URL: "https://10.0.1.10/", Result: Pass}, {Name: "home", URL: "https://10.0.1.11/", Result: Fail, Reason: "status 503, expected 200"}}
	s := subject(false)
	s.Share = 0
	r := Judge(h, s, nil, seen)
	if r.Verdict != Red || r.Reason != "probe home: https://10.0.1.11/: status 503, expected 200" || len(r.Probes) != 2 {
		t.Errorf("%s: %s", r.Verdict, r.Reason)
	}
	if r = Judge(h, s, nil, seen[:1]); r.Verdict != Green {
		t.Errorf("%s: %s", r.Verdict, r.Reason)
	}
}

//go:build unix

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/kubernetes/kubetest"
)

// lender is a server that takes one token, and programs that may give it.
type lender struct {
	server  *httptest.Server
	dir     string
	takes   string   // the token
	got     []string // the tokens that came
	logged  []string
	timeout time.Duration
}

func newLender(t *testing.T) *lender {
	t.Helper()
	l := &lender{dir: t.TempDir(), takes: "from-a-program", timeout: 5 * time.Second}
	l.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		l.got = append(l.got, token)
		if token != l.takes {
			kubetest.Refuse(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"X","apiVersion":"v1"}`))
	}))
	t.Cleanup(l.server.Close)
	write(t, l.dir, "ca", "%s", kubetest.Authority(l.server))
	return l
}

// client is one whose kubeconfig names a program; "" for one that is not there.
func (l *lender) client(t *testing.T, command string, more ...string) *Client {
	t.Helper()
	program := filepath.Join(l.dir, "lend.sh")
	if command == "" {
		program = filepath.Join(l.dir, "absent.sh")
	} else if err := os.WriteFile(program, []byte("#!/bin/sh\ncd "+l.dir+"\n"+command+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	user := fmt.Sprintf("exec: {%s}", strings.Join(append([]string{"apiVersion: client.authentication.k8s.io/v1", fmt.Sprintf("command: %q", program)}, more...), ", "))
	if len(more) == 0 {
		user = strings.Replace(user, "}", ", interactiveMode: IfAvailable}", 1)
	}
	return New(Options{
		Timeout: l.timeout, Kubeconfig: write(t, l.dir, "kubeconfig", config, l.server.URL, ", certificate-authority: "+filepath.Join(l.dir, "ca"), user),
		Log: func(format string, args ...any) { l.logged = append(l.logged, fmt.Sprintf(format, args...)) },
	})
}

// gives is a program that prints a status.
func gives(status string) string {
	return `cat <<END
{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":` + status + `}
END`
}

func TestExec(t *testing.T) {
	l := newLender(t)
	c := l.client(t, `read -r line && exit 9 # nobody is there to answer
echo "$KUBERNETES_EXEC_INFO" > asked
echo once >> runs
echo "renewed for $WHO" >&2
`+gives(`{"token":"from-a-program"}`), "interactiveMode: IfAvailable", "provideClusterInfo: true", `env: [{name: WHO, value: ci}]`)
	for range 2 {
		if _, err := c.Get(t.Context(), web); err != nil {
			t.Fatal(err)
		}
	}
	asked, _ := os.ReadFile(filepath.Join(l.dir, "asked"))
	for _, word := range []string{`"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1"`, `"interactive":false`, `"server":"` + l.server.URL + `"`, `"certificate-authority-data":`} {
		if !strings.Contains(string(asked), word) {
			t.Errorf("the program was told %s, want %s", asked, word)
		}
	}
	if len(l.logged) != 1 || !strings.HasSuffix(l.logged[0], "lend.sh: renewed for ci") {
		t.Errorf("logged %q", l.logged)
	}
	if runs, _ := os.ReadFile(filepath.Join(l.dir, "runs")); string(runs) != "once\n" {
		t.Errorf("the program ran %q, want once for two requests", runs)
	}
}

func TestExecGivesNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		command string
		more    []string
		kind    providers.Kind
		words   []string
	}{
		"fails":            {"echo log in first >&2; exit 3", nil, providers.Unavailable, []string{"read httproutes shop/web: no credentials: ", "lend.sh", "exit code 3; it last logged: log in first", "run the program that the kubeconfig names under exec"}},
		"absent":           {"", nil, providers.Denied, []string{"absent.sh", "install the program"}},
		"absent with help": {"", []string{"interactiveMode: Never", "installHint: get it from the cloud"}, providers.Denied, []string{"get it from the cloud"}},
		"no JSON":          {"echo " + kubetest.Token, nil, providers.Unavailable, []string{"what it printed is no JSON"}},
		"nothing":          {"true", nil, providers.Unavailable, []string{"no JSON"}},
		"another version":  {`echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1alpha1"}'`, nil, providers.Unavailable, []string{"v1alpha1, expected ExecCredential client.authentication.k8s.io/v1"}},
		"no token":         {gives("{}"), nil, providers.Unavailable, []string{"neither a token nor a certificate"}},
		"half a pair":      {gives(`{"clientCertificateData":"x"}`), nil, providers.Unavailable, []string{"expected both"}},
		"no pair":          {gives(`{"clientCertificateData":"x","clientKeyData":"` + kubetest.Token + `"}`), nil, providers.Invalid, []string{"PEM"}},
		"endless":          {"exec cat /dev/zero", nil, providers.Unavailable, []string{"more than 1048576 bytes"}},
		"wants a terminal": {"true", []string{"interactiveMode: Always"}, providers.Invalid, []string{"interactiveMode Always, and a pipeline has nobody to ask", "credentials for machines"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLender(t)
			_, err := l.client(t, tt.command, tt.more...).Get(t.Context(), web)
			check(t, err, tt.kind, tt.words...)
			if len(l.got) != 0 {
				t.Errorf("%d requests were sent", len(l.got))
			}
		})
	}
}

// TestExecHangs: the program and what it started end with the time for a
// request, or with the call, whichever is first.
func TestExecHangs(t *testing.T) {
	for name, limit := range map[string]bool{"timeout": true, "context": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLender(t)
			fifo := filepath.Join(l.dir, "alive")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			gone := make(chan error, 1)
			go func() {
				_, err := os.ReadFile(fifo) // until whoever has it open to write has ended
				gone <- err
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if limit {
				l.timeout, ctx = 100*time.Millisecond, t.Context()
			}
			_, err := l.client(t, "sleep 1000 > alive & sleep 1000").Get(ctx, web)
			if limit {
				check(t, err, providers.Unavailable, "no credentials: ", "lend.sh", "no answer within 100ms")
			} else {
				check(t, err, providers.Unknown, "no credentials: ", "lend.sh", "was stopped")
			}
			if lost := errors.Is(err, context.DeadlineExceeded); lost == limit {
				t.Errorf("%v: the caller's own end: %v", err, lost)
			}
			if err := <-gone; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestExecWaits: who waits for another's program waits no longer than its own
// context allows.
func TestExecWaits(t *testing.T) {
	c := newLender(t).client(t, "true")
	c.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Get(ctx, web)
	check(t, err, providers.Unknown, "no credentials")
}

// TestExecAgain: a token that is over, or refused, is replaced by another one.
func TestExecAgain(t *testing.T) {
	l := newLender(t)
	c := l.client(t, `token=$(cat token)
`+gives(`{"token":"$token","expirationTimestamp":"$(cat ends)"}`))
	get := func(token string, ends time.Duration, want string) {
		t.Helper()
		write(t, l.dir, "token", "%s", token)
		write(t, l.dir, "ends", "%s", time.Now().Add(ends).UTC().Format(time.RFC3339))
		l.got = nil
		_, err := c.Get(t.Context(), web)
		if got := strings.Join(l.got, " "); got != want || (err == nil) != strings.HasSuffix(want, l.takes) {
			t.Errorf("sent %q, want %q: %v", got, want, err)
		}
	}
	l.takes = "one"
	get("one", time.Hour, "one")
	get("two", time.Hour, "one") // it lasts
	l.takes = "two"
	get("two", time.Hour, "one two") // refused, and asked for again
	get("three", time.Hour, "two")
	l.takes = "none"
	get("three", time.Hour, "two three") // and only once
	l.takes = "four"
	get("four", time.Second, "four")
	l.takes = "five"
	get("five", time.Hour, "five") // four is about to end
}

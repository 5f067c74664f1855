package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/manent/action/state"
)

// shop is a service in two slots that a rollout of manent, always a process
// of its own, moves traffic between. Real requests go to front.
type shop struct {
	t      testing.TB
	dir    string // of the configuration, and of every manent
	a, b   *release
	front  string            // URL that clients use
	vars   map[string]string // what stands for $NAME in the configuration
	env    []string          // more of the environment of manent
	config string
	binary string // of manent; "": the one in PATH
}

// newShop starts the service's two versions.
func newShop(t testing.TB) *shop {
	s := &shop{t: t, dir: t.TempDir(), a: startRelease(t, "a"), b: startRelease(t, "b")}
	s.vars = map[string]string{"A": s.a.url, "B": s.b.url, "DIR": s.dir}
	return s
}

// release is what is in one slot. It answers with the slot's name, and with
// 500 to the last but one of every so many requests.
type release struct {
	slot   string
	url    string
	every  atomic.Int64 // 0: no request fails
	served atomic.Int64
	failed atomic.Int64 // of those served
	last   atomic.Int64 // when a request came last, Unix nanoseconds
}

func startRelease(t testing.TB, slot string) *release {
	v := &release{slot: slot}
	server := httptest.NewServer(v)
	t.Cleanup(server.Close)
	v.url = server.URL
	return v
}

// missing is a path that no release has.
const missing = "/missing"

// ServeHTTP implements http.Handler. What monitoring reads is at /metrics.
func (v *release) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/metrics" {
		bad := v.failed.Load()
		_, _ = fmt.Fprintf(w, "# TYPE http_requests_total counter\n"+
			"http_requests_total{slot=%q,code=\"200\"} %d\nhttp_requests_total{slot=%q,code=\"500\"} %d\n",
			v.slot, v.served.Load()-bad, v.slot, bad)
		return
	}
	n := v.served.Add(1)
	v.last.Store(time.Now().UnixNano())
	w.Header().Set("X-Slot", v.slot)
	every := v.every.Load()
	switch {
	case r.URL.Path == missing:
		w.WriteHeader(http.StatusNotFound)
	case every > 0 && n%every == every-1:
		v.failed.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = fmt.Fprintln(w, v.slot)
}

// write writes a file of the shop, with the value of each $NAME in it.
func (s *shop) write(name, text string) string {
	s.t.Helper()
	text = os.Expand(text, func(name string) string {
		if value, ok := s.vars[name]; ok {
			return value
		}
		return "$" + name
	})
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// configure writes the configuration that every call uses.
func (s *shop) configure(text string) {
	s.t.Helper()
	s.config = s.write("prod.yml", text)
}

// proxy runs manent proxy in front of the service until the test ends.
func (s *shop) proxy() {
	s.t.Helper()
	cmd := s.command(s.t.Context(), "proxy", "--json", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--slot", "a="+s.a.url, "--slot", "b="+s.b.url, "--log", "access.log")
	said := &transcript{}
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	var addresses struct{ Listen, Admin string }
	if err := json.NewDecoder(out).Decode(&addresses); err != nil {
		s.t.Fatalf("proxy did not start: %v\n%s", err, said)
	}
	s.front, s.vars["ADMIN"] = "http://"+addresses.Listen, "http://"+addresses.Admin
}

// command is manent with these arguments.
func (s *shop) command(ctx context.Context, args ...string) *exec.Cmd {
	path, err := exec.LookPath(cmp.Or(s.binary, "manent"))
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = s.dir
	cmd.Env = s.environ()
	return cmd
}

// environ is the environment of manent.
func (s *shop) environ() []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + s.t.TempDir(), "USER=alice", "NO_PROXY=*", "GIT_CONFIG_NOSYSTEM=1",
	}, s.env...)
}

// running is a manent that was started.
type running struct {
	t        testing.TB
	cmd      *exec.Cmd
	out, err transcript
	ended    chan struct{} // closed when the process is gone
	failed   error         // of waiting for it
}

// start runs a verb with the configuration.
func (s *shop) start(verb string, args ...string) *running {
	s.t.Helper()
	s.t.Logf("manent %s %s", verb, strings.Join(args, " "))
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	s.t.Cleanup(cancel)
	return launch(s.t, s.command(ctx, append([]string{verb, "-c", s.config}, args...)...))
}

// launch starts a process, whatever program it is.
func launch(t testing.TB, cmd *exec.Cmd) *running {
	t.Helper()
	r := &running{t: t, cmd: cmd, ended: make(chan struct{})}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.err
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		r.failed = r.cmd.Wait()
		close(r.ended)
	}()
	return r
}

// wait returns the exit code, -1 after a signal that ended the process.
func (r *running) wait() int {
	r.t.Helper()
	<-r.ended
	if _, exited := errors.AsType[*exec.ExitError](r.failed); r.failed != nil && !exited {
		r.t.Fatal(r.failed)
	}
	return r.cmd.ProcessState.ExitCode()
}

func (r *running) signal(sig syscall.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		r.t.Fatal(err)
	}
}

// exits runs a verb and demands its exit code. It returns what was printed.
func (s *shop) exits(code int, verb string, args ...string) string {
	s.t.Helper()
	r := s.start(verb, args...)
	if got := r.wait(); got != code {
		s.t.Fatalf("manent %s %s ended with %d, expected %d\n%s\n%s", verb, strings.Join(args, " "), got, code, &r.out, &r.err)
	}
	return r.out.String()
}

// status reads the state document with the verb.
func (s *shop) status() (doc state.Document, commands []string) {
	s.t.Helper()
	var shown struct {
		state.Document
		Next struct{ Commands []string }
	}
	if err := json.Unmarshal([]byte(s.exits(0, "status", "--json")), &shown); err != nil {
		s.t.Fatal(err)
	}
	return shown.Document, shown.Next.Commands
}

// answer gives the answer to the open pause with the command that status names.
func (s *shop) answer(code int, verb string) {
	s.t.Helper()
	_, commands := s.status()
	for _, command := range commands {
		if words := strings.Fields(command); words[1] == verb {
			s.exits(code, verb, words[2:]...)
			return
		}
	}
	s.t.Fatalf("status names no command %s: %q", verb, commands)
}

// transcript is what a process prints. It is safe for concurrent use.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *transcript) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String implements fmt.Stringer.
func (o *transcript) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// prints waits until the process has printed a text.
func (r *running) prints(text string) {
	r.t.Helper()
	eventually(r.t, func() error {
		all := r.out.String()
		if strings.Contains(all, text) {
			return nil
		}
		err := fmt.Errorf("manent has not printed %q, but\n%s\n%s", text, all, &r.err)
		select {
		case <-r.ended:
			r.t.Fatal(err)
		default:
		}
		return err
	})
}

// reaches waits for what a manent does somewhere else.
func (r *running) reaches(where <-chan struct{}) {
	r.t.Helper()
	select {
	case <-where:
	case <-r.ended:
		r.t.Fatalf("manent has ended with %d\n%s\n%s", r.wait(), &r.out, &r.err)
	}
}

// eventually waits until something is so.
func eventually(t testing.TB, so func() error) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		err := so()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
		pause(t.Context(), 5*time.Millisecond)
	}
}

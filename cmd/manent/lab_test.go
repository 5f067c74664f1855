package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// lab is the key of a script's world.
type lab struct{}

// world is what a script has besides files: versions of a service, the proxy
// in front of them, and requests.
type world struct {
	env   *testscript.Env
	kept  map[string]map[string]string
	front *exec.Cmd // the proxy
}

func newLab(env *testscript.Env) *world {
	return &world{env: env, kept: map[string]map[string]string{}}
}

func labOf(ts *testscript.TestScript) *world { return ts.Value(lab{}).(*world) }

// serve SLOT [PERCENT] starts a version of the service, of whose answers so
// many are errors. Its address is $A or $B.
func (l *world) serve(ts *testscript.TestScript, args []string) {
	percent := 0
	if len(args) == 2 {
		var err error
		percent, err = strconv.Atoi(args[1])
		ts.Check(err)
	}
	var count atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := count.Add(1)
		if n*int64(percent)/100 != (n-1)*int64(percent)/100 {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = fmt.Fprintf(w, "hello from slot %s\n", args[0])
	}))
	ts.Defer(server.Close)
	ts.Setenv(strings.ToUpper(args[0]), server.URL)
}

// proxy [FLAG…] runs manent proxy in front of $A and $B until the script
// ends. Its addresses are $LISTEN and $ADMIN, the same when it is started
// again, its log is access.log.
func (l *world) proxy(ts *testscript.TestScript, args []string) {
	args = append([]string{
		"proxy", "--json", "--listen", address(ts, "LISTEN"), "--admin", address(ts, "ADMIN"),
		"--slot", "a=" + ts.Getenv("A"), "--slot", "b=" + ts.Getenv("B"), "--log", ts.MkAbs("access.log"),
	}, args...)
	path, err := exec.LookPath(filepathOf(ts, "manent"))
	ts.Check(err)
	cmd := exec.CommandContext(context.Background(), path, args...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = append(os.Environ(), "HOME="+ts.Getenv("WORK"))
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	l.front = cmd
	ts.Defer(func() { l.halt(ts) })
	var addresses struct{ Listen, Admin string }
	if err := json.NewDecoder(out).Decode(&addresses); err != nil {
		ts.Fatalf("proxy did not start: %v\n%s", err, complaints.String())
	}
	ts.Setenv("LISTEN", "http://"+addresses.Listen)
	ts.Setenv("ADMIN", "http://"+addresses.Admin)
}

func address(ts *testscript.TestScript, variable string) string {
	if url := ts.Getenv(variable); url != "" {
		return strings.TrimPrefix(url, "http://")
	}
	return "127.0.0.1:0"
}

// halt ends the proxy. (A script's own stop ends the script.)
func (l *world) halt(*testscript.TestScript) {
	if l.front != nil {
		_ = l.front.Process.Signal(syscall.SIGTERM)
		_ = l.front.Wait()
		l.front = nil
	}
}

// filepathOf finds a program in the script's PATH.
func filepathOf(ts *testscript.TestScript, program string) string {
	for _, dir := range strings.Split(ts.Getenv("PATH"), string(os.PathListSeparator)) {
		if info, err := os.Stat(dir + "/" + program); err == nil && !info.IsDir() {
			return dir + "/" + program
		}
	}
	ts.Fatalf("%s is not in PATH", program)
	return ""
}

// load sends requests until the script ends, and waits for the first answer.
func (l *world) load(ts *testscript.TestScript, _ []string) {
	ctx, stop := context.WithCancel(context.Background())
	url := ts.Getenv("LISTEN") // the proxy keeps it; the script goes on while clients run
	var clients sync.WaitGroup
	var once sync.Once
	first := make(chan struct{})
	for range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				if get(ctx, url) == nil {
					once.Do(func() { close(first) })
				}
				pause(ctx, 2*time.Millisecond)
			}
		})
	}
	ts.Defer(func() {
		stop()
		clients.Wait()
	})
	select {
	case <-first:
	case <-time.After(10 * time.Second):
		ts.Fatalf("the proxy does not answer")
	}
}

func get(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// pause paces the load; nothing waits for it to end.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// weights A B demands the proxy's weights; with "set" in front it changes them
// as somebody would who is not manent.
func (l *world) weights(ts *testscript.TestScript, args []string) {
	admin := ts.Getenv("ADMIN")
	revision, have := readWeights(ts, admin)
	set := args[0] == "set"
	if set {
		args = args[1:]
	}
	if len(args) != 2 {
		ts.Fatalf("usage: weights [set] A B")
	}
	want := args[0] + " " + args[1]
	if !set {
		if have != want {
			ts.Fatalf("the proxy has weights %s, expected %s", have, want)
		}
		return
	}
	body := fmt.Sprintf(`{"a": %s, "b": %s}`, args[0], args[1])
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPut, admin+"/v1/weights", strings.NewReader(body))
	ts.Check(err)
	request.Header.Set("If-Match", revision)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	ts.Check(err)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		ts.Fatalf("the proxy answers %s", answer.Status)
	}
}

func readWeights(ts *testscript.TestScript, admin string) (revision, weights string) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, admin+"/v1/state", nil)
	ts.Check(err)
	answer, err := http.DefaultClient.Do(request)
	ts.Check(err)
	defer func() { _ = answer.Body.Close() }()
	var state struct{ Weights map[string]float64 }
	ts.Check(json.NewDecoder(bufio.NewReader(answer.Body)).Decode(&state))
	return answer.Header.Get("ETag"), fmt.Sprintf("%v %v", state.Weights["a"], state.Weights["b"])
}

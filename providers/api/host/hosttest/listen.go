package hosttest

import (
	"net"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// Listen listens on a free port of loopback, until the test closes it.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// FreeAddress is an address on loopback that nobody listens on.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l := Listen(t)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// Await waits until somebody listens on an address.
func Await(t testing.TB, address string) {
	t.Helper()
	Until(t, "somebody listens on "+address, func() bool {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// Until looks until ok, for at most 10 s.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	end := time.NewTimer(10 * time.Second)
	defer end.Stop()
	for !ok() {
		select {
		case <-end.C:
			t.Fatalf("not within 10 s: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Daemon starts a server's program and ends it with SIGTERM when the test
// ends; if the test failed, with what log returns in the test's output.
func Daemon(t testing.TB, log func() string, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...) // its end comes before the cleanups
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", program, log())
		}
	})
}

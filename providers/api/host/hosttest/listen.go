package hosttest

import (
	"fmt"
	"math/rand/v2"
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

// FreeAddress is an address on loopback that nobody listens on, for a program
// that the test starts. It stays the test's own until its end: it is below the
// ports that the kernel hands out, and the UDP port of the same number, which
// the test holds, keeps it from every other test on the machine.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 15000+rand.IntN(15000)) //nolint:gosec // which one does not matter
		held, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", address)
		if err != nil {
			continue
		}
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err != nil {
			_ = held.Close()
			continue
		}
		_ = l.Close()
		t.Cleanup(func() { _ = held.Close() })
		return address
	}
	t.Fatal("no port from 15000 to 29999 is free")
	return ""
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

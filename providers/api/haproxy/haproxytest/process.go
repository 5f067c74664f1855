package haproxytest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/manent/action/providers/api/host/hosttest"
)

// Process is a real HAProxy: the installed program, as the current user, in a
// directory of its own, with a master and a worker as its package runs it.
type Process struct {
	Address string // 127.0.0.1:port of the one frontend, which has backend shop

	t       testing.TB
	program string
	dir     string
}

// StartProcess runs one until the test ends. The configuration is that of
// backend shop, lines below its name.
func StartProcess(t testing.TB, version string, shop ...string) (*API, *Process) {
	t.Helper()
	p := newProcess(t)
	p.Address = hosttest.FreeAddress(t)
	lines := []string{"frontend web", "  bind " + p.Address, "  default_backend shop", "backend shop"}
	for _, line := range shop {
		lines = append(lines, "  "+line)
	}
	p.start(lines, p.Address)
	return Start(t, version, p, p.path("haproxy.cfg")), p
}

// StartApps runs applications that answer with their names, and returns their
// addresses. They are a HAProxy too, as that takes the least of the machine.
func StartApps(t testing.TB, names ...string) map[string]string {
	t.Helper()
	addresses, p := map[string]string{}, newProcess(t)
	var lines []string
	for _, name := range names {
		addresses[name] = hosttest.FreeAddress(t)
		lines = append(lines, "frontend "+name, "  bind "+addresses[name], "  http-request return status 200 content-type text/plain string "+name)
	}
	p.start(lines, addresses[names[0]])
	return addresses
}

func newProcess(t testing.TB) *Process {
	t.Helper()
	program, err := exec.LookPath("haproxy")
	if err != nil {
		program = "/usr/sbin/haproxy" // not in everybody's PATH
	}
	dir, err := os.MkdirTemp(os.TempDir(), "manent-haproxy-") //nolint:usetesting // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &Process{t: t, program: program, dir: dir}
}

// start runs it with these sections, and waits until it listens.
func (p *Process) start(sections []string, address string) {
	p.t.Helper()
	lines := append([]string{
		versionMark + "1", "global", "  maxconn 2000", "  nbthread 2", "  hard-stop-after 20s",
		"  stats socket " + p.path("s") + " mode 600 level admin expose-fd listeners",
		"defaults", "  mode http", "  timeout connect 2s", "  timeout client 30s", "  timeout server 30s",
	}, sections...)
	if err := (file{append(lines, "")}).save(p.path("haproxy.cfg")); err != nil {
		p.t.Fatal(err)
	}
	if err := p.check(); err != nil {
		p.t.Fatal(err)
	}
	log := func() string {
		text, err := os.ReadFile(p.path("log"))
		return fmt.Sprint(string(text), err)
	}
	hosttest.Daemon(p.t, log, "/bin/sh", "-c", `exec "$@" >"$0" 2>&1`, p.path("log"), p.program, "-W", "-f", p.path("haproxy.cfg"), "-p", p.path("pid"))
	hosttest.Await(p.t, address)
}

func (p *Process) path(name string) string { return filepath.Join(p.dir, name) }

func (p *Process) check() error {
	out, err := exec.CommandContext(p.t.Context(), p.program, "-c", "-f", p.path("haproxy.cfg")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// Command implements HAProxy. A worker that is just being replaced is tried
// again.
func (p *Process) Command(line string) (said string, err error) {
	for range 100 {
		if said, err = p.ask(line); err == nil && said != "" {
			return said, nil
		}
		<-time.After(20 * time.Millisecond)
	}
	return said, errors.Join(errors.New("the stats socket does not answer"), err)
}

func (p *Process) ask(line string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", p.path("s"))
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte(line + "\n")); err != nil {
		return "", err
	}
	said, err := io.ReadAll(conn)
	return string(said), err
}

// Reload implements HAProxy, as systemctl reload does: the file is checked,
// then a new worker takes over.
func (p *Process) Reload(string) error {
	if err := p.check(); err != nil {
		return err
	}
	text, err := os.ReadFile(p.path("pid"))
	if err != nil {
		return err
	}
	master, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	old := p.worker()
	if err := syscall.Kill(master, syscall.SIGUSR2); err != nil {
		return err
	}
	for range 500 {
		if now := p.worker(); now != "" && now != old {
			return nil
		}
		<-time.After(20 * time.Millisecond)
	}
	return errors.New("no new worker within 10 s")
}

func (p *Process) worker() string {
	said, _ := p.ask("show info")
	_, rest, _ := strings.Cut(said, "\nPid: ")
	pid, _, _ := strings.Cut(rest, "\n")
	return pid
}

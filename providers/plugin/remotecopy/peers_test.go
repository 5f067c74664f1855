//go:build peers

package remotecopy

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host/hosttest"
	"github.com/manent/action/providers/api/host/sshdtest"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/plugin/plugintest"
	"github.com/manent/action/state"
)

// peers are two real sshd, one for each slot, with one folder: {slot} keeps
// them apart.
type peers struct {
	dir      string // workspace
	root     string // of the targets
	sshd     map[string]*sshdtest.Server
	env      providers.Env
	settings map[string]any
}

func newPeers(t *testing.T) *peers {
	t.Helper()
	p := &peers{dir: t.TempDir(), root: t.TempDir(), sshd: map[string]*sshdtest.Server{}}
	keys, known := map[string]string{}, ""
	for _, slot := range []string{"a", "b"} {
		s := sshdtest.Start(t)
		p.sshd[slot] = s
		keys[slot] = s.Key
		known += s.KnownHosts + "\n"
	}
	app := hosttest.Listen(t)
	t.Cleanup(func() { _ = app.Close() })
	_, text, _ := net.SplitHostPort(app.Addr().String())
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	p.env = providers.Env{Dir: p.dir, Secret: func(_ context.Context, name string) (providers.Secret, error) {
		return providers.NewSecret(keys[name]), nil
	}}
	for _, slot := range []string{"a", "b"} {
		p.env.Targets = append(p.env.Targets, providers.Target{Host: "10.0.0.1", Port: port, Labels: map[string]string{"slot": slot, "ssh": p.sshd[slot].Address}})
	}
	p.settings = map[string]any{
		"source": "app", "destination": p.root + "/shop-{slot}", "ssh_user": p.sshd["b"].User, "ssh_key_secret": "b",
		"known_hosts": known, "restart": []any{"sh", "-c", `echo "$1" >>"$2/restarts"`, "restart", "{version} it's $(one) argument", "{destination}"},
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(p.dir, "app/bin"), 0o755),
		os.WriteFile(filepath.Join(p.dir, "app/bin/shop"), []byte(strings.Repeat("0123456789abcdef", 1<<18)), 0o755),
		os.WriteFile(filepath.Join(p.dir, "app/it's $(x)"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *peers) open(t *testing.T) plugin.Bundle {
	t.Helper()
	bundle, err := Spec().Build(p.env, p.settings)
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

func (p *peers) mustServe(t *testing.T, version string) {
	t.Helper()
	call := plugintest.Call(state.SlotB, version)
	release, err := p.open(t).Deployer.Deploy(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	call.Release = release
	if ok, reason, err := p.open(t).Ready.Ready(t.Context(), call, 5); !ok || err != nil {
		t.Fatalf("ready: %v, reason %q, error %v", ok, reason, err)
	}
	link, err := os.Readlink(p.root + "/shop-b/current")
	if err != nil || link != "releases/"+version {
		t.Errorf("current is %q, error %v, expected releases/%s", link, err, version)
	}
}

func TestPeersCopied(t *testing.T) {
	p := newPeers(t)
	p.mustServe(t, "v1")
	info, err := os.Stat(p.root + "/shop-b/current/bin/shop")
	if err != nil || info.Size() != 4<<20 || info.Mode().Perm() != 0o755 {
		t.Errorf("bin/shop: %v, error %v, expected 4 MiB with mode 0755", info, err)
	}
	restarts, err := os.ReadFile(p.root + "/shop-b/restarts")
	if err != nil || string(restarts) != "v1 it's $(one) argument\n" {
		t.Errorf("restarted with %q, error %v, expected one argument as it was written", restarts, err)
	}
	if _, err := os.Stat(p.root + "/shop-a"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("slot a was touched: %v", err)
	}
}

// TestPeersLookedAt: what doctor and config see of a real sshd, before anything
// was put there.
func TestPeersLookedAt(t *testing.T) {
	p := newPeers(t)
	found := p.open(t).Findings(t.Context())
	expectError(t, found[0].Err, providers.Denied, "was refused") // that machine has another key
	if f := found[1]; f.Err != nil || f.Name != "slot b, 10.0.0.1" || !strings.HasSuffix(f.Text, "/shop-b can be made in "+p.root) {
		t.Errorf("%s: %q, error %v", f.Name, f.Text, f.Err)
	}
	if err := p.open(t).CheckSlot(t.Context(), state.SlotB); err != nil {
		t.Errorf("slot b is held up by slot a: %v", err)
	}
	if left, err := os.ReadDir(p.root); err != nil || len(left) > 0 {
		t.Errorf("it left %v, error %v", left, err)
	}
	user := p.settings["ssh_user"]
	p.settings["ssh_user"] = "nobody2"
	expectError(t, p.open(t).CheckSlot(t.Context(), state.SlotB), providers.Denied, "on 10.0.0.1: ssh to "+p.sshd["b"].Address)
	expectError(t, p.open(t).Findings(t.Context())[1].Err, providers.Denied, "nobody2")
	p.settings["ssh_user"] = user
	p.env.Targets[1].Labels["ssh"] = "127.0.0.1:1"
	expectError(t, p.open(t).CheckSlot(t.Context(), state.SlotB), providers.Unavailable, "127.0.0.1:1")
}

func TestPeersHostKeyChanged(t *testing.T) {
	p := newPeers(t)
	lines := strings.Split(p.settings["known_hosts"].(string), "\n")
	_, other, _ := strings.Cut(lines[0], " ")
	address, _, _ := strings.Cut(lines[1], " ")
	p.settings["known_hosts"] = address + " " + other
	_, err := p.open(t).Deployer.Deploy(t.Context(), plugintest.Call(state.SlotB, "v1"))
	expectError(t, err, providers.Denied, "another key than known_hosts has")
	if _, err := os.Stat(p.root + "/shop-b"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("slot b was touched: %v", err)
	}
}

// TestPeersDisconnected cuts the connection when half of the files is there.
func TestPeersDisconnected(t *testing.T) {
	p := newPeers(t)
	p.mustServe(t, "v1")
	done := make(chan error, 1)
	bundle := p.open(t)
	go func() {
		_, err := bundle.Deployer.Deploy(t.Context(), plugintest.Call(state.SlotB, "v2"))
		done <- err
	}()
	hosttest.Until(t, "a copy has begun", func() bool {
		halves, err := filepath.Glob(p.root + "/shop-b/releases/.v2.new.*/files/bin/shop")
		return err == nil && len(halves) > 0
	})
	p.sshd["b"].Cut()
	if err := <-done; err != nil && providers.KindOf(err).Definite() {
		t.Errorf("error %v (%v), expected none, or that nobody can say", err, providers.KindOf(err))
	}
	if link, _ := os.Readlink(p.root + "/shop-b/current"); link != "releases/v1" && link != "releases/v2" {
		t.Errorf("current is %q", link)
	}
	p.mustServe(t, "v2")
}

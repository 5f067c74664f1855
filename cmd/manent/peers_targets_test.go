//go:build peers

package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/manent/action/providers/api/haproxy/haproxytest"
	"github.com/manent/action/providers/api/host/sshdtest"
	"github.com/manent/action/state"
)

const onTargets = `
project: shop
application: web
environment: prod
state: file:state
secrets: [{name: dataplane, ref: "env:DATAPLANE"}, {name: ssh-key, ref: "env:SSH_KEY"}]
targets:
  - {host: one, port: $PORT_A, labels: {slot: a, server: web1, ssh: "$SSH_A"}}
  - {host: two, port: $PORT_B, labels: {slot: b, server: web2, ssh: "$SSH_B"}}
plugin: {name: $PLUGIN, settings: {$SETTINGS, ssh_user: $SSH_USER, ssh_key_secret: ssh-key, known_hosts: known_hosts}}
rollout:
  traffic: {steps: [50, 100], bake: 500ms, maxBake: 1m}
traffic:
  router:
    provider: haproxy
    settings: {dataplane_urls: "$LB1", backend: shop, credentials_secret: dataplane, member: "{label.server}"}
`

// onMachines is a shop whose slots are two machines, each behind a real sshd,
// and a real HAProxy. A deployment to them can be stopped in its middle.
type onMachines struct {
	*shop
	machine map[string]string // folder that is all of a machine that counts
	plugin  string
}

func newMachines(t *testing.T, plugin string) onMachines {
	root := t.TempDir()
	s := onMachines{shop: newShop(t), plugin: plugin, machine: map[string]string{"a": filepath.Join(root, "a"), "b": filepath.Join(root, "b")}}
	for _, dir := range s.machine {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	api, process := haproxytest.StartProcess(t, "v3", "balance roundrobin",
		"server web1 "+strings.TrimPrefix(s.a.url, "http://")+" weight 100", "server web2 "+strings.TrimPrefix(s.b.url, "http://")+" weight 0")
	s.front, s.vars["LB1"], s.vars["PLUGIN"] = "http://"+process.Address, api.URL, plugin
	s.env = append(s.env, "DATAPLANE="+haproxytest.User+":"+haproxytest.Password)
	stub, err := filepath.Abs("../../providers/plugin/container/testdata/docker.sh")
	if err != nil {
		t.Fatal(err)
	}
	s.vars["STUB"] = stub
	for _, dir := range []string{"bin", "app", "registry"} {
		if err := os.Mkdir(filepath.Join(s.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, fifo := range []string{"there", "go-on"} {
		if err := syscall.Mkfifo(filepath.Join(s.dir, fifo), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.write("pause", "[ -e $DIR/stop ] || exit 0\nrm $DIR/stop; echo >$DIR/there; read -r x <$DIR/go-on\n")
	s.write("bin/docker", "#!/bin/sh\n[ \"$1 $2\" != 'run --detach' ] || sh $DIR/pause\nexec sh $STUB \"$@\"\n")
	if err := os.Chmod(filepath.Join(s.dir, "bin/docker"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.write("app/index.html", "the shop")
	for _, version := range []string{"2.0", "3.0", "4.0"} {
		s.write("registry/registry.test_shop_app:"+version, "sha256:"+version)
		s.write("registry/sha256:"+version, "ok")
	}
	s.connect()
	return s
}

// connect gives each machine its sshd.
func (s onMachines) connect() {
	key, user := sshdtest.Keys(s.t)
	known := ""
	for slot, release := range map[string]*release{"a": s.a, "b": s.b} {
		daemon := sshdtest.StartFor(s.t, user, "MACHINE="+s.machine[slot], "REGISTRY="+filepath.Join(s.dir, "registry"),
			"PATH="+filepath.Join(s.dir, "bin")+":/usr/local/bin:/usr/bin:/bin")
		known += daemon.KnownHosts + "\n"
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(release.url, "http://"))
		upper := strings.ToUpper(slot)
		s.vars["SSH_"+upper], s.vars["PORT_"+upper], s.vars["SSH_USER"] = daemon.Address, port, daemon.User
	}
	s.env = append(s.env, "SSH_KEY="+key)
	s.write("known_hosts", known)
	s.vars["SETTINGS"] = "image: \"registry.test/shop/app:{version}\", name: shop"
	if s.plugin == "remote-copy" {
		s.vars["SETTINGS"] = "source: app, destination: \"" + filepath.Dir(s.machine["a"]) + "/{slot}\", restart: [sh, " + filepath.Join(s.dir, "pause") + "]"
	}
	s.configure(onTargets)
}

// holds is the version that a machine has, "" for none.
func (s onMachines) holds(slot string) string {
	s.t.Helper()
	if s.plugin == "remote-copy" {
		link, err := os.Readlink(filepath.Join(s.machine[slot], "current"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.t.Fatal(err)
		}
		return strings.TrimPrefix(link, "releases/")
	}
	found, err := filepath.Glob(filepath.Join(s.machine[slot], "containers", "*", "labels"))
	if err != nil || len(found) > 1 {
		s.t.Fatalf("containers %q, error %v", found, err)
	}
	if len(found) == 0 {
		return ""
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		s.t.Fatal(err)
	}
	_, version, _ := strings.Cut(string(text), "manent.version=")
	return strings.SplitN(version, "\n", 2)[0]
}

// touched are the files of a machine with their times, but for what only
// says that somebody looked.
func (s onMachines) touched(slot string) []string {
	s.t.Helper()
	out := []string{}
	err := filepath.WalkDir(s.machine[slot], func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "calls" {
			return err
		}
		info, err := d.Info()
		if err == nil {
			out = append(out, path+" "+info.ModTime().String())
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// TestPeersTargets: whole rollouts over the targets of the free slot. The first
// one goes back to a version that was there before manent; the second is killed
// while it deploys, and the same command promotes it; the third goes to the
// other machine. The machine of the slot that serves is looked at, and not
// written to. No request is lost.
func TestPeersTargets(t *testing.T) {
	t.Parallel()
	for _, plugin := range []string{"remote-copy", "container"} {
		t.Run(plugin, func(t *testing.T) {
			t.Parallel()
			s := newMachines(t, plugin)
			visitors := s.crowd(100)
			s.exits(0, "run", "--version", "2.0", "--until", "50%")
			s.exits(0, "revert", "--version", "2.0")
			s.servesOnly("a")
			if a, b := s.holds("a"), s.holds("b"); a != "" || b != "2.0" || len(s.touched("a")) != 0 {
				t.Errorf("the machines hold %q and %q, expected only b to be deployed to; on a: %v", a, b, s.touched("a"))
			}
			s.killWhileDeploying("3.0")
			s.exits(0, "run", "--version", "3.0")
			s.servesOnly("b")
			before := s.touched("b")
			if a, b := s.holds("a"), s.holds("b"); a != "" || b != "3.0" || len(s.touched("a")) != 0 || len(before) == 0 {
				t.Errorf("the machines hold %q and %q; on a: %v, on b: %v", a, b, s.touched("a"), before)
			}
			s.exits(0, "run", "--version", "4.0")
			s.servesOnly("a")
			if a, b := s.holds("a"), s.holds("b"); a != "4.0" || b != "3.0" || !slices.Equal(before, s.touched("b")) {
				t.Errorf("the machines hold %q and %q; on b: %v, before: %v", a, b, s.touched("b"), before)
			}
			visitors.stop().unbroken(t)
			if doc, _ := s.status(); doc.Rollout.Status != state.Completed || doc.Lease != nil {
				t.Errorf("ended as %s, lease %+v", doc.Rollout.Status, doc.Lease)
			}
		})
	}
}

// killWhileDeploying kills a rollout in the middle of its deployment, which
// then ends by itself.
func (s onMachines) killWhileDeploying(version string) {
	s.t.Helper()
	s.write("stop", "")
	run := s.start("run", "--version", version)
	there := make(chan struct{})
	go func() {
		if _, err := os.ReadFile(filepath.Join(s.dir, "there")); err == nil {
			close(there)
		}
	}()
	run.reaches(there)
	run.signal(syscall.SIGKILL)
	if code := run.wait(); code != -1 {
		s.t.Fatalf("was not killed but ended with %d\n%s\n%s", code, &run.out, &run.err)
	}
	fifo, err := os.OpenFile(filepath.Join(s.dir, "go-on"), os.O_RDWR, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = fifo.Close() })
	if _, err := fifo.WriteString("\n"); err != nil {
		s.t.Fatal(err)
	}
}

//go:build unix

package remotecopy

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/host/hosttest"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/plugin/plugintest"
	"github.com/manent/action/state"
)

const (
	secret = "hunter2hunter2"
	dest   = "/srv/shop"
)

// world is a workspace and machines a1, b1 and b2.
type world struct {
	t        *testing.T
	dir      string // workspace
	bin      string // programs that come before the real ones
	machines map[string]*hosttest.Shell
	settings map[string]any
	targets  []providers.Target

	mu      sync.Mutex
	moods   map[plugintest.Op]plugintest.Mood
	started map[plugintest.Op]chan struct{}
	calls   []string // scripts that arrived: "b1 put"
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, dir: t.TempDir(), bin: t.TempDir(), machines: map[string]*hosttest.Shell{},
		moods: map[plugintest.Op]plugintest.Mood{}, started: map[plugintest.Op]chan struct{}{},
		settings: map[string]any{
			"source": "build/{version}", "destination": dest, "ssh_user": "deploy", "ssh_key_secret": "key",
			"known_hosts": "known_hosts", "restart": []any{"restart-app", "{version}"},
		},
	}
	for i, name := range []string{"a1", "b1", "b2"} {
		m := &hosttest.Shell{Root: t.TempDir(), Prefix: dest, Bin: w.bin}
		m.Env = []string{"MACHINE=" + m.Root}
		m.Fate = func(c hosttest.Call) hosttest.Fate { return w.fate(name, c) }
		m.Answer = w.answer
		m.Listens("127.0.0.1:8080", true)
		w.machines[name] = m
		w.targets = append(w.targets, providers.Target{Host: name, Port: 8080, Labels: map[string]string{"slot": []string{"a", "b", "b"}[i]}})
	}
	w.program("restart-app", `echo "restart $1"; echo "$1" >>"$MACHINE/restarts"`)
	w.program("sync", "exit 0") // the disk of the machine that tests is slow
	for _, version := range []string{"v1", "v2", "v3", "v-a", "v-b"} {
		w.file("build/"+version+"/index.html", version, 0o644)
		w.file("build/"+version+"/bin/shop", "#!/bin/sh\n"+strings.Repeat(version, 3000), 0o755)
	}
	return w
}

func (w *world) file(name, content string, mode fs.FileMode) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600), os.Chmod(path, mode))
	if err != nil {
		w.t.Fatal(err)
	}
}

// program puts a program before the real ones on all machines.
func (w *world) program(name, script string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.bin, name)); err != nil {
		w.t.Fatal(err)
	}
}

// fate notes a call and hangs where that is the mood.
func (w *world) fate(machine string, c hosttest.Call) hosttest.Fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.Kind != "program" {
		return hosttest.Done
	}
	w.calls = append(w.calls, machine+" "+strings.TrimPrefix(c.Args[3], "manent-"))
	for op, started := range w.started {
		if w.moods[op] == plugintest.Hangs {
			close(started)
			delete(w.started, op)
			return hosttest.Hang
		}
	}
	return hosttest.Done
}

// answer refuses, and says a secret while it does.
func (w *world) answer(c hosttest.Call) (host.Result, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	op := plugintest.Deploy
	if w.moods[plugintest.Ready] == plugintest.Refuses {
		op = plugintest.Ready
	}
	return host.Result{Exit: 21, Stdout: []byte(secret), Stderr: []byte("no: " + secret)}, w.moods[op] == plugintest.Refuses
}

func (w *world) set(op plugintest.Op, mood plugintest.Mood) {
	w.mu.Lock()
	w.moods[op] = mood
	if mood == plugintest.Hangs {
		w.started[op] = make(chan struct{})
	}
	w.mu.Unlock()
	if op == plugintest.Ready {
		w.machines["b2"].Listens("127.0.0.1:8080", mood != plugintest.NotYet)
	}
}

func (w *world) wait(op plugintest.Op) {
	w.mu.Lock()
	started := w.started[op]
	w.mu.Unlock()
	if started != nil {
		<-started
	}
}

func (w *world) open() plugin.Bundle {
	w.t.Helper()
	redactor := &providers.Redactor{}
	redactor.Add(providers.NewSecret(secret))
	bundle, err := Spec().Build(providers.Env{Dir: w.dir, Redactor: redactor, Targets: w.targets}, w.settings)
	if err != nil {
		w.t.Fatal(err)
	}
	bundle.Deployer.(*copier).open = func(_ context.Context, address string) (host.Host, error) {
		return w.machines[address], nil
	}
	return bundle
}

// at is a file of a machine's destination, "" for none.
func (w *world) at(machine, name string) string {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.machines[machine].Root, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
	return string(text)
}

// holds is the version that all machines of a slot serve.
func (w *world) holds(slot state.Slot) string {
	w.t.Helper()
	if slot == state.SlotA {
		return w.at("a1", "current/index.html")
	}
	one, two := w.at("b1", "current/index.html"), w.at("b2", "current/index.html")
	if one != two {
		return one + " and " + two
	}
	return one
}

func TestConformance(t *testing.T) {
	plugintest.Run(t, func(t *testing.T) plugintest.World {
		w := newWorld(t)
		return plugintest.World{
			Name: name, Traits: Spec().Traits, Secret: secret, Lines: true,
			Open:    func(*testing.T) plugin.Bundle { return w.open() },
			Holds:   func(_ *testing.T, slot state.Slot) string { return w.holds(slot) },
			Set:     func(_ *testing.T, op plugintest.Op, mood plugintest.Mood) { w.set(op, mood) },
			Started: func(_ *testing.T, op plugintest.Op) { w.wait(op) },
		}
	})
}

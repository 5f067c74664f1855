//go:build unix

package container

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

const secret = "hunter2hunter2"

// world is a registry and machines a1, b1 and b2 with an engine.
type world struct {
	t        *testing.T
	registry string
	machines map[string]*hosttest.Shell
	settings map[string]any
	targets  []providers.Target

	mu      sync.Mutex
	hangs   bool
	started chan struct{}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	bin := t.TempDir()
	text, err := os.ReadFile("testdata/docker.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"docker", "podman"} {
		if err := os.WriteFile(filepath.Join(bin, program), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{
		t: t, registry: t.TempDir(), machines: map[string]*hosttest.Shell{},
		settings: map[string]any{
			"image": "registry.test/shop/app:{version}", "name": "shop", "publish": []any{"{port}:80"},
			"env": map[string]any{"SLOT": "{slot}", "JSON": `{"a": "$(x) 'y'"}`}, "env_secrets": map[string]any{"PASSWORD": "db"},
			"ssh_user": "deploy", "ssh_key_secret": "key", "known_hosts": "known_hosts",
		},
	}
	for i, name := range []string{"a1", "b1", "b2"} {
		m := &hosttest.Shell{Root: t.TempDir(), Bin: bin}
		m.Env = []string{"MACHINE=" + m.Root, "REGISTRY=" + w.registry, "TMPDIR=" + m.Root}
		m.Fate = w.fate
		m.Listens("127.0.0.1:8080", true)
		w.machines[name] = m
		w.targets = append(w.targets, providers.Target{Host: name, Port: 8080, Labels: map[string]string{"slot": []string{"a", "b", "b"}[i]}})
	}
	for _, version := range []string{"v1", "v2", "v3", "v-a", "v-b"} {
		w.push(version, "sha256:"+version+"-1", "ok")
	}
	return w
}

func (w *world) write(path, text string) {
	w.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// push puts an image into the registry.
func (w *world) push(version, digest, fate string) {
	w.write(filepath.Join(w.registry, "registry.test_shop_app:"+version), digest)
	w.write(filepath.Join(w.registry, digest), fate)
}

// put writes a file that the machine's engine goes by; "" removes it.
func (w *world) put(machine, file, text string) {
	path := filepath.Join(w.machines[machine].Root, file)
	if text != "" {
		w.write(path, text)
	} else if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
}

// fate hangs where that is the mood.
func (w *world) fate(hosttest.Call) hosttest.Fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.hangs {
		return hosttest.Done
	}
	w.hangs = false
	close(w.started)
	return hosttest.Hang
}

func (w *world) set(_ plugintest.Op, mood plugintest.Mood) {
	w.mu.Lock()
	if w.hangs = mood == plugintest.Hangs; w.hangs {
		w.started = make(chan struct{})
	}
	w.mu.Unlock()
	for name, m := range w.machines {
		m.Listens("127.0.0.1:8080", mood != plugintest.NotYet)
		refuse := ""
		if mood == plugintest.Refuses {
			refuse = secret
		}
		w.put(name, "refuse", refuse)
	}
}

func (w *world) open() plugin.Bundle {
	w.t.Helper()
	redactor := &providers.Redactor{}
	redactor.Add(providers.NewSecret(secret))
	env := providers.Env{Redactor: redactor, Targets: w.targets, Secret: func(_ context.Context, name string) (providers.Secret, error) {
		if name != "db" {
			return providers.Secret{}, errors.New("no such secret")
		}
		return providers.NewSecret(secret), nil
	}}
	bundle, err := Spec().Build(env, w.settings)
	if err != nil {
		w.t.Fatal(err)
	}
	bundle.Deployer.(*runner).open = func(_ context.Context, address string) (host.Host, error) {
		return w.machines[address], nil
	}
	return bundle
}

// at is what a machine's one container of a slot has in a file, "" for none.
func (w *world) at(machine, file string) string {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(w.machines[machine].Root, "containers", "*", file))
	if err != nil || len(found) > 1 {
		w.t.Fatalf("%s has %d containers, error %v, expected at most one", machine, len(found), err)
	}
	if len(found) == 0 {
		return ""
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

func (w *world) version(machine string) string {
	w.t.Helper()
	if w.at(machine, "status") != "running\n" {
		return ""
	}
	for line := range strings.Lines(w.at(machine, "labels")) {
		if version, ok := strings.CutPrefix(line, "manent.version="); ok {
			return strings.TrimSpace(version)
		}
	}
	return "?"
}

// holds is the version that all machines of a slot run.
func (w *world) holds(slot state.Slot) string {
	w.t.Helper()
	if slot == state.SlotA {
		return w.version("a1")
	}
	one, two := w.version("b1"), w.version("b2")
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
			Open:  func(*testing.T) plugin.Bundle { return w.open() },
			Holds: func(_ *testing.T, slot state.Slot) string { return w.holds(slot) },
			Set:   func(_ *testing.T, op plugintest.Op, mood plugintest.Mood) { w.set(op, mood) },
			Started: func(*testing.T, plugintest.Op) {
				w.mu.Lock()
				started := w.started
				w.mu.Unlock()
				<-started
			},
		}
	})
}

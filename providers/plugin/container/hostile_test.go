//go:build unix

package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host/hosttest"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/plugin/plugintest"
	"github.com/manent/action/state"
)

func (w *world) deploy(call plugin.Call) (state.Release, error) {
	return w.open().Deployer.Deploy(w.t.Context(), call)
}

func (w *world) mustDeploy(call plugin.Call) state.Release {
	w.t.Helper()
	release, err := w.deploy(call)
	if err != nil {
		w.t.Fatal(err)
	}
	return release
}

// calls are the engine's calls on b1 since the last time, but for those
// that only look.
func (w *world) calls() []string {
	w.t.Helper()
	path := filepath.Join(w.machines["b1"].Root, "calls")
	text, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(path, "")
	var out []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "container ") && !strings.HasPrefix(line, "image ") {
			out = append(out, strings.Join(strings.Fields(line)[:2], " "))
		}
	}
	return out
}

func expectError(t *testing.T, err error, kind providers.Kind, says ...string) {
	t.Helper()
	if err == nil || providers.KindOf(err) != kind {
		t.Fatalf("error %v (%v), expected kind %v", err, providers.KindOf(err), kind)
	}
	for _, s := range says {
		if !strings.Contains(err.Error()+providers.HintOf(err), s) {
			t.Errorf("error %q, hint %q, expected %q in one", err, providers.HintOf(err), s)
		}
	}
	if strings.Contains(err.Error()+providers.HintOf(err), secret) {
		t.Error("the error holds the secret")
	}
}

// expectReady expects an answer without an error, "" for yes.
func (w *world) expectReady(call plugin.Call, reason string) {
	w.t.Helper()
	ok, got, err := w.open().Ready.Ready(w.t.Context(), call, 5)
	if err != nil || ok != (reason == "") || got != reason {
		w.t.Errorf("ready: %v, reason %q, error %v, expected %q", ok, got, err, reason)
	}
}

func TestTheSameStepIsOneChange(t *testing.T) {
	w := newWorld(t)
	w.mustDeploy(plugintest.Call(state.SlotB, "v1"))
	w.calls()
	call := plugintest.Call(state.SlotB, "v2")
	got := w.mustDeploy(call)
	want := state.Ref{
		state.RefRollout: "r1", "version": "v2", "digest": "sha256:v2-1", "container": "shop-b", "image": "registry.test/shop/app@sha256:v2-1",
	}
	if diff := cmp.Diff(want, got.Ref); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"pull registry.test/shop/app:v2", "stop -t", "rm --force", "run --detach"}, w.calls()); diff != "" {
		t.Errorf("calls:\n%s", diff)
	}
	w.write(filepath.Join(w.registry, "down"), "") // not needed for what is there
	w.mustDeploy(call)
	if got := w.calls(); got != nil {
		t.Errorf("calls %q for what is done, expected none", got)
	}
	call.StepID = "r2/deploy" // of another rollout: the environment may have changed
	_ = os.Remove(filepath.Join(w.registry, "down"))
	w.mustDeploy(call)
	if diff := cmp.Diff([]string{"pull registry.test/shop/app:v2", "stop -t", "rm --force", "run --detach"}, w.calls()); diff != "" {
		t.Errorf("calls:\n%s", diff)
	}
}

// TestTheEnvironmentGoesByAFile looks for the secret where others could see it.
func TestTheEnvironmentGoesByAFile(t *testing.T) {
	w := newWorld(t)
	w.settings["arguments"] = []any{"--memory", "512m"}
	w.settings["command"] = []any{"serve", "it's {version} $(x)"}
	w.mustDeploy(plugintest.Call(state.SlotB, "v2"))
	want := "JSON={\"a\": \"$(x) 'y'\"}\nSLOT=b\nPASSWORD=" + secret + "\n"
	if diff := cmp.Diff(want, w.at("b1", "env")); diff != "" {
		t.Errorf("environment:\n%s", diff)
	}
	if got := w.at("b1", "image"); got != "registry.test/shop/app@sha256:v2-1 serve it's v2 $(x)\n" {
		t.Errorf("image and command %q", got)
	}
	calls, err := os.ReadFile(filepath.Join(w.machines["b1"].Root, "calls"))
	if err != nil || strings.Contains(string(calls), secret) || !strings.Contains(string(calls), "--publish 8080:80 --memory 512m") {
		t.Errorf("calls %s, error %v, expected no secret in them", calls, err)
	}
	left, err := filepath.Glob(filepath.Join(w.machines["b1"].Root, "tmp*"))
	if err != nil || len(left) > 0 {
		t.Errorf("files %q are left, error %v", left, err)
	}
}

func TestATagThatMoves(t *testing.T) {
	w := newWorld(t)
	moved := false
	before := w.machines["b2"].Fate
	w.machines["b2"].Fate = func(c hosttest.Call) hosttest.Fate {
		if !moved {
			moved = true
			w.push("v2", "sha256:v2-2", "ok")
		}
		return before(c)
	}
	release := w.mustDeploy(plugintest.Call(state.SlotB, "v2"))
	for _, machine := range []string{"b1", "b2"} {
		if !moved || !strings.Contains(w.at(machine, "labels"), "manent.digest=sha256:v2-1") || release.Ref[refDigest] != "sha256:v2-1" {
			t.Errorf("%s has labels %q, reference %v, expected the first digest", machine, w.at(machine, "labels"), release.Ref)
		}
	}
	release.Ref[refDigest] = "sha256:v2-2"
	call := plugintest.Call(state.SlotB, "v2")
	call.Release = release
	w.targets = w.targets[:2]
	w.expectReady(call, "b1: container shop-b is of version v2 (sha256:v2-1)")
}

func TestAContainerThatEnds(t *testing.T) {
	w := newWorld(t)
	w.mustDeploy(plugintest.Call(state.SlotB, "v1"))
	w.push("v2", "sha256:v2-1", "crash")
	_, err := w.deploy(plugintest.Call(state.SlotB, "v2"))
	expectError(t, err, providers.Invalid, "on b1: container shop-b: the container has ended with exit code 3: cannot open the database",
		"PASSWORD=[redacted]", "not begun: b2", "not brought back")
	if got := w.version("b2"); got != "v1" {
		t.Errorf("b2 runs %q, expected v1", got)
	}
	_, _, err = w.open().Ready.Ready(t.Context(), plugintest.Call(state.SlotB, "v2"), 5)
	expectError(t, err, providers.Invalid, "exit code 3")
	w.push("v2", "sha256:v2-2", "ok")
	w.mustDeploy(plugintest.Call(state.SlotB, "v2")) // the same step, entered again
	if got := w.holds(state.SlotB); got != "v2" {
		t.Errorf("slot b runs %q, expected v2", got)
	}
}

// TestLostAnywhere loses the answer to each call of a deployment; the next one
// ends in the same place. A call that is lost before it is carried out leaves
// what the one before it leaves.
func TestLostAnywhere(t *testing.T) {
	for nth := 1; ; nth++ {
		w := newWorld(t)
		w.targets = w.targets[:2]
		w.mustDeploy(plugintest.Call(state.SlotB, "v1"))
		count := 0
		w.machines["b1"].Fate = func(hosttest.Call) hosttest.Fate {
			if count++; count == nth {
				return hosttest.Mute
			}
			return hosttest.Done
		}
		_, err := w.deploy(plugintest.Call(state.SlotB, "v2"))
		if count < nth {
			if err != nil || nth < 9 {
				t.Errorf("error %v after %d calls, expected none after at least 8", err, nth-1)
			}
			return
		}
		if err != nil && providers.KindOf(err).Definite() {
			t.Errorf("call %d: error %v (%v), expected that nobody can say", nth, err, providers.KindOf(err))
		}
		w.mustDeploy(plugintest.Call(state.SlotB, "v2"))
		if got := w.version("b1"); got != "v2" {
			t.Errorf("call %d: b1 runs %q, expected v2", nth, got)
		}
	}
}

// TestHalfAnEnvironment loses the connection while the environment is sent.
func TestHalfAnEnvironment(t *testing.T) {
	w := newWorld(t)
	w.targets = w.targets[:2]
	w.settings["env"] = map[string]any{"LONG": strings.Repeat("x", 3000)}
	w.machines["b1"].Fate = func(c hosttest.Call) hosttest.Fate {
		if c.Kind == "program" && len(c.Args) > 3 && c.Args[3] == "manent-run" {
			return hosttest.Short
		}
		return hosttest.Done
	}
	_, err := w.deploy(plugintest.Call(state.SlotB, "v2"))
	expectError(t, err, providers.Unknown, "the connection was lost")
	if got := w.version("b1"); got != "" {
		t.Errorf("b1 runs %q with half an environment", got)
	}
	w.machines["b1"].Fate = nil
	w.mustDeploy(plugintest.Call(state.SlotB, "v2"))
	if got := w.version("b1"); got != "v2" || len(w.at("b1", "env")) < 3000 {
		t.Errorf("b1 runs %q, expected v2 with its whole environment", got)
	}
}

func TestEngineRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(w *world)
		kind  providers.Kind
		says  string
	}{
		"no image":     {func(w *world) { _ = os.Remove(filepath.Join(w.registry, "registry.test_shop_app:v2")) }, providers.NotFound, "push the image first"},
		"no login":     {func(w *world) { w.write(filepath.Join(w.registry, "login"), "") }, providers.Denied, "docker login"},
		"no registry":  {func(w *world) { w.write(filepath.Join(w.registry, "down"), "") }, providers.Unavailable, "connection refused"},
		"no engine":    {func(w *world) { w.machines["b1"].Bin = ""; w.machines["b1"].Env = []string{"PATH=/nowhere"} }, providers.Invalid, ""},
		"no rights":    {func(w *world) { w.put("b1", "refuse", "x") }, providers.Denied, "allowed to use docker"},
		"taken port":   {func(w *world) { w.foreign("other", "", "8080:80") }, providers.Invalid, "port is already allocated"},
		"foreign":      {func(w *world) { w.foreign("shop-b", "", "1:1") }, providers.Invalid, "somebody else made it"},
		"other slot's": {func(w *world) { w.foreign("shop-b", "manent.slot=a\n", "1:1") }, providers.Invalid, `manent.slot "a", expected b`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.spoil(w)
			_, err := w.deploy(plugintest.Call(state.SlotB, "v2"))
			expectError(t, err, tc.kind, "on b1: ", tc.says)
			if got := w.version("b2"); got != "" {
				t.Errorf("b2 runs %q, expected that it was not begun", got)
			}
		})
	}
}

// foreign is a container of b1 that somebody else runs.
func (w *world) foreign(name, labels, publish string) {
	w.t.Helper()
	dir := filepath.Join(w.machines["b1"].Root, "containers", "foreign")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		w.t.Fatal(err)
	}
	for file, text := range map[string]string{"name": name, "labels": labels + "x=y\n", "publish": publish, "status": "running\n", "env": ""} {
		w.write(filepath.Join(dir, file), text)
	}
}

func TestReadySaysWhy(t *testing.T) {
	w := newWorld(t)
	w.settings["engine"] = "podman"
	w.targets = w.targets[:2]
	call := plugintest.Call(state.SlotB, "v2")
	w.expectReady(call, "b1: there is no container shop-b")
	w.mustDeploy(call)
	w.expectReady(call, "")
	w.expectReady(plugintest.Call(state.SlotB, "v1"), "b1: container shop-b is of version v2 (sha256:v2-1)")
	for health, reason := range map[string]string{
		"starting": "b1: container shop-b is starting", "unhealthy": "b1: container shop-b is unhealthy", "healthy": "", "none": "",
	} {
		w.put("b1", "health", health)
		w.expectReady(call, reason)
	}
	w.put("b1", "health", "healthy")
	w.machines["b1"].Listens("127.0.0.1:8080", false)
	w.expectReady(call, "b1: nothing accepts connections at 127.0.0.1:8080")
	w.put("b1", "status", "restarting")
	ok, reason, err := w.open().Ready.Ready(t.Context(), call, 5)
	if ok || err != nil || !strings.HasPrefix(reason, "b1: container shop-b is restarting: cannot open the database") || strings.Contains(reason, secret) {
		t.Errorf("ready: %v, reason %q, error %v, expected the log without the secret", ok, reason, err)
	}
}

// TestReadyOfWhatWasThereBefore: no version, and no container that manent made.
func TestReadyOfWhatWasThereBefore(t *testing.T) {
	w := newWorld(t)
	w.targets = w.targets[:2]
	call := plugin.Call{Slot: state.SlotB}
	w.expectReady(call, "") // it need not be a container
	w.put("b1", "refuse", "no engine for you")
	w.expectReady(call, "") // nor need there be an engine
	w.put("b1", "refuse", "")
	w.foreign("shop-b", "", "")
	w.expectReady(call, "")
	w.put("b1", "health", "unhealthy")
	w.expectReady(call, "b1: container shop-b is unhealthy")
	w.put("b1", "health", "healthy")
	w.machines["b1"].Listens("127.0.0.1:8080", false)
	w.expectReady(call, "b1: nothing accepts connections at 127.0.0.1:8080")
	w.put("b1", "status", "exited")
	if ok, reason, err := w.open().Ready.Ready(t.Context(), call, 100); ok || err != nil || !strings.HasPrefix(reason, "b1: container shop-b is exited") {
		t.Errorf("ready: %v, reason %q, error %v, expected that it is exited", ok, reason, err)
	}
}

func TestSettingsAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		key   string
		value any
		says  string
	}{
		"image without version": {"image", "registry.test/app:latest", "expected registry/app:{version}"},
		"image as an option":    {"image", "--privileged:{version}", "expected registry/app:{version}"},
		"name":                  {"name", "-x", `name "-x"`},
		"publish":               {"publish", []any{"80"}, `publish "80"`},
		"restart policy":        {"restart_policy", "sometimes", "restart_policy"},
		"part of a second":      {"stop_timeout", "100ms", "whole seconds"},
		"timeout":               {"timeout", "20s", "expected more than stop_timeout"},
		"at once":               {"at_once", 0, "at_once 0"},
		"engine":                {"engine", "sh", "expected one of docker, podman"},
		"our argument":          {"arguments", []any{"--name=x"}, "the plugin's own"},
		"our label":             {"arguments", []any{"--label", "manent.step=x"}, "the plugin's own"},
		"two lines":             {"env", map[string]any{"A": "x\nPATH=/evil"}, "more than one line"},
		"variable":              {"env", map[string]any{"A=B": "x"}, `environment variable "A=B"`},
		"twice":                 {"env", map[string]any{"PASSWORD": "x"}, "in env and in env_secrets"},
		"no secret":             {"env_secrets", map[string]any{"X": ""}, "no secret's name"},
		"host keys":             {"known_hosts", "", "host keys are always verified"},
		"listen":                {"listen", "", "listen is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.settings[tc.key] = tc.value
			_, err := Spec().Build(providers.Env{}, w.settings)
			expectError(t, err, providers.Invalid, tc.says)
		})
	}
}

func TestTargetsAreRefused(t *testing.T) {
	w := newWorld(t)
	w.targets[1].Port = 0
	_, err := Spec().Build(providers.Env{Targets: w.targets}, w.settings)
	expectError(t, err, providers.Invalid, "target b1 has no port")
	w.targets[2].Labels = nil
	_, err = Spec().Build(providers.Env{Targets: w.targets}, w.settings)
	expectError(t, err, providers.Invalid, "target b2 has the label slot")
	w.targets = nil
	_, err = w.deploy(plugintest.Call(state.SlotB, "v2"))
	expectError(t, err, providers.Invalid, "the slot has no targets")
}

func TestVersionsAreRefused(t *testing.T) {
	for _, version := range []string{"", "a/b", "-x", "a b", "1.0+2", "x@sha256:1", "$(x)", strings.Repeat("x", 129)} {
		_, err := newWorld(t).deploy(plugintest.Call(state.SlotB, version))
		expectError(t, err, providers.Invalid, "cannot be an image's tag")
	}
}

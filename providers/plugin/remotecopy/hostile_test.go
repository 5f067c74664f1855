//go:build unix

package remotecopy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
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

// releases are the names on a machine, what is half done included.
func (w *world) releases(machine string) []string {
	w.t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.machines[machine].Root, "releases"))
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".digest") {
			names = append(names, e.Name())
		}
	}
	return names
}

// expectError expects a kind and words.
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
}

func TestTheSameStepIsOneChange(t *testing.T) {
	w := newWorld(t)
	call := plugintest.Call(state.SlotB, "v2")
	first := w.mustDeploy(call)
	if first.Ref[refVersion] != "v2" || len(first.Ref[refDigest]) != 64 || first.Ref[refPath] != dest+"/releases/v2" {
		t.Errorf("reference %v, expected version, digest and path", first.Ref)
	}
	w.mustDeploy(call)
	if got := w.at("b1", "restarts"); got != "v2\n" {
		t.Errorf("restarts %q, expected one", got)
	}
	call.StepID = "r2/deploy" // of another rollout
	w.mustDeploy(call)
	if got := w.at("b1", "restarts"); got != "v2\nv2\n" {
		t.Errorf("restarts %q, expected a second one for another step", got)
	}
	want := []string{"look", "copy", "switch", "look", "look", "switch"}
	var got []string
	for _, c := range w.calls {
		if script, ok := strings.CutPrefix(c, "b1 "); ok {
			got = append(got, script)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("scripts on b1:\n%s", diff)
	}
}

func TestModesAreKept(t *testing.T) {
	w := newWorld(t)
	w.file("build/v2/private", "x", 0o640)
	w.file("build/v2/read only/ä 'q' $(x)", "y", 0o444)
	if err := os.Chmod(filepath.Join(w.dir, "build/v2/read only"), 0o555); err != nil {
		t.Fatal(err)
	}
	w.mustDeploy(plugintest.Call(state.SlotB, "v2"))
	for name, want := range map[string]os.FileMode{"private": 0o640, "bin/shop": 0o755, "read only/ä 'q' $(x)": 0o444, "read only": os.ModeDir | 0o755} {
		info, err := os.Stat(filepath.Join(w.machines["b2"].Root, "current", name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: mode %v, error %v, expected %v", name, info.Mode(), err, want)
		}
	}
}

// TestKilledAnywhere kills a script at each program of it; the next call ends
// in the same place, and what was current is so until the new one is whole.
func TestKilledAnywhere(t *testing.T) {
	for program, times := range map[string]int{
		"mkdir": 2, "tar": 1, "sha256sum": 1, "cmp": 1, "chmod": 1, "sync": 6, "flock": 2, "mv": 4, "ln": 1, "restart-app": 1, "touch": 1,
	} {
		for nth := 1; nth <= times; nth++ {
			t.Run(fmt.Sprint(program, " ", nth), func(t *testing.T) {
				t.Parallel()
				killedAt(t, program, nth)
			})
		}
	}
}

func killedAt(t *testing.T, program string, nth int) {
	w := newWorld(t)
	w.targets = w.targets[:2]
	w.mustDeploy(plugintest.Call(state.SlotB, "v1"))
	text, err := os.ReadFile(filepath.Join(w.bin, program))
	if err != nil {
		text = []byte("#!/bin/sh\nPATH=${PATH#*:} exec " + program + ` "$@"`)
	}
	w.program("real-"+program, string(text))
	w.program(program, fmt.Sprintf(`echo >>%[1]s/count; [ "$(wc -l <%[1]s/count)" -ne %[2]d ] || kill -9 $PPID; exec real-%[3]s "$@"`, w.bin, nth, program))
	_, err = w.deploy(plugintest.Call(state.SlotB, "v2"))
	expectError(t, err, providers.Unknown)
	if got := w.at("b1", "current/index.html"); got != "v1" && got != "v2" {
		t.Errorf("b1 serves %q on the way, expected v1 or v2", got)
	}
	w.mustDeploy(plugintest.Call(state.SlotB, "v2"))
	if got := w.at("b1", "current/index.html"); got != "v2" || !strings.HasSuffix(w.at("b1", "restarts"), "v2\n") {
		t.Errorf("slot b serves %q, restarts %q, expected v2", got, w.at("b1", "restarts"))
	}
	if diff := cmp.Diff([]string{"v1", "v2"}, w.releases("b1")); diff != "" {
		t.Errorf("releases:\n%s", diff)
	}
}

// TestDisconnected loses the connection before, in the middle of and after
// each script.
func TestDisconnected(t *testing.T) {
	for _, script := range []string{"look", "copy", "switch"} {
		for fateName, fate := range map[string]hosttest.Fate{"lost": hosttest.Lost, "mute": hosttest.Mute, "short": hosttest.Short} {
			t.Run(script+" "+fateName, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.mustDeploy(plugintest.Call(state.SlotB, "v1"))
				before := w.machines["b2"].Fate
				w.machines["b2"].Fate = func(c hosttest.Call) hosttest.Fate {
					if c.Kind == "program" && c.Args[3] == "manent-"+script {
						return fate
					}
					return before(c)
				}
				_, err := w.deploy(plugintest.Call(state.SlotB, "v2"))
				expectError(t, err, providers.Unknown, "on b2", "done: b1; not begun: none")
				w.machines["b2"].Fate = before
				w.mustDeploy(plugintest.Call(state.SlotB, "v2"))
				if got := w.holds(state.SlotB); got != "v2" {
					t.Errorf("slot b serves %q, expected v2", got)
				}
				if diff := cmp.Diff([]string{"v1", "v2"}, w.releases("b2")); diff != "" {
					t.Errorf("releases:\n%s", diff)
				}
			})
		}
	}
}

func TestAFailingTargetStops(t *testing.T) {
	w := newWorld(t)
	w.targets = append(w.targets, providers.Target{Host: "b3", Labels: map[string]string{"slot": "b"}})
	w.machines["b2"].Fate = func(hosttest.Call) hosttest.Fate { return hosttest.Down }
	_, err := w.deploy(plugintest.Call(state.SlotB, "v2"))
	expectError(t, err, providers.Unavailable, "on b2: connect: connection refused", "done: b1; not begun: b3")
}

func TestFullDisk(t *testing.T) {
	w := newWorld(t)
	w.mustDeploy(plugintest.Call(state.SlotB, "v1"))
	w.program("tar", `cat >/dev/null; echo "tar: files: Cannot write: No space left on device" >&2; exit 2`)
	_, err := w.deploy(plugintest.Call(state.SlotB, "v2"))
	expectError(t, err, providers.Invalid, "No space left", "make room in "+dest)
	if diff := cmp.Diff([]string{"v1"}, w.releases("b1")); diff != "" {
		t.Errorf("releases after a full disk:\n%s", diff)
	}
	w.remove("tar")
	w.mustDeploy(plugintest.Call(state.SlotB, "v2"))
}

// TestWhatArrivesIsCompared changes what arrives, with tar's own word that all
// went well.
func TestWhatArrivesIsCompared(t *testing.T) {
	for name, spoil := range map[string]string{
		"content": `echo x >>"$5/files/index.html"`, "mode": `chmod 600 "$5/files/index.html"`,
		"missing": `rm "$5/files/bin/shop"`, "more": `echo x >"$5/files/more"`, "list": `echo x >>"$5/inventory"`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.program("tar", `PATH=${PATH#*:} tar "$@" || exit; set -- "$@" ""; set -- 1 2 3 4 "$4"; `+spoil)
			_, err := w.deploy(plugintest.Call(state.SlotB, "v2"))
			expectError(t, err, providers.Unknown, "on b1: copy: the ")
			if got := w.holds(state.SlotB); got != "" {
				t.Errorf("slot b serves %q", got)
			}
		})
	}
}

func TestRestartFails(t *testing.T) {
	w := newWorld(t)
	w.program("restart-app", `echo "cannot bind: `+secret+`"; exit 3`)
	var lines []string
	call := plugintest.Call(state.SlotB, "v2")
	call.Output = func(line string) { lines = append(lines, line) }
	_, err := w.deploy(call)
	expectError(t, err, providers.Invalid, "on b1: restart: exit code 3: cannot bind: [redacted]", "not begun: b2", "restarts it again")
	if !slices.Contains(lines, "b1: cannot bind: [redacted]") {
		t.Errorf("output %q, expected what the program printed", lines)
	}
	w.program("restart-app", `sleep 20 & echo "$1" >>"$MACHINE/restarts"`) // leaves something that holds its output
	w.mustDeploy(call)
	if got := w.holds(state.SlotB); got != "v2" {
		t.Errorf("slot b serves %q, expected v2", got)
	}
}

func TestAnotherContentOfTheSameVersion(t *testing.T) {
	w := newWorld(t)
	call := plugintest.Call(state.SlotB, "v2")
	first := w.mustDeploy(call)
	w.file("build/v2/index.html", "v2 again", 0o644)
	second := w.mustDeploy(call)
	if w.holds(state.SlotB) != "v2 again" || first.Ref[refDigest] == second.Ref[refDigest] {
		t.Errorf("slot b serves %q, digests %v and %v, expected the new content", w.holds(state.SlotB), first.Ref, second.Ref)
	}
	call.Release = first
	if ok, reason, err := w.open().Ready.Ready(t.Context(), call, 5); ok || err != nil || !strings.Contains(reason, "as it was copied") {
		t.Errorf("ready for the first content: %v, reason %q, error %v", ok, reason, err)
	}
}

func TestOldReleasesGo(t *testing.T) {
	w := newWorld(t)
	w.settings["keep"] = 2
	foreign := filepath.Join(w.machines["b1"].Root, "releases", "by-hand")
	if err := os.MkdirAll(foreign, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, version := range []string{"v1", "v2", "v3"} {
		w.mustDeploy(plugintest.Call(state.SlotB, version))
		for _, machine := range []string{"b1", "b2"} { // time stands still in a test
			mark := filepath.Join(w.machines[machine].Root, "releases", "."+version+".digest")
			info, err := os.Stat(mark)
			if err != nil {
				t.Fatal(err)
			}
			back := info.ModTime().AddDate(0, 0, i-10)
			if err := os.Chtimes(mark, back, back); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff([]string{"by-hand", "v2", "v3"}, w.releases("b1")); diff != "" {
		t.Errorf("releases:\n%s", diff)
	}
}

func TestTargetsAreRefused(t *testing.T) {
	slot := func(host, slot string) providers.Target {
		return providers.Target{Host: host, Labels: map[string]string{"slot": slot}}
	}
	for name, tc := range map[string]struct {
		targets []providers.Target
		says    string
	}{
		"no label":         {[]providers.Target{slot("a1", "a"), slot("b1", "b"), {Host: "c1"}}, `target c1 has the label slot: ""`},
		"another label":    {[]providers.Target{slot("a1", "a"), slot("b1", "B")}, `slot: "B", expected a or b`},
		"an empty slot":    {[]providers.Target{slot("a1", "a")}, "no target has the label slot: b"},
		"twice":            {[]providers.Target{slot("a1", "a"), slot("b1", "b"), slot("b1", "b")}, `"b1" is there twice`},
		"both slots":       {[]providers.Target{slot("a1", "a"), slot("a1", "b")}, "targets of both slots"},
		"no host":          {[]providers.Target{slot("-x", "a"), slot("b1", "b")}, `"-x", expected a host`},
		"both with a port": {[]providers.Target{slot("a1:2", "a"), slot("a1:2", "b")}, "targets of both slots"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, err := Spec().Build(providers.Env{Targets: tc.targets}, w.settings)
			expectError(t, err, providers.Invalid, tc.says)
		})
	}
	w := newWorld(t)
	w.settings["destination"] = "/srv/shop-{slot}"
	if _, err := Spec().Build(providers.Env{Targets: []providers.Target{slot("a1", "a"), slot("a1", "b")}}, w.settings); err != nil {
		t.Errorf("a machine with both slots, each in a folder of its own: %v", err)
	}
	w.targets = nil
	_, err := w.deploy(plugintest.Call(state.SlotB, "v2"))
	expectError(t, err, providers.Invalid, "the slot has no targets")
}

func TestSettingsAreRefused(t *testing.T) {
	for key, tc := range map[string]struct {
		value any
		says  string
	}{
		"source":         {"../other", "in the workspace"},
		"destination":    {"srv", "absolute path"},
		"restart":        {"systemctl restart shop", "expected a list"},
		"keep":           {0, "keep 0"},
		"at_once":        {51, "at_once 51"},
		"timeout":        {"0s", "timeout"},
		"listen":         {"", "listen is empty"},
		"known_hosts":    {" ", "host keys are always verified"},
		"ssh_key_secret": {"", "ssh_key_secret"},
		"max_files":      {0, "max_files 0"},
	} {
		t.Run(key, func(t *testing.T) {
			w := newWorld(t)
			w.settings[key] = tc.value
			_, err := Spec().Build(providers.Env{}, w.settings)
			expectError(t, err, providers.Invalid, tc.says)
		})
	}
	for _, text := range []string{"/srv/{version}", "/srv/{host}", "/srv/../etc", "/srv/$(x)", "/srv/a b"} {
		w := newWorld(t)
		w.settings["destination"] = text
		if _, err := Spec().Build(providers.Env{}, w.settings); providers.KindOf(err) != providers.Invalid || err == nil {
			t.Errorf("destination %q: error %v", text, err)
		}
	}
}

func TestVersionsAreRefused(t *testing.T) {
	for _, version := range []string{"", "..", "a/b", "-x", ".hidden", "a b", "$(x)", "a\nb", strings.Repeat("x", 129)} {
		_, err := newWorld(t).deploy(plugintest.Call(state.SlotB, version))
		expectError(t, err, providers.Invalid, "cannot be the name of a folder")
	}
}

func TestCurrentIsAFolder(t *testing.T) {
	w := newWorld(t)
	if err := os.MkdirAll(filepath.Join(w.machines["b1"].Root, "current"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := w.deploy(plugintest.Call(state.SlotB, "v2"))
	expectError(t, err, providers.Invalid, "no symbolic link")
}

func TestReadySaysWhy(t *testing.T) {
	w := newWorld(t)
	call := plugintest.Call(state.SlotB, "v2")
	look := func() string {
		t.Helper()
		ok, reason, err := w.open().Ready.Ready(t.Context(), call, 5)
		if ok || err != nil {
			t.Fatalf("ready: %v, error %v, expected not yet", ok, err)
		}
		return reason
	}
	if got := look(); got != `b1: release "" is current, expected v2 as it was copied; b2: release "" is current, expected v2 as it was copied` {
		t.Error(got)
	}
	w.program("restart-app", `exit 1`)
	_, _ = w.deploy(call)
	if got := look(); !strings.HasPrefix(got, "b1: release v2 is current, but was not restarted; b2: ") {
		t.Error(got)
	}
	w.program("restart-app", `exit 0`)
	w.mustDeploy(call)
	w.machines["b1"].Listens("127.0.0.1:8080", false)
	if got := look(); got != "b1: nothing accepts connections at 127.0.0.1:8080" {
		t.Error(got)
	}
}

// TestReadyOfWhatWasThereBefore: no version, no files of the plugin's: the
// machines have to answer, and the port.
func TestReadyOfWhatWasThereBefore(t *testing.T) {
	w := newWorld(t)
	ready := w.open().Ready
	call := plugin.Call{Slot: state.SlotB}
	if ok, reason, err := ready.Ready(t.Context(), call, 100); !ok || err != nil {
		t.Errorf("ready: %v, reason %q, error %v, expected yes", ok, reason, err)
	}
	w.machines["b2"].Listens("127.0.0.1:8080", false)
	if ok, reason, err := ready.Ready(t.Context(), call, 100); ok || err != nil || reason != "b2: nothing accepts connections at 127.0.0.1:8080" {
		t.Errorf("ready: %v, reason %q, error %v, expected b2's reason", ok, reason, err)
	}
	bundle := w.open()
	inner := bundle.Deployer.(*copier).open
	bundle.Deployer.(*copier).open = func(ctx context.Context, address string) (host.Host, error) {
		if address == "b1" {
			return nil, &providers.Fault{Kind: providers.Unavailable, Err: errors.New("no route to host")}
		}
		return inner(ctx, address)
	}
	if ok, reason, err := bundle.Ready.Ready(t.Context(), call, 100); ok || err != nil || !strings.HasPrefix(reason, "b1 could not be asked: no route to host; b2: nothing accepts") {
		t.Errorf("ready: %v, reason %q, error %v, expected both hosts", ok, reason, err)
	}
	w.machines["b2"].Listens("127.0.0.1:8080", true)
	_, _, err := bundle.Ready.Ready(t.Context(), call, 100)
	expectError(t, err, providers.Unavailable, "on b1: no route to host")
}

//go:build unix

package container

import (
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/host/hosttest"
	"github.com/manent/action/providers/plugin/plugintest"
	"github.com/manent/action/state"
)

func TestWhatIsThereBeforeARollout(t *testing.T) {
	const fine = providers.Kind(99) // no error
	for name, tc := range map[string]struct {
		change func(w *world)
		kind   providers.Kind
		says   string
	}{
		"all of it": {func(*world) {}, fine, "logged in as deploy; docker answers, there is no container shop-b yet"},
		"a release": {func(w *world) { w.mustDeploy(plugintest.Call(state.SlotB, "v1")) }, fine, "docker answers, container shop-b is running"},
		"not up yet": {func(w *world) { w.machines["b1"].Listens("127.0.0.1:8080", false) }, fine,
			"yet; nothing accepts connections at 127.0.0.1:8080"},
		"no engine":   {func(w *world) { w.engineSays(127, "sh: docker: not found") }, providers.Invalid, "the target needs docker"},
		"engine down": {func(w *world) { w.engineSays(1, "Cannot connect to the Docker daemon") }, providers.Unavailable, "Cannot connect"},
		"no rights":   {func(w *world) { w.put("b1", "refuse", "x") }, providers.Denied, "allowed to use docker"},
		"no folder for files": {func(w *world) {
			w.machines["b1"].Env = append(w.machines["b1"].Env, "TMPDIR=/nowhere")
		}, providers.Invalid, "/nowhere, for temporary files, cannot be written"},
		"down": {func(w *world) { w.machines["b1"].Fate = func(hosttest.Call) hosttest.Fate { return hosttest.Down } }, providers.Unavailable, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tc.change(w)
			found, err := plugintest.Examined(t, w.open())
			if tc.kind == fine {
				if err != nil || found.Err != nil || found.Warn || !strings.Contains(found.Text, tc.says) {
					t.Errorf("found %+v, error %v, expected %q", found, err, tc.says)
				}
				return
			}
			expectError(t, found.Err, tc.kind, tc.says)
			expectError(t, err, tc.kind, "on b1: ", tc.says)
		})
	}
}

// engineSays lets the engine of b1 fail.
func (w *world) engineSays(exit int, said string) {
	w.machines["b1"].Answer = func(c hosttest.Call) (host.Result, bool) {
		return host.Result{Exit: exit, Stderr: []byte(said)}, c.Args[0] == "docker"
	}
}

// TestAContainerOfSomebodyElse may serve until a release goes to its slot.
func TestAContainerOfSomebodyElse(t *testing.T) {
	w := newWorld(t)
	w.foreign("shop-b", "", "1:1")
	found, err := plugintest.Examined(t, w.open())
	if found.Err != nil || !found.Warn || !strings.Contains(found.Text, "somebody else made it; a deployment refuses it") || found.Hint == "" {
		t.Errorf("found %+v", found)
	}
	expectError(t, err, providers.Invalid, "on b1: container shop-b: it has the label", "remove it by hand")
	if calls := w.calls(); len(calls) > 0 {
		t.Errorf("it called %q, expected nothing that changes", calls)
	}
}

// TestAnEnvironmentThatCannotBe is found before anything moves.
func TestAnEnvironmentThatCannotBe(t *testing.T) {
	w := newWorld(t)
	w.settings["env_secrets"] = map[string]any{"PASSWORD": "nobody"}
	bundle := w.open()
	expectError(t, bundle.Findings(t.Context())[0].Err, providers.Invalid, "no such secret")
	expectError(t, bundle.CheckSlot(t.Context(), state.SlotB), providers.Invalid, "no such secret")
}

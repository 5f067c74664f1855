//go:build unix

package exec

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/plugin/plugintest"
	"github.com/manent/action/state"
)

const secret = "hunter2hunter2"

// place is a directory that the commands of a test deploy into.
type place struct{ dir string }

func newPlace(t *testing.T) place {
	t.Helper()
	p := place{dir: t.TempDir()}
	script, err := os.ReadFile("testdata/deployer.sh")
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, "deployer.sh", string(script))
	p.write(t, "secret", secret)
	return p
}

func (p place) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p place) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

func (p place) open(t *testing.T, settings map[string]any) plugin.Bundle {
	t.Helper()
	redactor := &providers.Redactor{}
	redactor.Add(providers.NewSecret(secret))
	bundle, err := Spec().Build(providers.Env{Dir: p.dir, Redactor: redactor}, settings)
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

func (p place) set(t *testing.T, op plugintest.Op, mood plugintest.Mood) {
	p.write(t, "mood-"+string(op), string(mood))
	if mood == plugintest.Hangs {
		if err := syscall.Mkfifo(filepath.Join(p.dir, "started-"+string(op)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestConformance(t *testing.T) {
	plugintest.Run(t, func(t *testing.T) plugintest.World {
		p := newPlace(t)
		return plugintest.World{
			Name: name, Traits: Spec().Traits, Secret: secret, Lines: true,
			Open: func(t *testing.T) plugin.Bundle {
				return p.open(t, map[string]any{
					"deploy": "sh deployer.sh deploy", "ready": "sh deployer.sh ready",
					"scale": "sh deployer.sh scale", "retire": "sh deployer.sh retire",
				})
			},
			Holds: func(t *testing.T, slot state.Slot) string { return p.read(t, "slot-"+string(slot)) },
			Capacity: func(t *testing.T, slot state.Slot) float64 {
				share, _ := strconv.ParseFloat(p.read(t, "capacity-"+string(slot)), 64)
				return share
			},
			Set: p.set,
			Started: func(t *testing.T, op plugintest.Op) {
				if got := p.read(t, "started-"+string(op)); got != "started" {
					t.Errorf("read %q, expected started", got)
				}
			},
		}
	})
}

func TestTheBundleFollowsTheSettings(t *testing.T) {
	bundle := newPlace(t).open(t, map[string]any{"deploy": "true"})
	if bundle.Ready != nil || bundle.Traits() != (plugin.Traits{}) {
		t.Errorf("bundle %+v of deploy alone, expected nothing but a deployer", bundle)
	}
}

func TestSettingsAreRefused(t *testing.T) {
	cases := map[string]struct {
		settings map[string]any
		says     string
	}{
		"no deploy":    {map[string]any{}, `"deploy" is missing`},
		"empty deploy": {map[string]any{"deploy": " "}, "deploy is empty"},
		"half scaler":  {map[string]any{"deploy": "true", "scale": "true"}, "only one of scale and retire"},
		"timeout":      {map[string]any{"deploy": "true", "timeout": "0s"}, "timeout is 0s"},
		"unknown":      {map[string]any{"deploy": "true", "undo": "true"}, `unknown setting "undo"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Spec().Build(providers.Env{}, tc.settings)
			if providers.KindOf(err) != providers.Invalid || err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, expected it to say %q", err, tc.says)
			}
		})
	}
}

// TestCommandsAreTold compares all MANENT_* variables that a command sees.
func TestCommandsAreTold(t *testing.T) {
	p := newPlace(t)
	tell := `env | grep ^MANENT_ | grep -v ^MANENT_OUTPUT= | LC_ALL=C sort >told`
	bundle := p.open(t, map[string]any{"deploy": tell, "scale": tell, "retire": tell, "ready": tell})
	call := plugin.Call{
		Slot: state.SlotB, StepID: "r1/deploy",
		Release: state.Release{Version: "v2", Ref: state.Ref{"cloud.run-id": "web-7"}},
		Vars:    map[string]string{"MANENT_STAGE": "25%", "MANENT_VERSION": "not this"},
	}
	want := []string{
		"MANENT_GRADUAL=false", "MANENT_REF_CLOUD_RUN_ID=web-7", "MANENT_SLOT=b", "MANENT_STAGE=25%", "MANENT_STEP_ID=r1/deploy", "MANENT_VERSION=v2",
	}
	if _, err := bundle.Deployer.Deploy(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, strings.Split(p.read(t, "told"), "\n")); diff != "" {
		t.Errorf("deploy:\n%s", diff)
	}
	withShare := slices.Insert(slices.Clone(want), 2, "MANENT_SHARE=12.5")
	if ok, _, err := bundle.Ready.Ready(t.Context(), call, 12.5); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if diff := cmp.Diff(withShare, strings.Split(p.read(t, "told"), "\n")); diff != "" {
		t.Errorf("ready:\n%s", diff)
	}
}

func TestDeployReturnsTheReference(t *testing.T) {
	p := newPlace(t)
	bundle := p.open(t, map[string]any{"deploy": `echo revision=web-8 >>"$MANENT_OUTPUT"`})
	call := plugintest.Call(state.SlotB, "v2")
	call.Release.Ref["revision"] = "web-7"
	release, err := bundle.Deployer.Deploy(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	want := state.Release{Version: "v2", Ref: state.Ref{"revision": "web-8", state.RefRollout: "r1"}}
	if diff := cmp.Diff(want, release); diff != "" {
		t.Error(diff)
	}
}

func TestDeployMayNotWriteManentsOwnKeys(t *testing.T) {
	bundle := newPlace(t).open(t, map[string]any{"deploy": `echo manent-rollout=r9 >>"$MANENT_OUTPUT"`})
	_, err := bundle.Deployer.Deploy(t.Context(), plugintest.Call(state.SlotB, "v2"))
	if providers.KindOf(err) != providers.Invalid || err == nil || !strings.Contains(err.Error(), `key "manent-rollout"`) {
		t.Errorf("error %v, expected the key to be refused", err)
	}
}

func TestATimeoutIsAFailure(t *testing.T) {
	bundle := newPlace(t).open(t, map[string]any{"deploy": "exec sleep 1000", "timeout": "50ms"})
	_, err := bundle.Deployer.Deploy(t.Context(), plugintest.Call(state.SlotB, "v2"))
	if providers.KindOf(err) != providers.Invalid || err == nil || !strings.Contains(err.Error(), "did not end within 50ms") {
		t.Errorf("error %v, expected a definite failure", err)
	}
}

func TestReadySaysWhy(t *testing.T) {
	for script, want := range map[string]string{
		`echo "1 of 3 is up"; echo; exit 75`: "1 of 3 is up",
		"exit 75":                            "command ready ended with exit code 75",
	} {
		bundle := newPlace(t).open(t, map[string]any{"deploy": "true", "ready": script})
		if ok, reason, err := bundle.Ready.Ready(t.Context(), plugintest.Call(state.SlotB, "v2"), 5); ok || err != nil || reason != want {
			t.Errorf("%s: %v, reason %q, error %v, expected %q", script, ok, reason, err, want)
		}
	}
}

//go:build unix

package external

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/external/externaltest"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/plugin/plugintest"
	"github.com/manent/action/state"
)

// program is the plugin of externaltest, compiled once.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "manent-external-")
	if err == nil {
		program, err = externaltest.Build(context.Background(), dir)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

const secret = "hunter2hunter2"

// place is a world and the folder that it is in.
type place struct {
	*testing.T
	dir string
}

func newPlace(t *testing.T, w externaltest.World) place {
	t.Helper()
	p := place{T: t, dir: t.TempDir()}
	w.Spills = secret
	if err := externaltest.Put(p.dir, w); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p place) change(change func(*externaltest.World)) {
	p.Helper()
	if err := externaltest.Change(p.dir, func(w *externaltest.World) error { change(w); return nil }); err != nil {
		p.Fatal(err)
	}
}

func (p place) world() externaltest.World {
	p.Helper()
	w, err := externaltest.Get(p.dir)
	if err != nil {
		p.Fatal(err)
	}
	return w
}

func (p place) env() providers.Env {
	redactor := &providers.Redactor{}
	redactor.Add(providers.NewSecret(secret))
	return providers.Env{Dir: p.dir, Redactor: redactor, Getenv: os.Getenv}
}

// settings are those of the plugin, with what a test has other.
func settings(other map[string]any) map[string]any {
	out := map[string]any{
		"command": []any{program}, "capabilities": []any{"deploy", "slots", "scale", "traffic_router"},
		"step": 0.01, "conditional": true, "testers": "header", "timeout": "2m",
	}
	for key, value := range other {
		out[key] = value
	}
	return out
}

func (p place) open(other map[string]any) plugin.Bundle {
	p.Helper()
	bundle, err := Spec().Build(p.env(), settings(other))
	if err != nil {
		p.Fatal(err)
	}
	return bundle
}

func TestConformance(t *testing.T) {
	plugintest.Run(t, func(t *testing.T) plugintest.World {
		p := newPlace(t, externaltest.New(1))
		return plugintest.World{
			Name: name, Traits: Spec().Traits, Secret: secret, Lines: true,
			Open:     func(*testing.T) plugin.Bundle { return p.open(nil) },
			Holds:    func(_ *testing.T, slot state.Slot) string { return p.world().Versions[string(slot)] },
			Capacity: func(_ *testing.T, slot state.Slot) float64 { return p.world().Capacity[string(slot)] },
			Set: func(_ *testing.T, op plugintest.Op, mood plugintest.Mood) {
				moods := map[plugintest.Mood]string{plugintest.NotYet: externaltest.NotYet, plugintest.Refuses: externaltest.Refuses, plugintest.Hangs: externaltest.Hangs}
				p.change(func(w *externaltest.World) { w.Moods[string(op)] = moods[mood] })
			},
			Started: func(_ *testing.T, op plugintest.Op) { p.await("started-" + string(op)) },
		}
	})
}

// await waits for a file.
func (p place) await(file string) {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for range 6000 {
		if _, err := os.Stat(filepath.Join(p.dir, file)); !errors.Is(err, fs.ErrNotExist) {
			return
		}
		<-look.C
	}
	p.Errorf("%s never came", file)
}

func TestSettingsAreRefused(t *testing.T) {
	cases := map[string]struct {
		other map[string]any
		says  string
	}{
		"no command":         {map[string]any{"command": []any{}}, "command is empty"},
		"zero byte":          {map[string]any{"command": []any{"a\x00b"}}, "zero byte"},
		"unknown capability": {map[string]any{"capabilities": "deploy, teleport"}, `"teleport", expected each of deploy, slots, scale, traffic_router, pool, metrics`},
		"twice":              {map[string]any{"capabilities": "deploy, deploy"}, "at most once"},
		"nothing to do":      {map[string]any{"capabilities": "slots"}, "expected at least deploy or traffic_router"},
		"timeout":            {map[string]any{"timeout": "0s"}, "timeout is 0s"},
		"step":               {map[string]any{"step": 0}, "step is 0"},
		"pinned":             {map[string]any{"pinned_for": "-1s"}, "pinned_for is -1s"},
		"testers":            {map[string]any{"testers": "cookie"}, "expected one of header, tag"},
		"variable":           {map[string]any{"env": map[string]any{"A-B": "1"}}, `variable "A-B"`},
		"manent's own":       {map[string]any{"env": map[string]any{"MANENT_SLOT": "b"}}, `variable "MANENT_SLOT"`},
		"variable twice":     {map[string]any{"env": map[string]any{"TOKEN": "1"}, "secrets": map[string]any{"TOKEN": "t"}}, "TOKEN is given twice"},
		"unknown":            {map[string]any{"shell": "true"}, `unknown setting "shell"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Spec().Build(providers.Env{}, settings(tc.other))
			if providers.KindOf(err) != providers.Invalid || err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, expected it to say %q", err, tc.says)
			}
		})
	}
}

// TestTheBundleFollowsTheSettings: Build starts nothing, so what is declared
// counts.
func TestTheBundleFollowsTheSettings(t *testing.T) {
	p := newPlace(t, externaltest.New(1))
	bundle := p.open(map[string]any{"capabilities": "deploy", "command": "./nothing-here"})
	if bundle.Deployer == nil || bundle.Ready != nil || bundle.Traits() != (plugin.Traits{}) || bundle.RouterTraits.Unit != "" {
		t.Errorf("bundle %+v of deploy alone, expected nothing but a deployer", bundle)
	}
	bundle = p.open(map[string]any{"capabilities": "traffic_router"})
	if bundle.Deployer != nil || bundle.Traits() != (plugin.Traits{Router: true}) || !bundle.RouterTraits.Conditional || bundle.RouterTraits.Step != 0.01 {
		t.Errorf("bundle %+v of traffic_router alone, expected nothing but a router", bundle)
	}
	bundle = p.open(map[string]any{"capabilities": "deploy, pool, metrics"})
	if bundle.Deployer == nil || bundle.Ready != nil || bundle.Router != nil {
		t.Errorf("bundle %+v, expected that a capability that the plugin has no use for is taken", bundle)
	}
	if got := p.world().Log; len(got) != 0 {
		t.Errorf("Build sent requests %v", got)
	}
}

// TestNothingMovesBeforeTheProgramFits: a program that is not what the
// settings say is asked for nothing but that.
func TestNothingMovesBeforeTheProgramFits(t *testing.T) {
	described := func(capabilities []string, protocols []int, traits map[string]any) map[string]any {
		return map[string]any{"name": "other", "protocols": protocols, "capabilities": capabilities, "traits": traits}
	}
	all, traits := []string{"deploy", "slots", "scale", "traffic_router"}, map[string]any{"unit": "percent", "step": 0.01, "conditional": true, "testers": "header"}
	cases := map[string]struct {
		describe map[string]any
		says     string
	}{
		"capability":  {described(all[:3], []int{1}, traits), "not capable of traffic_router"},
		"protocol":    {described(all, []int{2, 3}, traits), "speaks protocol [2 3], expected 1"},
		"step":        {described(all, []int{1}, map[string]any{"unit": "percent", "step": 1, "conditional": true, "testers": "header"}), "step is 0.01, it says 1"},
		"conditional": {described(all, []int{1}, map[string]any{"unit": "percent", "step": 0.01, "testers": "header"}), "conditional is true, it says false"},
		"testers":     {described(all, []int{1}, map[string]any{"unit": "percent", "step": 0.01, "conditional": true}), "testers is header, it says not given"},
		"pinned":      {described(all, []int{1}, map[string]any{"unit": "percent", "step": 0.01, "conditional": true, "testers": "header", "pinnedFor": "5m"}), "pinned_for is 0s, it says 5m0s"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := externaltest.New(1)
			w.Describe = tc.describe
			p := newPlace(t, w)
			bundle := p.open(nil)
			_, deployed := bundle.Deployer.Deploy(t.Context(), plugintest.Call(state.SlotB, "v2"))
			_, read := bundle.Router.Read(t.Context(), state.Slots{})
			for _, err := range []error{deployed, read} {
				if providers.KindOf(err) != providers.Invalid || err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("error %v, expected it to say %q", err, tc.says)
				}
			}
			if got := strings.Join(p.world().Log, " "); got != "describe" {
				t.Errorf("requests %q, expected describe once", got)
			}
		})
	}
}

// TestADescriptionThatFailsIsAskedAgain: no answer is no mismatch.
func TestADescriptionThatFailsIsAskedAgain(t *testing.T) {
	w := externaltest.New(1)
	w.Moods["describe"] = externaltest.Half
	p := newPlace(t, w)
	bundle := p.open(nil)
	if _, err := bundle.Router.Read(t.Context(), state.Slots{}); providers.KindOf(err) != providers.Unknown || err == nil {
		t.Errorf("error %v, expected unknown", err)
	}
	p.change(func(w *externaltest.World) { w.Moods = map[string]string{} })
	if _, err := bundle.Router.Read(t.Context(), state.Slots{}); err != nil {
		t.Error(err)
	}
}

// TestSecretsReachTheProgram, and nothing else of manent's environment does.
func TestSecretsReachTheProgram(t *testing.T) {
	for _, in := range []string{"environment", "request"} {
		t.Run(in, func(t *testing.T) {
			p := newPlace(t, externaltest.New(1))
			env := p.env()
			env.Getenv = func(name string) string {
				return map[string]string{"PATH": os.Getenv("PATH"), "KUBECONFIG": "/kube", "OTHER": "not this"}[name]
			}
			env.Secret = func(_ context.Context, name string) (providers.Secret, error) {
				if name != "pool-token" {
					return providers.Secret{}, &providers.Fault{Kind: providers.NotFound, Err: errors.New("no such secret")}
				}
				return providers.NewSecret(secret), nil
			}
			other := map[string]any{
				"command": []any{"sh", "-c", "cat >request; env >environment"}, "inherit": "KUBECONFIG", "secrets_in": in,
				"secrets": map[string]any{"TOKEN": "pool-token"}, "env": map[string]any{"REGION": "eu"},
			}
			bundle, err := Spec().Build(env, settings(other))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := bundle.Router.Read(t.Context(), state.Slots{}); providers.KindOf(err) != providers.Unknown || strings.Contains(err.Error(), secret) {
				t.Errorf("error %v", err)
			}
			request, _ := os.ReadFile(filepath.Join(p.dir, "request"))
			environ, _ := os.ReadFile(filepath.Join(p.dir, "environment"))
			if strings.Contains(string(request), `"secrets":{"TOKEN":"`+secret) != (in == "request") || strings.Contains(string(environ), "TOKEN="+secret) != (in == "environment") {
				t.Errorf("request %s, environment %s", request, environ)
			}
			if text := string(environ); strings.Contains(text, "OTHER") || !strings.Contains(text, "KUBECONFIG=/kube") || !strings.Contains(text, "REGION=eu") {
				t.Errorf("environment %s", text)
			}
			bundle, err = Spec().Build(env, settings(map[string]any{"secrets": map[string]any{"TOKEN": "other"}}))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := bundle.Router.Read(t.Context(), state.Slots{}); providers.KindOf(err) != providers.NotFound || len(p.world().Log) != 0 {
				t.Errorf("error %v, requests %v, expected that nothing was started", err, p.world().Log)
			}
		})
	}
}

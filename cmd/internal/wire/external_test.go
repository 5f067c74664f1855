package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

const externalExample = `
project: shop
application: web
environment: prod
plugin:
  name: external
  settings: {command: [./nothing-here], capabilities: [deploy, slots, traffic_router], conditional: true, testers: header, step: 0.5, pinned_for: 5m}
rollout:
  traffic: {steps: [10, 20, 100], testers: {header: "x-canary: always"}}
`

// What a plugin's router is like follows from the settings, without starting
// anything.
func TestPluginsRouterFollowsTheSettings(t *testing.T) {
	h, _ := testHost(t, nil)
	cfg := load(t, h, externalExample)
	name, traits, ok := h.Catalog().RouterOf(cfg)
	if !ok || name != "external" || traits.Step != 0.5 || !traits.Conditional || traits.Testers != "header" {
		t.Errorf("router %q, %v, traits %+v", name, ok, traits)
	}
	if got := h.Catalog().PinnedFor(cfg); got != 5*time.Minute {
		t.Errorf("pinned for %v", got)
	}
	if h.Catalog().Scales(cfg) {
		t.Error("it scales without the capability")
	}
	w, err := h.Connect(runner.World{}, cfg)
	if err != nil || w.Router("") == nil || !w.Traits.Conditional {
		t.Errorf("world %+v, error %v", w, err)
	}
	cfg.Plugin.Settings["capabilities"] = "deploy"
	if name, _, ok := h.Catalog().RouterOf(cfg); ok {
		t.Errorf("router %q without the capability", name)
	}
	_, problems := config.Parse(config.Source{Name: "prod.yml", Data: []byte(strings.Replace(externalExample, "[deploy, slots, traffic_router]", "[deploy]", 1))}, nil, config.Options{Catalog: h.Catalog()})
	if err := problems.Err(); err == nil || !strings.Contains(err.Error(), "strategy traffic has no router") {
		t.Errorf("error %v, expected that the router is missing", err)
	}
}

// A program that is not there fails its cases; another plugin has none.
func TestConformance(t *testing.T) {
	h, _ := testHost(t, nil)
	cfg := load(t, h, externalExample)
	failed := 0
	err := h.Conformance(t.Context(), cfg, state.Pass{}, true, func(c Case) {
		if c.Err == nil && c.LeftOut == "" {
			t.Errorf("%s: passed, without a program", c.Name)
		}
		failed++
	})
	if err != nil || failed < 10 {
		t.Errorf("%d cases, error %v", failed, err)
	}
	if err := h.Conformance(t.Context(), load(t, h, example), state.Pass{}, true, func(c Case) { t.Errorf("case %s of plugin exec", c.Name) }); err != nil {
		t.Error(err)
	}
	if got := sharesFor([]float64{10, 20, 100}); got != [2]float64{10, 20} {
		t.Errorf("shares %v", got)
	}
	if got := sharesFor([]float64{10, 100}); got != [2]float64{25, 50} {
		t.Errorf("shares %v", got)
	}
}

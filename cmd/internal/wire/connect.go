package wire

import (
	"context"
	"errors"
	"fmt"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/process"
	"github.com/manent/action/providers/metric"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
)

// Connect returns base with everything that a configuration names built and
// put in. It does no I/O.
func (h Host) Connect(base runner.World, cfg config.Config) (runner.World, error) {
	env := h.env(cfg.Secrets)
	env.Targets = targets(cfg.Targets)
	bundle, err := buildPlugin(env, cfg)
	if err != nil {
		return base, err
	}
	route, traits, err := buildRouter(env, cfg, bundle)
	if err != nil {
		return base, err
	}
	if base.Metrics, err = buildMetrics(env, cfg); err != nil {
		return base, err
	}
	base.Systems = map[string]metric.Traits{}
	for _, s := range Metrics() {
		base.Systems[s.Name] = s.Traits
	}
	base.Plugin = func(string) plugin.Bundle { return bundle }
	base.Router = func(string) router.Router { return route }
	base.Traits = traits
	base.Command = h.command
	base.Probe = probe
	base.Secrets = func(ctx context.Context) error { return h.Resolve(ctx, cfg.Secrets) }
	return base, nil
}

func buildPlugin(env providers.Env, cfg config.Config) (plugin.Bundle, error) {
	if cfg.Plugin.Name == "" {
		return plugin.Bundle{}, nil
	}
	spec, err := named("plugin", cfg.Plugin.Name, Plugins(), func(s plugin.Spec) string { return s.Name })
	if err != nil {
		return plugin.Bundle{}, err
	}
	settings := cfg.Plugin.Settings
	if len(cfg.Clusters) == 1 {
		settings = config.Merge(settings, cfg.Clusters[0].Settings)
	}
	return spec.Build(env, settings)
}

// buildRouter builds the environment's router; without one the plugin's own
// counts, nil when there is none either.
func buildRouter(env providers.Env, cfg config.Config, bundle plugin.Bundle) (router.Router, router.Traits, error) {
	if cfg.Traffic.Router == nil {
		return bundle.Router, bundle.RouterTraits, nil
	}
	spec, err := named("router", cfg.Traffic.Router.Provider, Routers(), func(s router.Spec) string { return s.Name })
	if err != nil {
		return nil, router.Traits{}, err
	}
	r, err := spec.Build(env, cfg.Traffic.Router.Settings)
	return r, spec.Traits, err
}

// buildMetrics builds the systems that the gate asks.
func buildMetrics(env providers.Env, cfg config.Config) (map[string]metric.System, error) {
	out := map[string]metric.System{}
	for _, name := range askedSystems(cfg.Rollout.Health) {
		spec, err := named("metric system", name, Metrics(), func(s metric.Spec) string { return s.Name })
		if err != nil {
			return nil, err
		}
		if out[name], err = spec.Build(env, cfg.Rollout.Providers[name]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func askedSystems(h config.Health) []string {
	var names []string
	for _, m := range h.Metrics {
		names = append(names, m.Provider)
	}
	for _, a := range h.Alarms {
		names = append(names, a.Provider)
	}
	return names
}

// command runs one of the user's own commands; its lines are shown as they
// come.
func (h Host) command(ctx context.Context, c runner.Command) (map[string]string, error) {
	res, err := process.Run(ctx, process.Command{
		Name: c.Env["MANENT_COMMAND"], Run: c.Run, Dir: h.Dir, Vars: c.Env, Timeout: c.Timeout,
		Output: func(line string) { h.Say("  " + line) }, Secrets: h.Redactor,
	})
	return res.Values, err
}

// Resolve asks for every secret once, so that a missing one is found, and
// each is known to the redactor and to the platform, before anything is done.
func (h Host) Resolve(ctx context.Context, secrets []config.Secret) error {
	var failed []error
	for _, s := range secrets {
		if _, err := h.secret(ctx, secrets, s.Name); err != nil {
			failed = append(failed, fmt.Errorf("secret %s: %w", s.Name, err))
		}
	}
	return errors.Join(failed...)
}

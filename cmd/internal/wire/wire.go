// Package wire says what is in this binary: one explicit, ordered list of
// implementations per kind. It builds what a configuration names and connects
// it to the engine. It is the only package that imports implementations, and
// must not know what a rollout does nor how anything is shown.
package wire

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/runner/config"
)

// Host is what the process gives to every provider.
type Host struct {
	Getenv   func(string) string
	Dir      string            // workspace
	Say      func(line string) // progress for a person
	Redactor *providers.Redactor
	Tell     func(line string) error      // to the pipeline's platform, see providers.Env
	Mask     func(providers.Secret) error // told of every secret before anything is printed
	Sources  *Sources                     // of secrets, kept for the process; nil to make them anew for each
}

// env is what a provider gets; secrets are found by their configured name.
func (h Host) env(secrets []config.Secret) providers.Env {
	return providers.Env{
		Getenv: h.Getenv, Dir: h.Dir, Redactor: h.Redactor, Tell: h.Tell, Mask: h.Mask,
		Log: func(format string, args ...any) { h.Say(fmt.Sprintf(format, args...)) },
		Secret: func(ctx context.Context, name string) (providers.Secret, error) {
			return h.secret(ctx, secrets, name)
		},
	}
}

// Catalog is what the design knows and what this binary has of it.
func (h Host) Catalog() config.Catalog {
	env := h.env(nil)
	cat := config.Known()
	for _, s := range Plugins() {
		e, _ := config.Lookup(cat.Plugins, s.Name)
		e.Entry, e.Scales = entry(env, s.Spec), s.Traits.Scales
		e.ScalesWith = func(settings map[string]any) bool {
			bundle, err := s.Build(env, settings)
			return err == nil && bundle.Traits().Scales
		}
		if !s.Traits.Router {
			e.Router = nil
		}
		known := e.Router
		e.RouterWith = func(settings map[string]any) *config.RouterTraits {
			bundle, err := s.Build(env, settings)
			if err != nil {
				return known // what is wrong is found by the check of its own
			}
			return traitsOf(bundle, known)
		}
		cat.Plugins = config.Put(cat.Plugins, e)
	}
	for _, s := range Routers() {
		cat.Routers = config.Put(cat.Routers, routerEntry(env, s))
	}
	for _, s := range Metrics() {
		e := config.MetricEntry{Entry: entry(env, s.Spec), Delay: s.Traits.Delay, Window: s.Traits.Window, OwnTracks: s.Traits.OwnTracks}
		cat.Metrics = config.Put(cat.Metrics, e)
	}
	for _, s := range Secrets() {
		cat.Secrets = config.Put(cat.Secrets, config.Entry{Name: s.Scheme, Summary: s.Summary, InBuild: true})
	}
	for _, s := range Stores() {
		cat.Stores = config.Put(cat.Stores, config.Entry{Name: s.Scheme, Summary: s.Summary, InBuild: true})
	}
	for _, e := range Pools() {
		cat.Pools = config.Put(cat.Pools, e)
	}
	return cat
}

// traitsOf is what is known of a plugin's router with its settings; nil for
// none.
func traitsOf(bundle plugin.Bundle, known *config.RouterTraits) *config.RouterTraits {
	switch {
	case bundle.Router == nil:
		return nil
	case bundle.RouterTraits.Unit == "":
		return known
	}
	t := bundle.RouterTraits
	return &config.RouterTraits{
		Step: t.Step, Conditional: t.Conditional, Testers: t.Testers,
		Pinned: func(map[string]any) time.Duration {
			if sticky, ok := bundle.Router.(router.Sticky); ok {
				return sticky.PinnedFor()
			}
			return 0
		},
	}
}

// entry describes one implementation; its check builds it, without I/O.
func entry[T any](env providers.Env, s providers.Spec[T]) config.Entry {
	return config.Entry{
		Name: s.Name, Summary: s.Summary, InBuild: true, Fields: s.Fields,
		Check: func(settings map[string]any) error {
			_, err := s.Build(env, settings)
			return err
		},
	}
}

func routerEntry(env providers.Env, s router.Spec) config.RouterEntry {
	return config.RouterEntry{
		Entry: entry(env, s.Spec),
		RouterTraits: config.RouterTraits{
			Step: s.Traits.Step, Conditional: s.Traits.Conditional, Testers: s.Traits.Testers,
			OnTargets: s.Traits.OnTargets, Instead: s.Traits.Instead, Reach: reach(env, s),
			Pinned: func(settings map[string]any) time.Duration {
				r, err := s.Build(env, settings)
				if sticky, ok := r.(router.Sticky); ok && err == nil {
					return sticky.PinnedFor()
				}
				return 0
			},
		},
	}
}

// named finds the implementation of a name, and says which there are.
func named[S any](what, name string, specs []S, nameOf func(S) string) (S, error) {
	if i := slices.IndexFunc(specs, func(s S) bool { return nameOf(s) == name }); i >= 0 {
		return specs[i], nil
	}
	var none S
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = nameOf(s)
	}
	return none, &providers.Fault{
		Op: what, Kind: providers.Invalid,
		Err:  fmt.Errorf("%q is not in this build", name),
		Hint: "expected one of " + strings.Join(names, ", "),
	}
}

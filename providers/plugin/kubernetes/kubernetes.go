// Package kubernetes is the plugin of Kubernetes: one settings block for what
// puts a version into a slot and for what splits the traffic between the slots,
// an HTTPRoute of the Gateway API or a VirtualService of Istio. It must not
// know the plan, nor when or why something is done.
package kubernetes

import (
	"time"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/plugin"
)

const name = "kubernetes"

// Spec describes the plugin.
func Spec() plugin.Spec {
	return plugin.Spec{
		Spec:   providers.Define(name, "Kubernetes: traffic by Gateway API or Istio.", build),
		Traits: plugin.Traits{Router: true},
	}
}

// build makes the plugin. Everything in it shares one client, which reads the
// kubeconfig at its first call.
func build(env providers.Env, s Settings) (plugin.Bundle, error) {
	if err := s.check(); err != nil {
		return plugin.Bundle{}, &providers.Fault{Provider: name, Op: "settings", Kind: providers.Invalid, Err: err}
	}
	c := &cluster{settings: s, log: env.Log, now: time.Now}
	if c.log == nil {
		c.log = func(string, ...any) {}
	}
	c.client = api.New(api.Options{
		Provider: name, Kubeconfig: s.Kubeconfig, Context: s.Context, Dir: env.Dir,
		Getenv: env.Getenv, Timeout: s.Timeout, Hide: env.Hide, Log: c.log,
	})
	return plugin.Bundle{Router: c.router()}, nil
}

// cluster is what all parts of the plugin share.
type cluster struct {
	settings Settings
	client   *api.Client
	log      func(format string, args ...any)
	now      func() time.Time
}

// reached reports whether the proxies have had time to follow a change.
func (c *cluster) reached(since time.Time) bool {
	return c.settings.Settle == 0 || !c.now().Before(since.Add(c.settings.Settle))
}

// namespace is the one of the Services and workloads.
func (c *cluster) namespace() (string, error) {
	if c.settings.Namespace != "" {
		return c.settings.Namespace, nil
	}
	return c.client.Namespace()
}

func (c *cluster) router() *Router {
	if len(c.settings.HTTPRoutes) > 0 {
		return &Router{cluster: c, dialect: gateway{c}}
	}
	return &Router{cluster: c, dialect: istio{c}}
}

// named makes an error this plugin's, with what was done.
func named(op string, err error) error {
	if err == nil {
		return nil
	}
	return &providers.Fault{Provider: name, Op: op, Kind: providers.KindOf(err), Err: err, Hint: providers.HintOf(err)}
}

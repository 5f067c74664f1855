// Package kubernetes is the plugin of Kubernetes: one settings block for what
// puts a version into a slot and for what splits the traffic between the slots,
// an HTTPRoute of the Gateway API or a VirtualService of Istio. It must not
// know the plan, nor when or why something is done.
package kubernetes

import (
	"time"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/api/kubernetes/dialect"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/plugin/kubernetes/deploy"
	"github.com/manent/action/providers/plugin/kubernetes/traffic"
)

const name = "kubernetes"

// Spec describes the plugin.
func Spec() plugin.Spec {
	s := providers.Define(name, "Kubernetes: applies a slot's manifests, and moves traffic by Gateway API or Istio.", build)
	s.Unproven = "Istio's own control plane and proxies, and pods: tests ran on a real API server with its definitions, without kubelet or controllers of workloads"
	return plugin.Spec{Spec: s, Traits: plugin.Traits{Router: true, Scales: true}, Routers: routers()}
}

func build(env providers.Env, s Settings) (plugin.Bundle, error) {
	return assemble(env, s, time.Now)
}

// assemble makes the plugin. Everything in it shares one client, which reads
// the kubeconfig at its first call.
func assemble(env providers.Env, s Settings, now func() time.Time) (plugin.Bundle, error) {
	if err := s.valid(); err != nil {
		return plugin.Bundle{}, &providers.Fault{Provider: name, Op: "settings", Kind: providers.Invalid, Err: err, Hint: providers.HintOf(err)}
	}
	log := api.InTurn(env.Log)
	client := api.New(api.Options{
		Provider: name, Kubeconfig: s.Kubeconfig, Context: s.Context, Dir: env.Dir,
		Getenv: env.Getenv, Timeout: s.Timeout, Hide: env.Hide, Log: log,
	})
	route := s.router(client, log, now)
	bundle := plugin.Bundle{Router: route, RouterTraits: s.Traits(), CheckSlot: route.Free}
	d := &deploy.Deployer{
		Client: client, Dir: env.Dir, Manifests: s.Manifests, Service: s.Service, Namespace: s.Namespace,
		Shared: len(s.VirtualService) > 0, Force: s.Force,
	}
	if len(s.Manifests) > 0 {
		bundle.Deployer, bundle.Ready, bundle.Scaler = d, d, traffic.Kept{SlotScaler: d, Router: route}
	}
	all := parts{Settings: s, client: client, deployer: d, router: route, log: log}
	bundle.Check, bundle.Findings = all.check, all.findings
	return bundle, nil
}

// parts are what a bundle consists of.
type parts struct {
	Settings
	client   *api.Client
	deployer *deploy.Deployer
	router   *traffic.Router
	log      func(format string, args ...any)
}

func (s Settings) router(client *api.Client, log func(string, ...any), now func() time.Time) *traffic.Router {
	options := dialect.Options{
		Client: client, Service: s.Service, Namespace: s.Namespace, RouteNamespace: s.RouteNamespace,
		Rules: s.Rules, Gateways: s.Gateways, DestinationRule: s.DestRule, Deploys: len(s.Manifests) > 0,
		Settle: s.Settle, SettleTimeout: s.SettleTimeout, Log: log, Now: now,
	}
	r := &traffic.Router{Client: client, Parts: s.routes(), Step: s.Traits().Step, Log: log, Now: now}
	if r.In = (dialect.Istio{Options: options}); len(s.HTTPRoutes) > 0 {
		r.In = dialect.Gateway{Options: options}
	}
	return r
}

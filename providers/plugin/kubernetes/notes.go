package kubernetes

import "github.com/manent/action/providers/router"

// routers are the two that the settings choose from.
func routers() []router.Entry {
	gateway, istio := Settings{HTTPRoutes: []string{""}}, Settings{}
	return []router.Entry{
		{Name: name + " with http_route", Traits: gateway.Traits(), Unproven: "other implementations than Traefik: what they do differently is known from their documents only"},
		{Name: name + " with virtual_service", Traits: istio.Traits(), Unproven: "Istio's own control plane and proxies: tests ran on a real API server with its definitions"},
	}
}

func gatewayNotes() router.Notes {
	return router.Notes{
		Page:        "kubernetes.md",
		Resolution:  "0.01 %; over requests, as exact as the gateway is",
		Condition:   "the API server refuses the patch when generation, names or old weights have changed",
		Testers:     "a copy of each managed rule with one more header match",
		Sticky:      "`sessionPersistence` of the route or the gateway's own: not seen",
		Permissions: "get and patch the HTTPRoutes, get the Services, list EndpointSlices; `doctor` prints the Role",
		Limits: []string{
			"16 rules in a route: testers double the managed ones",
			"an implementation that never reports the generation is trusted after `settle_timeout`, with a warning",
			"RBAC knows no single fields: whoever may patch a route may change all of it",
		},
		Others: others("rules", ".spec.rules[].backendRefs[].weight"),
		Seen:   "the API server's managedFields: drift and `doctor` name the field manager",
	}
}

func istioNotes() router.Notes {
	return router.Notes{
		Page:        "kubernetes.md",
		Resolution:  "1 %; random for each request, as Envoy does it",
		Condition:   "the API server refuses the patch when generation, names or old weights have changed",
		Testers:     "a copy of each managed entry before it, with one more header match",
		Sticky:      "`consistentHash` of the DestinationRule keeps clients at a pod of their subset, not at a subset",
		Permissions: "get and patch the VirtualServices, get DestinationRule and Service, list pods; `doctor` prints the Role",
		Limits: []string{
			"no proxy says that it has a change: a share is in force after `settle`",
			"`tcp` and `tls` entries are not moved",
			"delegates, and hosts that several VirtualServices share, are not followed",
		},
		Others: others("http", ".spec.http[].route[].weight"),
		Seen:   "the API server's managedFields: drift and `doctor` name the field manager",
	}
}

// others may apply the route from Git or from a plan: list is that of its
// rules, weights a jq path to the weights in it.
func others(list, weights string) []router.Other {
	return []router.Other{
		{
			Tool: "Argo CD", Managers: []string{"argocd"},
			Remedy: "in its Application, ignoreDifferences with jqPathExpressions " + weights + " and the sync option RespectIgnoreDifferences=true; never managedFieldsManagers",
		},
		{
			Tool: "Flux", Managers: []string{"kustomize-controller", "flux"},
			Remedy: "leave /spec/" + list + " out with spec.ignore of its Kustomization (since August 2026), or give the route the annotation kustomize.toolkit.fluxcd.io/reconcile: disabled",
		},
		{
			Tool: "Helm", Managers: []string{"helm"},
			Remedy: "take the route out of the chart: an upgrade writes the weights that the chart has",
		},
		{
			Tool: "Terraform and Pulumi", Managers: []string{"terraform", "pulumi"},
			Remedy: `tell it to ignore changes of spec.` + list + `; of Terraform's kubernetes_manifest that is computed_fields = ["spec.` + list + `"]`,
		},
	}
}

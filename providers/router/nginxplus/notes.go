package nginxplus

import "github.com/manent/action/providers/router"

func notes() router.Notes {
	return router.Notes{
		Page:        "nginx-plus.md",
		Resolution:  "0.39 % between slots of one size; exact over requests with the round robin, over connections with `least_conn` and `random`",
		Condition:   "compared on all instances first, once more right before, and read after",
		Sticky:      "sticky sessions, also at a server that drains: say how long with `pinned_for`",
		Permissions: "GET and PATCH in the location with `api write=on`, which opens every upstream and key-value zone of the instance",
		Limits: []string{
			"without a `state` file a reload brings the configuration's weights back, and servers that drained take traffic again",
			"`hash` and `ip_hash` move clients between servers when weights change, and the API does not show them",
			"`max_conns` and `slow_start` shift the share",
			"`zone_sync` carries no weights: each instance is written for itself",
		},
		Others: []router.Other{
			{Tool: "Ansible, Puppet and templates of the upstream", Remedy: "give the upstream a state file, so that its servers are in none of theirs; else let them reload only while no rollout is active"},
			{Tool: "NGINX Instance Manager and NGINX's ingress and gateway controllers", Remedy: "they own the upstreams that they make: give manent one of its own"},
		},
		Seen: "NGINX does not say who wrote a weight: see the access log of the API's location",
	}
}

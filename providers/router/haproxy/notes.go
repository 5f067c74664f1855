package haproxy

import "github.com/manent/action/providers/router"

func notes() router.Notes {
	return router.Notes{
		Page:        "haproxy.md",
		Resolution:  "0.39 % between slots of one size; exact over requests with `balance roundrobin`, over connections with `leastconn`",
		Condition:   "the Data Plane API refuses a write with an old version of the configuration",
		Sticky:      "cookie and stick table: refused until `pinned_for` says how long; connections of `mode tcp` and WebSockets",
		Permissions: "a user of the API's `userlist`, which may change everything: the API knows no rights",
		Limits: []string{
			"`static-rr`, `first` and map-based hashes ignore weights and are refused",
			"servers of a `server-template` are refused",
			"other servers with weight in the backend stop a rise",
			"`agent-check` and `slowstart` change weights by themselves",
		},
		Others: []router.Other{
			{Tool: "Ansible, Puppet and templates of haproxy.cfg", Remedy: "keep the weights that the file has, or run only while no rollout is active; a reload brings the file's weights back"},
			{Tool: "Terraform", Remedy: "lifecycle { ignore_changes = [weight] } on the servers of the backend"},
			{Tool: "HAProxy's ingress controller", Remedy: "it owns haproxy.cfg: give manent a backend that the controller does not write"},
		},
		Seen: "HAProxy does not say who wrote a weight: see the log of the Data Plane API",
	}
}

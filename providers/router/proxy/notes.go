package proxy

import "github.com/manent/action/providers/router"

func notes() router.Notes {
	return router.Notes{
		Page:        "cli.md#manent-proxy",
		Resolution:  "0.01 %, exact over requests",
		Condition:   "the admin interface refuses a write with an old revision",
		Testers:     "a request header goes to the slot",
		Sticky:      "a cookie keeps a client at its slot while that has weight; connections that outlive a request (WebSockets): say how long with `pinned_for`",
		Permissions: "reach the admin interface, which answers only its own machine: a tunnel for another's",
		Limits: []string{
			"without `--keep` a proxy that restarts begins with all traffic at slot a",
		},
		Others: []router.Other{
			{Tool: "systemd, Ansible and whatever starts the proxy", Remedy: "start it with --keep FILE, so that a restart goes on with its weights"},
		},
		Seen: "the proxy does not say who wrote a weight: whoever can reach its admin interface may",
	}
}

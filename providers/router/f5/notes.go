package f5

import "github.com/manent/action/providers/router"

func notes() router.Notes {
	return router.Notes{
		Page:        "f5.md",
		Resolution:  "0.99 % between slots of one size; how Ratio (member) deals connections is the device's",
		Condition:   "compared before and read after, all members in one transaction; in a return each for itself",
		Sticky:      "persistence profiles, also at a disabled member: refused until `pinned_for` has the timeout; connections that are kept, without OneConnect",
		Permissions: "role `manager` on the pool's partition; config-sync and `save sys config` may need more",
		Limits: []string{
			"methods other than the ratio of members ignore weights and are refused",
			"a config-sync and a save take along whatever else is pending",
			"virtual servers that choose the pool by an iRule or a policy are not seen",
			"limits and slow ramp time shift the share",
		},
		Others: []router.Other{
			{Tool: "AS3", Remedy: "it writes ratio and adminState of its members with every declaration and cannot leave them out: declare nothing in the tenant during a rollout, or make the pool outside of AS3 and refer to it with use or bigip"},
			{Tool: "Terraform, bigip_ltm_pool_attachment", Remedy: "lifecycle { ignore_changes = [ratio, state] }"},
			{Tool: "Ansible, bigip_pool_member", Remedy: "leave ratio and state out for the members of the slots, or run only while no rollout is active"},
		},
		Seen: "the device does not say who wrote a ratio: see its audit log",
	}
}

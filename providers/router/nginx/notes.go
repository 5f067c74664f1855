package nginx

import "github.com/manent/action/providers/router"

func notes() router.Notes {
	return router.Notes{
		Page:        "nginx.md",
		Resolution:  "0.01 %; over keys with `mode: split_clients`, exact over requests with `mode: weight`",
		Condition:   "the file is replaced under a lock of its own, on condition that it is the one that was read",
		Testers:     "a request header goes to the candidate, its value `never` to the stable slot",
		Sticky:      "`split_clients` keeps a user at a slot while the share stays; a `cookie` of `mode: weight` does while the slot has weight",
		Permissions: "write the file and its directory, `nginx -t` and `nginx -s reload`",
		Limits:      []string{"every change is a reload: old workers serve their connections to the end", "what somebody adds to the file is gone after the next write"},
		Others: []router.Other{{
			Tool: "Ansible, Puppet and templates of the configuration", Remedy: "leave include_file out of what they write and purge (Ansible: copy and template with force: false for its first content); the rest of the configuration is theirs, and their reloads do no harm",
		}},
		Seen: "the comment in the file shows a change by hand, and the log says so",
	}
}

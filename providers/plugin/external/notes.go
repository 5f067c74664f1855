package external

import "github.com/manent/action/providers/router"

func notes() router.Notes {
	return router.Notes{
		Page:        "external.md",
		Resolution:  "the program's `step`, or what it plans itself with `plans`",
		Condition:   "the program, with `conditional`; else manent compares before and reads after",
		Testers:     "as the program does it, with `testers`",
		Sticky:      "what the program says in `pinned_for`",
		Permissions: "the program's own; it gets the secrets that its settings name",
		Limits: []string{
			"what it says of itself is proven by `manent doctor --exercise` only",
		},
		Others: []router.Other{
			{Tool: "a tool that writes where the program does", Remedy: "the program has to tell: its answer to read says which weights there are, and who changed them last"},
		},
		Seen: "the program's `by`, where it gives one",
	}
}

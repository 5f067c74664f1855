package cli

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	hub "github.com/manent/action/providers/api/github/githubtest"
)

// TestSetupOverwritesNobody: who edits an environment while it is set up keeps
// what they did, and what GitHub does not show is not taken to be missing.
func TestSetupOverwritesNobody(t *testing.T) {
	as := hub.Meet{Meanwhile: map[string]hub.Environment{}} // as usual
	edit := func(name string, e hub.Environment) hub.Meet {
		return hub.Meet{Meanwhile: map[string]hub.Environment{name: e}}
	}
	refusal := func(status int) hub.Meet {
		return hub.Meet{Status: status, Body: `{"message":"no","documentation_url":"https://docs.github.com/rest"}`}
	}
	eve := hub.Environment{Wait: 30, Reviewers: []string{"user:eve"}, NoBypass: true}
	sec := hub.Environment{Wait: 60, Reviewers: []string{"user:eve", "team:sre"}, NoBypass: true}
	set := func(e hub.Environment) hub.Environment {
		e.NoSelfReview, e.Reviewers = true, append(slices.Clone(e.Reviewers), "user:ada")
		return e
	}
	none := hub.Environment{}
	const prod, first, second = "prod", "prod-approve-10", "prod-approve-50"
	ready := hub.Environment{Branches: "custom", Patterns: []string{"main"}}
	closed := hub.Environment{Branches: "custom", Patterns: []string{"release/*"}, Reviewers: []string{"team:sre"}}
	for name, tc := range map[string]struct {
		there map[string]hub.Environment
		meets map[string][]hub.Meet
		code  int
		want  map[string]hub.Environment
		says  string
	}{
		"edited before the first write": {
			map[string]hub.Environment{prod: ready, first: eve, second: eve}, map[string][]hub.Meet{hub.GetEnvironment: {as, as, edit(first, sec)}},
			exitConflict, map[string]hub.Environment{prod: ready, first: sec, second: eve},
			"conflict: environment prod-approve-10 was changed by somebody else since it was read (wait timer: 30 minutes → 60 minutes, reviewers: user:eve → team:sre, user:eve), and is left as it is",
		},
		"edited after a write": {
			map[string]hub.Environment{prod: ready, first: eve, second: eve}, map[string][]hub.Meet{hub.SetRules: {edit(second, sec)}},
			exitFailed, map[string]hub.Environment{prod: ready, first: set(eve), second: sec}, "environment prod-approve-50 was changed by somebody else since it was read (wait timer: 30 minutes → 60 minutes",
		},
		"made meanwhile": {
			nil, map[string][]hub.Meet{hub.GetEnvironment: {as, as, edit(prod, closed)}}, exitConflict, map[string]hub.Environment{prod: closed}, "changed by somebody else since it was read (it was made)",
		},
		"made meanwhile, empty": {
			nil, map[string][]hub.Meet{hub.GetEnvironment: {as, as, edit("PROD", none)}}, exitConflict, map[string]hub.Environment{"PROD": none}, "(it was made)",
		},
		"named branches meanwhile": {
			map[string]hub.Environment{prod: {Branches: "custom"}, first: set(eve), second: set(eve)}, map[string][]hub.Meet{hub.GetEnvironment: {as, as, edit(prod, hub.Environment{Branches: "custom", Patterns: []string{"release/*"}})}},
			exitConflict, map[string]hub.Environment{prod: {Branches: "custom", Patterns: []string{"release/*"}}, first: set(eve), second: set(eve)}, "names that may deploy: none → release/*",
		},
		"edited after its write": {
			map[string]hub.Environment{prod: ready, first: set(eve), second: eve}, map[string][]hub.Meet{hub.SetRules: {edit(second, none)}},
			exitFailed, map[string]hub.Environment{prod: ready, first: set(eve), second: none}, "environment prod-approve-50: wait timer is none, not 30 minutes; environment prod-approve-50: reviewers is none",
		},
		"not shown": {
			map[string]hub.Environment{prod: ready, "Prod-Approve-10": eve, second: eve}, map[string][]hub.Meet{hub.GetEnvironment: {as, refusal(404)}},
			exitUnsure, map[string]hub.Environment{prod: ready, "Prod-Approve-10": eve, second: eve}, "environment prod-approve-10 of shop/web: status 404, and it is in the list of environments",
		},
		"not shown again": {
			map[string]hub.Environment{prod: ready, first: eve, second: eve}, map[string][]hub.Meet{hub.GetEnvironment: {as, as, as, refusal(404)}},
			exitUnsure, map[string]hub.Environment{prod: ready, first: eve, second: eve}, "status 404, and it is in the list of environments",
		},
		"no list":           {nil, map[string][]hub.Meet{hub.ListEnvironments: {refusal(403)}}, exitUsage, nil, "environments of shop/web: status 403"},
		"not even the list": {nil, map[string][]hub.Meet{hub.ListEnvironments: {refusal(404)}}, exitUsage, nil, "environments of shop/web: status 404"},
		"no answer":         {nil, map[string][]hub.Meet{hub.ListEnvironments: slices.Repeat([]hub.Meet{{Lost: true}}, 12)}, exitUnsure, nil, "could not tell"},
		"half of the list": {
			map[string]hub.Environment{first: eve}, map[string][]hub.Meet{hub.GetEnvironment: {refusal(404)}, hub.ListEnvironments: {{Status: 200, Body: `{"total_count":1,"environments":[]}`, Wrong: true}}},
			exitUnsure, map[string]hub.Environment{first: eve}, "lists 0 environments and says that there are 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			settingUp(t, nil)
			s := hub.New(t)
			for name, e := range tc.there {
				s.SetEnvironment(name, e)
			}
			for operation, meets := range tc.meets {
				s.Meet(operation, meets...)
			}
			code, out, errs := setUp(t, onGitHub(s), "github", "-c", setUpFile, "--reviewer", "user:ada", "--apply")
			asked(t, code, tc.code, out+errs, tc.says)
			if diff := cmp.Diff(tc.want, s.Environments(), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

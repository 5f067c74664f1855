package cli

import (
	"strings"
	"testing"

	"github.com/manent/action/providers/api/github/githubtest"
)

// TestMissingPermissions: a job whose token may not do what it has to, or has
// expired, says which permission it is and where it is set; who has answered is
// taken from the platform, not from who runs the job; and the state stays.
func TestMissingPermissions(t *testing.T) {
	cells := 0
	p := newPlant(t, "github", &cells)
	p.must(0, owner(), "prepare")
	p.must(0, owner(), "stage-10")
	waiting := p.look()
	expired := githubtest.Meet{Status: 401, Body: `{"message":"Bad credentials"}`}
	for _, row := range []struct {
		name, said, job, result string
		code                    int
		says                    []string
	}{
		{"no actions: read", "unpermitted", "approval-10", "", 5, []string{"permissions: {actions: read}", "in the workflow, of the job or at the top"}},
		{"no actions: read, return", "unpermitted", "return", "failure", 5, []string{"permissions: {actions: read}"}},
		{"token expired", "expired", "approval-10", "", 5, []string{"GITHUB_TOKEN is wrong or has expired"}},
		{"token expired, return", "expired", "return", "failure", 5, []string{"GITHUB_TOKEN is wrong or has expired"}},
		{"nobody was asked", "", "approval-10", "", 3, []string{"it has no required reviewers", "set required reviewers for environment prod-approve-10"}},
		{"somebody said no", "rejected", "approval-10", "", 3, []string{"nobody has reviewed environment prod-approve-10"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			p.goTo(waiting)
			p.said = row.said
			p.apis["unpermitted"].Permit(map[string]string{"deployments": "write"})
			p.apis["expired"].Meet(githubtest.Reviews, expired)
			got := p.played(owner(), row.job, row.result)
			if now := p.look(); got.code != row.code || now.told() != waiting.told() || now.share != waiting.share || p.router.writes.Load() > 0 {
				t.Errorf("ended with %d, expected %d and nothing changed: %s", got.code, row.code, got.stderr)
			}
			for _, says := range row.says {
				if !strings.Contains(got.stderr, says) {
					t.Errorf("does not say %q: %s", says, got.stderr)
				}
			}
		})
	}
	// Without deployments: write the rollout goes on, and the page warns.
	p.said = "unpermitted"
	track := p.job("stage-10")
	track.env = map[string]string{"MANENT_TRACK": "1"}
	for _, row := range []struct{ has, lacks string }{{"", "read"}, {"read", "write"}} {
		p.goTo(waiting)
		p.apis[p.said].Permit(map[string]string{"actions": "read", "deployments": row.has})
		got := p.play(owner(), track, "", nil)
		if got.code != 0 || !strings.Contains(got.stderr, "manent: warning: ") || !strings.Contains(got.stderr, "deployments: "+row.lacks) {
			t.Errorf("with deployments: %s it ended with %d: %s", row.has, got.code, got.stderr)
		}
	}
	// The name in the state is the reviewer's, whoever runs the job.
	p.goTo(waiting)
	p.said = "approved"
	p.must(0, owner(), "approval-10")
	if d := p.look().document(t).Rollout.Decisions; len(d) != 1 || d[0].Who != "carol" || d[0].Reason != "looked" {
		t.Errorf("decisions %+v, expected carol's", d)
	}
}

package github

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers/ci"
	"github.com/manent/action/state"
)

// TestWays: each way has its page, and a run that is not known has none but
// the one that needs no run.
func TestWays(t *testing.T) {
	p := newRunner(t, nil).open(t)
	files := ci.Way{Do: "a job begins without the files of the repository: put actions/checkout in front of this step"}
	const repository = "https://ghes.test/base/shop/web"
	run := state.RunRef{Platform: "github", Run: "7", URL: repository + "/actions/runs/7", Workflow: ".github/workflows/manent-web-prod.yml"}
	want := ci.Ways{
		Approve: ci.Way{Do: "press Review deployments, to approve or to reject,", At: repository + "/actions/runs/7"},
		Decide:  ci.Way{Do: "start the workflow manent decide", At: repository + "/actions/workflows/manent-decide.yml"},
		GoOn:    ci.Way{Do: "if a job has failed, re-run the failed jobs", At: repository + "/actions/runs/7"},
		Resume:  ci.Way{Do: "leave it to the workflow manent.traffic-retire, or start it", At: repository + "/actions/workflows/manent-traffic-retire.yml"},
		Again:   ci.Way{Do: "start the workflow again with the same version", At: repository + "/actions/workflows/manent-web-prod.yml"},
		Files:   files,
	}
	if diff := cmp.Diff(want, p.Ways(run, "approval-25")); diff != "" {
		t.Errorf("ways (-want +got):\n%s", diff)
	}
	run.Workflow = "" // of a state from before it was recorded
	if got := p.Ways(run, "").Again.At; got != repository+"/actions" {
		t.Errorf("again at %q", got)
	}
	for _, other := range []state.RunRef{{}, {Platform: "gitlab", URL: run.URL}, {Platform: "github", URL: "https://ghes.test/x"}} {
		if diff := cmp.Diff(ci.Ways{Files: files}, p.Ways(other, "x")); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", other, diff)
		}
	}
}

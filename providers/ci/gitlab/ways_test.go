package gitlab

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers/ci"
	"github.com/manent/action/state"
)

// TestWays: each way has its page; a run that is not known has none.
func TestWays(t *testing.T) {
	p := &platform{}
	files := ci.Way{Do: "this job needs the files of the repository: GIT_STRATEGY must not be none or empty"}
	const project = "https://gitlab.test/group/shop/web"
	run := state.RunRef{Platform: "gitlab", Run: "200", URL: project + "/-/pipelines/200"}
	want := ci.Ways{
		Approve: ci.Way{Do: "start the manual job approval-25, with the variable DECISION = reject to return all traffic,", At: run.URL},
		GoOn:    ci.Way{Do: "if a job has failed, retry it", At: run.URL},
		Resume:  ci.Way{Do: "leave it to the pipeline schedule, or run it", At: project + "/-/pipeline_schedules"},
		Again:   ci.Way{Do: "run a new pipeline with the same ROLLOUT_ENVIRONMENT and ROLLOUT_VERSION", At: project + "/-/pipelines/new"},
		Files:   files,
	}
	if diff := cmp.Diff(want, p.Ways(run, "approval-25")); diff != "" {
		t.Errorf("ways (-want +got):\n%s", diff)
	}
	if got := p.Ways(run, ""); got.Approve.Do != "" {
		t.Errorf("without a job: %+v", got.Approve)
	}
	for _, other := range []state.RunRef{{}, {Platform: "github", URL: run.URL}, {Platform: "gitlab"}} {
		if diff := cmp.Diff(ci.Ways{Files: files}, p.Ways(other, "approval-25")); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", other, diff)
		}
	}
}

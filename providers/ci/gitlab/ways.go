package gitlab

import (
	"strings"

	"github.com/manent/action/providers/ci"
	"github.com/manent/action/state"
)

// Ways implements ci.Hands. For a decision that no job waits for there is no
// button: it takes a command line.
func (p *platform) Ways(run state.RunRef, job string) ci.Ways {
	ways := ci.Ways{Files: ci.Way{Do: "this job needs the files of the repository: GIT_STRATEGY must not be none or empty"}}
	project, _, ok := strings.Cut(run.URL, "/-/pipelines/")
	if !ok || run.Platform != name {
		return ways
	}
	if job != "" {
		ways.Approve = ci.Way{Do: "start the manual job " + job + ", with the variable DECISION = reject to return all traffic,", At: run.URL}
	}
	ways.GoOn = ci.Way{Do: "if a job has failed, retry it", At: run.URL}
	ways.Resume = ci.Way{Do: "leave it to the pipeline schedule, or run it", At: project + "/-/pipeline_schedules"}
	ways.Again = ci.Way{Do: "run a new pipeline with the same ROLLOUT_ENVIRONMENT and ROLLOUT_VERSION", At: project + "/-/pipelines/new"}
	return ways
}

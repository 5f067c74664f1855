package github

import (
	"path"
	"strings"

	"github.com/manent/action/providers/ci"
	"github.com/manent/action/state"
)

// Files of the workflows that generate writes for a whole repository.
const (
	decideFile = "manent-decide.yml"
	resumeFile = "manent-traffic-retire.yml"
)

// Ways implements ci.Hands.
func (p *platform) Ways(run state.RunRef, _ string) ci.Ways {
	ways := ci.Ways{Files: ci.Way{Do: "a job begins without the files of the repository: put actions/checkout in front of this step"}}
	repository, _, ok := strings.Cut(run.URL, "/actions/runs/")
	if !ok || run.Platform != name {
		return ways
	}
	workflow := func(file string) string { return repository + "/actions/workflows/" + file }
	ways.Approve = ci.Way{Do: "press Review deployments, to approve or to reject,", At: run.URL}
	ways.Decide = ci.Way{Do: "start the workflow manent decide", At: workflow(decideFile)}
	ways.GoOn = ci.Way{Do: "if a job has failed, re-run the failed jobs", At: run.URL}
	ways.Resume = ci.Way{Do: "leave it to the workflow manent.traffic-retire, or start it", At: workflow(resumeFile)}
	ways.Again = ci.Way{Do: "start the workflow again with the same version", At: repository + "/actions"}
	if file, found := strings.CutPrefix(run.Workflow, ".github/workflows/"); found && path.Base(file) == file {
		ways.Again.At = workflow(file)
	}
	return ways
}

package generate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/runner/plan"
)

// Job is one job of the chain: a call of `manent run`, or the answer to a
// planned approval.
type Job struct {
	ID       string
	Title    string
	Until    string // of run; "" for the last job
	Approval string // step that it answers; "" for a call of run
	HandOver bool   // the next job goes on where this one's time is over
	Last     bool   // it succeeds only if the version serves
	Needs    string // job in front
}

// mostParts bounds how many jobs one stage is split into.
const mostParts = 20

// unknown is how long a step that acts is reckoned with that has no limit of
// its own; more than the engine waits for capacity.
const unknown = 10 * time.Minute

// Jobs is the chain of a plan, in order. A job that could take longer than
// most is split into several.
func Jobs(p plan.Plan, granularity string, most time.Duration) ([]Job, error) {
	var jobs []Job
	groups := group(p.Steps, granularity)
	runs := 0
	for i, steps := range groups {
		if steps[0].Approval {
			jobs = append(jobs, approvalJob(steps[0]))
			continue
		}
		runs++
		j := Job{ID: jobID(steps, granularity, runs), Title: title(steps, granularity), Last: i == len(groups)-1}
		if !j.Last {
			j.Until = until(steps, groups[i+1][0])
		}
		longest := longest(steps)
		if i > 0 && groups[i-1][0].Approval {
			longest += again(p, groups[i-1][0])
		}
		parts := int((longest + most - 1) / most)
		if parts > mostParts {
			return nil, &Error{Reason: fmt.Sprintf("%s may take %s, which is %d jobs of %s", j.Title, longest, parts, most),
				Hint: "use `--mode dispatch`, where no job waits, or a longer --max-time with runners of your own"}
		}
		jobs = append(jobs, split(j, parts)...)
	}
	unique(jobs)
	for i := range jobs {
		if i > 0 {
			jobs[i].Needs = jobs[i-1].ID
		}
	}
	return jobs, nil
}

// split repeats a job; each part but the last one hands over.
func split(j Job, parts int) []Job {
	if parts <= 1 {
		return []Job{j}
	}
	out := make([]Job, parts)
	for n := range out {
		out[n] = j
		out[n].ID = fmt.Sprintf("%s-part-%d", j.ID, n+1)
		out[n].Title = fmt.Sprintf("%s (%d of %d)", j.Title, n+1, parts)
		out[n].HandOver = n < parts-1
		out[n].Last = j.Last && n == parts-1
	}
	return out
}

// group cuts the plan into jobs. An approval always stands alone.
func group(steps []plan.Step, granularity string) [][]plan.Step {
	var out [][]plan.Step
	for i, s := range steps {
		if i == 0 || s.Approval || steps[i-1].Approval || cuts(steps[i-1], s, granularity) {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], s)
	}
	return out
}

// cuts reports whether a new job begins with s.
func cuts(before, s plan.Step, granularity string) bool {
	switch granularity {
	case PerStep:
		return true
	case PerSegment:
		return false
	}
	if s.Kind == plan.Traffic || s.Kind == plan.Prepare && before.Pass != "" {
		return true
	}
	was, now := batchOf(before), batchOf(s)
	return was != now
}

// batchOf names the batch of a step of strategy waves, "" for none.
func batchOf(s plan.Step) string {
	n, err := plan.ParseName(s.Name)
	if err != nil || !n.InBatch {
		return ""
	}
	return fmt.Sprintf("%s-%d", n.Pass, n.Batch)
}

// until is what a job's call of run ends at: the stage that it is about, or
// the first step of the next job.
func until(steps []plan.Step, next plan.Step) string {
	if last := steps[len(steps)-1]; last.Kind == plan.Gate && last.Stage != "" && last.Share > 0 && !next.Approval {
		return last.Stage
	}
	return next.Name
}

func longest(steps []plan.Step) time.Duration {
	var sum time.Duration
	for _, s := range steps {
		switch {
		case s.Longest > 0:
			sum += s.Longest.Std()
		case slices.Contains([]plan.Kind{plan.Prepare, plan.Deploy, plan.Testers, plan.Traffic, plan.Promote}, s.Kind):
			sum += unknown
		}
	}
	return sum
}

// again is how long the fresh reading after an approval may take: as patient
// as the stage was.
func again(p plan.Plan, approval plan.Step) time.Duration {
	for _, s := range p.Steps {
		if s.Kind == plan.Gate && s.Pass == approval.Pass && s.Stage == approval.Stage {
			return s.Longest.Std()
		}
	}
	return 0
}

func approvalJob(s plan.Step) Job {
	what := strings.TrimPrefix(s.Name, "approval@")
	j := Job{ID: slug("approval-" + what), Title: "approval after " + what, Approval: s.Name}
	if s.Stage != "" {
		j.Title = "approval at " + stageTitle(s.Stage)
	}
	return j
}

// stageTitle is a stage for a person: eu, 25 %.
func stageTitle(stage string) string {
	return strings.ReplaceAll(strings.ReplaceAll(stage, "/", ", "), "%", " %")
}

// jobID names the n-th call of run.
func jobID(steps []plan.Step, granularity string, n int) string {
	first := steps[0]
	switch {
	case granularity == PerStep:
		return slug("step-" + first.Name)
	case granularity == PerSegment:
		return fmt.Sprintf("segment-%d", n)
	case first.Kind == plan.Traffic:
		return slug("stage-" + first.Stage)
	case batchOf(first) != "":
		return slug("batch-" + batchOf(first))
	case n == 1:
		return "prepare"
	}
	return slug(first.Name)
}

func title(steps []plan.Step, granularity string) string {
	first, last := steps[0], steps[len(steps)-1]
	name := func(s plan.Step) string {
		if s.Kind == plan.Traffic || s.Kind == plan.Gate && s.Share > 0 {
			return stageTitle(s.Stage)
		}
		return s.Name
	}
	switch {
	case granularity == PerStep || len(steps) == 1:
		return first.Name
	case name(first) == name(last):
		return name(first)
	}
	return name(first) + " to " + name(last)
}

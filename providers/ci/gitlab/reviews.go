package gitlab

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/gitlab"
	"github.com/manent/action/providers/ci"
	"github.com/manent/action/state"
)

// approvalJob begins the names of the manual jobs that ask for an approval.
// The API does not say whether a job is manual: a job of this name that runs
// by itself would approve in the name of who started the pipeline.
const approvalJob = "approval"

// client makes the API's client, with the job's own token unless Token names
// another one.
func (p *platform) client() (*api.Client, error) {
	project, err := p.number("CI_PROJECT_ID", 1)
	if err != nil {
		return nil, p.fault("API", providers.Invalid, err)
	}
	token, own := p.env.Getenv(Token), false
	if token == "" {
		token, own = p.env.Getenv("CI_JOB_TOKEN"), true
	}
	return api.New(api.Options{
		Provider: name, BaseURL: p.env.Getenv("CI_API_V4_URL"), Project: project, CAFile: p.env.Getenv("CI_SERVER_TLS_CA_FILE"),
		Token: providers.NewSecret(token), JobToken: own, Variable: Token, Masks: &p.masks,
	})
}

// Reviews implements ci.Reviews. What people said in a run is
//
//   - who pressed a manual job whose name begins with "approval", once it has
//     succeeded; the review's environment is the job's name. A failed job says
//     nothing: its own script records a rejection.
//   - who approved or rejected a deployment that a job of the run waits for
//     (protected environments, Premium); the environment is the deployment's.
//
// A child pipeline is asked for itself and its parent, a parent for all its
// children.
func (p *platform) Reviews(ctx context.Context, run state.RunRef) ([]ci.Review, error) {
	id, err := strconv.ParseInt(run.Run, 10, 64)
	if project := p.env.Getenv("CI_PROJECT_PATH"); err != nil || id < 1 || run.Platform != name || run.Repository != project {
		return nil, p.fault("reviews", providers.Invalid, fmt.Errorf("run %.40q of %.40q on %.40q, expected a pipeline of %q on %s", run.Run, run.Repository, run.Platform, project, name))
	}
	client, err := p.client()
	if err != nil {
		return nil, err
	}
	pipelines, err := p.pipelines(ctx, client, id)
	if err != nil {
		return nil, err
	}
	out, first, err := jobReviews(ctx, client, pipelines)
	if err != nil || first.IsZero() {
		return out, err
	}
	approved, err := deploymentReviews(ctx, client, pipelines, first)
	if err != nil {
		return nil, err
	}
	return append(out, approved...), nil
}

// pipelines are a run's own and its children. A child leaves its siblings,
// which may be other environments', out.
func (p *platform) pipelines(ctx context.Context, client *api.Client, run int64) ([]int64, error) {
	root, _, err := p.run()
	if err != nil {
		return nil, p.fault("reviews", providers.Invalid, err)
	}
	if own, err := p.number("CI_PIPELINE_ID", 1); err == nil && root == run && own != run {
		return []int64{run, own}, nil
	}
	children, err := client.Children(ctx, run)
	return append([]int64{run}, children...), err
}

// jobReviews are what jobs say, with the time that the first job was made.
func jobReviews(ctx context.Context, client *api.Client, pipelines []int64) (out []ci.Review, first time.Time, err error) {
	for _, pipeline := range pipelines {
		jobs, err := client.Jobs(ctx, pipeline)
		if err != nil {
			return nil, first, err
		}
		for _, job := range jobs {
			if first.IsZero() || job.Created.Before(first) {
				first = job.Created
			}
			review, says, err := reviewOf(job)
			if err != nil {
				return nil, first, err
			}
			if says {
				out = append(out, review)
			}
		}
	}
	return out, first, nil
}

// reviewOf is what a job says, and whether it says anything.
func reviewOf(job api.Job) (ci.Review, bool, error) {
	out := ci.Review{Environment: job.Name, State: ci.Pending}
	switch {
	case !strings.HasPrefix(job.Name, approvalJob) || slices.Contains([]string{api.Failed, "canceling", "canceled", "skipped"}, job.Status):
		return out, false, nil
	case job.Status != api.Success:
		return out, true, nil
	case job.User == "":
		return out, false, &providers.Fault{Provider: name, Op: "reviews", Err: fmt.Errorf("job %d, %q, has succeeded and nobody ran it", job.ID, job.Name)}
	}
	out.State, out.Who = ci.Approved, job.User
	return out, true, nil
}

// deploymentReviews are those of the deployments that jobs of the pipelines
// made. A deployment is made after its job, so that older ones need no look.
func deploymentReviews(ctx context.Context, client *api.Client, pipelines []int64, first time.Time) ([]ci.Review, error) {
	made, err := client.Deployments(ctx, "", first)
	if err != nil {
		return nil, err
	}
	var out []ci.Review
	for _, d := range made {
		if !slices.Contains(pipelines, d.Pipeline) { // 0 for one that no job made
			continue
		}
		said, waiting, err := client.Approvals(ctx, d)
		if err != nil {
			return nil, err
		}
		for _, a := range said {
			review := ci.Review{Environment: d.Environment, State: ci.Approved, Who: a.Who, Comment: api.Printable(a.Comment)}
			if a.Status == "rejected" {
				review.State = ci.Rejected
			}
			out = append(out, review)
		}
		if waiting > 0 {
			out = append(out, ci.Review{Environment: d.Environment, State: ci.Pending})
		}
	}
	return out, nil
}

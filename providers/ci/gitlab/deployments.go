package gitlab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/gitlab"
	"github.com/manent/action/providers/ci"
)

// skew is by how much the clocks of GitLab and of the machine that began a
// rollout may differ.
const skew = time.Minute

// Track implements ci.Deployments.
//
// A deployment has no field for the rollout's id. The rollout's own is known
// by its environment, by having no job (those that GitLab makes for a job
// cannot be changed), by being made since the rollout began, and by its
// commit: that of the job that tracks, as long as the job is of the run that
// d.URL names. A job of another run (a schedule that ends a rollout) does not
// know the commit, takes the only deployment that is left, and makes none.
//
// Waiting is "running" to GitLab. What has ended there does not run again:
// its state stays until the rollout ends anew. Version, description and
// address have no place in a deployment of GitLab.
func (p *platform) Track(ctx context.Context, d ci.Deployment) error {
	wanted, err := p.deployment(d)
	if err != nil {
		return p.fault("deployment", providers.Invalid, err)
	}
	client, err := p.client()
	if err != nil {
		return err
	}
	found, err := find(ctx, client, d, wanted.SHA)
	switch {
	case err != nil:
		return err
	case found == nil && wanted.SHA == "":
		return &providers.Fault{
			Provider: name, Op: "deployment", Kind: providers.NotFound,
			Err:  fmt.Errorf("rollout %s has none in %s, made since %s", d.Rollout, d.Environment, d.Began.UTC().Format(time.RFC3339)),
			Hint: "a job of the pipeline that began the rollout makes it, since it knows the commit",
		}
	case found == nil:
		return create(ctx, client, d, wanted)
	case found.Status == wanted.Status:
		return nil
	case wanted.Status == api.Running && found.Ended():
		p.say("deployment %d stays %s on GitLab until the rollout ends: one that has ended does not run again", found.ID, found.Status)
		return nil
	}
	return client.SetStatus(ctx, *found, wanted.Status)
}

// deployment is what there should be. Without SHA, this job cannot make it.
func (p *platform) deployment(d ci.Deployment) (api.NewDeployment, error) {
	out := api.NewDeployment{Environment: d.Environment}
	if d.Environment == "" || d.Began.IsZero() {
		return out, errors.New("the environment, or the time the rollout began, is not given")
	}
	status, known := map[ci.DeploymentState]string{
		ci.InProgress: api.Running, ci.Waiting: api.Running, ci.Succeeded: api.Success, ci.Failed: api.Failed,
	}[d.State]
	if !known {
		return out, fmt.Errorf("state %q, expected one of the contract's", d.State)
	}
	out.Status = status
	_, page, err := p.run()
	if err != nil || (d.URL != "" && d.URL != page) {
		return out, err
	}
	out.SHA, out.Ref, out.Tag = p.env.Getenv("CI_COMMIT_SHA"), p.env.Getenv("CI_COMMIT_REF_NAME"), p.env.Getenv("CI_COMMIT_TAG") != ""
	if out.SHA == "" || out.Ref == "" {
		return out, fmt.Errorf("CI_COMMIT_SHA is %.64q and CI_COMMIT_REF_NAME %.80q, expected both", out.SHA, out.Ref)
	}
	return out, nil
}

// find returns the rollout's deployment, nil when there is none. sha is its
// commit, "" if that is not known.
func find(ctx context.Context, client *api.Client, d ci.Deployment, sha string) (*api.Deployment, error) {
	listed, err := client.Deployments(ctx, d.Environment, d.Began.Add(-skew))
	if err != nil {
		return nil, err
	}
	var own []api.Deployment
	for _, one := range listed {
		earlier := one.Ended() && !one.Updated.IsZero() && one.Updated.Before(d.Began)
		if one.Job == 0 && !earlier && (sha == "" || one.SHA == sha) {
			own = append(own, one)
		}
	}
	switch {
	case len(own) == 0:
		return nil, nil
	case sha == "" && len(own) > 1:
		return nil, &providers.Fault{
			Provider: name, Op: "deployment", Kind: providers.Unknown,
			Err: fmt.Errorf("%d deployments of %s could be that of rollout %s", len(own), d.Environment, d.Rollout),
		}
	}
	return &own[len(own)-1], nil // the oldest: whoever looks takes the same
}

// create makes the deployment. If it may have been made although no answer
// says so, a look decides; the request is never repeated.
func create(ctx context.Context, client *api.Client, d ci.Deployment, wanted api.NewDeployment) error {
	err := client.Create(ctx, wanted)
	if kind := providers.KindOf(err); err == nil || (kind != providers.Unknown && kind != providers.Unavailable) {
		return err
	}
	if found, looked := find(ctx, client, d, wanted.SHA); looked == nil && found != nil && found.Status == wanted.Status {
		return nil
	}
	return err
}

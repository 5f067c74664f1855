package github

import (
	"context"
	"errors"
	"fmt"

	gh "github.com/google/go-github/v66/github"
)

// The permissions that deployments take.
const (
	readDeployments  = "deployments: read"
	writeDeployments = "deployments: write"
)

// Deployment is one that GitHub shows on the page of its environment.
type Deployment struct {
	ID          int64
	Environment string
	Task        string // says which of an environment's deployments it is
}

// NewDeployment is one to be created.
type NewDeployment struct {
	Ref         string // commit, branch or tag that is in the repository
	Environment string
	Task        string
	Description string
	Payload     map[string]string
}

// Status is how far a deployment is. States to write: error, failure,
// inactive, in_progress, queued, pending, success.
type Status struct {
	ID          int64
	State       string
	Description string // at most MaxDescription characters
	LogURL      string // "" for none
}

// MaxDescription is the length of a status's description, in characters.
const MaxDescription = 140

var errNoID = errors.New("the answer names no id")

// Deployments returns those of a task in an environment. It takes the
// permission `deployments: read`.
// API: GET /repos/{owner}/{repo}/deployments.
func (c *Client) Deployments(ctx context.Context, r Repo, environment, task string) ([]Deployment, error) {
	call := call{fmt.Sprintf("deployments of %s to %s", r, environment), readDeployments}
	list, err := pages(func(page gh.ListOptions) ([]*gh.Deployment, *gh.Response, error) {
		return c.rest.Repositories.ListDeployments(ctx, r.Owner, r.Name, &gh.DeploymentsListOptions{Environment: environment, Task: task, ListOptions: page})
	})
	if err != nil {
		return nil, c.fault(ctx, call, err)
	}
	out := make([]Deployment, len(list))
	for i, d := range list {
		if out[i] = deployment(d); out[i].ID == 0 {
			return nil, c.fault(ctx, call, errNoID)
		}
	}
	return out, nil
}

func deployment(d *gh.Deployment) Deployment {
	return Deployment{ID: d.GetID(), Environment: d.GetEnvironment(), Task: d.GetTask()}
}

// CreateDeployment creates a deployment. Nothing is merged for it and no
// commit status has to be green: whether to release was decided before. It
// takes the permission `deployments: write`.
// API: POST /repos/{owner}/{repo}/deployments.
func (c *Client) CreateDeployment(ctx context.Context, r Repo, n NewDeployment) (Deployment, error) {
	call := call{fmt.Sprintf("create deployment of %s to %s", r, n.Environment), writeDeployments}
	request := &gh.DeploymentRequest{
		Ref: &n.Ref, Task: &n.Task, Environment: &n.Environment, Description: &n.Description,
		AutoMerge: new(false), RequiredContexts: &[]string{},
	}
	if n.Payload != nil {
		request.Payload = n.Payload
	}
	made, _, err := c.rest.Repositories.CreateDeployment(ctx, r.Owner, r.Name, request)
	if err == nil && made.GetID() == 0 {
		err = errNoID
	}
	if err != nil {
		return Deployment{}, c.fault(ctx, call, err)
	}
	return deployment(made), nil
}

// Statuses returns all statuses of a deployment, in no order to rely on; the
// greater ID is the newer one. It takes the permission `deployments: read`.
// API: GET /repos/{owner}/{repo}/deployments/{deployment_id}/statuses.
func (c *Client) Statuses(ctx context.Context, r Repo, id int64) ([]Status, error) {
	call := call{fmt.Sprintf("statuses of deployment %d of %s", id, r), readDeployments}
	list, err := pages(func(page gh.ListOptions) ([]*gh.DeploymentStatus, *gh.Response, error) {
		return c.rest.Repositories.ListDeploymentStatuses(ctx, r.Owner, r.Name, id, &page)
	})
	if err != nil {
		return nil, c.fault(ctx, call, err)
	}
	out := make([]Status, len(list))
	for i, s := range list {
		if out[i] = status(s); out[i].ID == 0 {
			return nil, c.fault(ctx, call, errNoID)
		}
	}
	return out, nil
}

func status(s *gh.DeploymentStatus) Status {
	return Status{ID: s.GetID(), State: s.GetState(), Description: s.GetDescription(), LogURL: s.GetLogURL()}
}

// CreateStatus adds a status to a deployment and leaves every other
// deployment of the environment as it is. It takes the permission
// `deployments: write`.
// API: POST /repos/{owner}/{repo}/deployments/{deployment_id}/statuses.
func (c *Client) CreateStatus(ctx context.Context, r Repo, id int64, s Status) error {
	call := call{fmt.Sprintf("status %s of deployment %d of %s", s.State, id, r), writeDeployments}
	request := &gh.DeploymentStatusRequest{State: &s.State, Description: &s.Description, AutoInactive: new(false)}
	if s.LogURL != "" {
		request.LogURL = &s.LogURL
	}
	made, _, err := c.rest.Repositories.CreateDeploymentStatus(ctx, r.Owner, r.Name, id, request)
	if err == nil && made.GetID() == 0 {
		err = errNoID
	}
	if err != nil {
		return c.fault(ctx, call, err)
	}
	return nil
}

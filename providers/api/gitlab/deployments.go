package gitlab

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	gitlab "gitlab.com/gitlab-org/api/client-go"

	"github.com/manent/action/providers"
)

// Deployment is one deployment, https://docs.gitlab.com/api/deployments/.
type Deployment struct {
	ID          int64
	Environment string
	SHA         string
	Status      string // created, running, success, failed, canceled, blocked, skipped
	Job         int64  // that made it; 0 for one made by the API, and only such a one can be changed
	Pipeline    int64  // of the job
	Created     time.Time
	Updated     time.Time // zero when not told
}

// Statuses that a deployment can be given.
const (
	Running = "running" // only a new one: what has ended does not run again
	Success = "success"
	Failed  = "failed"
)

// Ended reports whether the deployment can only be told another end.
func (d Deployment) Ended() bool {
	return slices.Contains([]string{Success, Failed, "canceled", "skipped"}, d.Status)
}

// NewDeployment is a deployment to be made.
type NewDeployment struct {
	Environment string // made too, if there is none of the name
	SHA         string // has to exist
	Ref         string // branch or tag, has to exist
	Tag         bool
	Status      string
}

// Deployments are those of an environment ("" for all) made at since or
// later, the newest first.
func (c *Client) Deployments(ctx context.Context, environment string, since time.Time) ([]Deployment, error) {
	to := call{"list deployments", toRead, "deployments"}
	query := url.Values{"order_by": {"id"}, "sort": {"desc"}}
	if environment != "" {
		to.op += " of " + environment
		query.Set("environment", environment)
	}
	older := func(d *gitlab.Deployment) bool { return d != nil && d.CreatedAt != nil && d.CreatedAt.Before(since) }
	listed, err := all(ctx, c, to, query, older)
	if err != nil {
		return nil, err
	}
	out := make([]Deployment, len(listed))
	for i, d := range listed {
		if out[i], err = c.deployment(to, d); err != nil {
			return nil, err
		}
		if environment != "" && out[i].Environment != environment {
			return nil, c.unexpected(to, fmt.Sprintf("deployment %d is of %.80q", d.ID, out[i].Environment))
		}
	}
	return out, nil
}

// deployment checks what was read.
func (c *Client) deployment(to call, d *gitlab.Deployment) (Deployment, error) {
	if d == nil || d.ID == 0 || d.Status == "" || d.CreatedAt == nil || d.Environment == nil || d.Environment.Name == "" {
		return Deployment{}, c.unexpected(to, "a deployment lacks its id, status, environment or time")
	}
	out := Deployment{
		ID: d.ID, Environment: d.Environment.Name, SHA: d.SHA, Status: d.Status, Created: *d.CreatedAt,
		Job: d.Deployable.ID, Pipeline: d.Deployable.Pipeline.ID,
	}
	if d.UpdatedAt != nil {
		out.Updated = *d.UpdatedAt
	}
	return out, nil
}

// Create makes a deployment. The request is sent once; with an error of kind
// Unknown or Unavailable it may have been made all the same.
func (c *Client) Create(ctx context.Context, n NewDeployment) error {
	to := call{"create deployment in " + n.Environment, toWrite, "deployments"}
	status := gitlab.DeploymentStatusValue(n.Status)
	body := gitlab.CreateProjectDeploymentOptions{Environment: &n.Environment, SHA: &n.SHA, Ref: &n.Ref, Tag: &n.Tag, Status: &status}
	var got gitlab.Deployment
	if _, err := c.send(ctx, http.MethodPost, to, nil, body, &got); err != nil {
		return err
	}
	return c.is(to, &got, 0, n.Environment, n.Status)
}

// SetStatus changes a deployment's status. GitLab refuses the one that it
// has, so that after a refusal, or without an answer, a look decides.
func (c *Client) SetStatus(ctx context.Context, d Deployment, status string) error {
	to := call{fmt.Sprintf("set deployment %d to %s", d.ID, status), toWrite, fmt.Sprintf("deployments/%d", d.ID)}
	value := gitlab.DeploymentStatusValue(status)
	var got, now gitlab.Deployment
	_, err := c.send(ctx, http.MethodPut, to, nil, gitlab.UpdateProjectDeploymentOptions{Status: &value}, &got)
	if err == nil {
		err = c.is(to, &got, d.ID, d.Environment, status)
	}
	switch kind := providers.KindOf(err); {
	case err == nil:
		return nil
	case kind == providers.Denied || kind == providers.NotFound || kind == providers.Throttled:
		return err
	}
	if _, looked := c.send(ctx, http.MethodGet, to, nil, nil, &now); looked == nil && c.is(to, &now, d.ID, d.Environment, status) == nil {
		return nil
	}
	return err
}

// is checks that an answer shows the deployment as it should be now; id 0 is
// a new one's.
func (c *Client) is(to call, got *gitlab.Deployment, id int64, environment, status string) error {
	d, err := c.deployment(to, got)
	if err == nil && ((id != 0 && d.ID != id) || d.Environment != environment || d.Status != status) {
		err = c.unexpected(to, fmt.Sprintf("deployment %d of %.80q is %.40q", d.ID, d.Environment, d.Status))
	}
	return err
}

// Approvals are what people said about a deployment, and how many more
// GitLab waits for: none where the plan knows no approvals (below Premium).
func (c *Client) Approvals(ctx context.Context, d Deployment) (said []Approval, waiting int, err error) {
	to := call{fmt.Sprintf("read deployment %d", d.ID), toRead, fmt.Sprintf("deployments/%d", d.ID)}
	var got approvals
	if _, err := c.send(ctx, http.MethodGet, to, nil, nil, &got); err != nil {
		return nil, 0, err
	}
	if got.ID != d.ID || got.Waiting < 0 {
		return nil, 0, c.unexpected(to, "it is not the deployment that was asked for")
	}
	entries := got.Approvals
	for _, rule := range got.Summary.Rules {
		entries = append(entries, rule.Approvals...)
	}
	for _, e := range entries {
		one := Approval{Who: e.User.Username, Status: e.Status, Comment: e.Comment}
		if one.Who == "" || (one.Status != "approved" && one.Status != "rejected") {
			return nil, 0, c.unexpected(to, fmt.Sprintf("an approval is %.40q by %.40q", one.Status, one.Who))
		}
		if !slices.Contains(said, one) {
			said = append(said, one)
		}
	}
	return said, got.Waiting, nil
}

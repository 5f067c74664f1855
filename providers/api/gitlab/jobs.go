package gitlab

import (
	"context"
	"fmt"
	"net/url"
	"time"

	gitlab "gitlab.com/gitlab-org/api/client-go"
)

// Job is a job of a pipeline.
type Job struct {
	ID      int64
	Name    string
	Status  string    // success, failed, manual and more, as GitLab calls them
	User    string    // who started it, login name: of a manual job who pressed it; "" for nobody
	Created time.Time // not after its deployment was made
}

// Jobs are a pipeline's, of retried ones the last,
// https://docs.gitlab.com/api/jobs/#list-pipeline-jobs.
func (c *Client) Jobs(ctx context.Context, pipeline int64) ([]Job, error) {
	to := call{fmt.Sprintf("list jobs of pipeline %d", pipeline), toRead, fmt.Sprintf("pipelines/%d/jobs", pipeline)}
	jobs, err := all[*gitlab.Job](ctx, c, to, url.Values{}, nil)
	if err != nil {
		return nil, err
	}
	out := make([]Job, len(jobs))
	for i, job := range jobs {
		if job == nil || job.ID == 0 || job.Name == "" || job.Status == "" || job.CreatedAt == nil || job.Pipeline.ID != pipeline {
			return nil, c.unexpected(to, "a job lacks its id, name, status, time or pipeline")
		}
		out[i] = Job{ID: job.ID, Name: job.Name, Status: job.Status, Created: *job.CreatedAt}
		if job.User != nil {
			out[i].User = job.User.Username
		}
	}
	return out, nil
}

// Children are the pipelines of this project that a pipeline's jobs have
// triggered, https://docs.gitlab.com/api/jobs/#list-pipeline-trigger-jobs. The
// path is the one that every version serves, deprecated in GitLab 19.2.
func (c *Client) Children(ctx context.Context, pipeline int64) ([]int64, error) {
	to := call{fmt.Sprintf("list trigger jobs of pipeline %d", pipeline), toRead, fmt.Sprintf("pipelines/%d/bridges", pipeline)}
	bridges, err := all[*gitlab.Bridge](ctx, c, to, url.Values{}, nil)
	if err != nil {
		return nil, err
	}
	var out []int64
	for _, b := range bridges {
		switch {
		case b == nil || b.ID == 0 || (b.DownstreamPipeline != nil && b.DownstreamPipeline.ID == 0):
			return nil, c.unexpected(to, "a job or its pipeline lacks its id")
		case b.DownstreamPipeline == nil: // not triggered yet
		case b.DownstreamPipeline.ProjectID == 0 || b.DownstreamPipeline.ProjectID == c.opts.Project:
			out = append(out, b.DownstreamPipeline.ID)
		}
	}
	return out, nil
}

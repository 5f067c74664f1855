package gitlabtest

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// documented is what the client may ask for.
func documented() []endpoint {
	pages := []string{"page", "per_page"}
	jobKeys := []string{"id", "name", "status", "stage", "created_at", "started_at", "finished_at", "user", "pipeline", "ref", "tag", "allow_failure", "coverage", "runner", "artifacts", "web_url", "commit", "project"}
	deploymentKeys := []string{"id", "iid", "ref", "sha", "created_at", "updated_at", "status", "user", "environment", "deployable"}
	extended := append(slices.Clone(deploymentKeys), "approvals", "pending_approval_count", "approval_summary")
	return []endpoint{
		{
			method: http.MethodGet, path: regexp.MustCompile(`^/projects/(\d+)/pipelines/(\d+)/jobs$`), serve: (*Server).pipelineJobs,
			address: "https://docs.gitlab.com/api/jobs/#list-pipeline-jobs",
			query:   append([]string{"scope[]", "include_retried"}, pages...), answer: jobKeys,
		},
		{
			method: http.MethodGet, path: regexp.MustCompile(`^/projects/(\d+)/pipelines/(\d+)/bridges$`), serve: (*Server).bridges,
			address: "https://docs.gitlab.com/api/jobs/#list-pipeline-trigger-jobs",
			query:   append([]string{"scope[]"}, pages...), answer: append(slices.Clone(jobKeys), "downstream_pipeline"),
		},
		{
			method: http.MethodGet, path: regexp.MustCompile(`^/projects/(\d+)/deployments$`), serve: (*Server).list,
			address: "https://docs.gitlab.com/api/deployments/#list-project-deployments",
			query:   append([]string{"order_by", "sort", "environment", "status", "updated_after", "updated_before", "finished_after", "finished_before"}, pages...),
			answer:  deploymentKeys,
		},
		{
			method: http.MethodGet, path: regexp.MustCompile(`^/projects/(\d+)/deployments/(\d+)$`), serve: (*Server).get,
			address: "https://docs.gitlab.com/api/deployments/#get-a-specific-deployment", answer: extended,
		},
		{
			method: http.MethodPost, path: regexp.MustCompile(`^/projects/(\d+)/deployments$`), serve: (*Server).create,
			address: "https://docs.gitlab.com/api/deployments/#create-a-deployment",
			body:    map[string]string{"environment": "string", "sha": "string", "ref": "string", "tag": "bool", "status": "string"}, answer: extended,
		},
		{
			method: http.MethodPut, path: regexp.MustCompile(`^/projects/(\d+)/deployments/(\d+)$`), serve: (*Server).update,
			address: "https://docs.gitlab.com/api/deployments/#update-a-deployment",
			body:    map[string]string{"status": "string"}, answer: extended,
		},
	}
}

func user(login string) any {
	if login == "" {
		return nil
	}
	return map[string]any{"id": 1, "username": login, "name": "N. N.", "state": "active", "created_at": "2015-12-21T13:14:24.077Z"}
}

func (j Job) json() map[string]any {
	return map[string]any{
		"id": j.ID, "name": j.Name, "status": j.Status, "stage": "rollout", "created_at": j.Created, "started_at": nil, "finished_at": nil,
		"user": user(j.User), "pipeline": map[string]any{"id": j.Pipeline, "project_id": Project, "ref": "main", "sha": "c0ffee", "status": "running"},
		"ref": "main", "tag": false, "allow_failure": false, "coverage": nil, "runner": nil, "artifacts": []any{}, "commit": nil,
		"project": map[string]any{"ci_job_token_scope_enabled": false},
	}
}

func (s *Server) pipelineJobs(pipeline int64, _ url.Values, _ map[string]any) answer {
	list := []any{}
	for _, j := range s.Jobs {
		if j.Pipeline == pipeline {
			list = append(list, j.json())
		}
	}
	if len(list) == 0 {
		return refusal(http.StatusNotFound, "404 Not found")
	}
	slices.Reverse(list) // the newest first
	return answer{status: http.StatusOK, list: list}
}

func (s *Server) bridges(pipeline int64, _ url.Values, _ map[string]any) answer {
	list := []any{}
	for i, trigger := range s.Triggers {
		if trigger.Pipeline != pipeline {
			continue
		}
		job := Job{ID: int64(900 + i), Pipeline: pipeline, Name: "rollout", Status: "running"}.json()
		job["downstream_pipeline"] = nil
		if trigger.Child != 0 {
			job["downstream_pipeline"] = map[string]any{"id": trigger.Child, "project_id": trigger.Project, "sha": "c0ffee", "ref": "main", "status": "running"}
		}
		list = append(list, job)
	}
	return answer{status: http.StatusOK, list: list}
}

func (d Deployment) json(extended bool) map[string]any {
	out := map[string]any{
		"id": d.ID, "iid": d.ID, "ref": d.Ref, "sha": d.SHA, "created_at": d.Created, "updated_at": d.Updated, "status": d.Status,
		"user": user("root"), "environment": map[string]any{"id": 9, "name": d.Environment, "external_url": nil}, "deployable": nil,
	}
	if d.Job != 0 {
		out["deployable"] = Job{ID: d.Job, Pipeline: d.Pipeline, Name: "deploy", Status: "success", User: "root"}.json()
	}
	if !extended || (d.Said == nil && d.ByRule == nil && d.Waiting == 0) {
		return out
	}
	said := func(list []Approval) []any {
		out := []any{}
		for _, a := range list {
			out = append(out, map[string]any{"user": user(a.Who), "status": a.Status, "comment": a.Comment, "created_at": d.Created})
		}
		return out
	}
	out["approvals"], out["pending_approval_count"] = said(d.Said), d.Waiting
	if d.ByRule != nil {
		out["approval_summary"] = map[string]any{"rules": []any{map[string]any{"group_id": 134, "required_approvals": 1, "deployment_approvals": said(d.ByRule)}}}
	}
	return out
}

func (s *Server) list(_ int64, query url.Values, _ map[string]any) answer {
	list := []any{}
	for _, d := range s.deployments {
		if environment := query.Get("environment"); environment == "" || environment == d.Environment {
			list = append(list, d.json(false))
		}
	}
	if by := query.Get("order_by"); by != "" && by != "id" {
		s.t.Errorf("order by %q, which this server cannot", by)
	}
	if query.Get("sort") == "desc" { // the documented default is asc
		slices.Reverse(list)
	}
	return answer{status: http.StatusOK, list: list}
}

func (s *Server) index(id int64) int {
	return slices.IndexFunc(s.deployments, func(d Deployment) bool { return d.ID == id })
}

func (s *Server) get(id int64, _ url.Values, _ map[string]any) answer {
	i := s.index(id)
	if i < 0 {
		return refusal(http.StatusNotFound, "404 Not found")
	}
	return answer{status: http.StatusOK, body: s.deployments[i].json(true)}
}

func validStatus(status string) bool {
	return slices.Contains([]string{"running", "success", "failed", "canceled"}, status)
}

func (s *Server) create(_ int64, _ url.Values, body map[string]any) answer {
	text := func(key string) string { value, _ := body[key].(string); return value }
	switch {
	case !validStatus(text("status")):
		return answer{status: http.StatusBadRequest, body: map[string]any{"error": "status does not have a valid value"}}
	case !slices.Contains(s.Refs, text("ref")):
		return refusal(http.StatusBadRequest, map[string]any{"ref": []string{"The branch or tag does not exist"}})
	case !slices.Contains(s.SHAs, text("sha")):
		return refusal(http.StatusBadRequest, map[string]any{"sha": []string{"The commit does not exist"}})
	case strings.ContainsAny(text("environment"), "\n<>"):
		return refusal(http.StatusBadRequest, map[string]any{"name": []string{"is invalid"}})
	}
	now := s.now()
	tag, _ := body["tag"].(bool)
	d := Deployment{
		Tag: tag,
		ID:  int64(len(s.deployments) + 500), Environment: text("environment"), SHA: text("sha"), Ref: text("ref"), Status: text("status"),
		Created: now, Updated: now,
	}
	s.deployments = append(s.deployments, d)
	return answer{status: http.StatusCreated, body: d.json(true)}
}

// update keeps to the transitions: to running only from created or blocked,
// to an end from anything but that end.
func (s *Server) update(id int64, _ url.Values, body map[string]any) answer {
	i := s.index(id)
	status, _ := body["status"].(string)
	switch {
	case !validStatus(status):
		return answer{status: http.StatusBadRequest, body: map[string]any{"error": "status does not have a valid value"}}
	case i < 0:
		return refusal(http.StatusNotFound, "404 Not found")
	case s.deployments[i].Job != 0:
		return refusal(http.StatusForbidden, "403 Forbidden - Deployments created using GitLab CI can not be updated using the API")
	case s.deployments[i].Status == status, status == "running" && !slices.Contains([]string{"created", "blocked"}, s.deployments[i].Status):
		return refusal(http.StatusBadRequest, map[string]any{"status": []string{"cannot transition"}})
	}
	s.deployments[i].Status, s.deployments[i].Updated = status, s.now().Add(time.Millisecond)
	return answer{status: http.StatusOK, body: s.deployments[i].json(true)}
}

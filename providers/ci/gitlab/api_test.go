package gitlab

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/gitlab/gitlabtest"
	"github.com/manent/action/providers/ci"
	"github.com/manent/action/state"
)

var (
	run  = state.RunRef{Platform: "gitlab", Repository: "shop/web", Run: "17"}
	noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
)

// serve starts a GitLab and a job of it.
func serve(t *testing.T, vars map[string]string) (*gitlabtest.Server, *job) {
	t.Helper()
	s, j := gitlabtest.New(t), newJob(t, vars)
	s.JobToken, s.AccessToken, s.SHAs, s.Refs = j.vars["CI_JOB_TOKEN"], j.vars[Token], []string{"c0ffee", "decade"}, []string{"main", "v2"}
	j.vars["CI_API_V4_URL"] = s.URL
	return s, j
}

func manual(id, pipeline int64, name, status, user string) gitlabtest.Job {
	return gitlabtest.Job{ID: id, Pipeline: pipeline, Name: name, Status: status, User: user, Created: noon.Add(time.Duration(id) * time.Second)}
}

func TestReviews(t *testing.T) {
	inChild := map[string]string{"CI_PIPELINE_SOURCE": "parent_pipeline", ParentPipeline: "17", "CI_PIPELINE_ID": "18"}
	approved := ci.Review{Environment: "approval-25", State: ci.Approved, Who: "ada"}
	said := []gitlabtest.Approval{{Who: "bob", Status: "rejected", Comment: "not\ntoday"}}
	blocked := gitlabtest.Deployment{ID: 41, Environment: "prod", Status: "blocked", Job: 181, Pipeline: 18, Created: noon.Add(time.Hour)}
	rejected, waiting, foreign, byAPI, early := blocked, blocked, blocked, blocked, blocked
	rejected.Said, waiting.Waiting = said, 2
	foreign.Pipeline, foreign.Said, byAPI.Job, byAPI.Said, early.Created, early.Said = 5, said, 0, said, noon.Add(-time.Hour), said
	cases := map[string]struct {
		vars        map[string]string
		jobs        []gitlabtest.Job
		triggers    []gitlabtest.Trigger
		deployments []gitlabtest.Deployment
		want        []ci.Review
	}{
		"pressed":             {nil, []gitlabtest.Job{manual(1, 17, "approval-25", "success", "ada")}, nil, nil, []ci.Review{approved}},
		"not pressed":         {nil, []gitlabtest.Job{manual(1, 17, "approval-25", "manual", "eve")}, nil, nil, []ci.Review{{Environment: "approval-25", State: ci.Pending}}},
		"pressed and running": {nil, []gitlabtest.Job{manual(1, 17, "approval-25", "running", "eve")}, nil, nil, []ci.Review{{Environment: "approval-25", State: ci.Pending}}},
		"failed":              {nil, []gitlabtest.Job{manual(1, 17, "approval-25", "failed", "eve"), manual(2, 17, "approval-50", "canceled", "eve")}, nil, nil, nil},
		"other jobs":          {nil, []gitlabtest.Job{manual(1, 17, "deploy", "success", "eve"), manual(2, 17, "no approval", "success", "eve")}, nil, nil, nil},
		"in the child, asked there": {
			inChild, []gitlabtest.Job{manual(1, 17, "build", "success", "eve"), manual(2, 18, "approval-25", "success", "ada"), manual(3, 19, "approval-25", "success", "eve")},
			nil, nil, []ci.Review{approved},
		},
		"in the child, asked in the parent": {
			nil, []gitlabtest.Job{manual(1, 17, "build", "success", "eve"), manual(2, 18, "approval-25", "success", "ada")},
			[]gitlabtest.Trigger{{Pipeline: 17, Child: 18, Project: gitlabtest.Project}}, nil, []ci.Review{approved},
		},
		"deployment rejected": {
			inChild, []gitlabtest.Job{manual(4000, 17, "build", "success", "eve"), manual(181, 18, "deploy", "failed", "eve")}, nil,
			[]gitlabtest.Deployment{rejected}, []ci.Review{{Environment: "prod", State: ci.Rejected, Who: "bob", Comment: "not today"}},
		},
		"deployment waits": {
			inChild, []gitlabtest.Job{manual(1, 17, "build", "success", "eve"), manual(181, 18, "deploy", "manual", "eve")}, nil,
			[]gitlabtest.Deployment{waiting}, []ci.Review{{Environment: "prod", State: ci.Pending}},
		},
		"deployments of others": {
			inChild, []gitlabtest.Job{manual(1, 17, "build", "success", "eve"), manual(181, 18, "deploy", "manual", "eve")}, nil,
			[]gitlabtest.Deployment{early, foreign, byAPI}, nil,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, j := serve(t, tc.vars)
			s.Jobs, s.Triggers = tc.jobs, tc.triggers
			s.Deploy(tc.deployments...)
			got, err := j.platform(t).Reviews(t.Context(), run)
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("error %v\n%s", err, diff)
			}
		})
	}
}

// TestReviewsThatCannotBeTold must never be an empty list.
func TestReviewsThatCannotBeTold(t *testing.T) {
	jobs := []gitlabtest.Job{manual(1, 17, "approval-25", "success", "ada")}
	cases := map[string]struct {
		run    state.RunRef
		vars   map[string]string
		change func(*gitlabtest.Server)
		kind   providers.Kind
		hint   string
	}{
		"of a shell":              {state.RunRef{Platform: "local", Repository: "shop/web", Run: "17"}, nil, nil, providers.Invalid, ""},
		"of another project":      {state.RunRef{Platform: "gitlab", Repository: "shop/api", Run: "17"}, nil, nil, providers.Invalid, ""},
		"of no number":            {state.RunRef{Platform: "gitlab", Repository: "shop/web", Run: "../17"}, nil, nil, providers.Invalid, ""},
		"no such pipeline":        {state.RunRef{Platform: "gitlab", Repository: "shop/web", Run: "99"}, nil, nil, providers.NotFound, Token},
		"no token":                {run, map[string]string{"CI_JOB_TOKEN": ""}, nil, providers.Denied, Token},
		"no project":              {run, map[string]string{"CI_PROJECT_ID": "web"}, nil, providers.Invalid, ""},
		"nobody pressed":          {run, nil, func(s *gitlabtest.Server) { s.Jobs[0].User = "" }, providers.Unknown, ""},
		"jobs are refused":        {run, nil, func(s *gitlabtest.Server) { s.Failures = fail("/jobs", 403) }, providers.Denied, "before GitLab 18"},
		"children are refused":    {run, nil, func(s *gitlabtest.Server) { s.Failures = fail("/bridges", 404) }, providers.NotFound, "read_api"},
		"deployments are refused": {run, nil, func(s *gitlabtest.Server) { s.Failures = fail("/deployments", 401) }, providers.Denied, "expired"},
		"approvals are refused": {run, nil, func(s *gitlabtest.Server) {
			s.Deploy(gitlabtest.Deployment{ID: 41, Environment: "prod", Status: "blocked", Job: 1, Pipeline: 17, Created: noon.Add(time.Hour)})
			s.Failures = fail("/deployments/41", 403)
		}, providers.Denied, "Reporter"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, j := serve(t, tc.vars)
			s.Jobs = slices.Clone(jobs)
			if tc.change != nil {
				tc.change(s)
			}
			got, err := j.platform(t).Reviews(t.Context(), tc.run)
			if err == nil || got != nil || providers.KindOf(err) != tc.kind || !strings.Contains(providers.HintOf(err), tc.hint) {
				t.Errorf("%v, error %v of kind %v (%s), expected kind %v and hint %q", got, err, providers.KindOf(err), providers.HintOf(err), tc.kind, tc.hint)
			}
			if strings.Count(err.Error(), "gitlab: ") != 1 {
				t.Errorf("error %q, expected the provider once", err)
			}
		})
	}
}

func fail(path string, status int) []gitlabtest.Failure {
	return []gitlabtest.Failure{{Method: "GET", Path: path, Status: status, Body: `{"message":"no"}`}}
}

// TestOwnToken checks that a token of the project goes before the job's.
func TestOwnToken(t *testing.T) {
	s, j := serve(t, map[string]string{Token: "glpat-x", "CI_JOB_TOKEN": "ended"})
	s.JobToken, s.Jobs = "", []gitlabtest.Job{manual(1, 17, "approval", "success", "ada")}
	if got, err := j.platform(t).Reviews(t.Context(), run); err != nil || len(got) != 1 {
		t.Errorf("%v, error %v", got, err)
	}
}

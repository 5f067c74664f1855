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
)

// rollout is one that began just now.
func rollout(state ci.DeploymentState) ci.Deployment {
	return ci.Deployment{
		Rollout: "r1", Began: time.Now().Add(-time.Second), Environment: "prod", Version: "2.0", State: state,
		URL: "https://gitlab.example/shop/web/-/pipelines/17",
	}
}

// writes are the requests that make or change something.
func writes(s *gitlabtest.Server) []string {
	return slices.DeleteFunc(s.Requests(), func(r string) bool { return strings.HasPrefix(r, "GET ") })
}

// TestTrackFromBeginToEnd tells each state twice, each time by another job.
func TestTrackFromBeginToEnd(t *testing.T) {
	s, j := serve(t, nil)
	d := rollout(ci.InProgress)
	for _, step := range []struct {
		state ci.DeploymentState
		want  string
	}{
		{ci.InProgress, "running"}, {ci.Waiting, "running"}, {ci.InProgress, "running"}, {ci.Succeeded, "success"},
		{ci.Failed, "failed"}, {ci.InProgress, "failed"}, {ci.Succeeded, "success"},
	} {
		d.State = step.state
		for range 2 {
			if err := j.platform(t).Track(t.Context(), d); err != nil {
				t.Fatalf("%s: %v", step.state, err)
			}
		}
		if got := s.Deployments(); len(got) != 1 || got[0].Status != step.want || got[0].Environment != "prod" || got[0].SHA != "c0ffee" || got[0].Ref != "main" {
			t.Errorf("after %s: %+v, expected one that is %s", step.state, got, step.want)
		}
	}
	id := "/projects/7/deployments/500"
	want := []string{"POST /projects/7/deployments", "PUT " + id, "PUT " + id, "PUT " + id}
	if diff := cmp.Diff(want, writes(s)); diff != "" {
		t.Errorf("writes:\n%s", diff)
	}
	if !strings.Contains(strings.Join(j.log, "\n"), "stays failed on GitLab") {
		t.Errorf("log %q, expected it to say what GitLab goes on to show", j.log)
	}
}

// TestTrackLeavesOthersAlone has what is nearly the rollout's own.
func TestTrackLeavesOthersAlone(t *testing.T) {
	now := time.Now()
	own := gitlabtest.Deployment{ID: 41, Environment: "prod", SHA: "c0ffee", Ref: "main", Status: "running", Created: now, Updated: now}
	ofJob, elsewhere, otherCommit, longAgo, justBefore := own, own, own, own, own
	ofJob.Job, ofJob.Pipeline = 71, 17
	elsewhere.Environment = "test"
	otherCommit.SHA = "decade"
	longAgo.Created = now.Add(-time.Hour)
	justBefore.Created, justBefore.Updated, justBefore.Status = now.Add(-30*time.Second), now.Add(-20*time.Second), "failed"
	for name, other := range map[string]gitlabtest.Deployment{
		"a job's": ofJob, "another environment's": elsewhere, "another commit's": otherCommit,
		"an earlier rollout's": longAgo, "that of a rollout that failed just before": justBefore,
	} {
		t.Run(name, func(t *testing.T) {
			s, j := serve(t, nil)
			s.Deploy(other)
			if err := j.platform(t).Track(t.Context(), rollout(ci.Failed)); err != nil {
				t.Fatal(err)
			}
			got := s.Deployments()
			if len(got) != 2 || got[0].Status != other.Status || got[1].Status != "failed" {
				t.Errorf("%+v, expected the other as it was and a new one", got)
			}
		})
	}
	t.Run("made by a clock that is behind", func(t *testing.T) {
		s, j := serve(t, nil)
		behind := own
		behind.Created, behind.Updated = now.Add(-40*time.Second), now.Add(-40*time.Second)
		twice := own
		twice.ID = 42
		s.Deploy(behind, twice)
		if err := j.platform(t).Track(t.Context(), rollout(ci.Succeeded)); err != nil {
			t.Fatal(err)
		}
		if got := s.Deployments(); len(got) != 2 || got[0].Status != "success" || got[1].Status != "running" {
			t.Errorf("%+v, expected the older one to be the rollout's", got)
		}
	})
}

// TestTrackFromAnotherRun is a scheduled pipeline that ends a rollout.
func TestTrackFromAnotherRun(t *testing.T) {
	scheduled := map[string]string{
		"CI_PIPELINE_ID": "30", "CI_PIPELINE_URL": "https://gitlab.example/shop/web/-/pipelines/30", "CI_PIPELINE_SOURCE": "schedule", "CI_COMMIT_SHA": "decade",
	}
	now := time.Now()
	own := gitlabtest.Deployment{ID: 41, Environment: "prod", SHA: "c0ffee", Ref: "main", Status: "running", Created: now, Updated: now}
	second := own
	second.ID = 42
	for name, tc := range map[string]struct {
		there []gitlabtest.Deployment
		kind  providers.Kind
		fails bool
	}{
		"there is one":   {[]gitlabtest.Deployment{own}, 0, false},
		"there is none":  {nil, providers.NotFound, true},
		"there are more": {[]gitlabtest.Deployment{own, second}, providers.Unknown, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, j := serve(t, scheduled)
			s.Deploy(tc.there...)
			err := j.platform(t).Track(t.Context(), rollout(ci.Succeeded))
			if (err != nil) != tc.fails || (err != nil && providers.KindOf(err) != tc.kind) {
				t.Errorf("error %v, expected kind %v", err, tc.kind)
			}
			if n := len(writes(s)); (n == 0) != tc.fails || len(s.Deployments()) != len(tc.there) {
				t.Errorf("%d writes, deployments %+v", n, s.Deployments())
			}
		})
	}
}

// TestTrackWithoutAnAnswer has a deployment that was made, or not, although
// the answer does not say so.
func TestTrackWithoutAnAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		failure gitlabtest.Failure
		kind    providers.Kind
		fails   bool
	}{
		"made, answer lost":     {gitlabtest.Failure{After: true}, 0, false},
		"made, answer cut off":  {gitlabtest.Failure{After: true, Status: 201, Cut: true}, 0, false},
		"made, 502":             {gitlabtest.Failure{After: true, Status: 502, Body: "bad gateway"}, 0, false},
		"not made, answer lost": {gitlabtest.Failure{}, providers.Unknown, true},
		"not made, 500":         {gitlabtest.Failure{Status: 500}, providers.Unavailable, true},
		"refused":               {gitlabtest.Failure{Status: 403}, providers.Denied, true},
		"throttled":             {gitlabtest.Failure{Status: 429}, providers.Throttled, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, j := serve(t, nil)
			tc.failure.Method, tc.failure.Times = "POST", 1
			s.Failures = []gitlabtest.Failure{tc.failure}
			err := j.platform(t).Track(t.Context(), rollout(ci.InProgress))
			if (err != nil) != tc.fails || (err != nil && providers.KindOf(err) != tc.kind) {
				t.Errorf("error %v, expected kind %v", err, tc.kind)
			}
			if got := writes(s); len(got) != 1 {
				t.Errorf("writes %q, expected no second try", got)
			}
			if err := j.platform(t).Track(t.Context(), rollout(ci.InProgress)); err != nil {
				t.Errorf("again: %v", err)
			}
			if got := s.Deployments(); len(got) != 1 {
				t.Errorf("%+v, expected one deployment", got)
			}
		})
	}
}

func TestTrackRefuses(t *testing.T) {
	unset := rollout(ci.InProgress)
	unset.Began = time.Time{}
	nowhere := rollout(ci.InProgress)
	nowhere.Environment = ""
	cases := map[string]struct {
		vars map[string]string
		d    ci.Deployment
		kind providers.Kind
		says string
	}{
		"no begin":          {nil, unset, providers.Invalid, "the time the rollout began"},
		"no environment":    {nil, nowhere, providers.Invalid, "the environment"},
		"unknown state":     {nil, rollout("paused"), providers.Invalid, `state "paused"`},
		"no commit":         {map[string]string{"CI_COMMIT_SHA": ""}, rollout(ci.InProgress), providers.Invalid, "CI_COMMIT_SHA"},
		"no pipeline":       {map[string]string{"CI_PIPELINE_ID": ""}, rollout(ci.InProgress), providers.Invalid, "CI_PIPELINE_ID"},
		"commit not pushed": {map[string]string{"CI_COMMIT_SHA": "beef"}, rollout(ci.InProgress), providers.Invalid, "The commit does not exist"},
		"branch is gone":    {map[string]string{"CI_COMMIT_REF_NAME": "gone"}, rollout(ci.InProgress), providers.Invalid, "The branch or tag does not exist"},
		"plain http":        {map[string]string{"CI_API_V4_URL": "http://gitlab.example/api/v4"}, rollout(ci.InProgress), providers.Invalid, "plain http"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, j := serve(t, nil)
			for key, value := range tc.vars {
				j.vars[key] = value
			}
			err := j.platform(t).Track(t.Context(), tc.d)
			if err == nil || providers.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.says) || strings.Count(err.Error(), "gitlab: ") != 1 {
				t.Errorf("error %v, expected %q", err, tc.says)
			}
			if len(s.Deployments()) != 0 {
				t.Errorf("%+v, expected none", s.Deployments())
			}
		})
	}
}

func TestTrackOfATag(t *testing.T) {
	s, j := serve(t, map[string]string{"CI_COMMIT_TAG": "v2", "CI_COMMIT_REF_NAME": "v2"})
	if err := j.platform(t).Track(t.Context(), rollout(ci.InProgress)); err != nil {
		t.Fatal(err)
	}
	if got := s.Deployments(); len(got) != 1 || got[0].Ref != "v2" || !got[0].Tag {
		t.Errorf("%+v, expected one of the tag v2", got)
	}
}

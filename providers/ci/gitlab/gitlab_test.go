package gitlab

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/ci"
	"github.com/manent/action/providers/ci/citest"
	"github.com/manent/action/state"
)

func TestConformance(t *testing.T) {
	citest.Test(t, citest.Harness{
		Spec: Spec(),
		Job: func(t *testing.T, run citest.Run) citest.Job {
			j := newJob(t, map[string]string{"CI_PIPELINE_ID": run.ID, "CI_JOB_RETRY_COUNT": strconv.Itoa(run.Attempt - 1)})
			if run.Order != "" {
				j.vars["CI_PIPELINE_ID"] = run.Order
			}
			return citest.Job{
				Env: j.env(), Annotations: func(*testing.T) []string { return j.annotations() },
				Outputs: func(t *testing.T) map[string]string { return outputs(t, read(t, filepath.Join(j.dir, DefaultResult))) },
				Summary: func(t *testing.T) string { return read(t, filepath.Join(j.dir, DefaultSummary)) },
				Printed: func(t *testing.T) string {
					return strings.Join(j.log, "\n") + read(t, filepath.Join(j.dir, DefaultResult)) + read(t, filepath.Join(j.dir, DefaultSummary))
				},
			}
		},
	})
}

// job is a job as GitLab starts it.
type job struct {
	dir  string
	vars map[string]string
	log  []string
}

func newJob(t *testing.T, vars map[string]string) *job {
	j := &job{dir: t.TempDir(), vars: map[string]string{
		"GITLAB_CI": "true", "CI_PROJECT_PATH": "shop/web", "CI_PROJECT_ID": "7", "CI_PIPELINE_ID": "17", "CI_PIPELINE_IID": "3",
		"CI_PIPELINE_SOURCE": "push", "CI_PIPELINE_URL": "https://gitlab.example/shop/web/-/pipelines/17", "GITLAB_USER_LOGIN": "ada",
		"CI_COMMIT_SHA": "c0ffee", "CI_COMMIT_REF_NAME": "main", "CI_JOB_TOKEN": "glcbt-64_hunter2",
	}}
	maps.Copy(j.vars, vars)
	return j
}

func (j *job) env() providers.Env {
	return providers.Env{
		Dir: j.dir, Getenv: func(name string) string { return j.vars[name] },
		Log: func(format string, args ...any) { j.log = append(j.log, fmt.Sprintf(format, args...)) },
	}
}

func (j *job) platform(t *testing.T) *platform {
	t.Helper()
	p, err := New(j.env())
	if err != nil {
		t.Fatal(err)
	}
	return p.(*platform)
}

var coloured = regexp.MustCompile("^\x1b\\[[0-9;]+m([A-Z]+): ([^\x1b]*)\x1b\\[0;m$")

func (j *job) annotations() (out []string) {
	for _, line := range j.log {
		if m := coloured.FindStringSubmatch(line); m != nil {
			out = append(out, strings.ToLower(m[1])+": "+m[2])
		}
	}
	return out
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(data)
}

// outputs reads a report as GitLab does: each line is split at its first =,
// and space taken off both parts; a line without = is refused.
func outputs(t *testing.T, text string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, found := strings.Cut(line, "=")
		if !found {
			t.Errorf("line %q, which GitLab refuses", line)
		}
		short, found := strings.CutPrefix(strings.TrimSpace(key), prefix)
		if !found {
			t.Errorf("variable %q, expected %s in front", key, prefix)
		}
		out[strings.ToLower(short)] = strings.TrimSpace(value)
	}
	return out
}

func TestIdentity(t *testing.T) {
	page := "https://gitlab.example/shop/web/-/pipelines/"
	whole := state.RunRef{Platform: "gitlab", Repository: "shop/web", Run: "17", Order: 17, Attempt: 1, URL: page + "17", Actor: "ada"}
	child := map[string]string{"CI_PIPELINE_SOURCE": "parent_pipeline", "CI_PIPELINE_ID": "21", "CI_PIPELINE_URL": page + "21"}
	with := func(base map[string]string, more map[string]string) map[string]string {
		out := maps.Clone(base)
		maps.Copy(out, more)
		return out
	}
	retried, unknown, addressless := whole, whole, whole
	retried.Attempt, unknown.Actor, addressless.URL = 3, "unknown", ""
	cases := map[string]struct {
		vars map[string]string
		want state.RunRef
		says string
	}{
		"a pipeline":                     {nil, whole, ""},
		"a job that is retried":          {map[string]string{"CI_JOB_RETRY_COUNT": "2"}, retried, ""},
		"nobody":                         {map[string]string{"GITLAB_USER_LOGIN": ""}, unknown, ""},
		"no address":                     {map[string]string{"CI_PIPELINE_URL": ""}, addressless, ""},
		"a child that is told":           {with(child, map[string]string{ParentPipeline: "17"}), whole, ""},
		"a child of GitLab 18.9":         {with(child, map[string]string{"CI_UPSTREAM_PIPELINE_ID": "17"}), whole, ""},
		"a child of a child":             {with(child, map[string]string{ParentPipeline: "17", "CI_UPSTREAM_PIPELINE_ID": "19"}), whole, ""},
		"triggered by another project":   {map[string]string{"CI_PIPELINE_SOURCE": "pipeline", "CI_UPSTREAM_PIPELINE_ID": "9"}, whole, ""},
		"a child that is not told":       {child, state.RunRef{}, "not told its parent"},
		"a child with an unset variable": {with(child, map[string]string{ParentPipeline: "$CI_PIPELINE_ID"}), state.RunRef{}, `MANENT_PARENT_PIPELINE_ID is "$CI_PIPELINE_ID"`},
		"a child older than its parent":  {with(child, map[string]string{ParentPipeline: "22"}), state.RunRef{}, "made before this one, 21"},
		"a parent for all":               {map[string]string{ParentPipeline: "9"}, state.RunRef{}, "is no child"},
		"no project":                     {map[string]string{"CI_PROJECT_PATH": ""}, state.RunRef{}, "CI_PROJECT_PATH"},
		"no pipeline":                    {map[string]string{"CI_PIPELINE_ID": ""}, state.RunRef{}, "CI_PIPELINE_ID"},
		"address of no page":             {map[string]string{"CI_PIPELINE_URL": "javascript:alert(1)"}, state.RunRef{}, "CI_PIPELINE_URL"},
		"retries":                        {map[string]string{"CI_JOB_RETRY_COUNT": "none"}, state.RunRef{}, "CI_JOB_RETRY_COUNT"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := newJob(t, tc.vars).platform(t).Identity(t.Context())
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			switch {
			case tc.says == "" && err != nil:
				t.Error(err)
			case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says) || providers.KindOf(err) != providers.Invalid || strings.Count(err.Error(), "gitlab: ") != 1):
				t.Errorf("error %v, expected %q", err, tc.says)
			}
		})
	}
	_, err := newJob(t, child).platform(t).Identity(t.Context())
	if !strings.Contains(providers.HintOf(err), "MANENT_PARENT_PIPELINE_ID: $CI_PIPELINE_ID") {
		t.Errorf("hint %q, expected the line to add", providers.HintOf(err))
	}
}

func TestNotGitLab(t *testing.T) {
	for _, vars := range []map[string]string{{"GITLAB_CI": ""}, {"GITLAB_CI": "false"}} {
		if Spec().Detect(newJob(t, vars).env()) {
			t.Errorf("%v is taken for GitLab", vars)
		}
	}
	var _ ci.Platform = newJob(t, nil).platform(t)
}

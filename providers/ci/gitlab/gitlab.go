// Package gitlab is the platform GitLab CI: a job names its run by predefined
// variables, hands outputs on in a dotenv report, and asks the API who
// approved and shows deployments there. It must not know what a rollout is.
//
// One run is one pipeline together with its child pipelines. A child learns
// its parent from ParentPipeline, which the trigger job passes; a GitLab from
// 18.9 on says so itself (CI_UPSTREAM_PIPELINE_ID). The variables are from
// https://docs.gitlab.com/ci/variables/predefined_variables/.
package gitlab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/ci"
	"github.com/manent/action/state"
)

var (
	_ ci.Platform    = (*platform)(nil)
	_ ci.Reviews     = (*platform)(nil)
	_ ci.Deployments = (*platform)(nil)
	_ ci.Hands       = (*platform)(nil)
)

const name = "gitlab"

// Variables that this platform reads besides the predefined ones.
const (
	// ParentPipeline is passed by the job that triggers a child pipeline:
	// "variables: {MANENT_PARENT_PIPELINE_ID: $CI_PIPELINE_ID}".
	ParentPipeline = "MANENT_PARENT_PIPELINE_ID"
	// Result is the dotenv file, DefaultResult without it. The job names it
	// under artifacts:reports:dotenv.
	Result = "MANENT_RESULT"
	// Summary is the file of the newest summary, Markdown, DefaultSummary
	// without it. The job names it under artifacts:paths.
	Summary = "MANENT_SUMMARY"
	// Token holds a project access token, used in place of CI_JOB_TOKEN.
	Token = "MANENT_GITLAB_TOKEN" //nolint:gosec // a name, no secret
)

// Files without a variable that names them, in the workspace.
const (
	DefaultResult  = "manent.env"
	DefaultSummary = "manent-summary.md"
)

// Spec describes the platform.
func Spec() ci.Spec {
	return ci.Spec{
		Name: name, Summary: "GitLab CI: outputs as dotenv report, approvals by manual jobs.",
		Detect: func(env providers.Env) bool { return env.Getenv("GITLAB_CI") == "true" },
		New:    New,
	}
}

// New makes the platform. It does no I/O.
func New(env providers.Env) (ci.Platform, error) { return &platform{env: env, now: time.Now}, nil }

type platform struct {
	env   providers.Env
	masks providers.Redactor
	now   func() time.Time
}

// Identity implements ci.Platform. Run and order are the id of the pipeline,
// of the parent in a child: GitLab numbers all pipelines in one row. The
// number within the project (CI_PIPELINE_IID) would order a child after runs
// that began since its parent did, and nothing tells a child its parent's.
//
// The attempt is how often this very job runs (CI_JOB_RETRY_COUNT, GitLab
// 19.3 and later); without that it is 1.
func (p *platform) Identity(context.Context) (state.RunRef, error) {
	ref, err := p.identity()
	if err != nil {
		return state.RunRef{}, p.fault("identity", providers.Invalid, err)
	}
	return ref, nil
}

func (p *platform) identity() (state.RunRef, error) {
	ref := state.RunRef{Platform: name, Repository: p.env.Getenv("CI_PROJECT_PATH"), Actor: cmp.Or(p.env.Getenv("GITLAB_USER_LOGIN"), "unknown"), Attempt: 1}
	if ref.Repository == "" || strings.ContainsFunc(ref.Repository, unicode.IsControl) {
		return ref, fmt.Errorf("CI_PROJECT_PATH is %.80q, expected the path of a project", ref.Repository)
	}
	root, page, err := p.run()
	if err != nil {
		return ref, err
	}
	ref.Run, ref.Order, ref.URL = strconv.FormatInt(root, 10), root, page
	if p.env.Getenv("CI_JOB_RETRY_COUNT") != "" {
		retries, err := p.number("CI_JOB_RETRY_COUNT", 0)
		if err != nil {
			return ref, err
		}
		ref.Attempt = int(min(retries, 1<<20)) + 1
	}
	return ref, nil
}

// run is the pipeline that a run is named after, the parent of a child
// pipeline, else the pipeline itself; with its address, "" for unknown.
func (p *platform) run() (root int64, page string, err error) {
	own, err := p.number("CI_PIPELINE_ID", 1)
	if err != nil {
		return 0, "", err
	}
	if root, err = p.root(own); err != nil {
		return 0, "", err
	}
	page = p.env.Getenv("CI_PIPELINE_URL")
	if page == "" {
		return root, "", nil
	}
	if _, err := providers.CheckURL(page, true); err != nil {
		return 0, "", fmt.Errorf("CI_PIPELINE_URL: %w", err)
	}
	if base, found := strings.CutSuffix(page, fmt.Sprintf("/%d", own)); found {
		page = fmt.Sprintf("%s/%d", base, root)
	}
	return root, page, nil
}

func (p *platform) root(own int64) (int64, error) {
	variable := ParentPipeline
	child, passed := p.env.Getenv("CI_PIPELINE_SOURCE") == "parent_pipeline", p.env.Getenv(ParentPipeline) != ""
	switch {
	case passed && !child:
		return 0, fmt.Errorf("%s is set in a pipeline that is no child: all pipelines would be one run", ParentPipeline)
	case !child:
		return own, nil
	case !passed && p.env.Getenv("CI_UPSTREAM_PIPELINE_ID") == "":
		return 0, &providers.Fault{
			Kind: providers.Invalid,
			Err:  errors.New("a child pipeline that is not told its parent: its jobs and the parent's would be two runs"),
			Hint: fmt.Sprintf("add %s: $CI_PIPELINE_ID to the variables of the trigger job", ParentPipeline),
		}
	case !passed:
		variable = "CI_UPSTREAM_PIPELINE_ID"
	}
	parent, err := p.number(variable, 1)
	if err == nil && parent >= own {
		err = fmt.Errorf("%s is %d, expected a pipeline made before this one, %d", variable, parent, own)
	}
	return parent, err
}

// number reads a number that is at least least.
func (p *platform) number(variable string, least int64) (int64, error) {
	text := p.env.Getenv(variable)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least {
		return 0, fmt.Errorf("%s is %.40q, expected a number from %d on", variable, text, least)
	}
	return n, nil
}

func (p *platform) fault(op string, kind providers.Kind, err error) error {
	return &providers.Fault{Provider: name, Op: op, Kind: kind, Err: err}
}

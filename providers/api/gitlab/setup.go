package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	gitlab "gitlab.com/gitlab-org/api/client-go"

	"github.com/manent/action/providers"
)

// Project is what is read of a project,
// https://docs.gitlab.com/api/projects/#get-a-single-project.
type Project struct {
	Branch    string // the default one
	Push      *bool  // job tokens may push (GitLab 17.2 and later); nil when not shown
	NewGroups string // process mode of new resource groups; "" when not shown
}

// Schedule is a pipeline schedule,
// https://docs.gitlab.com/api/pipeline_schedules/.
type Schedule struct {
	ID          int64
	Description string
	Branch      string
	Cron        string
	Active      bool
}

// Access is who may deploy to a protected environment: one of the three,
// https://docs.gitlab.com/api/protected_environments/.
type Access struct {
	User, Group int64
	Level       int64 // of a role: 30 Developer, 40 Maintainer, 60 administrator
}

// Project reads the project.
func (c *Client) Project(ctx context.Context) (Project, error) {
	to := call{"read the project", toSetUp, ""}
	var got project
	if _, err := c.send(ctx, http.MethodGet, to, nil, nil, &got); err != nil {
		return Project{}, err
	}
	if got.ID == 0 || got.Branch == "" {
		return Project{}, c.unexpected(to, "a project lacks its id or its default branch")
	}
	return Project{Branch: got.Branch, Push: got.Push, NewGroups: got.NewGroups}, nil
}

// SetPush lets job tokens push to the project's repository, or not,
// https://docs.gitlab.com/api/projects/#edit-a-project.
func (c *Client) SetPush(ctx context.Context, push bool) error {
	to := call{"change the project", toSetUp, ""}
	var got project
	body := gitlab.EditProjectOptions{CIPushRepositoryForJobTokenAllowed: &push}
	if _, err := c.send(ctx, http.MethodPut, to, nil, body, &got); err != nil {
		return err
	}
	if got.ID == 0 {
		return c.unexpected(to, "a project lacks its id")
	}
	return nil
}

// GroupMode is the process mode of a resource group, which is there from the
// first pipeline on that names it,
// https://docs.gitlab.com/api/resource_groups/#get-a-specific-resource-group.
func (c *Client) GroupMode(ctx context.Context, key string) (string, error) {
	to := call{"read resource group " + key, toSetUp, "resource_groups/" + url.PathEscape(key)}
	return c.group(ctx, http.MethodGet, to, key, nil)
}

// SetGroupMode changes the process mode of a resource group,
// https://docs.gitlab.com/api/resource_groups/#edit-an-existing-resource-group.
func (c *Client) SetGroupMode(ctx context.Context, key, mode string) error {
	to := call{"change resource group " + key, toSetUp, "resource_groups/" + url.PathEscape(key)}
	value := gitlab.ResourceGroupProcessMode(mode)
	got, err := c.group(ctx, http.MethodPut, to, key, gitlab.EditAnExistingResourceGroupOptions{ProcessMode: &value})
	if err == nil && got != mode {
		return c.unexpected(to, fmt.Sprintf("its mode is %.40q", got))
	}
	return err
}

func (c *Client) group(ctx context.Context, method string, to call, key string, body any) (string, error) {
	var got gitlab.ResourceGroup
	if _, err := c.send(ctx, method, to, nil, body, &got); err != nil {
		return "", err
	}
	if got.Key != key || got.ProcessMode == "" {
		return "", c.unexpected(to, "it is not the resource group that was asked for")
	}
	return got.ProcessMode, nil
}

// Schedules are all of the project, without their variables.
func (c *Client) Schedules(ctx context.Context) ([]Schedule, error) {
	to := call{"list pipeline schedules", toSetUp, "pipeline_schedules"}
	listed, err := all[*gitlab.PipelineSchedule](ctx, c, to, url.Values{}, nil)
	if err != nil {
		return nil, err
	}
	out := make([]Schedule, len(listed))
	for i, s := range listed {
		if s == nil || s.ID == 0 || s.Ref == "" || s.Cron == "" {
			return nil, c.unexpected(to, "a schedule lacks its id, ref or time")
		}
		out[i] = Schedule{ID: s.ID, Description: s.Description, Branch: strings.TrimPrefix(s.Ref, "refs/heads/"), Cron: s.Cron, Active: s.Active}
	}
	return out, nil
}

// ScheduleVariable is the value of a schedule's variable, "" for none.
func (c *Client) ScheduleVariable(ctx context.Context, id int64, key string) (string, error) {
	to := call{fmt.Sprintf("read pipeline schedule %d", id), toSetUp, fmt.Sprintf("pipeline_schedules/%d", id)}
	var got gitlab.PipelineSchedule
	if _, err := c.send(ctx, http.MethodGet, to, nil, nil, &got); err != nil {
		return "", err
	}
	if got.ID != id {
		return "", c.unexpected(to, "it is not the schedule that was asked for")
	}
	for _, v := range got.Variables {
		if v != nil && v.Key == key {
			return v.Value, nil
		}
	}
	return "", nil
}

// MakeSchedule makes a schedule and returns its id. The request is sent once.
func (c *Client) MakeSchedule(ctx context.Context, s Schedule) (int64, error) {
	to := call{"make pipeline schedule " + s.Description, toSetUp, "pipeline_schedules"}
	var got gitlab.PipelineSchedule
	body := gitlab.CreatePipelineScheduleOptions{Description: &s.Description, Ref: &s.Branch, Cron: &s.Cron, Active: &s.Active}
	if _, err := c.send(ctx, http.MethodPost, to, nil, body, &got); err != nil {
		return 0, err
	}
	if got.ID == 0 {
		return 0, c.unexpected(to, "a schedule lacks its id")
	}
	return got.ID, nil
}

// SetSchedule changes branch and activity of a schedule.
func (c *Client) SetSchedule(ctx context.Context, s Schedule) error {
	to := call{fmt.Sprintf("change pipeline schedule %d", s.ID), toSetUp, fmt.Sprintf("pipeline_schedules/%d", s.ID)}
	var got gitlab.PipelineSchedule
	body := gitlab.EditPipelineScheduleOptions{Ref: &s.Branch, Active: &s.Active}
	if _, err := c.send(ctx, http.MethodPut, to, nil, body, &got); err != nil {
		return err
	}
	if got.ID != s.ID {
		return c.unexpected(to, "it is not the schedule that was changed")
	}
	return nil
}

// SetScheduleVariable gives a schedule a variable, or changes the one that is
// there.
func (c *Client) SetScheduleVariable(ctx context.Context, id int64, key, value string, there bool) error {
	to := call{fmt.Sprintf("set variable %s of pipeline schedule %d", key, id), toSetUp, fmt.Sprintf("pipeline_schedules/%d/variables", id)}
	method, body := http.MethodPost, any(gitlab.CreatePipelineScheduleVariableOptions{Key: &key, Value: &value})
	if there {
		to.path += "/" + url.PathEscape(key)
		method, body = http.MethodPut, gitlab.EditPipelineScheduleVariableOptions{Value: &value}
	}
	var got gitlab.PipelineVariable
	if _, err := c.send(ctx, method, to, nil, body, &got); err != nil {
		return err
	}
	if got.Key != key || got.Value != value {
		return c.unexpected(to, "it is not the variable that was set")
	}
	return nil
}

// Deployers are who may deploy to a protected environment. One that is not
// protected, or a GitLab below Premium, is a fault of kind NotFound.
func (c *Client) Deployers(ctx context.Context, environment string) ([]Access, error) {
	to := call{"read protected environment " + environment, toSetUp, "protected_environments/" + url.PathEscape(environment)}
	return c.deployers(ctx, http.MethodGet, to, environment, nil)
}

// Protect protects an environment for some, or lets them in besides those who
// may already.
func (c *Client) Protect(ctx context.Context, environment string, who []Access, there bool) error {
	to := call{"protect environment " + environment, toSetUp, "protected_environments"}
	method, body := http.MethodPost, protection{Who: levels(who)}
	if there {
		to.path += "/" + url.PathEscape(environment)
		method = http.MethodPut
	} else {
		body.Name = environment
	}
	_, err := c.deployers(ctx, method, to, environment, body)
	switch providers.KindOf(err) {
	case providers.Denied, providers.NotFound:
		return premium(err)
	}
	return err
}

// premium adds to a refusal what it most often means.
func premium(err error) error {
	f, ok := errors.AsType[*providers.Fault](err)
	if !ok {
		return err
	}
	named := *f
	named.Hint += "; protected environments need GitLab Premium or Ultimate, below that whoever may run the pipeline on the protected branch approves"
	return &named
}

func (c *Client) deployers(ctx context.Context, method string, to call, environment string, body any) ([]Access, error) {
	var got gitlab.ProtectedEnvironment
	if _, err := c.send(ctx, method, to, nil, body, &got); err != nil {
		return nil, err
	}
	if got.Name != environment {
		return nil, c.unexpected(to, fmt.Sprintf("it is of environment %.80q", got.Name))
	}
	out := []Access{}
	for _, a := range got.DeployAccessLevels {
		one := Access{}
		switch {
		case a == nil:
		case a.UserID != 0:
			one.User = a.UserID
		case a.GroupID != 0:
			one.Group = a.GroupID
		default:
			one.Level = int64(a.AccessLevel)
		}
		if one == (Access{}) {
			return nil, c.unexpected(to, "it does not say who may deploy")
		}
		out = append(out, one)
	}
	return out, nil
}

// User finds a person by login name,
// https://docs.gitlab.com/api/users/#list-users.
func (c *Client) User(ctx context.Context, login string) (int64, error) {
	to := call{"find user " + login, toSetUp, "/users"}
	var got []gitlab.User
	if _, err := c.send(ctx, http.MethodGet, to, url.Values{"username": {login}}, nil, &got); err != nil {
		return 0, err
	}
	switch {
	case got == nil:
		return 0, c.unexpected(to, "it is no list")
	case len(got) == 0:
		return 0, c.made(to, providers.NotFound, fmt.Errorf("there is no user %.80q", login))
	case len(got) > 1 || got[0].ID == 0 || !providers.SameName(got[0].Username, login):
		return 0, c.unexpected(to, "it is not the user that was asked for")
	}
	return got[0].ID, nil
}

// UserGroup finds a group by its path,
// https://docs.gitlab.com/api/groups/#get-a-single-group.
func (c *Client) UserGroup(ctx context.Context, path string) (int64, error) {
	to := call{"find group " + path, toSetUp, "/groups/" + url.PathEscape(path)}
	var got gitlab.Group
	if _, err := c.send(ctx, http.MethodGet, to, url.Values{"with_projects": {"false"}}, nil, &got); err != nil {
		return 0, err
	}
	if got.ID == 0 || !providers.SameName(got.FullPath, path) {
		return 0, c.unexpected(to, "it is not the group that was asked for")
	}
	return got.ID, nil
}

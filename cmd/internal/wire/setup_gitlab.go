package wire

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/gitlab"
	"github.com/manent/action/runner/generate"
	"github.com/manent/action/runner/setup"
)

// GitLabSetup reads and writes what pipelines of one project rely on.
type GitLabSetup struct {
	Project string
	client  *gitlab.Client
}

// GitLabSetup opens a project: the named one, the one of the job, or the
// checkout's. It does no I/O at the API.
func (h Host) GitLabSetup(ctx context.Context, named string) (*GitLabSetup, error) {
	base := h.Getenv("CI_API_V4_URL")
	named = cmp.Or(named, h.Getenv("CI_PROJECT_PATH"))
	if named == "" || base == "" {
		found, err := h.origin(ctx)
		if err != nil && named == "" {
			return nil, unnamed("gitlab", "--project PATH", "CI_PROJECT_PATH", err)
		}
		named = cmp.Or(named, found.path)
		base = cmp.Or(base, "https://"+cmp.Or(found.host, "gitlab.com")+"/api/v4")
	}
	if !strings.Contains(named, "/") {
		return nil, unnamed("gitlab", "--project PATH", "CI_PROJECT_PATH", fmt.Errorf("project %.100q, expected GROUP/PROJECT", named))
	}
	token, err := h.personal("gitlab", "the scope api, of somebody with the role Maintainer", "GITLAB_TOKEN")
	if err != nil {
		return nil, err
	}
	client, err := gitlab.New(gitlab.Options{
		Provider: "gitlab", BaseURL: base, Path: named, Token: token, Variable: "GITLAB_TOKEN",
		CAFile: h.Getenv("CI_SERVER_TLS_CA_FILE"), Masks: h.Redactor,
	})
	return &GitLabSetup{Project: named, client: client}, err
}

// roles are what role: may name, with GitLab's levels.
func roles() map[string]int64 {
	return map[string]int64{"developer": 30, "maintainer": 40, "admin": 60}
}

// Approvers finds people, groups and roles: "user:NAME", "group:PATH",
// "role:maintainer".
func (g *GitLabSetup) Approvers(ctx context.Context, named []string) ([]setup.Access, error) {
	var out []setup.Access
	for _, text := range named {
		kind, name, _ := strings.Cut(text, ":")
		one, err := setup.Access{Kind: kind, Name: name}, error(nil)
		switch kind {
		case "user":
			one.ID, err = g.client.User(ctx, name)
		case "group":
			one.ID, err = g.client.UserGroup(ctx, name)
		default:
			one.ID = roles()[name]
		}
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// Read reads what there is of the needs; protected environments only if
// somebody is to be let in.
func (g *GitLabSetup) Read(ctx context.Context, needs generate.GitLabNeeds, approvers []setup.Access) (setup.GitLab, error) {
	project, err := g.client.Project(ctx)
	if err != nil {
		return setup.GitLab{}, err
	}
	out := setup.GitLab{
		Branch: project.Branch, Push: project.Push, NewGroups: project.NewGroups,
		Groups: map[string]string{}, Protected: map[string][]setup.Access{},
	}
	if out.Schedules, err = g.schedules(ctx, project.Branch); err != nil {
		return out, err
	}
	for _, key := range needs.Groups {
		mode, err := g.client.GroupMode(ctx, key)
		switch {
		case err == nil:
			out.Groups[key] = mode
		case providers.KindOf(err) != providers.NotFound: // the project is there, so that the group is not hidden
			return out, err
		}
	}
	for _, e := range needs.Environments {
		if len(approvers) == 0 {
			break
		}
		who, err := g.client.Deployers(ctx, e.Name)
		switch {
		case err == nil:
			out.Protected[e.Name] = accesses(who, approvers)
		case providers.KindOf(err) != providers.NotFound:
			return out, err
		}
	}
	return out, nil
}

// schedules are those that could be the one that is looked for, with its
// variable.
func (g *GitLabSetup) schedules(ctx context.Context, branch string) ([]setup.Schedule, error) {
	listed, err := g.client.Schedules(ctx)
	if err != nil {
		return nil, err
	}
	var out []setup.Schedule
	for _, s := range listed {
		if s.Branch != branch && s.Description != setup.ScheduleName {
			continue
		}
		value, err := g.client.ScheduleVariable(ctx, s.ID, generate.ResumeVariable)
		if err != nil {
			return nil, err
		}
		out = append(out, setup.Schedule{ID: s.ID, Name: s.Description, Branch: s.Branch, Cron: s.Cron, Active: s.Active, Variable: value})
	}
	return out, nil
}

// accesses names those whom the person has named; of others the API gives
// numbers only.
func accesses(who []gitlab.Access, named []setup.Access) []setup.Access {
	var out []setup.Access
	for _, w := range who {
		one := setup.Access{Kind: "user", ID: w.User}
		switch {
		case w.Group != 0:
			one = setup.Access{Kind: "group", ID: w.Group}
		case w.User == 0:
			one = setup.Access{Kind: "role", ID: w.Level}
		}
		one.Name = fmt.Sprintf("#%d", one.ID)
		for name, level := range roles() {
			if one.Kind == "role" && level == one.ID {
				one.Name = name
			}
		}
		for _, n := range named {
			if n.Kind == one.Kind && n.ID == one.ID {
				one.Name = n.Name
			}
		}
		out = append(out, one)
	}
	return out
}

// Writes carry a part out.
func (g *GitLabSetup) Writes(part setup.GitLabPart) []func(context.Context) error {
	one := func(write func(context.Context) error) []func(context.Context) error {
		return []func(context.Context) error{write}
	}
	switch {
	case part.Push:
		return one(func(ctx context.Context) error {
			return g.client.SetPush(ctx, true)
		})
	case part.Group != "":
		return one(func(ctx context.Context) error { return g.client.SetGroupMode(ctx, part.Group, setup.OldestFirst) })
	case part.Schedule != nil:
		return g.scheduleWrites(*part.Schedule, part.Variable)
	case part.Protect != nil:
		return one(func(ctx context.Context) error {
			return g.client.Protect(ctx, part.Protect.Environment, levels(part.Protect.Add), part.Protect.There)
		})
	}
	return nil
}

// scheduleWrites let the schedule run last: without its variable it would
// start a pipeline of everything else.
func (g *GitLabSetup) scheduleWrites(s setup.Schedule, variable setup.Variable) []func(context.Context) error {
	is := gitlab.Schedule{ID: s.ID, Description: s.Name, Branch: s.Branch, Cron: s.Cron}
	var out []func(context.Context) error
	if s.ID == 0 {
		out = append(out, func(ctx context.Context) (err error) {
			is.ID, err = g.client.MakeSchedule(ctx, is)
			return err
		})
	}
	if variable != setup.VariableKept {
		out = append(out, func(ctx context.Context) error {
			return g.client.SetScheduleVariable(ctx, is.ID, generate.ResumeVariable, s.Variable, variable == setup.VariableChanged)
		})
	}
	return append(out, func(ctx context.Context) error {
		is.Active = s.Active
		return g.client.SetSchedule(ctx, is)
	})
}

func levels(who []setup.Access) []gitlab.Access {
	out := make([]gitlab.Access, len(who))
	for i, a := range who {
		switch a.Kind {
		case "user":
			out[i].User = a.ID
		case "group":
			out[i].Group = a.ID
		default:
			out[i].Level = a.ID
		}
	}
	return out
}

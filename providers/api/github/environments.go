package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	gh "github.com/google/go-github/v66/github"

	"github.com/manent/action/providers"
)

// The permissions that environments take. No job's GITHUB_TOKEN can have
// administration or members.
const (
	readMetadata        = "metadata: read"
	readActions         = "actions: read"
	readMembers         = "members: read"
	writeAdministration = "administration: write"
)

// MaxReviewers is how many reviewers an environment can have.
// https://docs.github.com/actions/reference/workflows-and-actions/deployments-and-environments
const MaxReviewers = 6

// Info is what is read of a repository.
type Info struct {
	Branch  string // the default one
	Private bool
}

// Reviewer is a person or a team that may approve.
type Reviewer struct {
	Team bool
	ID   int64
	Name string // login name or slug
}

// Branches says which branches and tags may deploy.
type Branches string

// What an environment may say of them.
const (
	AnyBranch         Branches = ""
	ProtectedBranches Branches = "protected" // all, while the repository protects none
	NamedBranches     Branches = "named"     // those that fit its patterns, none without any
)

// Rules are what an environment demands before a job of it begins. Setting
// them replaces them all.
type Rules struct {
	Wait         int  // minutes
	NoSelfReview bool // who began a run may not approve it
	Reviewers    []Reviewer
	Branches     Branches
	NoBypass     bool // administrators may not pass over the rules
}

// Pattern says which branches or tags may deploy to an environment.
type Pattern struct {
	Name string
	Tag  bool
}

// Repository reads a repository. It takes the permission `metadata: read`.
// API: GET /repos/{owner}/{repo}.
func (c *Client) Repository(ctx context.Context, r Repo) (Info, error) {
	call := call{fmt.Sprintf("repository %s", r), readMetadata}
	var wire gh.Repository
	if err := c.ask(ctx, call, http.MethodGet, "repos/"+r.String(), nil, &wire); err != nil {
		return Info{}, err
	}
	if !providers.SameName(wire.GetFullName(), r.String()) || wire.GetDefaultBranch() == "" || wire.Private == nil {
		return Info{}, c.byPerson(ctx, call, errors.New("the answer is no such repository with a default branch"))
	}
	return Info{Branch: wire.GetDefaultBranch(), Private: wire.GetPrivate()}, nil
}

// Environments are the names of all environments of a repository. A list that
// is shorter than it says is none. It takes the permission `actions: read`.
// API: GET /repos/{owner}/{repo}/environments.
func (c *Client) Environments(ctx context.Context, r Repo) ([]string, error) {
	call := call{fmt.Sprintf("environments of %s", r), readActions}
	total := 0
	all, err := pages(func(page gh.ListOptions) ([]listed, *gh.Response, error) {
		var wire listing
		resp, err := c.request(ctx, http.MethodGet, paged("repos/"+r.String()+"/environments", page), nil, &wire)
		if err == nil && wire.Total == nil {
			err = errNoList
		}
		if err == nil {
			total = max(total, *wire.Total)
		}
		return wire.List, resp, err
	})
	if err == nil && len(all) < total {
		err = fmt.Errorf("the answer lists %d environments and says that there are %d", len(all), total)
	}
	if err != nil {
		return nil, c.byPerson(ctx, call, err)
	}
	out := make([]string, len(all))
	for i, e := range all {
		if e.ID == 0 || e.Name == "" {
			return nil, c.byPerson(ctx, call, errNoID)
		}
		out[i] = e.Name
	}
	return out, nil
}

// paged is the path of one page of a list.
func paged(path string, page gh.ListOptions) string {
	path += fmt.Sprintf("?per_page=%d", page.PerPage)
	if page.Page > 0 {
		path += fmt.Sprintf("&page=%d", page.Page)
	}
	return path
}

// Environment reads the rules of an environment. One that is not there, or that
// the token may not see, is a fault of kind NotFound: Environments tells the
// two apart. It takes the permission `actions: read`.
// API: GET /repos/{owner}/{repo}/environments/{environment_name}.
func (c *Client) Environment(ctx context.Context, r Repo, name string) (Rules, error) {
	call := call{fmt.Sprintf("environment %s of %s", name, r), readActions}
	var wire environment
	if err := c.ask(ctx, call, http.MethodGet, environmentPath(r, name), nil, &wire); err != nil {
		return Rules{}, err
	}
	rules, err := wire.read(name)
	if err != nil {
		return Rules{}, c.byPerson(ctx, call, err)
	}
	return rules, nil
}

// SetEnvironment makes an environment or replaces the rules that it has. What
// GitHub made of it only Environment says: a plan may not know all rules. It
// takes the permission `administration: write`.
// API: PUT /repos/{owner}/{repo}/environments/{environment_name}.
//
// The method of go-github tries again without reviewers when it is refused.
func (c *Client) SetEnvironment(ctx context.Context, r Repo, name string, rules Rules) error {
	call := call{fmt.Sprintf("set environment %s of %s", name, r), writeAdministration}
	var wire environment
	if err := c.ask(ctx, call, http.MethodPut, environmentPath(r, name), settings(rules), &wire); err != nil {
		return err
	}
	if _, err := wire.read(name); err != nil {
		return c.byPerson(ctx, call, err)
	}
	return nil
}

// Patterns reads which branches and tags may deploy to an environment whose
// Branches are NamedBranches. It takes the permission `actions: read`.
// API: GET /repos/{owner}/{repo}/environments/{environment_name}/deployment-branch-policies.
func (c *Client) Patterns(ctx context.Context, r Repo, name string) ([]Pattern, error) {
	call := call{fmt.Sprintf("branches that may deploy to %s of %s", name, r), readActions}
	listed, err := pages(func(page gh.ListOptions) ([]pattern, *gh.Response, error) {
		var wire patterns
		resp, err := c.request(ctx, http.MethodGet, paged(environmentPath(r, name)+"/deployment-branch-policies", page), nil, &wire)
		return wire.List, resp, err
	})
	if err != nil {
		return nil, c.byPerson(ctx, call, err)
	}
	out := make([]Pattern, len(listed))
	for i, p := range listed {
		if p.ID == 0 || p.Name == "" {
			return nil, c.byPerson(ctx, call, errNoID)
		}
		out[i] = Pattern{Name: p.Name, Tag: p.Type == "tag"}
	}
	return out, nil
}

// AddPattern lets branches or tags deploy to an environment; one that may
// already is left as it is. It takes the permission `administration: write`.
// API: POST /repos/{owner}/{repo}/environments/{environment_name}/deployment-branch-policies.
func (c *Client) AddPattern(ctx context.Context, r Repo, name string, p Pattern) error {
	call := call{fmt.Sprintf("let %s deploy to %s of %s", p.Name, name, r), writeAdministration}
	body, made := pattern{Name: p.Name, Type: "branch"}, pattern{}
	if p.Tag {
		body.Type = "tag"
	}
	_, err := c.request(ctx, http.MethodPost, environmentPath(r, name)+"/deployment-branch-policies", body, &made)
	if no := refused(err); no != nil && no.status == http.StatusSeeOther {
		return nil // it is there
	}
	if err == nil && made.ID == 0 {
		err = errNoID
	}
	if err != nil {
		return c.byPerson(ctx, call, err)
	}
	return nil
}

// User finds a person by login name. It takes no permission.
// API: GET /users/{username}.
func (c *Client) User(ctx context.Context, login string) (Reviewer, error) {
	call := call{"user " + login, readMetadata}
	var wire gh.User
	if err := c.ask(ctx, call, http.MethodGet, "users/"+url.PathEscape(login), nil, &wire); err != nil {
		return Reviewer{}, err
	}
	if wire.GetID() == 0 || wire.GetLogin() == "" {
		return Reviewer{}, c.byPerson(ctx, call, errNoID)
	}
	if wire.GetType() != "User" {
		return Reviewer{}, &providers.Fault{
			Provider: name, Op: call.op, Kind: providers.Invalid, Err: fmt.Errorf("it is of the type %.40q, expected a person", wire.GetType()),
			Hint: "a team is team:SLUG",
		}
	}
	return Reviewer{ID: wire.GetID(), Name: wire.GetLogin()}, nil
}

// Team finds a team of an organization by its slug. It takes the permission
// `members: read` of the organization.
// API: GET /orgs/{org}/teams/{team_slug}.
func (c *Client) Team(ctx context.Context, org, slug string) (Reviewer, error) {
	call := call{fmt.Sprintf("team %s of %s", slug, org), readMembers}
	var wire gh.Team
	if err := c.ask(ctx, call, http.MethodGet, fmt.Sprintf("orgs/%s/teams/%s", url.PathEscape(org), url.PathEscape(slug)), nil, &wire); err != nil {
		return Reviewer{}, err
	}
	if wire.GetID() == 0 || wire.GetSlug() == "" {
		return Reviewer{}, c.byPerson(ctx, call, errNoID)
	}
	return Reviewer{Team: true, ID: wire.GetID(), Name: wire.GetSlug()}, nil
}

func environmentPath(r Repo, name string) string {
	return fmt.Sprintf("repos/%s/environments/%s", r, url.PathEscape(name))
}

// ask makes a call whose answer is one object.
func (c *Client) ask(ctx context.Context, call call, method, path string, body, into any) error {
	if _, err := c.request(ctx, method, path, body, into); err != nil {
		return c.byPerson(ctx, call, err)
	}
	return nil
}

func (c *Client) request(ctx context.Context, method, path string, body, into any) (*gh.Response, error) {
	req, err := c.rest.NewRequest(method, path, body)
	if err != nil {
		return nil, err
	}
	return c.rest.Do(ctx, req, into)
}

// byPerson is the fault of a call that no job makes, but a person, or an App
// in a person's place.
func (c *Client) byPerson(ctx context.Context, call call, err error) error {
	made := c.fault(ctx, call, err)
	f, ok := errors.AsType[*providers.Fault](made)
	if !ok {
		return made
	}
	lacks := fmt.Sprintf("the token in GH_TOKEN or GITHUB_TOKEN has to be a person's or an App's with the permission `%s`, which is set with the token"+
		" (Settings > Developer settings) or in the App's settings; a job's own GITHUB_TOKEN cannot have it", call.permission)
	switch no := refused(err); {
	case no == nil || no.limited:
	case no.status == http.StatusUnauthorized:
		f.Hint = "the token in GH_TOKEN or GITHUB_TOKEN is wrong or has expired"
	case no.status == http.StatusForbidden:
		f.Hint = lacks
	case no.status == http.StatusNotFound:
		f.Hint = "either it does not exist, or " + lacks
	case no.status == http.StatusUnprocessableEntity && call.permission == writeAdministration:
		f.Hint = "required reviewers and wait timers need a public repository or GitHub Enterprise, and a reviewer has to be able to read the repository"
	}
	return made
}

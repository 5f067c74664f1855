package github

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/github"
	"github.com/manent/action/providers/ci"
	"github.com/manent/action/state"
)

// Reviews implements ci.Reviews with the reviews of environments that the run
// waited for.
func (p *platform) Reviews(ctx context.Context, run state.RunRef) ([]ci.Review, error) {
	repo, err := github.ParseRepo(run.Repository)
	id, bad := strconv.ParseInt(run.Run, 10, 64)
	if err != nil || bad != nil || id < 1 || run.Platform != name {
		return nil, p.fault("reviews", providers.Invalid, fmt.Errorf("run %.40q of %.100q on %.40q, expected a run of %s", run.Run, run.Repository, run.Platform, name))
	}
	client, err := p.client()
	if err != nil {
		return nil, err
	}
	approvals, err := client.Approvals(ctx, repo, id)
	if err != nil {
		return nil, err
	}
	out := []ci.Review{}
	for _, a := range approvals {
		for _, environment := range a.Environments {
			out = append(out, ci.Review{Environment: environment, State: ci.ReviewState(a.State), Who: a.Who, Comment: a.Comment})
		}
	}
	return out, nil
}

// Track implements ci.Deployments. A rollout's deployment is the one of its
// environment whose task names it, so that any later process finds it again. A
// run other than that of d.URL does not know the commit, and makes none.
func (p *platform) Track(ctx context.Context, d ci.Deployment) error {
	want, err := p.status(d)
	if err != nil {
		return err
	}
	t, err := p.tracker(ctx, d)
	if err != nil {
		return err
	}
	id, err := t.deployment(ctx)
	if err != nil {
		return err
	}
	return t.write(ctx, id, want)
}

// status is what GitHub is to show. Its states have none for a person who is
// asked; the description says it.
func (p *platform) status(d ci.Deployment) (github.Status, error) {
	shown, known := map[ci.DeploymentState]string{
		ci.InProgress: "in_progress", ci.Waiting: "pending", ci.Succeeded: "success", ci.Failed: "failure",
	}[d.State]
	switch {
	case !known:
		return github.Status{}, p.fault("deployment", providers.Invalid, fmt.Errorf("state %.40q, expected in progress, waiting, succeeded or failed", d.State))
	case d.Rollout == "" || d.Environment == "":
		return github.Status{}, p.fault("deployment", providers.Invalid, errors.New("no rollout or no environment is named"))
	}
	if d.URL != "" {
		if _, err := providers.CheckURL(d.URL, true); err != nil {
			return github.Status{}, p.fault("deployment", providers.Invalid, fmt.Errorf("URL of the run: %w", err))
		}
	}
	return github.Status{State: shown, Description: p.line(d.Description), LogURL: d.URL}, nil
}

// line makes one line of a text that GitHub takes as a description.
func (p *platform) line(text string) string {
	return cut(strings.Join(strings.Fields(p.masks.Clean(text)), " "), github.MaxDescription)
}

// tracker is what it takes to find or make one deployment.
type tracker struct {
	client *github.Client
	repo   github.Repo
	new    github.NewDeployment
	absent error // why this run does not make it; nil if it does
}

func (p *platform) tracker(ctx context.Context, d ci.Deployment) (*tracker, error) {
	repo, err := p.repo()
	if err != nil {
		return nil, err
	}
	if from := p.fork(repo); from != "" {
		return nil, &providers.Fault{
			Provider: name, Op: "deployment", Kind: providers.Denied,
			Err:  fmt.Errorf("this run is a pull request from %s, to which GitHub gives no token that may write", from),
			Hint: "roll out from a push, or by workflow_dispatch; no `permissions:` of the workflow change this",
		}
	}
	ref := p.env.Getenv("GITHUB_SHA")
	if ref == "" {
		return nil, p.fault("deployment", providers.Invalid, errors.New("GITHUB_SHA is not set, expected the commit of the run"))
	}
	me, err := p.Identity(ctx)
	if err != nil {
		return nil, err
	}
	var absent error
	if d.URL != "" && d.URL != me.URL {
		absent = &providers.Fault{
			Provider: name, Op: "deployment", Kind: providers.NotFound, Err: fmt.Errorf("rollout %s has none in %s", d.Rollout, d.Environment),
			Hint: "the run that began the rollout makes it, since it knows the commit",
		}
	}
	client, err := p.client()
	return &tracker{client: client, repo: repo, absent: absent, new: github.NewDeployment{
		Ref: ref, Environment: d.Environment, Task: "manent:" + d.Rollout, Description: p.line(d.Description),
		Payload: map[string]string{"rollout": d.Rollout, "version": d.Version},
	}}, err
}

// deployment finds the rollout's deployment or creates it. When nobody can
// say whether it was created, it looks, and does not create it again: the
// next call looks first.
func (t *tracker) deployment(ctx context.Context) (int64, error) {
	id, err := t.find(ctx)
	if err != nil || id != 0 {
		return id, err
	}
	if t.absent != nil {
		return 0, t.absent
	}
	made, err := t.client.CreateDeployment(ctx, t.repo, t.new)
	if !mayHaveLanded(err) {
		return made.ID, err
	}
	if id, lost := t.find(ctx); lost == nil && id != 0 {
		return id, nil
	}
	return 0, err
}

// find returns the id, 0 for none. Of two, made by one call that landed late,
// the first counts.
func (t *tracker) find(ctx context.Context) (int64, error) {
	list, err := t.client.Deployments(ctx, t.repo, t.new.Environment, t.new.Task)
	if err != nil {
		return 0, err
	}
	var id int64
	for _, d := range list {
		if d.Task == t.new.Task && providers.SameName(d.Environment, t.new.Environment) && (id == 0 || d.ID < id) {
			id = d.ID
		}
	}
	return id, nil
}

// write adds the status unless the newest one says it already, and looks when
// nobody can say whether it was added.
func (t *tracker) write(ctx context.Context, id int64, want github.Status) error {
	said, err := t.says(ctx, id, want)
	if err != nil || said {
		return err
	}
	if err = t.client.CreateStatus(ctx, t.repo, id, want); !mayHaveLanded(err) {
		return err
	}
	if said, lost := t.says(ctx, id, want); lost == nil && said {
		return nil
	}
	return err
}

// says reports whether the newest status is the wanted one. It passes over
// inactive ones: GitHub adds them to what a later deployment replaced, and a
// rollout that is told of again must not come back to life.
func (t *tracker) says(ctx context.Context, id int64, want github.Status) (bool, error) {
	list, err := t.client.Statuses(ctx, t.repo, id)
	if err != nil {
		return false, err
	}
	list = slices.DeleteFunc(list, func(s github.Status) bool { return s.State == "inactive" })
	if len(list) == 0 {
		return false, nil
	}
	newest := slices.MaxFunc(list, func(a, b github.Status) int { return cmp.Compare(a.ID, b.ID) })
	want.ID = newest.ID
	return newest == want, nil
}

// mayHaveLanded reports whether a write failed and may have been carried out
// all the same.
func mayHaveLanded(err error) bool {
	return err != nil && (providers.KindOf(err) == providers.Unknown || providers.KindOf(err) == providers.Unavailable)
}

// client makes a client with the token of this job. It does no I/O.
func (p *platform) client() (*github.Client, error) {
	if p.token.Empty() {
		return nil, &providers.Fault{
			Provider: name, Op: "API", Kind: providers.Denied, Err: errors.New("GITHUB_TOKEN is not set"),
			Hint: "pass `GITHUB_TOKEN: ${{ github.token }}` in the env of this step",
		}
	}
	return github.New(github.Options{
		BaseURL: p.getenv("GITHUB_API_URL", github.PublicAPI), Token: p.token, Secrets: &p.masks,
	})
}

// fork is the repository of a pull request that comes from another one, ""
// for any other run. Such a run's token may read only; one of the event
// pull_request_target may write.
func (p *platform) fork(repo github.Repo) string {
	event := p.env.Getenv("GITHUB_EVENT_NAME")
	if !strings.HasPrefix(event, "pull_request") || event == "pull_request_target" {
		return ""
	}
	run, _ := p.action.Context() // what cannot be read is left to GitHub's answer
	if run == nil {
		return ""
	}
	pull, _ := run.Event["pull_request"].(map[string]any)
	head, found := pull["head"].(map[string]any)
	if !found {
		return ""
	}
	from, _ := head["repo"].(map[string]any)
	if full, _ := from["full_name"].(string); !providers.SameName(full, repo.String()) {
		return cmp.Or(full, "a repository that is gone")
	}
	return ""
}

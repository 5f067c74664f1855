package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/ci"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/gate"
	"github.com/manent/action/runner/report"
	"github.com/manent/action/state"
)

const (
	trackLimit = 20 * time.Second // of one deployment
	lateLimit  = 2 * time.Second  // of each read and of tracking, after a signal: the next one ends the process
)

// Names of platforms that are told less, or more.
const (
	github = "github" // hands a value on as it is
	shell  = "local"  // a person sees the messages themselves
	gitlab = "gitlab" // its generated pipeline has a job whose deployment it is
)

// trackVariable says whether a rollout is shown as a deployment of the
// platform: 1 or 0. Without it GitHub shows one and GitLab does not, where a
// job with environment:action:start makes one already.
const trackVariable = "MANENT_TRACK"

// drive is an environment that this call has made an engine for.
type drive struct {
	place  place
	engine *runner.Engine
}

// acting makes a command of a function that acts on a rollout: what it came to
// is shown on the pipeline's page, too.
func (a *app) acting(cmd *cobra.Command, do func(ctx context.Context, args []string) (view, error)) *cobra.Command {
	return a.verb(cmd, func(ctx context.Context, args []string) (view, error) {
		a.acts = true
		return do(ctx, args)
	})
}

// finish ends a call and returns the exit code. What people and later jobs
// need comes first, then what may take long, then what this process prints, so
// that the last message is the last line.
func (a *app) finish(ctx context.Context, verb string, v view, failed error) int {
	var shown []*state.Document
	var bad error
	if a.acts || failed != nil {
		shown, bad = a.inform(ctx, v, failed)
	}
	if v.Outcome != nil || a.acts {
		a.handOn(a.callJSON(verb, v, endOf(v, failed), failed), v.Rollout)
	}
	if bad = errors.Join(bad, a.track(ctx, shown)); bad != nil {
		a.worry(bad)
	}
	return a.show(verb, v, failed)
}

// lasting is a context for what is still to be said when ctx has ended: it ends
// lateLimit after the signal that ended ctx.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lateLimit, cancel) })
	return out, func() { stop(); cancel() }
}

// late reads the state document of a call that may have been interrupted.
func (a *app) late(ctx context.Context, p place) (*state.Document, error) {
	ctx, cancel := lasting(ctx)
	defer cancel()
	return a.document(ctx, p)
}

// inform tells the platform how a call ended, and returns the rollouts that it
// is to show as deployments. Nothing of it changes how: what the platform
// refuses is a warning.
func (a *app) inform(ctx context.Context, v view, failed error) (shown []*state.Document, err error) {
	defer defect(&err)
	a.screen.done()
	if len(a.drives) > 0 && a.drives[0].engine.DryRun {
		return nil, nil
	}
	p, err := a.platform()
	if err != nil {
		return nil, nil // nobody to tell; the call has said so
	}
	me := a.me
	if me.Platform == "" {
		if me, err = p.Identity(ctx); err != nil {
			return nil, nil // the same: no call acts without
		}
		a.me = me
	}
	if me.Platform == shell && a.getenv("MANENT_SUMMARY") == "" {
		return nil, nil
	}
	shown, err = a.present(ctx, p, me, failed)
	if me.Platform == shell {
		return shown, err
	}
	return shown, errors.Join(a.annotate(p, v, failed), err) // what to press is known now
}

// annotate says what somebody has to do something about.
func (a *app) annotate(p ci.Platform, v view, failed error) error {
	end := endOf(v, failed)
	asked := failed == nil && v.Outcome != nil && v.Outcome.Result == runner.Approval
	level := levelOf(end.Code, asked)
	if level == "" {
		return nil
	}
	message := word(end.Code) + ": " + end.Message
	if problems, ok := errors.AsType[*problemsError](failed); ok {
		for _, problem := range problems.problems {
			message += "\n" + problem.String()
		}
	}
	if end.Hint != "" {
		message += "\nhint: " + a.runnable(a.remedy(end.Hint))
	}
	return p.Annotate(level, a.redactor.Clean(message))
}

// levelOf is how loudly an ending is shown, "" for not at all: a wait is no
// news, but for an approval that has just been asked for.
func levelOf(code int, asked bool) string {
	switch {
	case code == exitDone || code == exitNotYet && !asked:
		return ""
	case code == exitNotYet:
		return "notice"
	case code == exitPaused:
		return "warning"
	}
	return "error"
}

// present shows the environments that the call was about, as they are now, and
// returns those to be shown as deployments as well.
func (a *app) present(ctx context.Context, p ci.Platform, me state.RunRef, failed error) (shown []*state.Document, err error) {
	ctx, cancel := lasting(ctx)
	defer cancel()
	var bad []error
	var pages []string
	for _, d := range a.drives {
		doc, err := a.document(ctx, d.place)
		if err != nil {
			bad = append(bad, fmt.Errorf("summary of %s: %w", d.place.key, err))
			continue
		}
		if len(a.drives) == 1 {
			a.told = doc.Rollout
		}
		seen, err := decided(ctx, d.place, doc.Rollout)
		bad = append(bad, err)
		pages = append(pages, a.page(doc, seen))
		if a.tracks(me, doc.Rollout, failed) {
			shown = append(shown, doc)
		}
	}
	if len(pages) > 0 {
		bad = append(bad, p.Summary(strings.Join(pages, "\n")))
	}
	return shown, errors.Join(bad...)
}

// page is the summary of one environment, with commands that work as printed.
func (a *app) page(doc *state.Document, seen *gate.Record) string {
	next := a.next(doc)
	next.Ways = a.waysTo(next.Commands)
	if r := doc.Rollout; r != nil && r.Failure != nil {
		r.Failure.Remedy = a.runnable(r.Failure.Remedy)
	}
	for i, command := range next.Commands {
		next.Commands[i] = a.runnable(command)
	}
	return report.Summary(report.Status{Document: doc, Next: next}, seen, a.now().UTC(), a.redactor.Clean)
}

// decided is the reading that failed the rollout, as stored; nil for none.
func decided(ctx context.Context, p place, r *state.Rollout) (*gate.Record, error) {
	stage, reading := report.Deciding(r)
	if reading == nil || reading.Object == "" {
		return nil, nil
	}
	one, err := fetchReading(ctx, p, stage.Name, *reading)
	if err != nil {
		return nil, fmt.Errorf("summary of %s: %w", p.key, err)
	}
	return &one.Record, nil
}

// tracks reports whether a rollout is this call's to show as a deployment:
// not where another one's was in the way, nor one of another repository.
func (a *app) tracks(me state.RunRef, r *state.Rollout, failed error) bool {
	wanted := a.getenv(trackVariable)
	if r == nil || wanted == "0" || wanted != "1" && me.Platform == gitlab {
		return false
	}
	_, held := errors.AsType[*runner.HeldError](failed)
	return !held && r.Owner.Platform == me.Platform && r.Owner.Repository == me.Repository
}

// track tells a platform that shows deployments how rollouts stand, each in
// trackLimit, and no more of them after a signal.
func (a *app) track(ctx context.Context, shown []*state.Document) (err error) {
	defer defect(&err)
	shows, ok := a.pipeline.(ci.Deployments)
	if !ok {
		return nil
	}
	late, cancel := lasting(ctx)
	defer cancel()
	var bad []error
	for _, doc := range shown {
		if ctx.Err() != nil {
			break
		}
		bad = append(bad, trackOne(late, shows, deployment(doc)))
	}
	return errors.Join(bad...)
}

func trackOne(ctx context.Context, shows ci.Deployments, d ci.Deployment) error {
	ctx, cancel := context.WithTimeout(ctx, trackLimit)
	defer cancel()
	return shows.Track(ctx, d)
}

// deployment is a rollout as a platform shows it. Its environment there is
// "<application>-<environment>": the environment's own name is that of the
// jobs that roll out, and the platform makes a deployment for each of them.
func deployment(doc *state.Document) ci.Deployment {
	r := doc.Rollout
	_, name, _ := strings.Cut(doc.Key, "/")
	return ci.Deployment{
		Rollout: r.ID, Began: r.Started, Version: r.Version, URL: r.Owner.URL,
		Environment: strings.ReplaceAll(name, "/", "-"),
		State:       deploymentState(r.Status), Description: report.StatusLine(doc),
	}
}

func deploymentState(s state.Status) ci.DeploymentState {
	switch s {
	case state.Completed:
		return ci.Succeeded
	case state.Returned, state.Stopped:
		return ci.Failed
	case state.Waiting, state.Paused, state.Drifted:
		return ci.Waiting
	}
	return ci.InProgress
}

// worry writes each of several warnings to stderr, with what to do about it.
func (a *app) worry(err error) {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range all.Unwrap() {
			a.worry(one)
		}
		return
	}
	a.complain("manent: warning: "+err.Error(), providers.HintOf(err))
}

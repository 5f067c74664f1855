package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/ci"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/generate"
	"github.com/manent/action/runner/plan"
	"github.com/manent/action/state"
)

// settle is the return job of a pipeline: it acts on the rollout of its own
// run, and only where the way in which the run's jobs ended asks for it.
func (a *app) settle(ctx context.Context, f wordFlags) (view, error) {
	switch {
	case f.after != "cancelled" && f.after != "failure":
		return view{}, usage("expected cancelled or failure", "--after %s: no result of a job", f.after)
	case f.which != which{owner: self, version: f.version}:
		return view{}, usage("add --owner self, and leave --rollout and --attempt out", "--after acts on the rollout of its own run only")
	}
	p, e, doc, err := a.mine(ctx)
	if err != nil {
		return view{}, err
	}
	e.DryRun, e.NoWait = f.dryRun, f.noWait
	ended := runner.Ended{Owner: e.World.Process.Owner, Cancelled: f.after == "cancelled"}
	var cfg config.Config
	if r := doc.Rollout; r != nil && r.Owner.Same(ended.Owner) {
		if cfg, err = config.Unpin(r.Config); err != nil {
			return view{}, &runner.UnsureError{Err: err}
		}
		if err := a.rejected(ctx, cfg.Environment, r, &ended, &f); err != nil {
			return view{}, err
		}
	}
	s := runner.Settle(doc, cfg, ended, a.now().UTC())
	if !s.Back {
		return view{Outcome: &s.Outcome, Rollout: doc.Rollout}, nil
	}
	return a.settleBack(ctx, p, e, doc.Rollout, s, f)
}

// mine is the environment of the flags, whoever holds it.
func (a *app) mine(ctx context.Context) (place, *runner.Engine, *state.Document, error) {
	p, err := a.place(ctx)
	if err != nil {
		return p, nil, nil, err
	}
	e, err := a.engine(ctx, p)
	if err != nil {
		return p, e, nil, err
	}
	doc, err := a.document(ctx, p)
	return p, e, doc, err
}

// settleBack records why, if nobody has, and drives the return to its end.
func (a *app) settleBack(ctx context.Context, p place, e *runner.Engine, r *state.Rollout, s runner.Settlement, f wordFlags) (view, error) {
	e.Only = r.ID
	word := runner.Word{Verb: s.Verb, Rollout: r.ID, Pause: s.Pause, Who: f.who, Reason: f.reason, From: origin(e)}
	if word.Who == "" {
		word.Who = e.World.Process.Owner.Actor
	}
	if word.Reason == "" && s.Verb == "revert" {
		word.Reason = "the pipeline's job was cancelled"
	}
	if s.Verb != "" {
		if err := e.Decide(ctx, word); err != nil {
			return view{}, err
		}
	}
	if f.dryRun {
		return a.acted(ctx, p, true, runner.Outcome{Result: runner.Progress, Message: "would return all traffic to stable"}, nil)
	}
	out, err := e.Back(ctx)
	if err != nil {
		return view{}, a.replacedOr(ctx, p, r.ID, err)
	}
	doc, err := a.late(ctx, p)
	if err != nil {
		return view{}, unreturned(err)
	}
	return view{Outcome: &out, Rollout: doc.Rollout}, nil
}

// replacedOr is the ending of a return that was not driven to its end: if the
// environment is another rollout's by now, this one has ended without it.
func (a *app) replacedOr(ctx context.Context, p place, rollout string, err error) error {
	doc, bad := a.late(ctx, p)
	if _, held := errors.AsType[*runner.HeldError](err); held && bad == nil && doc.Rollout != nil && doc.Rollout.ID != rollout {
		return err
	}
	return unreturned(err)
}

// given says that an approval of the plan has been given, "" when it has not
// been. After a review it is the reviewers' yes that counts: somebody else's is
// none.
func given(r *state.Rollout, f wordFlags) string {
	by := runner.Given(f.pause, r)
	if r.Pause != nil && r.Pause.Step == f.pause {
		by = ""
		for _, d := range r.Decisions {
			if d.Verb == "approve" && d.Pause == r.Pause.ID && d.Attempt == r.Attempt {
				by = d.Who
			}
		}
	}
	over := r.Status.Terminal() || r.Status == state.Returning // and nothing is opened any more
	if by == "" || f.review != "" && (by != f.who || f.noes > runner.Noes(r, f.pause)) && !over {
		return ""
	}
	return "approved by " + by + " before, nothing to do"
}

// needless says that a rollout has no such approval, "" when it has.
func (a *app) needless(r *state.Rollout, step string) string {
	cfg, err := config.Unpin(r.Config)
	if err != nil {
		return "" // whatever is asked next says so
	}
	if s, ok := plan.Build(cfg, a.host.Catalog()).Find(step); ok && s.Kind == plan.Approval && !runner.Applies(s, r) {
		return "a first release has no such stage, nothing to approve"
	}
	return ""
}

// reviewed takes who approved, and why, from the platform's review of the
// environment in front of this job. An environment without reviewers lets its
// job through unasked, which is no approval. The platform lists the reviews of
// all attempts of the run: the last word counts.
func (a *app) reviewed(ctx context.Context, run state.RunRef, version string, f *wordFlags) error {
	all, ok, err := a.reviews(ctx, run)
	if err != nil {
		return err
	}
	if !ok {
		return usage("leave --review out", "the platform %s asks nobody for a review", run.Platform)
	}
	no, yes := pick(all, f.review, ci.Rejected), pick(all, f.review, ci.Approved)
	if found := lastWord(all, f.review); len(found) > 0 {
		f.who, f.reason, f.noes = names(found), firstOf(f.reason, found[0].Comment), len(no)
		return nil
	}
	if len(yes) > 0 {
		return &exitError{ending: ending{
			Code:    exitPaused,
			Message: fmt.Sprintf("the last review of environment %s in run %s is a no, by %s: what was approved before it does not count", f.review, run.Run, no[len(no)-1].Who),
			Hint:    "re-run the failed jobs, which asks the reviewers again; `manent reject --version " + version + "` returns all traffic",
		}}
	}
	return &exitError{ending: ending{
		Code:    exitPaused,
		Message: fmt.Sprintf("nobody has reviewed environment %s in run %s: it has no required reviewers, so the job was not held", f.review, run.Run),
		Hint:    "set required reviewers for environment " + f.review + " and re-run the failed jobs, which then asks them, or use `manent generate github --mode dispatch`; `manent reject --version " + version + "` returns all traffic",
	}}
}

// rejected asks the platform whether a person said no to the open approval.
func (a *app) rejected(ctx context.Context, environment string, r *state.Rollout, ended *runner.Ended, f *wordFlags) error {
	if !f.reviews || r.Pause == nil || r.Pause.Kind != state.PauseApproval {
		return nil
	}
	all, _, err := a.reviews(ctx, ended.Owner)
	if err != nil && ended.Cancelled {
		a.warn(err) // a cancelled run needs no review to be returned
	} else if err != nil {
		return err
	}
	found := pick(all, generate.ReviewEnvironment(environment, r.Pause.Step), ci.Rejected)
	if before := runner.Noes(r, r.Pause.Step); len(found) > before { // those of before a yes are answered by it
		found = found[before:]
		ended.Rejected = true
		f.who, f.reason = names(found), firstOf(f.reason, found[0].Comment)
	}
	return nil
}

// reviews are what people said in this run; not ok when the platform has none.
func (a *app) reviews(ctx context.Context, run state.RunRef) ([]ci.Review, bool, error) {
	p, err := a.platform()
	if err != nil {
		return nil, false, err
	}
	asks, ok := p.(ci.Reviews)
	if !ok {
		return nil, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, runner.CallLimit)
	defer cancel()
	all, err := asks.Reviews(ctx, run)
	if err != nil {
		return nil, true, &runner.UnsureError{Step: "reviews of run " + run.Run, Err: err}
	}
	return all, true, nil
}

// pick returns the reviews of an environment that say so.
func pick(all []ci.Review, environment string, says ci.ReviewState) []ci.Review {
	var out []ci.Review
	for _, one := range all {
		if providers.SameName(one.Environment, environment) && one.State == says {
			out = append(out, one)
		}
	}
	return out
}

// lastWord are the approvals of an environment that no rejection came after,
// in the order of the platform's list.
func lastWord(all []ci.Review, environment string) []ci.Review {
	var out []ci.Review
	for _, one := range all {
		switch {
		case !strings.EqualFold(one.Environment, environment):
		case one.State == ci.Rejected:
			out = nil
		case one.State == ci.Approved:
			out = append(out, one)
		}
	}
	return out
}

// names are those who have reviewed, each once.
func names(reviews []ci.Review) string {
	var out []string
	for _, one := range reviews {
		if !slices.Contains(out, one.Who) {
			out = append(out, one.Who)
		}
	}
	return strings.Join(out, ", ")
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

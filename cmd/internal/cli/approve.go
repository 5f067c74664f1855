package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/manent/action/runner"
	"github.com/manent/action/runner/report"
	"github.com/manent/action/state"
)

// wordFlags are the flags of approve, reject and revert.
type wordFlags struct {
	which
	pause   string
	seen    string
	reason  string
	who     string
	dryRun  bool
	noWait  bool
	once    bool   // of approve
	review  string // of approve
	noes    int    // reviews before it that said no
	after   string // of revert
	reviews bool   // of revert
}

func (f *wordFlags) flags(cmd *cobra.Command, answers bool) {
	f.which.flags(cmd)
	fs := cmd.Flags()
	fs.StringVar(&f.reason, "reason", "", "why, for the record; MANENT_REASON without it")
	fs.StringVar(&f.who, "who", "", "`NAME` of the person who decides (whoever runs this process)")
	fs.BoolVar(&f.dryRun, "dry-run", false, "check the decision, write nothing")
	if answers {
		fs.StringVar(&f.pause, "pause", "", "`ID` of the pause that is answered, or the step of a planned approval (MANENT_PAUSE without it, or the open one, after asking on a terminal)")
		fs.StringVar(&f.seen, "seen", "", "`DIGEST` of the weights that the decision is about, for a drift; MANENT_SEEN without it")
	}
}

func (a *app) newApprove() *cobra.Command {
	var f wordFlags
	cmd := &cobra.Command{
		Use:   "approve (-c FILE | --state ADDRESS) --version VERSION",
		Short: "answer an open pause with yes",
		Long: `Records a yes to the open pause of a rollout, with who, when and from where. It
does not act: the process that waits goes on, or the next run or resume. A
decision that matches no open pause is refused. After a drift it lets manent
overwrite the weights that --seen names, and no others.

A pipeline's job calls it with --once, so that it may be run again, and with
--review where the platform itself has asked for a review in front of the job:
who gave it is recorded, whoever has approved before, and a job that nobody was
asked about approves nothing and fails.

A planned approval that a pipeline has stopped in front of (run --until
approval@25) is approved by a job of that run: a yes from elsewhere is refused
with 64, so that nobody passes by the platform's reviewers. A no is taken from
everywhere.`,
		Example: "  manent approve -c envconfig/shop/web/prod.yml --version 2.0 --pause approval@25",
	}
	f.flags(cmd, true)
	cmd.Flags().BoolVar(&f.once, "once", false, "end with 0, too, when this planned approval was given before or takes no part in the rollout")
	cmd.Flags().StringVar(&f.review, "review", "", "`ENVIRONMENT` of the pipeline's platform whose review in this run is the yes")
	return a.acting(a.placeFlags(cmd), func(ctx context.Context, _ []string) (view, error) { return a.approve(ctx, f) })
}

func (a *app) approve(ctx context.Context, f wordFlags) (view, error) {
	p, e, doc, err := a.asked(ctx, &f)
	if err != nil {
		return view{}, err
	}
	settled := ""
	if f.once {
		settled = a.needless(doc.Rollout, f.pause)
	}
	if f.review != "" && settled == "" {
		if err := a.reviewed(ctx, e.World.Process.Owner, doc.Rollout.Version, &f); err != nil {
			return view{}, err
		}
	}
	if f.once && settled == "" {
		settled = given(doc.Rollout, f)
	}
	if settled != "" {
		return a.acted(ctx, p, f.dryRun, runner.Outcome{Result: runner.Progress, Step: f.pause, Message: settled}, nil)
	}
	if err := a.decideIn(ctx, "approve", f, e, doc); err != nil {
		return view{}, err
	}
	return a.acted(ctx, p, f.dryRun, runner.Outcome{
		Result: runner.Progress, Step: askedAt(doc.Rollout, f.pause), Message: a.runnable("approved; whoever drives the rollout goes on, else `manent run`"),
	}, nil)
}

// askedAt is the step that was answered: of the open pause, or of an approval
// that was given before.
func askedAt(r *state.Rollout, step string) string {
	if r.Pause == nil {
		return step
	}
	return r.Pause.Step
}

// decide records a person's word about the rollout that the flags name.
func (a *app) decide(ctx context.Context, verb string, f wordFlags) (place, *runner.Engine, error) {
	p, e, doc, err := a.asked(ctx, &f)
	if err != nil {
		return p, e, err
	}
	return p, e, a.decideIn(ctx, verb, f, e, doc)
}

// asked finds the rollout that the flags name, as it is now. What a pipeline
// hands over in the environment, so that it never gets into a script, is used
// where a flag is not given.
func (a *app) asked(ctx context.Context, f *wordFlags) (place, *runner.Engine, *state.Document, error) {
	for name, value := range map[string]*string{"MANENT_PAUSE": &f.pause, "MANENT_SEEN": &f.seen, "MANENT_REASON": &f.reason} {
		if *value == "" {
			*value = a.getenv(name)
		}
	}
	p, e, err := a.named(ctx, f.which)
	if err != nil {
		return p, e, nil, err
	}
	e.DryRun, e.NoWait = f.dryRun, f.noWait
	doc, err := a.document(ctx, p)
	return p, e, doc, err
}

// decideIn records the word about a rollout that has been found.
func (a *app) decideIn(ctx context.Context, verb string, f wordFlags, e *runner.Engine, doc *state.Document) error {
	word := runner.Word{
		Verb: verb, Rollout: e.Only, Attempt: f.attempt, Pause: f.pause, Seen: f.seen, Who: f.who, Reason: f.reason, From: origin(e),
	}
	if word.Who == "" {
		word.Who = e.World.Process.Owner.Actor
	}
	word.Review, word.Noes = f.review != "", f.noes
	if verb == "revert" {
		word.Pause, word.Seen = "", ""
	} else if err := a.question(&word, doc.Rollout); err != nil {
		return err
	}
	return e.Decide(ctx, word)
}

// origin says where a decision comes from.
func origin(e *runner.Engine) string {
	if url := e.World.Process.Owner.URL; url != "" {
		return url
	}
	return e.World.Process.Host
}

// question fills in the pause when it is not named by its id: the step of a
// planned approval names it as well, and on a terminal the open one is shown
// and asked about. A drift decision must name the weights in any case.
func (a *app) question(w *runner.Word, r *state.Rollout) error {
	pause := r.Pause
	if pause == nil {
		return nil // the engine refuses, and says why
	}
	planned := pause.Kind == state.PauseApproval
	if planned && w.Pause == pause.Step {
		w.Pause = pause.ID
	}
	if w.Pause != "" {
		return nil
	}
	commands := report.Answers(r)
	if !a.asks || !planned && w.Seen == "" && pause.Seen != "" {
		return usage("`"+strings.Join(commands, "` or `")+"`", "no pause is named; %s is open: %s", pause.ID, pause.Reason)
	}
	_, _ = fmt.Fprintf(a.stderr, "%s\n%s version %s at %s? [y/N] ", pause.Reason, w.Verb, r.Version, pause.Step)
	answer, _ := bufio.NewReader(a.stdin).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return usage("answer y, or name the pause", "not confirmed, nothing was done")
	}
	w.Pause = pause.ID
	return nil
}

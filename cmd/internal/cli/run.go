package cli

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/plan"
	"github.com/manent/action/state"
)

// runFlags are the flags of run, retry and step.
type runFlags struct {
	version     string
	until       string
	noWait      bool
	maxTime     time.Duration
	handOver    bool
	dryRun      bool
	force       bool
	reconfigure bool
	retry       bool // not a flag: the verb
}

func (a *app) newRun() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run -c FILE --version VERSION",
		Short: "roll a version out, or go on with its rollout",
		Long: `Begins the rollout of a version or goes on with it, step by step, until the
version serves, the rollout has failed and all traffic is back, or a person has
to decide. Kill it anywhere and call it again: it continues from what it finds.

A rollout keeps the configuration that it began with. When the file says
something else by now, run names the keys and goes on with the pinned ones;
--reconfigure adopts the file.

It ends with 2 when a planned approval is open: approve, and call it again. With
--until and its name it ends with 0 once the approval has been asked for.
Later steps of the pipeline get exit, result, step, rollout, version, status and
until as outputs, on the platform "local" in the file MANENT_RESULT. Its page
shows how the rollout stands: on GitHub the job's summary, elsewhere the file
MANENT_SUMMARY. On GitHub the rollout is one deployment, too, in the environment
<application>-<environment>, which needs GITHUB_TOKEN and deployments: write;
MANENT_TRACK=0 turns it off, and MANENT_TRACK=1 on for GitLab, as in the files
that generate gitlab writes.`,
		Example: `  manent run -c envconfig/shop/web/prod.yml --version 2.0
  manent run -c envconfig/shop/web/prod.yml --version 2.0 --until approval@25
  manent run -c envconfig/shop/web/prod.yml --version 2.0 --until 25% --max-time 50m`,
	}
	f.flags(cmd)
	return a.acting(a.placeFlags(cmd), func(ctx context.Context, _ []string) (view, error) { return a.run(ctx, f) })
}

// flags adds those that run and retry share.
func (f *runFlags) flags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.version, "version", "", "`VERSION` to roll out")
	fs.StringVar(&f.until, "until", "", "end with 0 when this `STEP` is next (traffic@25), this approval has been asked for (approval@25), or this stage is done, its gate included (25%)")
	fs.BoolVar(&f.noWait, "no-wait", false, "end instead of waiting")
	fs.DurationVar(&f.maxTime, "max-time", 0, "end instead of waiting past this `TIME` from now, such as 50m")
	fs.BoolVar(&f.handOver, "hand-over", false, "end with 0 when --max-time is over: another job of this run goes on")
	fs.BoolVar(&f.dryRun, "dry-run", false, "read everything, write nothing, print what would be done")
	fs.BoolVar(&f.force, "force", false, "let a run go on that is older than the newest one")
	fs.BoolVar(&f.reconfigure, "reconfigure", false, "adopt the file where it differs from what the rollout began with")
}

func (a *app) run(ctx context.Context, f runFlags) (view, error) {
	if f.handOver && (f.maxTime <= 0 || f.noWait) {
		return view{}, usage("such as --max-time 5h30m --hand-over", "--hand-over needs --max-time, and excludes --no-wait")
	}
	p, doc, err := a.begin(ctx, f)
	if err != nil {
		return view{}, err
	}
	if f.until != "" {
		if err := a.checkUntil(f.until, a.configOf(doc, p, f.version)); err != nil {
			return view{}, err
		}
	}
	e, err := a.engine(ctx, p)
	if err != nil {
		return view{}, err
	}
	e.DryRun, e.NoWait, e.Fresh = f.dryRun, f.noWait, true
	if err := a.compare(ctx, e, doc, p, f); err != nil {
		return view{}, err
	}
	if f.dryRun && !doc.Active() {
		if err := a.preview(ctx, *p.cfg, doc); err != nil {
			return view{}, err
		}
	}
	out, err := e.Run(ctx, f.request(p), runner.RunOptions{Until: f.until, InRun: a.me.Platform != shell, NoWait: f.noWait, MaxTime: f.maxTime, HandOver: f.handOver})
	return a.acted(ctx, p, f.dryRun, out, err)
}

func (f runFlags) request(p place) runner.Request {
	return runner.Request{Version: f.version, Config: *p.cfg, Force: f.force, Retry: f.retry}
}

// begin checks, before anything is touched, all that a run needs: version,
// configuration, state and secrets.
func (a *app) begin(ctx context.Context, f runFlags) (place, *state.Document, error) {
	if f.version == "" {
		return place{}, nil, need("--version VERSION", "no version is named")
	}
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+@:/~-]{0,199}$`).MatchString(f.version) {
		return place{}, nil, usage("such as 2.0, v2.0-rc.1 or sha256:…", "version %q, expected at most 200 letters, digits and . _ + @ : / ~ -, beginning with a letter or digit", f.version)
	}
	if a.file == "" {
		return place{}, nil, need("-c FILE", "no configuration is named")
	}
	p, err := a.place(ctx)
	if err != nil {
		return place{}, nil, err
	}
	doc, err := a.document(ctx, p)
	if err != nil {
		return place{}, nil, err
	}
	return p, doc, beforehand(a.host.Resolve(ctx, a.configOf(doc, p, f.version).Secrets))
}

// configOf is the configuration that counts for a version: the pinned one
// while its rollout is on the way, else the file's.
func (a *app) configOf(d *state.Document, p place, version string) config.Config {
	if d.Active() && d.Rollout.Version == version {
		if cfg, err := config.Unpin(d.Rollout.Config); err == nil {
			return cfg
		}
	}
	return *p.cfg
}

// checkUntil refuses the name of a step that the plan does not have.
func (a *app) checkUntil(until string, cfg config.Config) error {
	var names []string
	for _, s := range plan.Build(cfg, a.host.Catalog()).Steps {
		if s.Name == until || s.Stage == until {
			return nil
		}
		for _, name := range []string{s.Name, s.Stage} {
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return usage("expected one of "+strings.Join(names, ", ")+"; a generated pipeline may be stale, which `manent generate --check` tells", "--until %s: the plan has no such step or stage", until)
}

// compare reports how the file differs from what the rollout has pinned, and
// with --reconfigure adopts it.
func (a *app) compare(ctx context.Context, e *runner.Engine, d *state.Document, p place, f runFlags) error {
	if !d.Active() || d.Rollout.Version != f.version {
		return nil
	}
	pinned, err := config.Unpin(d.Rollout.Config)
	if err != nil {
		return &runner.UnsureError{Err: err}
	}
	file := *p.cfg
	file.State = pinned.State // where the state is found is not the rollout's business
	changed := config.Diff(pinned, file)
	switch {
	case len(changed) == 0:
		return nil
	case f.reconfigure:
		// Another one's rollout is not touched: the call that follows says whose it is.
		if claim, err := f.request(p).Decide(d, e.World.Process.Owner); err != nil || claim != runner.Continue {
			return err
		}
		e.Only = d.Rollout.ID
		if err := e.Reconfigure(ctx, file); err != nil {
			return err
		}
		if !f.dryRun {
			a.screen.say("the file is adopted where it differs: " + strings.Join(changed, ", "))
		}
		return nil
	}
	a.complain("manent: warning: the file differs from what rollout "+d.Rollout.ID+" began with, which counts: "+strings.Join(changed, ", "),
		"--reconfigure adopts the file")
	return nil
}

// acted is the view of a call of the engine.
func (a *app) acted(ctx context.Context, p place, dryRun bool, out runner.Outcome, err error) (view, error) {
	if err != nil {
		if strings.Contains(endingOfError(err).Hint, "`manent ") {
			_, _ = a.late(ctx, p) // what the hint is about: the call may have begun it
		}
		return view{}, a.interrupted(ctx, p, err)
	}
	if dryRun && out.Result == runner.NotYet {
		out.Result = runner.Progress // saying what would be done is all that was asked
	}
	v := view{Outcome: &out}
	if !a.json && !strings.Contains(out.Remedy, "`manent ") {
		return v, nil
	}
	if doc, err := a.late(ctx, p); err == nil && a.json {
		v.Rollout = doc.Rollout
	}
	return v, nil
}

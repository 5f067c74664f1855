package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/manent/action/providers"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

// The outcomes of a check.
const (
	checkOK   = "ok"
	checkWarn = "warn"
	checkFail = "fail"
)

// checkJSON is one check of doctor.
type checkJSON struct {
	Name   string `json:"name"`           // what was looked at
	Status string `json:"status"`         // ok, warn or fail
	Text   string `json:"text"`           // what was found
	Hint   string `json:"hint,omitempty"` // what to do
}

// doctorJSON is the document of `manent doctor --json`.
type doctorJSON struct {
	Healthy bool        `json:"healthy"` // no check failed
	Checks  []checkJSON `json:"checks"`  // in the order in which they were made
}

// checks collects what doctor finds.
type checks struct{ list []checkJSON }

func (c *checks) ok(name, format string, args ...any) {
	c.list = append(c.list, checkJSON{Name: name, Status: checkOK, Text: fmt.Sprintf(format, args...)})
}

func (c *checks) warn(name, hint, format string, args ...any) {
	c.list = append(c.list, checkJSON{Name: name, Status: checkWarn, Text: fmt.Sprintf(format, args...), Hint: hint})
}

func (c *checks) fail(name, hint, format string, args ...any) {
	c.list = append(c.list, checkJSON{Name: name, Status: checkFail, Text: fmt.Sprintf(format, args...), Hint: hint})
}

// broke is a check that ended in an error.
func (c *checks) broke(name string, err error) {
	c.fail(name, providers.HintOf(err), "%v", err)
}

func (c *checks) failed() int {
	n := 0
	for _, one := range c.list {
		if one.Status == checkFail {
			n++
		}
	}
	return n
}

func (a *app) newDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor (-c FILE | --state ADDRESS)",
		Short: "check that everything a rollout needs is there and does what it must",
		Long: `Looks at everything before any traffic moves: the configuration, every secret,
the state (can it be read, and does it refuse a write from an old revision?),
the clock, the router (who serves, foreign entries, can it give every share,
does it refuse a stale write?), the metric systems (does each accept each
query?) and whatever deploys. It changes nothing but one small document of its
own in the state, under the key manent/probe/doctor.

A plugin external is put through the cases of the protocol's conformance that
change nothing. --exercise runs the others too: they deploy the version
manent-conformance into the slot without traffic, scale it, move all traffic to
it and back, and retire it. Use it where nobody is served. It runs only when no
rollout is active, under the lock that keeps one from beginning meanwhile, and
not as long as revert could still go back.

With only --state it checks the state. It ends with 0 when no check failed,
else with 1.`,
		Example: `  manent doctor -c envconfig/shop/web/prod.yml
  manent doctor --state file:./state`,
	}
	exercise := cmd.Flags().Bool("exercise", false, "deploy with a plugin external, and move all traffic to it and back")
	return a.verb(a.placeFlags(cmd), func(ctx context.Context, _ []string) (view, error) { return a.doctor(ctx, *exercise) })
}

func (a *app) doctor(ctx context.Context, exercise bool) (view, error) {
	if a.file == "" && a.state == "" {
		return view{}, need("-c FILE or --state ADDRESS", "no environment is named")
	}
	var c checks
	if a.file == "" {
		a.checkStore(ctx, &c, a.state)
		return doctorView(c)
	}
	cfg, usable := a.checkConfig(&c)
	if usable {
		a.checkSecrets(ctx, &c, cfg)
		doc := a.checkStore(ctx, &c, cfg.State, cfg.Key())
		a.checkWorld(ctx, &c, cfg, doc)
		a.checkExternal(ctx, &c, cfg, doc, exercise)
	}
	if ctx.Err() != nil {
		return view{}, ctx.Err()
	}
	return doctorView(c)
}

func doctorView(c checks) (view, error) {
	var b strings.Builder
	for _, one := range c.list {
		fmt.Fprintf(&b, "%-4s  %s: %s\n", one.Status, one.Name, one.Text)
		if one.Hint != "" {
			fmt.Fprintf(&b, "      hint: %s\n", one.Hint)
		}
	}
	v := view{JSON: doctorJSON{Healthy: c.failed() == 0, Checks: c.list}, Text: b.String()}
	if n := c.failed(); n > 0 {
		v.Outcome = &runner.Outcome{Result: runner.Failure, Message: fmt.Sprintf("%d of %d checks failed", n, len(c.list))}
	}
	return v, nil
}

// checkConfig reads the configuration. usable is false when nothing else can
// be looked at.
func (a *app) checkConfig(c *checks) (cfg config.Config, usable bool) {
	cfg, problems := config.Load(config.Options{
		File: a.file, Descriptor: a.descriptorFile(), State: a.state, Catalog: a.host.Catalog(),
	})
	for _, p := range problems {
		if p.Severity == config.Warning {
			c.warn("configuration", p.Hint, "%s", p.String())
		} else {
			c.fail("configuration", p.Hint, "%s", p.String())
		}
	}
	if problems.Err() != nil {
		return cfg, false
	}
	c.ok("configuration", "%s is valid, for %s", a.file, cfg.Key())
	return cfg, true
}

func (a *app) checkSecrets(ctx context.Context, c *checks, cfg config.Config) {
	for _, s := range cfg.Secrets {
		if err := a.host.Resolve(ctx, []config.Secret{s}); err != nil {
			c.broke("secret "+s.Name, err)
		} else {
			c.ok("secret "+s.Name, "%s has a value", s.Ref)
		}
	}
}

// slotsOf is what the document knows to be in the slots.
func slotsOf(doc *state.Document) state.Slots {
	if doc == nil || len(doc.Passes) == 0 {
		return state.Slots{}
	}
	return doc.Passes[0].Slots
}

// limited bounds one call of a check.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, runner.CallLimit, errors.New("no answer within the time that a rollout waits for one"))
}

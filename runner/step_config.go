package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/manent/action/providers/metric"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/gate"
	"github.com/manent/action/runner/plan"
	"github.com/manent/action/state"
)

// health is the gate's configuration.
func (c *call) health() config.Health { return c.cfg.Rollout.Health }

// stepConfig looks at everything the rollout will need before any traffic
// moves: the router answers and reaches every share, whoever deploys and
// scales is there, the metric systems accept the queries. A definite no fails
// the rollout here, with nothing touched.
func stepConfig(ctx context.Context, c *call) (result, error) {
	if !c.deploys() {
		return failed("nothing deploys the candidate: no plugin, no command with `at: deploy`",
			"add a command with `at: deploy` to steps, or a plugin"), nil
	}
	for _, p := range c.plan.Passes {
		one := &call{session: c.session, step: plan.Step{Name: c.step.Name, Kind: c.step.Kind, Pass: p.Name}, pass: c.doc.Pass(p.Name), now: c.now}
		if res, err := one.preflight(ctx); err != nil || res.state != "" {
			return res, err
		}
	}
	if res, err := c.refusedQueries(ctx); err != nil || res.state != "" {
		return res, err
	}
	return done("router, plugin and metric systems answer; configuration %.12s is pinned", c.doc.Rollout.Digest), nil
}

func (c *call) deploys() bool {
	if len(c.deployCommands()) > 0 {
		return true
	}
	for _, p := range c.plan.Passes {
		if c.e.World.Plugin(p.Name).Deployer == nil {
			return false
		}
	}
	return len(c.plan.Passes) > 0
}

// preflight looks at one pass's router and plugin.
func (c *call) preflight(ctx context.Context) (result, error) {
	r := c.router()
	if r == nil {
		return failed("no router: neither traffic.router nor the plugin moves traffic", "add traffic.router to the environment's file"), nil
	}
	if _, ok := r.(router.Targeter); !ok && c.cfg.Rollout.Traffic.Testers != nil {
		return failed("the router cannot send testers to a slot", "leave out rollout.traffic.testers"), nil
	}
	if c.cfg.Rollout.Traffic.Replicas == "proportional" && c.bundle().Scaler == nil {
		return failed("replicas: proportional, but the plugin cannot scale a slot", "leave out rollout.traffic.replicas"), nil
	}
	if check := c.bundle().Check; check != nil {
		one, cancel := limit(ctx)
		err := check(one)
		cancel()
		if err != nil {
			return orFailed(err)
		}
	}
	seen, err := c.read(ctx)
	if err != nil {
		return orFailed(err)
	}
	one, cancel := limit(ctx)
	_, err = r.Settled(one, seen.Weights(), nil)
	cancel()
	if err != nil {
		return orFailed(fmt.Errorf("see the present weights in force: %w", err))
	}
	if check := c.bundle().CheckSlot; check != nil {
		one, cancel := limit(ctx)
		err := check(one, freeSlot(seen))
		cancel()
		if err != nil {
			return orFailed(err)
		}
	}
	for _, share := range c.cfg.Rollout.Traffic.Steps {
		got, err := c.planAny(share, seen)
		if err != nil {
			return orFailed(fmt.Errorf("share %s: %w", router.PercentText(share), err))
		}
		if config.FarAbove(got, share) {
			c.e.World.Say(fmt.Sprintf("share %s will be %s: the router has no smaller weights for these servers", router.PercentText(share), router.PercentText(got)))
		}
	}
	return result{}, nil
}

// planAny says what a share really gives before a slot is claimed, for the
// slot that does not serve and need not be up yet.
func (c *call) planAny(share float64, seen router.Reading) (float64, error) {
	p, ok := c.router().(router.Planner)
	if !ok {
		return share, nil
	}
	serving, _ := whoServes(seen)
	seen.Approved = c.named(seen) || serving == "" // a slot that serves nothing holds nobody's weights
	_, got, err := p.Plan(freeSlot(seen), share, c.cfg.Tolerance(share), seen.Whole())
	return got, err
}

// freeSlot is the slot that does not serve, a when none does.
func freeSlot(seen router.Reading) state.Slot {
	if serving, _ := whoServes(seen); serving != "" {
		return serving.Other()
	}
	return state.SlotA
}

// refusedQueries asks every query once. Data need not be there yet; a query
// that is refused fails here, and a metric system that does not answer keeps
// the rollout from beginning with its eyes closed.
func (c *call) refusedQueries(ctx context.Context) (result, error) {
	subject := gate.Subject{
		Vars: map[string]string{
			"project": c.cfg.Project, "application": c.cfg.Application, "environment": c.cfg.Environment,
			"wave": "", "version": c.doc.Rollout.Version,
		},
		Candidate: "b", Share: 50, Now: c.now, Systems: c.e.World.Systems,
	}
	subject.InForce = c.now.Add(-gate.Trial(c.health(), subject))
	questions, problems := gate.Ask(c.health(), subject)
	for _, err := range problems {
		return failed(err.Error(), "correct the query in rollout.health.metrics"), nil
	}
	for id, a := range c.ask(ctx, questions) {
		switch {
		case a.Err == nil || errors.Is(a.Err, metric.ErrNoData):
		case errors.Is(a.Err, metric.ErrSeveral):
			return failed(fmt.Sprintf("query %s: %v", id, a.Err), "make it one series, such as with sum(…)"), nil
		case definite(a.Err):
			return failed(fmt.Sprintf("query %s is refused: %v", id, a.Err), "correct the query in rollout.health.metrics"), nil
		default:
			return result{}, fmt.Errorf("query %s: %w", id, a.Err)
		}
	}
	return result{}, nil
}

// stepSecrets resolves every secret once, so that a missing one is found now.
func stepSecrets(ctx context.Context, c *call) (result, error) {
	if err := c.e.World.Secrets(ctx); err != nil {
		return orFailed(err)
	}
	return done("%d secrets resolved", len(c.cfg.Secrets)), nil
}

// callFor is what the plugin is told about a slot.
func (c *call) callFor(slot state.Slot) plugin.Call {
	return plugin.Call{
		Slot: slot, Release: c.pass.Slots.Get(slot), StepID: c.record().ID, Vars: c.vars(), Output: c.e.World.Say,
		Gradual: c.cfg.Rollout.Traffic.Replicas == "proportional" && !c.doc.Rollout.First, // a first release may have all weight already
	}
}

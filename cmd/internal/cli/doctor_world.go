package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/manent/action/providers/metric"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/gate"
	"github.com/manent/action/state"
)

// checkWorld looks at everything that a rollout touches.
func (a *app) checkWorld(ctx context.Context, c *checks, cfg config.Config, doc *state.Document) {
	w, err := a.host.Connect(runner.World{}, cfg)
	if err != nil {
		c.broke("providers", err)
		return
	}
	checkDeployer(c, cfg, w)
	checkFindings(ctx, c, cfg.Plugin.Name, w)
	if cfg.Rollout.Strategy == "traffic" {
		checkRouter(ctx, c, cfg, w, doc)
	}
	a.checkQueries(ctx, c, cfg, w)
}

func checkDeployer(c *checks, cfg config.Config, w runner.World) {
	own := slices.ContainsFunc(cfg.Steps, func(s config.Command) bool { return s.At == "deploy" })
	switch {
	case w.Plugin("").Deployer != nil:
		c.ok("deploy", "plugin %s deploys", cfg.Plugin.Name)
	case own:
		c.ok("deploy", "your own step deploys")
	default:
		c.fail("deploy", "name a plugin, or add a step with `at: deploy`", "nothing deploys the new version")
	}
}

// checkFindings shows what the plugin has to say by itself.
func checkFindings(ctx context.Context, c *checks, plugin string, w runner.World) {
	find := w.Plugin("").Findings
	if find == nil {
		return
	}
	one, cancel := limited(ctx)
	defer cancel()
	for _, f := range find(one) {
		name := plugin + " " + f.Name
		switch {
		case f.Err != nil:
			c.broke(name, f.Err)
		case f.Warn:
			c.warn(name, f.Hint, "%s", f.Text)
		default:
			c.ok(name, "%s", strings.ReplaceAll(f.Text, "\n", "\n      "))
		}
	}
}

// checkRouter reads the router and asks it for every share of the plan.
func checkRouter(ctx context.Context, c *checks, cfg config.Config, w runner.World, doc *state.Document) {
	r := w.Router("")
	if r == nil {
		c.fail("router", "add traffic.router", "neither traffic.router nor the plugin moves traffic")
		return
	}
	one, cancel := limited(ctx)
	defer cancel()
	seen, err := r.Read(one, slotsOf(doc))
	if err == nil {
		err = seen.Err()
	}
	checkOthers(c, cfg, w.Traits.Notes, seen)
	if err != nil {
		c.broke("router", err)
		return
	}
	for _, p := range seen.Parts {
		checkPart(c, p)
	}
	if seen.Testers && (doc == nil || !doc.Active()) {
		c.warn("router", "take it away; a rollout refuses a slot that testers reach", "the testers' entry is in place although no rollout is on its way")
	}
	checkInForce(ctx, c, r, seen)
	checkWeights(c, doc, seen)
	checkShares(c, cfg, r, seen)
	if w.Traits.Conditional {
		c.ok("stale write", "by its interface the router refuses a write based on old weights")
	} else {
		c.warn("stale write", "let nobody else change the weights during a rollout", "the router takes any write: weights are read, compared, written and read again, and a change in between is overwritten")
	}
}

// checkInForce asks the data plane: weights that are stored need not be served.
func checkInForce(ctx context.Context, c *checks, r router.Router, seen router.Reading) {
	one, cancel := limited(ctx)
	defer cancel()
	settled, err := r.Settled(one, seen.Weights(), nil)
	switch {
	case err != nil:
		c.broke("in force", err)
	case !settled:
		c.warn("in force", "look again in a moment; reload it if it stays", "the router has the weights, its data plane does not serve them yet")
	default:
		c.ok("in force", "the data plane serves these weights")
	}
}

func checkPart(c *checks, p router.Part) {
	text := partText(p)
	serving := ""
	for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
		if up, known := p.Units[slot]; p.Shares[slot] > 0 && (!known || up > 0) {
			serving += string(slot)
		}
	}
	switch {
	case len(p.Foreign) > 0:
		c.fail("router", "a share of ours is not a share of the traffic: take the foreign entries out", "%s; foreign entries with weight: %s", text, router.Text(p.Foreign))
	case p.Pending:
		c.warn("router", "look again in a moment", "%s; accepted, not yet in force", text)
	case serving == "":
		c.warn("router", "if a version serves, bring its slot up first", "%s; no slot with weight has ready capacity: a rollout would be a first release", text)
	default:
		c.ok("router", "%s; slot %s serves", text, strings.Join(strings.Split(serving, ""), " and "))
	}
}

// checkWeights compares the router with what manent last wrote.
func checkWeights(c *checks, doc *state.Document, seen router.Reading) {
	if doc == nil || len(doc.Passes) == 0 || len(doc.Passes[0].Weights) == 0 {
		return
	}
	if !router.SameParts(doc.Passes[0].Weights, seen.Weights()) && !underWay(doc, seen) {
		c.warn("drift", "find out who changed them; a rollout would pause", "the router's weights are not the ones that manent last wrote")
	}
}

// underWay reports whether the weights are those of manent's own unfinished
// write.
func underWay(doc *state.Document, seen router.Reading) bool {
	return doc.Rollout != nil && slices.ContainsFunc(doc.Rollout.Steps, func(step state.Step) bool {
		return step.State == state.Started && step.Intent != nil && seen.Between(step.Intent.From, step.Intent.To)
	})
}

func checkShares(c *checks, cfg config.Config, r router.Router, seen router.Reading) {
	planner, ok := r.(router.Planner)
	if !ok {
		return
	}
	given := make([]string, len(cfg.Rollout.Traffic.Steps))
	for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
		for i, share := range cfg.Rollout.Traffic.Steps {
			_, got, err := planner.Plan(slot, share, cfg.Tolerance(share), seen.Whole())
			if err != nil {
				c.broke("shares", err)
				return
			}
			if given[i] = router.PercentText(share); router.PercentText(got) != given[i] {
				given[i] += " (really " + router.PercentText(got) + ")"
			}
		}
	}
	c.ok("shares", "the router can give %s", strings.Join(given, ", "))
}

// checkQueries asks every query of the gate once, for slot b at 50 %.
func (a *app) checkQueries(ctx context.Context, c *checks, cfg config.Config, w runner.World) {
	now := a.now().UTC()
	subject := gate.Subject{
		Vars: map[string]string{
			"project": cfg.Project, "application": cfg.Application, "environment": cfg.Environment, "wave": "", "version": "doctor",
		},
		Candidate: state.SlotB, Share: 50, Now: now, Systems: w.Systems,
	}
	subject.InForce = now.Add(-gate.Trial(cfg.Rollout.Health, subject))
	questions, problems := gate.Ask(cfg.Rollout.Health, subject)
	for _, err := range problems {
		c.broke("query", err)
	}
	for _, q := range questions {
		one, cancel := limited(ctx)
		answers, err := w.Metrics[q.Provider].Query(one, q.Queries)
		cancel()
		if err != nil {
			c.broke("metrics "+q.Provider, err)
			continue
		}
		for _, answer := range answers {
			checkAnswer(c, q.Provider, answer)
		}
	}
}

func checkAnswer(c *checks, provider string, answer metric.Answer) {
	name := "query " + answer.ID
	switch {
	case errors.Is(answer.Err, metric.ErrNoData):
		c.warn(name, "usual before the first traffic of a slot; otherwise compare the names and labels in it", "%s has no data for %s", provider, answer.Resolved)
	case errors.Is(answer.Err, metric.ErrSeveral):
		c.fail(name, "make it one series, for example with sum(…)", "%s has several series for %s", provider, answer.Resolved)
	case answer.Err != nil:
		c.broke(name, answer.Err)
	case answer.Partial:
		c.warn(name, "ask the system why data are missing", "%s answers in part", provider)
	default:
		c.ok(name, "%s answers with %d points", provider, len(answer.Points))
	}
}

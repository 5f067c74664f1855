package plan

import (
	"slices"

	"github.com/manent/action/runner/config"
)

// Build makes the plan of a configuration that config.Load has filled with its
// defaults. It plans whatever can be planned, also what this build cannot do
// yet: that is validate's to say. It has no warnings: who acts on a plan does
// not read them, and the chance of a false alarm among them is simulated.
func Build(cfg config.Config, cat config.Catalog) Plan { return planned(cfg, cat).plan }

// Warned is Build with the warnings, for people: about 10 ms more for each
// metric with analysis.
func Warned(cfg config.Config, cat config.Catalog) Plan {
	b := planned(cfg, cat)
	b.plan.Warnings = b.warnings()
	return b.plan
}

func planned(cfg config.Config, cat config.Catalog) *builder {
	b := &builder{cfg: cfg, cat: cat, plan: Plan{Strategy: cfg.Rollout.Strategy, Steps: []Step{}, Passes: []Pass{}}}
	parts, _ := cfg.Parts()
	for _, p := range parts {
		b.plan.Passes = append(b.plan.Passes, Pass(p))
	}
	b.add(Step{Name: "config", Kind: Config})
	b.add(Step{Name: "secrets", Kind: Secrets})
	b.commands(Name{}, "initial")
	for i, p := range b.plan.Passes {
		if cfg.Rollout.Strategy == "waves" {
			b.inPlace(p)
		} else {
			b.traffic(p)
		}
		last := i+1 == len(b.plan.Passes) || b.plan.Passes[i+1].Wave != p.Wave
		if last && p.Wave != "" && b.asked(p.Wave) {
			b.approval(Name{Kind: Approval, Wave: p.Wave}, 100)
		}
	}
	b.share = 100
	b.commands(Name{}, "final")
	b.sum()
	return b
}

// builder collects the rows.
type builder struct {
	cfg   config.Config
	cat   config.Catalog
	plan  Plan
	share float64 // of the candidate, where the list has got to
}

func (b *builder) add(s Step) { b.plan.Steps = append(b.plan.Steps, s) }

// row adds a step whose pass, share, batch and name come from n.
func (b *builder) row(n Name, s Step) {
	s.Name, s.Kind, s.Pass, s.Batch = n.String(), n.Kind, n.Pass, n.Batch
	s.Share = b.share
	b.add(s)
}

// commands adds the user's steps of one place, named in n's pass and batch.
func (b *builder) commands(n Name, at string) {
	for _, c := range b.cfg.Steps {
		if c.At == at {
			n.Kind, n.Command = Command, c.Name
			b.row(n, Step{Command: c.Name, Longest: c.Timeout, Undo: "nothing: a command is not undone"})
		}
	}
}

func (b *builder) asked(after string) bool {
	return slices.Contains(b.cfg.Rollout.ApprovalsBetween, after)
}

func (b *builder) approval(n Name, share float64) {
	b.share = share
	timeout := b.cfg.Rollout.ApprovalTimeout
	s := Step{Wait: timeout, Longest: timeout, Approval: true}
	if n.Wave == "" {
		s.Stage = StageName(n.Pass, n.Share)
	}
	b.row(n, s)
}

// sum adds up what the rows wait and may take.
func (b *builder) sum() {
	for _, s := range b.plan.Steps {
		if s.Approval {
			continue
		}
		b.plan.Longest += s.Longest
		if s.Kind == Gate {
			b.plan.Watch += s.Wait
		}
	}
}

// Find returns the step of a name, as the list has it.
func (p Plan) Find(name string) (Step, bool) {
	i := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Name == name })
	if i < 0 {
		return Step{}, false
	}
	return p.Steps[i], true
}

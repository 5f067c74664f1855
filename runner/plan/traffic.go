package plan

import (
	"strings"

	"github.com/manent/action/runner/config"
)

// traffic adds one pass of strategy traffic.
func (b *builder) traffic(p Pass) {
	b.share = 0
	in := Name{Pass: p.Name}
	b.row(Name{Kind: Prepare, Pass: p.Name}, Step{Undo: "the claim of the free slot is given up"})
	b.deploy(in, b.undoDeploy())
	b.commands(in, "post-test")
	if b.cfg.Rollout.Traffic.Testers != nil {
		b.row(Name{Kind: Testers, Pass: p.Name}, Step{Undo: "traffic:revert takes the testers' entry away"})
	}
	if len(b.cfg.Rollout.Health.Probes) > 0 {
		b.gate(p.Name, 0)
	}
	if b.asked("0") {
		b.approval(Name{Kind: Approval, Pass: p.Name}, 0)
	}
	for _, share := range b.cfg.Rollout.Traffic.Steps {
		b.share = share
		b.row(Name{Kind: Traffic, Pass: p.Name, Share: share}, Step{Stage: StageName(p.Name, share), Undo: b.undoTraffic()})
		b.gate(p.Name, share)
		if b.asked(config.ShareText(share)) {
			b.approval(Name{Kind: Approval, Pass: p.Name, Share: share}, share)
		}
	}
	b.row(Name{Kind: Promote, Pass: p.Name}, Step{Undo: b.undoPromote()})
	b.commands(in, "activation")
}

// deploy adds the one row that is always there: by the plugin, by the user's
// own deploy commands, or both.
func (b *builder) deploy(n Name, undo string) {
	n.Kind = Deploy
	var names []string
	var longest config.Duration
	for _, c := range b.cfg.Steps {
		if c.At == "deploy" {
			names = append(names, c.Name)
			longest += c.Timeout
		}
	}
	b.row(n, Step{Command: strings.Join(names, ", "), Longest: longest, Undo: undo})
}

// gate adds a stage's gate, also where nothing is configured to judge it.
func (b *builder) gate(pass string, share float64) {
	s := Step{Stage: StageName(pass, share), Wait: b.bake(share), Ungated: !b.judges(share)}
	s.Longest = s.Wait
	if !s.Ungated {
		s.Longest = b.watched(share)
	}
	b.row(Name{Kind: Gate, Pass: pass, Share: share}, s)
}

func (b *builder) bake(share float64) config.Duration {
	switch share {
	case 0:
		return 0
	case 100:
		return b.cfg.Rollout.Traffic.FinalBake
	}
	return b.cfg.Rollout.Traffic.Bake
}

// watched is the longest a gate takes: its bake, longer while data are thin,
// the age that data must have, then the grace of a metric system that does not
// answer, and the reading after that.
func (b *builder) watched(share float64) config.Duration {
	h := b.cfg.Rollout.Health
	longest := b.bake(share)
	if share > 0 && share < 100 {
		longest = max(longest, b.cfg.Rollout.Traffic.MaxBake)
	}
	var delay config.Duration
	for _, m := range h.Metrics {
		if b.evaluated(m, share) {
			delay = max(delay, b.cat.MetricDelay(m))
		}
	}
	return longest + delay + h.Grace + h.Interval
}

// judges reports whether the gate of a share evaluates anything.
func (b *builder) judges(share float64) bool {
	h := b.cfg.Rollout.Health
	if len(h.Probes) > 0 || share > 0 && len(h.Alarms) > 0 {
		return true
	}
	for _, m := range h.Metrics {
		if b.evaluated(m, share) {
			return true
		}
	}
	return false
}

// evaluated reports whether a metric is read at a share: nothing is at 0 %,
// and at 100 % there is nothing left to compare with.
func (b *builder) evaluated(m config.Metric, share float64) bool {
	return share > 0 && (m.Compare == "" || share < 100)
}

func (b *builder) undoTraffic() string {
	if b.cfg.Rollout.OnFailure == "stop" {
		return "weights stay on a failure; `manent revert` returns all traffic"
	}
	return "traffic:revert sets all traffic to stable"
}

func (b *builder) undoPromote() string {
	if b.cfg.Rollout.OnFailure == "stop" {
		return "nothing on a failure; `manent revert` makes stable the serving version again"
	}
	return "traffic:revert makes stable the serving version again"
}

func (b *builder) undoDeploy() string {
	if b.cat.Scales(b.cfg) {
		return "the candidate is scaled down after the return"
	}
	return "the candidate stays in its slot, without traffic"
}

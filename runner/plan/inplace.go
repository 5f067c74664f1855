package plan

import (
	"github.com/manent/action/runner/config"
)

// inPlace adds one pass of strategy waves: batch after batch, out of the pool,
// updated, and back once it is healthy.
func (b *builder) inPlace(p Pass) {
	b.share = 0
	for i, hosts := range p.Batches(b.cfg.Rollout.MaxUnavailable) {
		first := len(b.plan.Steps)
		b.batch(Name{Pass: p.Name, InBatch: true, Batch: i})
		for j := first; j < len(b.plan.Steps); j++ {
			b.plan.Steps[j].Hosts = hosts
		}
	}
}

func (b *builder) batch(n Name) {
	pool := b.cfg.Traffic.Pool
	if pool != nil {
		b.member(n, Drain, pool.DrainTimeout, "restore, after the previous release is back")
		b.member(n, DrainWait, pool.DrainTimeout, "")
	}
	undo := "nothing: rollback is not enabled"
	if b.cfg.Rollback.Enabled {
		undo = "the previous release is deployed again"
	}
	b.deploy(n, undo)
	b.commands(n, "post-test")
	if pool != nil {
		b.member(n, Restore, 0, "drain, before the previous release is deployed again")
		b.member(n, RestoreWait, pool.RestoreTimeout, "")
	}
	b.commands(n, "activation")
}

func (b *builder) member(n Name, kind Kind, longest config.Duration, undo string) {
	if undo != "" && !b.cfg.Rollback.Enabled {
		undo = "nothing: rollback is not enabled"
	}
	n.Kind = kind
	b.row(n, Step{Longest: longest, Undo: undo})
}

// Batches splits the hosts of a pass into those that are updated together. A
// pass without targets is one batch.
func (p Pass) Batches(maxUnavailable string) [][]string {
	amount, ok := config.ParseAmount(maxUnavailable)
	if !ok {
		amount = config.Amount{Count: 1}
	}
	size := amount.AtMost(len(p.Targets))
	batches := [][]string{}
	for i, t := range p.Targets {
		if i%size == 0 {
			batches = append(batches, nil)
		}
		last := len(batches) - 1
		batches[last] = append(batches[last], t.Host)
	}
	if len(batches) == 0 {
		batches = append(batches, nil)
	}
	return batches
}

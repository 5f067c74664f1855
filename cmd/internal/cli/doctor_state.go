package cli

import (
	"context"
	"time"

	"github.com/manent/action/providers/store"
	"github.com/manent/action/runner/report"
	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

// clockSlack is how far ahead of this clock the state may have been written;
// rollouts work with clocks that differ, but waits are then off by as much.
const clockSlack = time.Minute

// checkStore looks at a store and its documents: of the key given, or of all
// keys. It returns the document of the key, nil when it cannot be read.
func (a *app) checkStore(ctx context.Context, c *checks, address string, keys ...string) *state.Document {
	s, err := a.openStore(address)
	if err != nil {
		c.broke("state", err)
		return nil
	}
	one, cancel := limited(ctx)
	defer cancel()
	if err := store.Probe(one, s, store.ProbeKey); err != nil {
		c.broke("state", err)
		return nil
	}
	c.ok("state", "%s reads back what was written and refuses a write from an old revision", address)
	if len(keys) == 0 {
		if keys, err = s.List(one, ""); err != nil {
			c.broke("state", err)
			return nil
		}
	}
	var last *state.Document
	for _, key := range keys {
		if key != store.ProbeKey {
			last = a.checkDocument(ctx, c, s, key)
		}
	}
	return last
}

func (a *app) checkDocument(ctx context.Context, c *checks, s store.Store, key string) *state.Document {
	one, cancel := limited(ctx)
	defer cancel()
	doc, err := checkpoint.Open(s, key, a.now, checkpoint.Nonce).Load(one)
	if err != nil {
		c.broke("document", err)
		return nil
	}
	c.ok("document", "%s (schema %d, %d writes)", report.StatusLine(doc), doc.Schema, doc.Seq)
	ahead := doc.Written.Sub(a.now())
	switch {
	case doc.Seq == 0:
	case ahead > clockSlack:
		c.warn("clock", "compare the clocks of the machines that call manent", "%s was written %v from now by this clock", key, ahead.Round(time.Second))
	default:
		c.ok("clock", "%s was last written at %s", key, doc.Written.UTC().Format(time.RFC3339))
	}
	if l := doc.Lease; l != nil {
		c.warn("lease", "wait for it; if it is dead, its lease lapses by itself", "process %d on %s is at work on %s", l.PID, l.Host, l.Step)
	}
	return doc
}

package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// read asks the router of the pass. A part that cannot be read makes the
// whole answer "could not tell": nothing is raised on half a view.
func (c *call) read(ctx context.Context) (router.Reading, error) {
	seen, err := c.readParts(ctx)
	if err != nil {
		return router.Reading{}, err
	}
	return seen, seen.Err()
}

func (c *call) readParts(ctx context.Context) (router.Reading, error) {
	if err := c.beat(ctx); err != nil {
		return router.Reading{}, err
	}
	ctx, cancel := limit(ctx)
	defer cancel()
	seen, err := c.router().Read(ctx, c.pass.Slots)
	if err != nil {
		return router.Reading{}, fmt.Errorf("read weights: %w", err)
	}
	if len(seen.Parts) == 0 {
		return router.Reading{}, errors.New("read weights: the router reported no part, expected at least one")
	}
	return seen, nil
}

// drift compares what the router reports with what manent last wrote. A write
// found unfinished (intent) is one where every unit of every part is its from
// or its to; anything else is drift. It returns "" when there is none.
func drift(seen router.Reading, stored []state.PartWeights, intent *state.Intent) string {
	if len(stored) == 0 && intent == nil {
		return ""
	}
	if intent != nil {
		stored = intent.From
	}
	var found []string
	for _, p := range seen.Parts {
		if len(p.Foreign) > 0 {
			found = append(found, fmt.Sprintf("part %s has foreign entries: %s", p.ID, router.Text(p.Foreign)))
		}
		want, known := router.Find(stored, p.ID)
		if !known {
			found = append(found, fmt.Sprintf("part %s is new, with weights %s", p.ID, router.Text(p.Weights)))
			continue
		}
		if router.Same(p.Weights, want) {
			continue
		}
		if intent != nil {
			if to, ok := router.Find(intent.To, p.ID); ok && router.Between(p.Weights, want, to) {
				continue
			}
		}
		found = append(found, fmt.Sprintf("part %s has weights %s, manent last wrote %s%s", p.ID, router.Text(p.Weights), router.Text(want), changedBy(p)))
	}
	for _, p := range stored {
		if !slices.ContainsFunc(seen.Parts, func(q router.Part) bool { return q.ID == p.ID }) {
			found = append(found, fmt.Sprintf("part %s is gone", p.ID))
		}
	}
	return strings.Join(found, "; ")
}

// leftOut says which part that manent wrote last the router does not report: it
// may be anything there.
func leftOut(seen router.Reading, stored []state.PartWeights) string {
	for _, p := range stored {
		if seen.Part(p.ID) == nil {
			return fmt.Sprintf("part %s is gone: the router does not report it", p.ID)
		}
	}
	return ""
}

// changedBy names who changed a part last, where its system says so.
func changedBy(p router.Part) string {
	if p.By == "" {
		return ""
	}
	return ", last changed by " + p.By
}

// checkDrift returns a pause when the weights are not manent's.
func (c *call) checkDrift(seen router.Reading, intent *state.Intent) (result, bool) {
	if c.cfg.Rollout.Traffic.OnDrift == "ignore" {
		return result{}, false
	}
	reason := drift(seen, c.pass.Weights, intent)
	if reason == "" {
		return result{}, false
	}
	return drifted(reason, seen), true
}

// drifted asks a person about weights that somebody else set.
func drifted(reason string, seen router.Reading) result {
	weights := seen.Weights()
	return result{
		state: isPaused, message: "drift: " + reason,
		pause: &state.Pause{Kind: state.PauseDrift, Weights: weights, Seen: digest(weights)},
	}
}

// digest names a set of weights in few characters, for a decision to repeat.
func digest(weights []state.PartWeights) string {
	data, _ := json.Marshal(weights) // maps are written in key order; finite numbers cannot fail
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:6])
}

// planShare returns the weights for a share of the candidate and the share
// they really give.
func (c *call) planShare(share float64, seen router.Reading) ([]state.PartWeights, float64, error) {
	return c.planFor(c.candidate(), share, seen)
}

func (c *call) planFor(slot state.Slot, share float64, seen router.Reading) ([]state.PartWeights, float64, error) {
	if p, ok := c.router().(router.Planner); ok {
		return p.Plan(slot, share, c.cfg.Tolerance(share), seen)
	}
	return router.Percent(slot, share, 0.01, c.cfg.Tolerance(share), seen)
}

// settled waits until weights that the step wrote are in force at the data
// plane.
func (c *call) settled(ctx context.Context, want []state.PartWeights) (bool, error) {
	return c.settledWith(ctx, want, c.record().Receipt)
}

func (c *call) settledWith(ctx context.Context, want []state.PartWeights, receipt state.Receipt) (bool, error) {
	return c.poll(ctx, func(ctx context.Context) (bool, error) {
		return c.router().Settled(ctx, want, receipt)
	})
}

// keepReceipt adds to what the step knows of its writes: a write that found
// everything done already says nothing of the one that did it.
func (c *call) keepReceipt(receipt state.Receipt) {
	if len(receipt) == 0 {
		return
	}
	rec := c.record()
	if rec.Receipt == nil {
		rec.Receipt = state.Receipt{}
	}
	maps.Copy(rec.Receipt, receipt)
}

// later is when to come back for something that is not ready.
func (c *call) later() time.Time { return c.e.World.Now().UTC().Add(notYetAfter) }

// orFailed turns a provider's definite answer into a failed step; anything
// else stays an error that could not tell.
func orFailed(err error) (result, error) {
	if definite(err) {
		return failed(err.Error(), providers.HintOf(err)), nil
	}
	return result{}, err
}

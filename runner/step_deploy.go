package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/manent/action/providers/router"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

// stepDeploy puts the candidate into the free slot, by the plugin and the
// user's own deploy commands, and waits until it is ready. No traffic moves.
func stepDeploy(ctx context.Context, c *call) (result, error) {
	if res, stop := c.mayRerun(c.deployCommands()); stop {
		return res, nil
	}
	if res, err := c.stillFree(ctx); err != nil || res.state != "" {
		return res, err
	}
	if err := c.intend(ctx, nil); err != nil {
		return result{}, err
	}
	release := c.pass.Slots.Get(c.candidate())
	err := c.during(ctx, func(ctx context.Context) error {
		var err error
		release, err = c.deploy(ctx, release)
		return err
	})
	if err != nil {
		return orFailed(err)
	}
	c.pass.Slots = c.pass.Slots.With(c.candidate(), release)
	if res, ok, err := c.capacity(ctx, 0); !ok {
		return res, err
	}
	if c.doc.Rollout.First {
		return done("version %s is in slot %s", release.Version, c.candidate()), nil // which may have all weight already
	}
	return done("version %s is in slot %s, without traffic", release.Version, c.candidate()), nil
}

// stillFree looks again before each deployment: somebody may have moved
// traffic to the slot since it was claimed.
func (c *call) stillFree(ctx context.Context) (result, error) {
	seen, err := c.read(ctx)
	if err != nil {
		return result{}, err
	}
	if share := seen.Share(c.candidate()); share > 0 && !c.doc.Rollout.First {
		return busy(fmt.Sprintf("slot %s has %s of the traffic%s", c.candidate(), router.PercentText(share), whoChanged(seen))), nil
	}
	if res, paused := c.checkDrift(seen, nil); paused {
		return res, nil
	}
	return result{}, nil
}

func (c *call) deployCommands() []config.Command {
	var out []config.Command
	for _, cmd := range c.cfg.Steps {
		if cmd.At == "deploy" {
			out = append(out, cmd)
		}
	}
	return out
}

// deploy returns the release with what its provider needs to find it again.
func (c *call) deploy(ctx context.Context, release state.Release) (state.Release, error) {
	ref := maps.Clone(release.Ref)
	for _, cmd := range c.deployCommands() {
		out, err := c.run(ctx, cmd)
		if err != nil {
			return release, err
		}
		maps.Copy(ref, out)
	}
	if d := c.bundle().Deployer; d != nil {
		got, err := d.Deploy(ctx, c.callFor(c.candidate()))
		if err != nil {
			return release, fmt.Errorf("deploy: %w", err)
		}
		maps.Copy(ref, got.Ref)
	} else if len(c.deployCommands()) == 0 {
		return release, errors.New("no deploy command and no plugin")
	}
	ref[state.RefRollout] = release.Ref[state.RefRollout]
	return state.Release{Version: release.Version, Ref: ref}, nil
}

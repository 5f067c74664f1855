package runner

import (
	"context"
	"fmt"
	"strings"

	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// stepTesters sends the testers' requests, and only theirs, to the candidate.
func stepTesters(ctx context.Context, c *call) (result, error) {
	seen, err := c.read(ctx)
	if err != nil {
		return result{}, err
	}
	if res, paused := c.checkDrift(seen, nil); paused {
		return res, nil
	}
	on := true
	if err := c.intend(ctx, &state.Intent{Testers: &on}); err != nil {
		return result{}, err
	}
	access, err := c.target(ctx, true)
	if err != nil {
		return orFailed(err)
	}
	rec := c.record()
	rec.Receipt = state.Receipt{}
	if access.URL != "" {
		rec.Receipt["url"] = access.URL
	}
	for name, value := range access.Header {
		rec.Receipt["header "+name] = value
	}
	c.pass.Testers = true
	return done("testers reach slot %s: %s", c.candidate(), accessIn(access)), nil
}

// target switches the testers' entry.
func (c *call) target(ctx context.Context, on bool) (router.Access, error) {
	t, ok := c.router().(router.Targeter)
	if !ok {
		return router.Access{}, fmt.Errorf("the router cannot send testers to a slot")
	}
	if err := c.beat(ctx); err != nil {
		return router.Access{}, err
	}
	ctx, cancel := limit(ctx)
	defer cancel()
	access, err := t.Target(ctx, c.pass.Slots, c.candidate(), c.match(), on)
	if err != nil {
		return access, fmt.Errorf("testers' entry: %w", err)
	}
	return access, nil
}

func (c *call) match() router.Match {
	t := c.cfg.Rollout.Traffic.Testers
	if t == nil {
		return router.Match{}
	}
	name, value, _ := strings.Cut(t.Header, ":")
	return router.Match{Header: strings.TrimSpace(name), Value: strings.TrimSpace(value), Tag: t.Tag}
}

func accessIn(a router.Access) string {
	var parts []string
	if a.URL != "" {
		parts = append(parts, a.URL)
	}
	for name, value := range a.Header {
		parts = append(parts, name+": "+value)
	}
	return strings.Join(parts, ", ")
}

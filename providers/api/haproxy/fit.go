package haproxy

import (
	"context"
	"fmt"
	"time"

	"github.com/manent/action/providers"
)

// Use is what a backend is to be used for: splitting traffic by the weights
// of these servers.
type Use struct {
	Servers []string
	Member  string        // how their names come about, for hints
	Keeps   time.Duration // how long it may bind clients to a server
	Warn    func(format string, args ...any)
}

// Unfit says why a backend cannot be used so, nil when it can: a server is
// missing, weights do not count, or clients stay where they are.
func (i Instance) Unfit(ctx context.Context, use Use, b Backend, c Configuration, running map[string]Running) (problem, err error) {
	for _, name := range use.Servers {
		if problem := i.UnfitServer(use, name, c, running); problem != nil {
			return problem, nil
		}
	}
	var algorithm string
	if b.Balance != nil {
		algorithm = b.Balance.Algorithm
	} else if algorithm, err = i.Algorithm(ctx); err != nil {
		return nil, err
	}
	if why, remedy := b.IgnoresWeights(algorithm); why != "" {
		return unfit(providers.Invalid, remedy, "%s", why), nil
	}
	if algorithm == "leastconn" {
		use.Warn("%s: balance leastconn: shares are those of connections under load, and inexact with few", i.ID)
	}
	rules, err := i.StickRules(ctx)
	if err != nil {
		return nil, err
	}
	return i.unfitSticky(use, b, rules), nil
}

// UnfitServer says what is wrong with one server.
func (i Instance) UnfitServer(use Use, name string, c Configuration, running map[string]Running) error {
	s, ok := c.Servers[name]
	_, runs := running[name]
	switch {
	case !ok && runs:
		return unfit(providers.NotFound, "write it as a server line with a weight: a server-template's have none of their own",
			"server %s of backend %s comes from a server-template", name, i.backend)
	case !ok:
		return unfit(providers.NotFound, "add it to the backend, or correct targets and member, which is "+use.Member,
			"backend %s has no server %s, expected one for each target", i.backend, name)
	case s.Backup:
		return unfit(providers.Invalid, "take the word backup from its line",
			"server %s is a backup: it gets traffic only when no other one is up, whatever its weight", name)
	}
	if s.AgentCheck {
		use.Warn("%s: server %s has agent-check: its agent may change the weight, and then no share is seen in force", i.ID, name)
	}
	if s.SlowStart {
		use.Warn("%s: server %s has slowstart: after it comes up a share is in force only when that has ended", i.ID, name)
	}
	return nil
}

// unfitSticky refuses stickiness of which nobody says how long it lasts, or
// that outlives what is allowed.
func (i Instance) unfitSticky(use Use, b Backend, rules []string) error {
	what, lasts := b.Keeps(rules)
	switch {
	case what == "":
		return nil
	case lasts == 0 && use.Keeps == 0:
		return unfit(providers.Invalid, "give the cookie a maxlife or the table an expire, and set pinned_for to it; or take the stickiness out of the backend",
			"backend %s keeps clients at their server by %s, nobody says how long", i.backend, what)
	case lasts > use.Keeps:
		return unfit(providers.Invalid, fmt.Sprintf("set pinned_for: %v, or make the stickiness last less", lasts),
			"backend %s keeps clients at their server by %s for %v, pinned_for is %v", i.backend, what, lasts, use.Keeps)
	}
	use.Warn("%s: %s: shares are those of new clients, and a client stays at a server whose weight is 0", i.ID, what)
	return nil
}

func unfit(kind providers.Kind, hint, format string, args ...any) error {
	return &providers.Fault{Kind: kind, Err: fmt.Errorf(format, args...), Hint: hint}
}

// Serving are the servers that get traffic or would with weight, by the weight
// in force; where running is nil, those configured by their weights.
func (c Configuration) Serving(running map[string]Running) map[string]int {
	out := map[string]int{}
	for name, r := range running {
		if r.Up() {
			out[name] = r.Weight
		}
	}
	if running == nil {
		for name, w := range c.Weights {
			out[name] = w
		}
	}
	for name := range out {
		if c.Servers[name].Backup {
			delete(out, name)
		}
	}
	return out
}

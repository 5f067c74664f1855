package haproxy

import (
	"fmt"
	"maps"
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
// missing, weights do not count, clients stay where they are, or nobody could
// see whether it is so.
func (i Instance) Unfit(use Use, s Seen) error {
	for _, name := range use.Servers {
		if problem := i.UnfitServer(use, name, s.Configuration, s.Running); problem != nil {
			return problem
		}
	}
	if s.Dark != nil {
		return s.Dark
	}
	if s.doubt != nil {
		return s.doubt
	}
	if why, remedy := s.backend.IgnoresWeights(s.algorithm); why != "" {
		return unfit(providers.Invalid, remedy, "%s", why)
	}
	if s.algorithm == "leastconn" {
		use.Warn("%s: balance leastconn: shares are those of connections under load, and inexact with few", i.ID)
	}
	return i.unfitSticky(use, s.backend, s.rules)
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
		use.Warn("%s: server %s has agent-check: an agent that answers in percent sets that of the weight that HAProxy loaded from its file, in place of any set since: no share is in force then, and a slot loaded with 0 gets nothing", i.ID, name)
	}
	if s.SlowStart {
		use.Warn("%s: server %s has slowstart: after it comes up a share is in force only when that has ended", i.ID, name)
	}
	return nil
}

// Unsaid refuses servers that run with these weights while nothing that is
// read says a weight of theirs: a defaults section does. nil when there are
// none.
func (c Configuration) Unsaid(names []string, runs map[string]int) error {
	for _, name := range names {
		if w, ok := runs[name]; ok && c.Assumed[name] {
			return unfit(providers.Invalid, "write weight on the server's line: one of a defaults section is not seen", "%s", unsaid(name, w))
		}
	}
	return nil
}

func unsaid(name string, runs int) string {
	return fmt.Sprintf("the line of %s has no weight and HAProxy runs it with %d", name, runs)
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
// in force; where running is nil, those configured by their weights. Backups
// are among them when no other server has any (HAProxy's configuration manual,
// server backup).
func (c Configuration) Serving(running map[string]Running) map[string]int {
	out, backups, total := map[string]int{}, map[string]int{}, 0
	add := func(name string, weight int) {
		if c.Servers[name].Backup {
			backups[name] = weight
			return
		}
		out[name] = weight
		total += weight
	}
	for name, r := range running {
		if r.Up() {
			add(name, r.Weight)
		}
	}
	if running == nil {
		for name, w := range c.Weights {
			add(name, w)
		}
	}
	if total == 0 {
		maps.Copy(out, backups)
	}
	return out
}

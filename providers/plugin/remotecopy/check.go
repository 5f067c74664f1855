package remotecopy

import (
	"context"
	_ "embed"
	"fmt"
	"path"
	"strings"

	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/host/fleet"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/state"
)

//go:embed check.sh
var checkScript string

// CheckSlot looks at the machines of the slot that a release will be put on,
// and changes nothing there. One that cannot be reached is not one that lacks
// something.
func (c *copier) CheckSlot(ctx context.Context, free state.Slot) error {
	_, err := c.fleet().Look(ctx, fleet.In(string(free), c.machines), func(ctx context.Context, h host.Host, m fleet.Machine) (string, error) {
		_, err := c.examine(ctx, h, m)
		return "", err
	})
	return fleet.Named(name, "look at slot "+string(free), err, c.env.Redactor)
}

// Findings says the same of every machine, those of the slot that serves too:
// it is the next one to get a release.
func (c *copier) Findings(ctx context.Context) []plugin.Finding {
	var out []plugin.Finding
	for i, seen := range fleet.Survey(ctx, c.fleet(), c.machines, c.examine) {
		m := c.machines[i]
		out = append(out, plugin.Finding{
			Name: fmt.Sprintf("slot %s, %s", m.Slot(), m.Host), Text: seen.Of, Err: fleet.Named(name, "look", seen.Err, c.env.Redactor),
		})
	}
	return out
}

// examine says what a machine has, or what it lacks for a release. What accepts
// at its port says nothing before the first one; that sshd forwards to it is
// needed to see it.
func (c *copier) examine(ctx context.Context, h host.Host, m fleet.Machine) (string, error) {
	j := job{slot: m.Slot()}
	j.dest = fill(c.settings.Destination, j)
	out, err := target{Host: h, machine: m, job: j}.script(ctx, "check", checkScript, nil, j.dest, c.settings.restarter(j))
	if err != nil {
		return "", err
	}
	found, parent, _ := strings.Cut(strings.TrimRight(out, "\n"), " ")
	text := fmt.Sprintf("logged in as %s; %s can be written", c.settings.User, j.dest)
	switch found {
	case "there":
	case "in":
		text = fmt.Sprintf("logged in as %s; %s can be made in %s", c.settings.User, j.dest, parent)
	default:
		return "", unexpected("check", out)
	}
	closed, err := accepts(ctx, h, m, c.settings.Listen)
	if closed != "" {
		text += "; " + closed
	}
	return text, err
}

// restarter is the program that restarts, "" for one that a release brings.
func (s Settings) restarter(j job) string {
	if len(s.Restart) == 0 || strings.Contains(s.Restart[0], "{version}") {
		return ""
	}
	program := fill(s.Restart[0], j)
	if strings.Contains(program, "/") && (!path.IsAbs(program) || strings.HasPrefix(program, j.dest+"/")) {
		return ""
	}
	return program
}

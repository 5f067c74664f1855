package container

import (
	"context"
	"fmt"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/host/fleet"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/state"
)

// sight is what one machine has.
type sight struct {
	text    string
	foreign error // somebody else made the container, nil for no
}

// CheckSlot looks at the machines of the slot that an image will be run on, and
// changes nothing there. One that cannot be reached, or whose engine does not
// answer, is not one that lacks something.
func (r *runner) CheckSlot(ctx context.Context, free state.Slot) error {
	_, err := r.secrets(ctx)
	if err == nil {
		_, err = r.fleet().Look(ctx, fleet.In(string(free), r.machines), func(ctx context.Context, h host.Host, m fleet.Machine) (string, error) {
			seen, err := r.examine(ctx, h, m)
			if err == nil {
				err = seen.foreign
			}
			return "", err
		})
	}
	return fleet.Named(name, "look at slot "+string(free), err, r.env.Redactor)
}

// Findings says the same of every machine, those of the slot that serves too:
// it is the next one to get a release. A container there that somebody else
// made is refused by then; before, it may serve.
func (r *runner) Findings(ctx context.Context) []plugin.Finding {
	var out []plugin.Finding
	if _, err := r.secrets(ctx); err != nil {
		out = append(out, plugin.Finding{Name: "environment", Err: fleet.Named(name, "look", err, r.env.Redactor)})
	}
	for i, seen := range fleet.Survey(ctx, r.fleet(), r.machines, r.examine) {
		m := r.machines[i]
		f := plugin.Finding{Name: fmt.Sprintf("slot %s, %s", m.Slot(), m.Host), Text: seen.Of.text, Err: fleet.Named(name, "look", seen.Err, r.env.Redactor)}
		if err := seen.Of.foreign; err != nil {
			f.Warn, f.Hint = true, providers.HintOf(err)
			f.Text = fmt.Sprintf("%v; a deployment refuses it", err)
		}
		out = append(out, f)
	}
	return out
}

// examine says what a machine has, or what it lacks to run an image. What
// accepts at its port says nothing before the first release; that sshd forwards
// to it is needed to see it.
func (r *runner) examine(ctx context.Context, h host.Host, m fleet.Machine) (s sight, err error) {
	t := r.target(job{slot: m.Slot(), container: r.settings.Name + "-" + m.Slot()}, h, m)
	if err := t.on.Check(ctx); err != nil {
		return s, err
	}
	c, there, err := t.on.Find(ctx, t.container)
	if err != nil {
		return s, err
	}
	s.text = fmt.Sprintf("logged in as %s; %s answers, there is no container %s yet", r.settings.User, r.settings.Engine, t.container)
	if there {
		s.foreign = t.ours(c)
		s.text = fmt.Sprintf("logged in as %s; %s answers, container %s is %s", r.settings.User, r.settings.Engine, t.container, c.State.Status)
	}
	if m.Port == 0 {
		return s, nil
	}
	closed, err := fleet.Accepts(ctx, h, r.settings.Listen, m.Port)
	if closed != "" {
		s.text += "; " + closed
	}
	return s, err
}

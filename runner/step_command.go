package runner

import (
	"context"
	"fmt"

	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

// stepCommand runs one of the user's own commands, at least once and never two
// at a time.
func stepCommand(ctx context.Context, c *call) (result, error) {
	cmd, ok := c.command(c.step.Command)
	if !ok {
		return failed(fmt.Sprintf("the pinned configuration has no command %q", c.step.Command), ""), nil
	}
	if res, stop := c.mayRerun([]config.Command{cmd}); stop {
		return res, nil
	}
	if err := c.intend(ctx, nil); err != nil {
		return result{}, err
	}
	err := c.during(ctx, func(ctx context.Context) error {
		_, err := c.run(ctx, cmd)
		return err
	})
	if err != nil {
		return orFailed(err)
	}
	return done("command %s succeeded", cmd.Name), nil
}

func (c *call) command(name string) (config.Command, bool) {
	for _, cmd := range c.cfg.Steps {
		if cmd.Name == name {
			return cmd, true
		}
	}
	return config.Command{}, false
}

func (c *call) run(ctx context.Context, cmd config.Command) (map[string]string, error) {
	vars := c.vars()
	vars["MANENT_COMMAND"] = cmd.Name
	return c.e.World.Command(ctx, Command{Run: cmd.Run, Env: vars, Timeout: cmd.Timeout.Std()})
}

// mayRerun asks a person before a command that was interrupted, and is not
// safe to repeat, is run again.
func (c *call) mayRerun(cmds []config.Command) (result, bool) {
	rec := c.doc.Rollout.Step(c.step.Name)
	if rec == nil || rec.State != state.Started || rec.Tries == 0 {
		return result{}, false
	}
	if rec.Receipt["approved"] != "" {
		delete(rec.Receipt, "approved") // a yes is for one run
		return result{}, false
	}
	for _, cmd := range cmds {
		if cmd.Rerun == "ask" {
			return result{
				state:   isPaused,
				message: fmt.Sprintf("command %s was interrupted and may not be repeated unasked (rerun: ask)", cmd.Name),
				pause:   &state.Pause{Kind: state.PauseRerun},
			}, true
		}
	}
	return result{}, false
}

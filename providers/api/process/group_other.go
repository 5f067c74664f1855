//go:build !unix

package process

import (
	"context"
	"os/exec"
	"time"
)

// group does what can be done without process groups: the shell itself is
// killed when the context ends, its own children are not.
type group struct{ cause error }

func newGroup(context.Context, time.Duration) (*group, error) { return &group{}, nil }

func (g *group) join(ctx context.Context, cmd *exec.Cmd) {
	cmd.Cancel = func() error {
		g.cause = causeOf(ctx)
		return cmd.Process.Kill()
	}
}

func (g *group) end(bool) {}

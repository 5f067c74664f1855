//go:build unix

package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// guardScript waits for the end of its standard input, which nothing writes
// to: it ends when the process that holds the other end does, however that
// happens. Then it kills the group it is in, itself included.
const guardScript = `trap "" HUP INT TERM; read -r _; kill -KILL 0`

// poll is the time between two looks at a group that was told to end.
const poll = 10 * time.Millisecond

// group is the process group of one command. Its leader is a guard that kills
// the group when this process dies: a signal at the parent's death, which
// only Linux has, would reach the shell alone and not what the shell started.
// As the guard is there before the command and as long as it, the group's
// number cannot be given to anybody else in between.
type group struct {
	guard    *exec.Cmd
	alive    *os.File // closed with this process, by the kernel if need be
	grace    time.Duration
	cause    error     // why the command was stopped
	deadline time.Time // SIGKILL follows then; zero before SIGTERM was sent
}

func newGroup(ctx context.Context, grace time.Duration) (*group, error) {
	input, alive, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = input.Close() }()
	guard := exec.CommandContext(context.WithoutCancel(ctx), "sh", "-c", guardScript)
	guard.Stdin = input
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := guard.Start(); err != nil {
		_ = alive.Close()
		return nil, err
	}
	return &group{guard: guard, alive: alive, grace: grace}, nil
}

// join makes a command that has not started a member, to be stopped together
// with all that it starts when its context ends.
func (g *group) join(ctx context.Context, cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.guard.Process.Pid}
	cmd.Cancel = func() error {
		g.cause = causeOf(ctx)
		g.terminate()
		return nil
	}
}

// terminate sends SIGTERM, once: for many programs a second one means
// "at once", and they lose what they are about to save.
func (g *group) terminate() {
	if g.deadline.IsZero() {
		g.deadline = time.Now().Add(g.grace)
		_ = g.signal(syscall.SIGTERM)
	}
}

func (g *group) signal(s syscall.Signal) error { return syscall.Kill(-g.guard.Process.Pid, s) }

// end dismisses the guard, after the command has been waited for. What is left
// of the group is left alone, or with kill stopped.
func (g *group) end(kill bool) {
	_ = g.guard.Process.Kill() // before the pipe is closed, which would make it kill the group
	_ = g.guard.Wait()
	_ = g.alive.Close()
	if !kill {
		return
	}
	g.terminate()
	look := time.NewTicker(poll)
	defer look.Stop()
	for now := time.Now(); now.Before(g.deadline); now = <-look.C {
		if errors.Is(g.signal(0), syscall.ESRCH) {
			return
		}
	}
	_ = g.signal(syscall.SIGKILL)
}

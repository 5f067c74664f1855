package host

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/manent/action/providers"
)

// grace is how long a program is waited for after SIGTERM. A script of this
// package in the middle of replacing a file uses it to bring that to an end.
const grace = 5 * time.Second

// Local is the machine this process runs on.
type Local struct{}

// Run implements Host. The program gets a session of its own: a signal from
// the terminal, and the death of this process, leave it alone.
func (Local) Run(ctx context.Context, c Command) (Result, error) {
	op := "run " + program(c.Args)
	if err := checkArgs(c.Args); err != nil {
		return Result{}, fault(providers.Invalid, op, err, "")
	}
	var stdout, stderr limited
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.input(), &stdout, &stderr
	detach(cmd)
	cmd.WaitDelay = grace
	err := cmd.Run()
	exit, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return collect(op, 0, &stdout, &stderr)
	case ctx.Err() != nil:
		return Result{}, fault(providers.Unknown, op, context.Cause(ctx), "")
	case ended && exit.Exited():
		return collect(op, exit.ExitCode(), &stdout, &stderr)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return Result{}, fault(providers.Invalid, op, err, "install it, or name it with its whole path")
	}
	return Result{}, fault(providers.Unknown, op, err, "")
}

// Dial implements Host.
func (Local) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, unreached(ctx, "connect", err)
	}
	return conn, nil
}

// Close implements Host.
func (Local) Close() error { return nil }

// program is the name of a command for messages: its arguments may be long.
func program(args []string) string {
	if len(args) == 0 {
		return "nothing"
	}
	return args[0]
}

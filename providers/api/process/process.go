// Package process runs one command of the user: a line of shell text from the
// configuration, told everything it needs to know in MANENT_* variables.
//
// The command runs in a process group of its own and does not outlive the
// process that started it, even one killed with SIGKILL. The package must not
// know what the command is for, nor any contract.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/manent/action/providers"
)

// Grace is how long a command may go on after SIGTERM before it is killed,
// and how long output is waited for that a process left behind holds open.
const Grace = 5 * time.Second

// ExitTempFail is the exit code (EX_TEMPFAIL of sysexits.h) by which a
// command says "not yet".
const ExitTempFail = 75

// Command is one command to run.
//
// It inherits the environment of this process, for PATH, HOME and the
// credentials of the pipeline, but of its MANENT_* variables only MANENT_RUN_*
// (which run this is, for a manent called inside). Standard input is empty.
type Command struct {
	Provider string              // named in errors, "exec"; "" for none
	Name     string              // named in errors, "deploy"
	Run      string              // text for sh -c: the user's own, never put together from data
	Dir      string              // where it starts; "" is this process's directory
	Vars     map[string]string   // data for it; every name begins with MANENT_
	Timeout  time.Duration       // stopped after it; 0 is never
	Output   func(line string)   // takes each line of stdout and stderr, redacted; may be nil
	Secrets  *providers.Redactor // what must not be seen in any output; may be nil

	grace time.Duration // Grace, unless a test has no time for it
}

// Result is what a command left behind.
type Result struct {
	Exit   int               // exit code; -1 when it did not end by itself
	Values map[string]string // what it wrote to the file MANENT_OUTPUT, only if Exit is 0
	Tail   []string          // last lines of its output, redacted, at most TailLines
}

// Run runs the command and waits for its end. Errors are *providers.Fault:
//
//   - Invalid: it ended with a code other than 0, or was stopped at its
//     timeout, which is the configuration's word for "has failed by then"; or
//     what it wrote to MANENT_OUTPUT cannot be read; or it could not start.
//   - Unknown: ctx ended, or somebody else killed it. Nobody can say how far
//     it came.
//   - Unavailable: this machine is out of processes, memory or disk; nothing
//     was run.
//
// At the timeout and at the end of ctx the whole group gets SIGTERM, and
// SIGKILL after Grace. What a failed command left running ends the same way;
// what a successful one left running stays (a server it started, say; it must
// have its output redirected, or loses it Grace after the command's end). Only
// a process that puts itself into another session or group escapes.
func Run(ctx context.Context, c Command) (Result, error) {
	none := Result{Exit: -1}
	dir, err := os.MkdirTemp("", "manent-output-")
	if err != nil {
		return none, c.fault(providers.Unavailable, err, "")
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file, err := newValuesFile(dir)
	if err != nil {
		return none, c.fault(providers.Unavailable, err, "")
	}
	environ, err := environment(os.Environ(), c.Vars, file)
	if err != nil {
		return none, c.fault(providers.Invalid, err, "")
	}
	out := newOutput(c.Output, c.Secrets)
	result, err := c.run(ctx, environ, out)
	if err != nil {
		return result, err
	}
	result.Values, err = readValues(file, c.Secrets)
	if err != nil {
		return result, c.fault(providers.Invalid, err, "append lines key=value to the file that MANENT_OUTPUT names")
	}
	return result, nil
}

// run starts the command in a group of its own and waits for its end.
func (c Command) run(ctx context.Context, environ []string, out *output) (Result, error) {
	ctx, cancel := c.limit(ctx)
	defer cancel()
	if ctx.Err() != nil {
		return Result{Exit: -1}, c.unstarted(causeOf(ctx))
	}
	grace := cmp.Or(c.grace, Grace)
	group, err := newGroup(ctx, grace)
	if err != nil {
		return Result{Exit: -1}, c.startFault(ctx, err)
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", c.Run)
	cmd.Env, cmd.Dir = environ, c.Dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = grace
	group.join(ctx, cmd)
	if err = cmd.Start(); err != nil {
		group.end(true)
		return Result{Exit: -1}, c.startFault(ctx, err)
	}
	err = cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) && group.cause == nil {
		err = nil // it ended well; a process it left running holds the output open
	}
	group.end(err != nil)
	out.flush()
	result := Result{Exit: -1, Tail: out.tail}
	if group.cause == nil {
		result.Exit = cmd.ProcessState.ExitCode()
	}
	return result, c.explain(group.cause, err, result)
}

// errTimeout is the cause of a context that ended at the command's own limit.
var errTimeout = errors.New("the command's timeout has passed")

func (c Command) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, c.Timeout, errTimeout)
}

// causeOf is why a context ended; it always wraps the context's own error.
func causeOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// explain says what the end of a command means; cause is why it was stopped,
// nil when it was not.
func (c Command) explain(cause, err error, r Result) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(cause, errTimeout):
		return c.fault(providers.Invalid, fmt.Errorf("did not end within %v and was stopped%s", c.Timeout, quote(r.Tail)),
			"raise the timeout, or make the command end by itself")
	case cause != nil:
		return c.fault(providers.Unknown, fmt.Errorf("was stopped: %w", cause), "")
	case r.Exit < 0:
		return c.fault(providers.Unknown, fmt.Errorf("was ended from outside: %w%s", err, quote(r.Tail)), "")
	}
	hint := ""
	if r.Exit > 128 {
		hint = fmt.Sprintf("a shell gives code %d when signal %d ended its command; 9 is often a lack of memory", r.Exit, r.Exit-128)
	}
	return c.fault(providers.Invalid, fmt.Errorf("ended with exit code %d%s", r.Exit, quote(r.Tail)), hint)
}

// unstarted says what it means that the context ended before the command began.
func (c Command) unstarted(cause error) error {
	if errors.Is(cause, errTimeout) {
		return c.explain(cause, cause, Result{Exit: -1})
	}
	return c.fault(providers.Unknown, fmt.Errorf("was not started: %w", cause), "")
}

// startFault is about a command of which nothing has run.
func (c Command) startFault(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil && errors.Is(err, ended) {
		return c.unstarted(causeOf(ctx)) // while it was being started
	}
	err = fmt.Errorf("could not start: %w", err)
	for _, scarce := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, scarce) {
			return c.fault(providers.Unavailable, err, "")
		}
	}
	hint := ""
	if errors.Is(err, exec.ErrNotFound) {
		hint = "commands need a POSIX shell named sh in PATH"
	}
	return c.fault(providers.Invalid, err, hint)
}

func (c Command) fault(kind providers.Kind, err error, hint string) error {
	return &providers.Fault{Provider: c.Provider, Op: "command " + c.Name, Kind: kind, Err: err, Hint: hint}
}

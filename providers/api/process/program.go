package process

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/manent/action/providers"
)

// Program is one program that is asked one question: it reads In from its
// standard input, answers on standard output and logs on standard error.
type Program struct {
	Provider string              // named in errors
	Name     string              // of the question, named in errors: "request read"
	Args     []string            // the program and its arguments; no shell is involved
	Dir      string              // where it starts
	Env      []string            // its whole environment, NAME=value
	In       []byte              // its standard input
	Limit    int                 // bytes of an answer; it is stopped when it writes more
	Timeout  time.Duration       // stopped after it; 0 is never
	Log      func(line string)   // takes each line of standard error, redacted; may be nil
	Secrets  *providers.Redactor // what must not be seen in any line; may be nil
	Grace    time.Duration       // between SIGTERM and SIGKILL; 0 is the constant Grace
}

// Reply is what a program said before it ended by itself.
type Reply struct {
	Exit int      // exit code
	Out  []byte   // its standard output, at most Limit bytes
	Tail []string // last lines of standard error, redacted, at most TailLines
}

var (
	errLimit   = errors.New("the answer is too large")
	errExpired = errors.New("no answer in time")
)

// Ask starts the program and waits for its end; whatever it started ends with
// it. An exit code other than 0 is no error here. Errors are
// *providers.Fault:
//
//   - Invalid: it could not be started; nothing was run.
//   - Unavailable: this machine is out of processes or memory; nothing was run.
//   - Unknown: it was stopped, for its time, its size or because ctx ended, or
//     somebody killed it. Nobody can say how far it came.
func Ask(ctx context.Context, p Program) (Reply, error) {
	out := newOutput(p.Log, p.Secrets)
	command := Command{Provider: p.Provider, Name: p.Name}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if p.Timeout > 0 {
		timer := time.AfterFunc(p.Timeout, func() { stop(errExpired) })
		defer timer.Stop()
	}
	if ctx.Err() != nil {
		return Reply{}, p.fault(providers.Unknown, fmt.Errorf("was not started: %w", causeOf(ctx)), "")
	}
	grace := cmp.Or(p.Grace, Grace)
	group, err := newGroup(ctx, grace)
	if err != nil {
		return Reply{}, p.named(command.startFault(ctx, err))
	}
	answer := &bounded{limit: p.Limit, over: func() { stop(errLimit) }}
	child := p.command(ctx, answer, out, grace)
	group.join(ctx, child)
	if err = child.Start(); err != nil {
		group.end(true)
		return Reply{}, p.named(command.startFault(ctx, err))
	}
	err = child.Wait()
	group.end(true)
	out.flush()
	reply := Reply{Exit: child.ProcessState.ExitCode(), Out: answer.data, Tail: out.tail}
	if errors.Is(err, exec.ErrWaitDelay) && group.cause == nil {
		err = nil // it ended; something that it had started held its output open
	}
	return reply, p.explain(group.cause, err, reply)
}

func (p Program) command(ctx context.Context, answer *bounded, log *output, grace time.Duration) *exec.Cmd {
	child := exec.CommandContext(ctx, p.Args[0], p.Args[1:]...)
	child.Dir, child.Env = p.Dir, p.Env
	child.Stdin, child.Stdout, child.Stderr = bytes.NewReader(p.In), answer, log
	child.WaitDelay = grace
	return child
}

// explain says what the end of a program means; cause is why it was stopped.
func (p Program) explain(cause, err error, r Reply) error {
	switch {
	case errors.Is(cause, errLimit):
		return p.fault(providers.Unknown, fmt.Errorf("the answer has more than %d bytes, and the program was stopped", p.Limit), "")
	case errors.Is(cause, errExpired):
		return p.fault(providers.Unknown, fmt.Errorf("no answer within %v, and the program was stopped%s", p.Timeout, last(r.Tail)),
			"raise the timeout, or make the program answer sooner")
	case cause != nil:
		return p.fault(providers.Unknown, fmt.Errorf("was stopped: %w", cause), "")
	case err != nil && r.Exit < 0:
		return p.fault(providers.Unknown, fmt.Errorf("was ended from outside: %w%s", err, last(r.Tail)), "")
	}
	return nil
}

// last quotes the last line of standard error that says something.
func last(tail []string) string {
	for i := len(tail) - 1; i >= 0; i-- {
		if tail[i] != "" {
			return fmt.Sprintf("; it last logged: %s", tail[i])
		}
	}
	return ""
}

func (p Program) fault(kind providers.Kind, err error, hint string) error {
	return &providers.Fault{Provider: p.Provider, Op: p.Name, Kind: kind, Err: err, Hint: hint}
}

// named is a fault of a command as one of the program.
func (p Program) named(err error) error {
	hint := "check the setting command, and that the file may be executed"
	return p.fault(providers.KindOf(err), errors.Unwrap(err), hint)
}

// bounded keeps what a program writes up to a limit, and calls over once when
// there is more. It takes all, so that the program does not die of it before
// it is told to stop.
type bounded struct {
	limit int
	data  []byte
	over  func()
	done  bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	room := min(len(p), b.limit-len(b.data))
	b.data = append(b.data, p[:room]...)
	if room < len(p) && !b.done {
		b.done = true
		b.over()
	}
	return len(p), nil
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

// The exit codes. This file is the only place that maps an outcome or an
// error to one, to a message and to a remedy.
const (
	exitDone       = 0
	exitFailed     = 1
	exitNotYet     = 2
	exitPaused     = 3
	exitConflict   = 4
	exitUnsure     = 5
	exitUnfinished = 6
	exitUsage      = 64
	exitInternal   = 70
)

// exitCode is one row of the documented table.
type exitCode struct {
	Code    int
	Word    string // begins the last line, and is "result" in JSON
	Meaning string
	Do      string // what the caller does about it
}

// exitCodes is the table, for the documentation and for the words.
func exitCodes() []exitCode {
	return []exitCode{
		{exitDone, "done", "done; of `run` without `--until`: this version serves, verified at the router", "nothing"},
		{exitFailed, "failed", "the rollout failed (a gate, a step or a person said no) and the return is complete, or `onFailure: stop` left it as configured; of `doctor`: a check failed; of `generate --check`: a file is stale; of `setup --apply`: not all of it is there; of `judge`: the candidate is worse", "correct the version, then `manent run` with a new version or `manent retry`"},
		{exitNotYet, "not yet", "a wait, a planned approval or a signal ended the call; of `judge`: not enough data", "come back at the printed time, or approve; the same command continues"},
		{exitPaused, "paused", "a decision is needed that the plan did not foresee: drift, busy slot, orphan, a command that may not be run again", "`manent status`, then `manent approve` or `manent reject`"},
		{exitConflict, "conflict", "the environment is held by another rollout or another process, or this call belongs to an older run; nothing was touched", "wait for the other one, or end it with `manent revert`"},
		{exitUnsure, "could not tell", "a provider or store did not answer, or its answer makes no sense; nothing was moved because of it", "run the same command again; `manent doctor` says what does not answer"},
		{exitUnfinished, "return unfinished", "traffic may still reach the candidate; the message says where and why", "run the same command again, or `manent resume`, until it ends with 0 or 1"},
		{exitUsage, "usage", "wrong arguments or configuration; nothing was touched", "correct what the message names"},
		{exitInternal, "internal", "a defect of manent", "report it; the state is safe, the same command may be run again"},
	}
}

// word names a code.
func word(code int) string {
	i := slices.IndexFunc(exitCodes(), func(c exitCode) bool { return c.Code == code })
	return exitCodes()[i].Word
}

// ending is how a call of the command line ends.
type ending struct {
	Code    int
	Message string
	Hint    string
}

// endingOf maps what the engine came to.
func endingOf(out runner.Outcome) ending {
	e := ending{Code: exitInternal, Message: out.Message, Hint: out.Remedy}
	if out.Step != "" {
		e.Message = strings.TrimSuffix(out.Step+": "+out.Message, ": ")
	}
	switch out.Result {
	case runner.Complete, runner.Reached, runner.Progress:
		e.Code = exitDone
	case runner.Failure:
		e.Code = exitFailed
	case runner.NotYet, runner.Approval:
		e.Code = exitNotYet
	case runner.PausedNow:
		e.Code = exitPaused
	case runner.Unsure:
		e.Code = exitUnsure
	case runner.Unfinished:
		e.Code = exitUnfinished
	default:
		e.Message = fmt.Sprintf("unknown result %q: %s", out.Result, e.Message)
	}
	if e.Code == exitNotYet && out.Result == runner.NotYet && !out.Until.IsZero() {
		e.Hint = "come back at " + out.Until.UTC().Format(time.RFC3339)
	}
	return e
}

// problemsError is a configuration that cannot be used.
type problemsError struct{ problems config.Problems }

// Error counts the problems; each is printed on lines of its own.
func (e *problemsError) Error() string {
	if n := len(e.problems); n != 1 {
		return fmt.Sprintf("%d problems in the configuration", n)
	}
	return "1 problem in the configuration"
}

// exitError ends a call with a code of its own choice.
type exitError struct {
	ending
	err error // below, may be nil
}

// Error returns the message.
func (e *exitError) Error() string { return e.Message }

// Unwrap returns the error below.
func (e *exitError) Unwrap() error { return e.err }

// usage is a mistake in the arguments.
func usage(hint, format string, args ...any) error {
	return &runner.UsageError{Reason: fmt.Sprintf(format, args...), Hint: hint}
}

// endingOfError maps an error. What nobody classified is a defect.
func endingOfError(err error) ending {
	e := ending{Code: exitInternal, Message: err.Error(), Hint: providers.HintOf(err)}
	if own, ok := errors.AsType[*exitError](err); ok {
		return own.ending
	}
	if held, ok := errors.AsType[*runner.HeldError](err); ok {
		e.Code, e.Hint = exitConflict, held.Hint
		return e
	}
	if wrong, ok := errors.AsType[*runner.UsageError](err); ok {
		e.Code, e.Hint = exitUsage, wrong.Hint
		return e
	}
	if _, ok := errors.AsType[*problemsError](err); ok {
		e.Code, e.Hint = exitUsage, "`manent validate` lists them, `manent schema` is for your editor"
		return e
	}
	if errors.Is(err, context.Canceled) {
		e.Code, e.Message = exitNotYet, "interrupted: nothing new was begun, what was under way got 5 s to end and will be found as it is"
		e.Hint = "the same command continues"
		return e
	}
	_, unsure := errors.AsType[*runner.UnsureError](err)
	_, fault := errors.AsType[*providers.Fault](err)
	switch {
	case fault && !unsure && providers.KindOf(err) == providers.Invalid:
		e.Code = exitUsage // settings, an address, a variable: refused before any call
	case fault || unsure || errors.Is(err, context.DeadlineExceeded):
		e.Code = exitUnsure
	}
	return e
}

// beforehand is an error met before anything was touched: what somebody
// definitely refuses there (a secret that is not set) is to be corrected, not
// to be tried again.
func beforehand(err error) error {
	if err == nil || !providers.KindOf(err).Definite() {
		return err
	}
	return &exitError{err: err, ending: ending{Code: exitUsage, Message: err.Error(), Hint: providers.HintOf(err)}}
}

// exitAtOnce ends the process where it stands, after a second signal: nobody
// can say how far the call in flight came.
func exitAtOnce() {
	fmt.Fprintln(os.Stderr, "manent: could not tell: interrupted twice, nothing was waited for")
	fmt.Fprintln(os.Stderr, "hint: run the same command again, it continues from what it finds")
	os.Exit(exitUnsure)
}

// interrupted is the ending of a call that a signal may have ended: while the
// stored rollout is on its way back, traffic may still reach the candidate.
func (a *app) interrupted(ctx context.Context, p place, err error) error {
	if !errors.Is(err, context.Canceled) {
		return err
	}
	doc, bad := a.late(ctx, p)
	if bad != nil || doc.Rollout == nil || doc.Rollout.Status != state.Returning {
		return err
	}
	e := endingOfError(err)
	return &exitError{err: err, ending: ending{
		Code: exitUnfinished, Message: fmt.Sprintf("version %s is on its way back: %s", doc.Rollout.Version, e.Message),
		Hint: "run the same command again, or `manent resume`, until traffic is back",
	}}
}

// unreturned is the ending of a return that was asked for and could not be
// driven to its end, whatever kept it.
func unreturned(err error) error {
	e := endingOfError(err)
	return &exitError{err: err, ending: ending{
		Code: exitUnfinished, Message: "the decision is recorded, but the return is not complete: " + e.Message,
		Hint: "run the same command again, or `manent resume`, until traffic is back",
	}}
}

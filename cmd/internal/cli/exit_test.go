package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
)

func TestEndingOfOutcome(t *testing.T) {
	until := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for result, want := range map[runner.Result]int{
		runner.Complete: 0, runner.Reached: 0, runner.Progress: 0,
		runner.Failure: 1, runner.NotYet: 2, runner.Approval: 2, runner.PausedNow: 3,
		runner.Unsure: 5, runner.Unfinished: 6, "surprise": 70,
	} {
		t.Run(string(result), func(t *testing.T) {
			got := endingOf(runner.Outcome{Result: result, Step: "traffic@5", Message: "because", Until: until, Remedy: "do this"})
			if got.Code != want || !strings.Contains(got.Message, "traffic@5: because") {
				t.Errorf("got %+v, expected code %d and step and message", got, want)
			}
			hint := "do this"
			if result == runner.NotYet {
				hint = "come back at 2026-11-30T12:00:00Z"
			}
			if got.Hint != hint {
				t.Errorf("got hint %q, expected %q", got.Hint, hint)
			}
		})
	}
}

func TestEndingOfError(t *testing.T) {
	fault := func(kind providers.Kind) error {
		return &providers.Fault{Provider: "git", Kind: kind, Err: errors.New("broke"), Hint: "mend it"}
	}
	for _, tc := range []struct {
		name string
		err  error
		code int
		hint string
	}{
		{"held", &runner.HeldError{Reason: "r", Hint: "wait"}, 4, "wait"},
		{"usage", &runner.UsageError{Reason: "r", Hint: "add it"}, 64, "add it"},
		{"unsure", &runner.UnsureError{Step: "state", Err: errors.New("x")}, 5, ""},
		{"unsure, with the fault's hint", &runner.UnsureError{Step: "state", Err: fault(providers.Unavailable)}, 5, "mend it"},
		{"unsure although definite: the state is damaged", &runner.UnsureError{Step: "state", Err: fault(providers.Invalid)}, 5, "mend it"},
		{"a store that does not answer", fault(providers.Unavailable), 5, "mend it"},
		{"nobody can say", fault(providers.Unknown), 5, "mend it"},
		{"settings", fault(providers.Invalid), 64, "mend it"},
		{"a deadline", fmt.Errorf("read: %w", context.DeadlineExceeded), 5, ""},
		{"a signal", fmt.Errorf("read: %w", context.Canceled), 2, "the same command continues"},
		{"configuration", &problemsError{problems: config.Problems{{Message: "m"}}}, 64, "`manent validate` lists them, `manent schema` is for your editor"},
		{"nobody classified it", errors.New("x"), 70, ""},
		{"a secret that is not set, before anything", beforehand(fault(providers.NotFound)), 64, "mend it"},
		{"a source of secrets that does not answer", beforehand(fault(providers.Unavailable)), 5, "mend it"},
		{"a return that was asked for", unreturned(&runner.HeldError{Reason: "r"}), 6, "run the same command again, or `manent resume`, until traffic is back"},
		{"a return, interrupted", unreturned(context.Canceled), 6, "run the same command again, or `manent resume`, until traffic is back"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := endingOfError(tc.err)
			if got.Code != tc.code || got.Hint != tc.hint || got.Message == "" {
				t.Errorf("got %+v, expected code %d with hint %q", got, tc.code, tc.hint)
			}
		})
	}
}

// Every code that can come out is in the documented table, once.
func TestExitCodesAreDocumented(t *testing.T) {
	seen := map[int]bool{}
	for _, c := range exitCodes() {
		if seen[c.Code] || c.Word == "" || c.Meaning == "" || c.Do == "" {
			t.Errorf("code %d is there twice or says nothing: %+v", c.Code, c)
		}
		seen[c.Code] = true
	}
	for _, code := range []int{exitDone, exitFailed, exitNotYet, exitPaused, exitConflict, exitUnsure, exitUnfinished, exitUsage, exitInternal} {
		if !seen[code] {
			t.Errorf("code %d is not in the table", code)
		}
	}
}

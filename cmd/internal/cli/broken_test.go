package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/manent/action/providers/store"
	"github.com/manent/action/runner"
	"github.com/manent/action/state"
)

// A defect met in one environment is that environment's error.
func TestDefectIsOfOneEnvironment(t *testing.T) {
	a, nowhere := testApp(t), place{key: "shop/web/prod"} // without a session every read panics
	_, resumed := a.resumeOne(t.Context(), nowhere, false)
	_, _, shown := a.statusOf(t.Context(), nowhere)
	for verb, err := range map[string]error{"resume": resumed, "status": shown} {
		if err == nil || !strings.HasPrefix(err.Error(), "internal: panic: ") || endingOfError(err).Code != exitInternal {
			t.Errorf("%s: %v, expected an internal error", verb, err)
		}
	}
	v, err := a.overview(t.Context(), []place{nowhere, {key: "file:state", broken: io.ErrUnexpectedEOF}})
	if want := "shop/web/prod: internal: internal: panic: "; err == nil || !strings.HasPrefix(v.Text, want) || !strings.Contains(v.Text, "\nfile:state: internal: unexpected EOF\n") {
		t.Errorf("%q, %v, expected a line for each", v.Text, err)
	}
}

// A store that could list only some keys gives those, and the error last.
func TestListed(t *testing.T) {
	a := testApp(t)
	bad := &runner.UnsureError{Step: "state", Err: errors.New("list: shop/app: denied")}
	all := a.listed(nil, []string{"shop/api/prod", store.ProbeKey, "shop/web/prod"}, bad)
	if len(all) != 3 || all[0].key != "shop/api/prod" || all[1].key != "shop/web/prod" || all[0].broken != nil {
		t.Fatalf("got %+v", all)
	}
	if _, err := a.document(t.Context(), all[2]); !errors.Is(err, bad) {
		t.Errorf("got %v, expected what the store said", err)
	}
}

// Somebody else at work is no failure of a sweep, but a return is not over.
func TestBusy(t *testing.T) {
	held := &runner.HeldError{Reason: "process 7 on ci is at work on shop/web/prod (deploy)", Hint: "wait for it"}
	for status, want := range map[state.Status]int{state.Running: 0, state.Waiting: 0, state.Returning: exitUnfinished} {
		out := busy(&state.Rollout{Status: status}, held)
		if got := endingOf(sweep([]runner.Outcome{out}, nil)).Code; got != want || out.Message != held.Reason {
			t.Errorf("%s: ended with %d and %q, expected %d", status, got, out.Message, want)
		}
	}
}

// Only a signal is looked into.
func TestInterruptedLeavesErrorsAlone(t *testing.T) {
	a := testApp(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.interrupted(ctx, place{}, io.EOF); !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
	unread := place{broken: io.ErrUnexpectedEOF}
	if err := a.interrupted(ctx, unread, ctx.Err()); endingOfError(err).Code != exitNotYet {
		t.Errorf("got %v, expected the signal", err)
	}
}

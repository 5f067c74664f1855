package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/runner"
	"github.com/manent/action/state"
)

// TestPluginCheck: what the plugin misses ends a rollout at config, and what it
// cannot tell holds it there.
func TestPluginCheck(t *testing.T) {
	for kind, want := range map[providers.Kind]runner.Result{providers.Denied: runner.Failure, providers.Unavailable: ""} {
		checked(t, kind, want, func(b *plugin.Bundle, check func(context.Context) error) { b.Check = check })
		checked(t, kind, want, func(b *plugin.Bundle, check func(context.Context) error) {
			b.CheckSlot = func(ctx context.Context, free state.Slot) error {
				if free != state.SlotB {
					t.Errorf("slot %q was looked at, expected the one that does not serve", free)
				}
				return check(ctx)
			}
		})
	}
}

func checked(t *testing.T, kind providers.Kind, want runner.Result, put func(*plugin.Bundle, func(context.Context) error)) {
	t.Helper()
	s := newSim(t, routertest.MemoryOptions{})
	e, asked := s.process(), 0
	e.World.Plugin = func(string) plugin.Bundle {
		b := s.bundle()
		put(&b, func(ctx context.Context) error {
			asked++
			if _, limited := ctx.Deadline(); !limited {
				t.Error("a call without a deadline")
			}
			return &providers.Fault{Provider: "p", Kind: kind, Err: errors.New("may not write"), Hint: "allow it"}
		})
		return b
	}
	writes := 0
	s.onWrite = func() { writes++ }
	out, err := e.Run(t.Context(), runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{NoWait: true})
	if out.Result != want || asked == 0 || writes > 0 {
		t.Errorf("%v: %+v, %v; asked %d times, %d weights written", kind, out, err, asked, writes)
	}
	if want == runner.Failure && (out.Step != "config" || !strings.Contains(out.Message, "may not write")) {
		t.Errorf("%v: at %s: %s", kind, out.Step, out.Message)
	}
}

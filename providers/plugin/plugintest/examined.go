package plugintest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/state"
)

// Examined is what a plugin says of the machine b1 before a rollout, by its
// findings and by its check of slot b. The machines are a1, b1 and b2, and only
// b1 may lack something.
func Examined(t testing.TB, bundle plugin.Bundle) (plugin.Finding, error) {
	t.Helper()
	var names []string
	var b1 plugin.Finding
	for _, f := range bundle.Findings(t.Context()) {
		if names = append(names, f.Name); f.Name == "slot b, b1" {
			b1 = f
		} else if f.Err != nil || f.Warn {
			t.Errorf("%s: %+v, only b1 lacks something", f.Name, f)
		}
	}
	if diff := cmp.Diff([]string{"slot a, a1", "slot b, b1", "slot b, b2"}, names); diff != "" {
		t.Errorf("machines that were looked at:\n%s", diff)
	}
	if err := bundle.CheckSlot(t.Context(), state.SlotA); err != nil {
		t.Errorf("slot a: %v, nothing is needed there of slot b's machines", err)
	}
	return b1, bundle.CheckSlot(t.Context(), state.SlotB)
}

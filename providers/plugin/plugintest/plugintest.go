// Package plugintest is the conformance suite of the contract plugin: every
// implementation passes it in its own tests. It must not know any of them.
package plugintest

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/state"
)

// Op is one call of the contract.
type Op string

// The calls.
const (
	Deploy Op = "deploy"
	Ready  Op = "ready"
	Scale  Op = "scale"
	Retire Op = "retire"
)

// Mood is what the world answers to a call.
type Mood string

// The moods.
const (
	Fine    Mood = "fine"    // carries it out
	NotYet  Mood = "not-yet" // has no capacity yet (Ready)
	Refuses Mood = "refuses" // says no, and prints World.Secret while it does
	Hangs   Mood = "hangs"   // never answers
)

// World is a fresh place to deploy into, as an implementation's test makes it.
type World struct {
	Name   string // of the provider, as errors name it
	Traits plugin.Traits

	// Open makes a new instance over this world, as a process on another
	// machine does.
	Open func(t *testing.T) plugin.Bundle
	// Holds is the version that the world itself has in a slot, "" for none.
	Holds func(t *testing.T, slot state.Slot) string
	// Capacity is the share (percent) for which the world has capacity in a
	// slot; used with Traits.Scales only.
	Capacity func(t *testing.T, slot state.Slot) float64
	// Set decides how the world answers a call from now on; all are Fine in
	// the beginning.
	Set func(t *testing.T, op Op, mood Mood)
	// Started returns once a call that Hangs has reached the world.
	Started func(t *testing.T, op Op)

	Secret string // must not be seen in any error or output
	Lines  bool   // a deployment prints lines
}

// Run runs the suite; fresh is called for each test.
func Run(t *testing.T, fresh func(t *testing.T) World) {
	tests := []struct {
		name string
		test func(*testing.T, World)
	}{
		{"traits are what the bundle has", traits},
		{"deploy fills its slot and no other", deploy},
		{"deploy again ends in the same place", again},
		{"deploy keeps what it was given", keeps},
		{"deploy prints lines", prints},
		{"a refusal is definite", refused},
		{"a cancelled call does nothing", cancelled},
		{"a call that hangs ends with its context", hangs},
		{"ready tells yes, not yet and no apart", ready},
		{"ready of what was there before", adopted},
		{"scale and retire may be repeated", scale},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) { tc.test(t, fresh(t)) })
	}
}

// Call is what the suite calls with.
func Call(slot state.Slot, version string) plugin.Call {
	return plugin.Call{
		Slot: slot, StepID: "r1/deploy/" + version,
		Release: state.Release{Version: version, Ref: state.Ref{state.RefRollout: "r1"}},
		Vars:    map[string]string{"MANENT_PROJECT": "shop", "MANENT_TRACK": "candidate"},
	}
}

func mustDeploy(t *testing.T, b plugin.Bundle, call plugin.Call) state.Release {
	t.Helper()
	release, err := b.Deployer.Deploy(t.Context(), call)
	if err != nil {
		t.Fatalf("deploy %s into %s: %v", call.Release.Version, call.Slot, err)
	}
	return release
}

func traits(t *testing.T, w World) {
	bundle := w.Open(t)
	if diff := cmp.Diff(w.Traits, bundle.Traits()); diff != "" {
		t.Errorf("traits of the specification and of the bundle differ:\n%s", diff)
	}
	if bundle.Deployer == nil && bundle.Router == nil {
		t.Error("the bundle has neither a deployer nor a router")
	}
}

func deploy(t *testing.T, w World) {
	bundle := w.Open(t)
	for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
		if got := mustDeploy(t, bundle, Call(slot, "v-"+string(slot))); got.Version != "v-"+string(slot) {
			t.Errorf("deploy returned version %q for slot %s", got.Version, slot)
		}
	}
	mustDeploy(t, bundle, Call(state.SlotB, "v3"))
	if a, b := w.Holds(t, state.SlotA), w.Holds(t, state.SlotB); a != "v-a" || b != "v3" {
		t.Errorf("slots hold %q and %q, expected v-a and v3", a, b)
	}
}

func again(t *testing.T, w World) {
	first := mustDeploy(t, w.Open(t), Call(state.SlotB, "v2"))
	second := mustDeploy(t, w.Open(t), Call(state.SlotB, "v2"))
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("the same step, entered again by another process, ended elsewhere:\n%s", diff)
	}
	if got := w.Holds(t, state.SlotB); got != "v2" {
		t.Errorf("slot b holds %q, expected v2", got)
	}
}

func keeps(t *testing.T, w World) {
	call := Call(state.SlotA, "v1")
	given := maps.Clone(call.Release.Ref)
	release := mustDeploy(t, w.Open(t), call)
	if release.Ref[state.RefRollout] != "r1" {
		t.Errorf("returned reference %v, expected %s to be kept", release.Ref, state.RefRollout)
	}
	if diff := cmp.Diff(given, call.Release.Ref); diff != "" {
		t.Errorf("the caller's reference was changed:\n%s", diff)
	}
}

func prints(t *testing.T, w World) {
	if !w.Lines {
		return
	}
	var lines []string
	call := Call(state.SlotA, "v1")
	call.Output = func(line string) { lines = append(lines, line) }
	mustDeploy(t, w.Open(t), call)
	if len(lines) == 0 || strings.ContainsAny(strings.Join(lines, ""), "\r\n") {
		t.Errorf("output %q, expected lines without their ends", lines)
	}
}

// try makes one call of the contract; ok is Ready's answer.
func try(ctx context.Context, b plugin.Bundle, op Op, call plugin.Call) (ok bool, reason string, err error) {
	switch op {
	case Deploy:
		_, err = b.Deployer.Deploy(ctx, call)
	case Ready:
		ok, reason, err = b.Ready.Ready(ctx, call, 25)
	case Scale:
		err = b.Scaler.Scale(ctx, call, 25)
	case Retire:
		err = b.Scaler.Retire(ctx, call)
	}
	return ok, reason, err
}

// ops are the calls that a bundle can answer.
func ops(b plugin.Bundle) []Op {
	var out []Op
	if b.Deployer != nil {
		out = append(out, Deploy)
	}
	if b.Ready != nil {
		out = append(out, Ready)
	}
	if b.Scaler != nil {
		out = append(out, Scale, Retire)
	}
	return out
}

func refused(t *testing.T, w World) {
	bundle := w.Open(t)
	for _, op := range ops(bundle) {
		w.Set(t, op, Refuses)
		var shown strings.Builder
		call := Call(state.SlotB, "v2")
		call.Output = func(line string) { shown.WriteString(line) }
		ok, _, err := try(t.Context(), bundle, op, call)
		if err == nil || ok || !providers.KindOf(err).Definite() {
			t.Errorf("%s: %v and error %v (%v), expected a definite no", op, ok, err, providers.KindOf(err))
			continue
		}
		if strings.Count(err.Error(), w.Name+":") != 1 {
			t.Errorf("%s: error %q, expected it to name %s once", op, err, w.Name)
		}
		if w.Secret != "" && strings.Contains(err.Error()+providers.HintOf(err)+shown.String(), w.Secret) {
			t.Errorf("%s: error or output hold the secret", op)
		}
	}
	if got := w.Holds(t, state.SlotB); got != "" {
		t.Errorf("slot b holds %q after a refused deployment", got)
	}
}

func cancelled(t *testing.T, w World) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	bundle := w.Open(t)
	for _, op := range ops(bundle) {
		ok, _, err := try(ctx, bundle, op, Call(state.SlotB, "v2"))
		expectLost(t, op, ok, err)
	}
	if got := w.Holds(t, state.SlotB); got != "" {
		t.Errorf("slot b holds %q after a cancelled call", got)
	}
}

func expectLost(t *testing.T, op Op, ok bool, err error) {
	t.Helper()
	var fault *providers.Fault
	if ok || !providers.Lost(err) || providers.KindOf(err) != providers.Unknown || !errors.As(err, &fault) {
		t.Errorf("%s: %v and error %v, expected a fault of kind unknown that wraps the context's error", op, ok, err)
	}
}

func hangs(t *testing.T, w World) {
	bundle := w.Open(t)
	for _, op := range ops(bundle) {
		w.Set(t, op, Hangs)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		go func() {
			w.Started(t, op)
			cancel()
		}()
		ok, _, err := try(ctx, bundle, op, Call(state.SlotB, "v2"))
		cancel()
		expectLost(t, op, ok, err)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: the call never reached the world", op)
		}
	}
}

func ready(t *testing.T, w World) {
	bundle := w.Open(t)
	if bundle.Ready == nil {
		return
	}
	call := Call(state.SlotB, "v2")
	call.Release = mustDeploy(t, bundle, call)
	w.Set(t, Ready, NotYet)
	if ok, reason, err := try(t.Context(), bundle, Ready, call); ok || err != nil || reason == "" {
		t.Errorf("not yet: %v, reason %q, error %v, expected false with a reason and no error", ok, reason, err)
	}
	w.Set(t, Ready, Fine)
	if ok, reason, err := try(t.Context(), w.Open(t), Ready, call); !ok || err != nil {
		t.Errorf("ready: %v, reason %q, error %v, expected true", ok, reason, err)
	}
}

// adopted: of what served before manent nothing is known, not even its version.
// It counts as any other version, or a first rollout could never be returned.
func adopted(t *testing.T, w World) {
	bundle := w.Open(t)
	if bundle.Ready == nil {
		return
	}
	mustDeploy(t, bundle, Call(state.SlotB, "v2"))
	w.Set(t, Ready, Fine) // a real system may leave that to somebody whom the test plays
	call := Call(state.SlotB, "")
	call.Release.Ref = nil
	if ok, reason, err := bundle.Ready.Ready(t.Context(), call, 100); !ok || err != nil {
		t.Errorf("what was there before: %v, reason %q, error %v, expected ready", ok, reason, err)
	}
	w.Set(t, Ready, NotYet)
	if ok, reason, err := bundle.Ready.Ready(t.Context(), call, 100); ok || err != nil || reason == "" {
		t.Errorf("what was there before and is not up: %v, reason %q, error %v, expected false with a reason", ok, reason, err)
	}
}

func scale(t *testing.T, w World) {
	bundle := w.Open(t)
	if bundle.Scaler == nil {
		return
	}
	call := Call(state.SlotB, "v2")
	call.Gradual = true
	mustDeploy(t, bundle, Call(state.SlotA, "v1"))
	call.Release = mustDeploy(t, bundle, call)
	highest := 0.0
	for _, share := range []float64{12.5, 25, 25, 100, 50} {
		if err := w.Open(t).Scaler.Scale(t.Context(), call, share); err != nil {
			t.Fatalf("scale to %v %%: %v", share, err)
		}
		highest = max(highest, share)
		if got := w.Capacity(t, state.SlotB); got != share && got != highest {
			t.Errorf("capacity for %v %%, expected %v, or %v where nothing is taken away", got, share, highest)
		}
	}
	for range 2 {
		if err := w.Open(t).Scaler.Retire(t.Context(), call); err != nil {
			t.Fatalf("retire: %v", err)
		}
	}
	if got := w.Capacity(t, state.SlotB); got != 0 {
		t.Errorf("capacity for %v %% after retire, expected none", got)
	}
	if got := w.Holds(t, state.SlotA); got != "v1" {
		t.Errorf("slot a holds %q after slot b was retired, expected v1", got)
	}
	mustDeploy(t, w.Open(t), Call(state.SlotB, "v3"))
	if got := w.Capacity(t, state.SlotB); got < 100 {
		t.Errorf("capacity for %v %% after a deployment that is not gradual into the retired slot, expected all", got)
	}
}

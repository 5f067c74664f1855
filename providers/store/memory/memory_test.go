package memory_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/providers/store/memory"
	"github.com/manent/action/providers/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Harness {
		place := memory.New()
		return storetest.Harness{
			Open: func(*testing.T) store.Store { return place.Again() },
			Plant: func(t *testing.T, key string, data []byte) {
				if err := place.Plant(key, data); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

// TestFaults: what each fault leaves in the store, at once and later, and
// what the caller is told.
func TestFaults(t *testing.T) {
	tests := []struct {
		fault              memory.Fault
		kind               providers.Kind
		killed             bool
		atOnce, afterwards string
	}{
		{memory.Refused, providers.Unavailable, false, "one", "one"},
		{memory.Lost, providers.Unknown, false, "one", "one"},
		{memory.Unanswered, providers.Unknown, false, "two", "two"},
		{memory.Late, providers.Unknown, false, "one", "two"},
		{memory.KillBefore, providers.Unknown, true, "one", "one"},
		{memory.KillAfter, providers.Unknown, true, "two", "two"},
	}
	if len(tests) != len(memory.Faults()) {
		t.Fatalf("%d faults tested, there are %d", len(tests), len(memory.Faults()))
	}
	for _, test := range tests {
		t.Run(test.fault.String(), func(t *testing.T) {
			s := memory.New()
			s.Hook = memory.At("put", 2, test.fault)
			first := put(t, s, "one", "")
			_, err := s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("two")}, first)
			if err == nil || providers.KindOf(err) != test.kind || errors.Is(err, memory.ErrKilled) != test.killed {
				t.Fatalf("the caller is told %v, expected kind %q, killed %v", err, test.kind, test.killed)
			}
			for i, want := range []string{test.atOnce, test.afterwards, test.afterwards} {
				if got, _, err := s.Again().Get(t.Context(), storetest.Key); err != nil || string(got) != want {
					t.Fatalf("read %d: %q, %v, expected %q", i+1, got, err, want)
				}
			}
			if _, _, err := s.Get(t.Context(), storetest.Key); errors.Is(err, memory.ErrKilled) != test.killed {
				t.Fatalf("the next call answers %v, expected killed: %v", err, test.killed)
			}
		})
	}
}

func TestLateWriteIsStillConditional(t *testing.T) {
	s := memory.New()
	s.Hook = memory.At("put", 2, memory.Late)
	first := put(t, s, "one", "")
	if _, err := s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("late")}, first); err == nil {
		t.Fatal("the late write was answered")
	}
	put(t, s.Again(), "two", first)
	s.Settle()
	if got, _, err := s.Get(t.Context(), storetest.Key); err != nil || string(got) != "two" {
		t.Fatalf("%q, %v, expected the late write to be refused", got, err)
	}
}

func TestReadsMeetFaults(t *testing.T) {
	for _, fault := range memory.Faults() {
		s := memory.New()
		put(t, s, "one", "")
		s.Hook = memory.At("get", 1, fault)
		if got, revision, err := s.Get(t.Context(), storetest.Key); err == nil || got != nil || revision != "" {
			t.Errorf("%v: %q at %q, %v, expected only an error", fault, got, revision, err)
		}
	}
}

func BenchmarkPut(b *testing.B) {
	s := memory.New()
	var revision store.Revision
	body := make([]byte, 8<<10)
	for b.Loop() {
		next, err := s.Put(b.Context(), storetest.Key, store.Change{Data: body}, revision)
		if err != nil {
			b.Fatal(err)
		}
		revision = next
	}
	if n, err := strconv.Atoi(string(revision)); err != nil || n < b.N {
		b.Fatalf("revision %q after %d writes", revision, b.N)
	}
}

func put(t *testing.T, s store.Store, body string, expect store.Revision) store.Revision {
	t.Helper()
	revision, err := s.Put(t.Context(), storetest.Key, store.Change{Data: []byte(body)}, expect)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

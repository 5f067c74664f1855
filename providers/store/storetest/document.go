package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
)

func absentKey(t *testing.T, s *suite) {
	if body, _ := s.get(t, s.store, Key); body != "" {
		t.Fatalf("a new place holds %q", body)
	}
	_, err := s.store.Object(t.Context(), Key, "readings/r1/1.json")
	s.fault(t, err, providers.NotFound)
	s.lists(t, "")
}

func create(t *testing.T, s *suite) {
	revision := s.put(t, Key, "one", "")
	s.holds(t, Key, "one", revision)
}

func createTwice(t *testing.T, s *suite) {
	revision := s.put(t, Key, "one", "")
	s.conflict(t, "two", "")
	s.holds(t, Key, "one", revision)
}

func update(t *testing.T, s *suite) {
	first := s.put(t, Key, "one", "")
	second := s.put(t, Key, "two", first)
	s.holds(t, Key, "two", second)
}

func updateAbsent(t *testing.T, s *suite) {
	revision := s.put(t, "shop/web/test", "one", "")
	s.conflict(t, "two", revision)
	s.holds(t, Key, "", "")
}

func updateStale(t *testing.T, s *suite) {
	first := s.put(t, Key, "one", "")
	second := s.put(t, Key, "two", first)
	s.conflict(t, "three", first)
	s.holds(t, Key, "two", second)
	other := s.Open(t)
	_, err := other.Put(t.Context(), Key, store.Change{Data: []byte("four"), Note: "four"}, first)
	s.fault(t, err, providers.Conflict)
	s.holds(t, Key, "two", second)
}

func updateMadeUp(t *testing.T, s *suite) {
	revision := s.put(t, Key, "one", "")
	s.conflict(t, "two", `0123456789abcdef0123456789abcdef01234567`)
	s.holds(t, Key, "one", revision)
}

// sameAgain: identical bytes may or may not make a new revision, but never an
// error, and the revision that is returned must be good for the next write.
func sameAgain(t *testing.T, s *suite) {
	first := s.put(t, Key, "one", "")
	again, err := s.store.Put(t.Context(), Key, store.Change{Data: []byte("one"), Note: "again"}, first)
	if err != nil {
		t.Fatalf("identical bytes: %v", err)
	}
	third := s.put(t, Key, "two", again)
	s.holds(t, Key, "two", third)
}

func sameBytes(t *testing.T, s *suite) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	bodies := map[string]string{
		"every byte":  string(all),
		"no newline":  "x",
		"newlines":    "\n\r\n\n",
		"large":       strings.Repeat("0123456789abcdef", 64<<10),
		"like a blob": "blob 3\x00abc",
		"like input":  "data 3\nabc\ndone\n",
	}
	for name, body := range bodies {
		key := "shop/web/" + name
		revision := s.put(t, key, body, "")
		s.holds(t, key, body, revision)
	}
}

func otherProcess(t *testing.T, s *suite) {
	first := s.put(t, Key, "one", "")
	other := s.Open(t)
	second, err := other.Put(t.Context(), Key, store.Change{Data: []byte("two"), Note: "two"}, first)
	if err != nil {
		t.Fatalf("another process's write: %v", err)
	}
	if body, at := s.get(t, s.store, Key); body != "two" || at != second {
		t.Fatalf("the first process reads %q at %q, expected %q at %q", body, at, "two", second)
	}
	third := s.put(t, Key, "three", second)
	if body, at := s.get(t, other, Key); body != "three" || at != third {
		t.Fatalf("the other process reads %q at %q, expected %q at %q", body, at, "three", third)
	}
}

func manyWrites(t *testing.T, s *suite) {
	var revision store.Revision
	seen := map[store.Revision]bool{}
	for i := range 12 {
		revision = s.put(t, Key, fmt.Sprintf("body %d", i), revision)
		if seen[revision] {
			t.Fatalf("revision %q was used before", revision)
		}
		seen[revision] = true
	}
	s.holds(t, Key, "body 11", revision)
}

func oversizeWrite(t *testing.T, s *suite) {
	revision := s.put(t, Key, "one", "")
	large := bytes.Repeat([]byte("x"), store.MaxDocument+1)
	_, err := s.store.Put(t.Context(), Key, store.Change{Data: large, Note: "large"}, revision)
	s.fault(t, err, providers.Invalid)
	tooLarge(t, err)
	_, err = s.store.Put(t.Context(), Key, store.Change{
		Data: []byte("two"), Note: "two", Objects: map[string][]byte{"readings/r1/1.json": large},
	}, revision)
	s.fault(t, err, providers.Invalid)
	tooLarge(t, err)
	s.holds(t, Key, "one", revision)
}

func oversizeRead(t *testing.T, s *suite) {
	s.Plant(t, Key, bytes.Repeat([]byte("x"), store.MaxDocument+1))
	_, _, err := s.Open(t).Get(t.Context(), Key)
	s.fault(t, err, providers.Invalid)
	tooLarge(t, err)

	const fits = "shop/web/test"
	s.Plant(t, fits, bytes.Repeat([]byte("y"), store.MaxDocument))
	if body, _ := s.get(t, s.Open(t), fits); len(body) != store.MaxDocument {
		t.Fatalf("%d bytes read, expected the %d that are allowed", len(body), store.MaxDocument)
	}
}

func tooLarge(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrTooLarge) {
		t.Fatalf("%v, expected store.ErrTooLarge in its chain", err)
	}
}

func cancelled(t *testing.T, s *suite) {
	revision := s.put(t, Key, "one", "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := s.store.Get(ctx, Key)
	s.lost(t, err)
	_, err = s.store.Put(ctx, Key, store.Change{Data: []byte("two"), Note: "two"}, revision)
	s.lost(t, err)
	_, err = s.store.Object(ctx, Key, "readings/r1/1.json")
	s.lost(t, err)
	_, err = s.store.List(ctx, "")
	s.lost(t, err)
	s.holds(t, Key, "one", revision)
	if _, err = s.store.Put(t.Context(), Key, store.Change{Data: []byte("three"), Note: "three"}, revision); err != nil {
		t.Fatalf("after cancelled calls: %v", err)
	}
}

func (s *suite) lost(t *testing.T, err error) {
	t.Helper()
	s.fault(t, err, providers.Unknown)
	if !providers.Lost(err) {
		t.Fatalf("%v, expected the context's error in its chain", err)
	}
}

func denied(t *testing.T, s *suite) {
	if s.Denied == nil {
		return // the store has no credentials to be wrong
	}
	revision := s.put(t, Key, "one", "")
	other := s.Denied(t)
	_, _, err := other.Get(t.Context(), Key)
	s.fault(t, err, providers.Denied)
	_, err = other.Put(t.Context(), Key, store.Change{Data: []byte("two"), Note: "two"}, revision)
	s.fault(t, err, providers.Denied)
	_, err = other.Object(t.Context(), Key, "readings/r1/1.json")
	s.fault(t, err, providers.Denied)
	_, err = other.List(t.Context(), "")
	s.fault(t, err, providers.Denied)
	s.holds(t, Key, "one", revision)
}

func probe(t *testing.T, s *suite) {
	for range 2 { // again over what the first run left
		if err := store.Probe(t.Context(), s.store, store.ProbeKey); err != nil {
			t.Fatalf("%v (hint: %s)", err, providers.HintOf(err))
		}
	}
	s.lists(t, "", store.ProbeKey)
}

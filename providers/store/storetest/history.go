package storetest

import (
	"testing"
	"time"

	"github.com/manent/action/providers/store"
)

// notes are what the history test writes, oldest first.
func notes() []string { return []string{"one", "two", "three\nlines\n\nhere", "four"} }

func history(t *testing.T, s *suite) {
	if _, ok := s.store.(store.Historian); !ok {
		return // the store keeps no versions
	}
	if entries := s.log(t, 10); len(entries) != 0 {
		t.Fatalf("history of an absent key: %v", entries)
	}
	var revision store.Revision
	var revisions []store.Revision
	for _, note := range notes() {
		change := store.Change{Data: []byte("body of " + note), Note: note}
		revision = s.change(t, Key, change, revision)
		revisions = append(revisions, revision)
	}
	s.put(t, "shop/web/test", "other", "")
	entries := s.log(t, 3)
	if len(entries) != 3 {
		t.Fatalf("%d entries, expected the 3 asked for", len(entries))
	}
	for i, entry := range entries {
		if entry.Note != notes()[3-i] || entry.Revision != revisions[3-i] {
			t.Errorf("entry %d is %q at %q, expected %q at %q", i, entry.Note, entry.Revision, notes()[3-i], revisions[3-i])
		}
		if age := time.Since(entry.At); age < -time.Minute || age > time.Hour {
			t.Errorf("entry %d is %v old", i, age)
		}
	}
	if entries = s.log(t, 100); len(entries) != 4 {
		t.Fatalf("%d entries, expected all 4", len(entries))
	}
	if body, at := s.get(t, s.store, Key); body != "body of four" || at != revision {
		t.Fatalf("after reading the history %q at %q, expected the last write at %q", body, at, revision)
	}
}

// log reads the history of Key as another process.
func (s *suite) log(t *testing.T, n int) []store.Entry {
	t.Helper()
	historian, ok := s.Open(t).(store.Historian)
	if !ok {
		t.Fatal("opened again, the store has no history")
	}
	entries, err := historian.Log(t.Context(), Key, n)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

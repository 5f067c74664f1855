package storetest

import (
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
)

func withObjects(body string, objects map[string]string, drop ...string) store.Change {
	change := store.Change{Data: []byte(body), Note: body, Drop: drop, Objects: map[string][]byte{}}
	for name, data := range objects {
		change.Objects[name] = []byte(data)
	}
	return change
}

// object demands a side object of Key.
func (s *suite) object(t *testing.T, name, want string) {
	t.Helper()
	for who, from := range map[string]store.Store{"the same process": s.store, "another process": s.reader(t)} {
		data, err := from.Object(t.Context(), Key, name)
		if err != nil {
			t.Fatalf("object %q read by %s: %v", name, who, err)
		}
		if string(data) != want {
			t.Fatalf("object %q read by %s: %q, expected %q", name, who, clip(string(data)), clip(want))
		}
	}
}

func (s *suite) noObject(t *testing.T, key, name string) {
	t.Helper()
	_, err := s.store.Object(t.Context(), key, name)
	s.fault(t, err, providers.NotFound)
	_, err = s.reader(t).Object(t.Context(), key, name)
	s.fault(t, err, providers.NotFound)
}

func objects(t *testing.T, s *suite) {
	first := s.change(t, Key, withObjects("one", map[string]string{
		"readings/r1/25%/1.json":    "reading 1",
		"readings/r1/eu/25%/1.json": "reading of eu\n",
		"readings/r1/../../x":       "kept inside",
		"readings/r1/ü \"q\"":       "quoted",
		"readings/r1/empty":         "",
	}), "")
	second := s.change(t, Key, withObjects("two", map[string]string{"readings/r1/25%/2.json": strings.Repeat("z", 100_000)}), first)
	third := s.put(t, Key, "three", second)
	s.object(t, "readings/r1/25%/1.json", "reading 1")
	s.object(t, "readings/r1/eu/25%/1.json", "reading of eu\n")
	s.object(t, "readings/r1/../../x", "kept inside")
	s.object(t, "readings/r1/ü \"q\"", "quoted")
	s.object(t, "readings/r1/empty", "")
	s.object(t, "readings/r1/25%/2.json", strings.Repeat("z", 100_000))
	s.noObject(t, Key, "readings/r1/25%/3.json")
	s.noObject(t, Key, "readings/r1/25%")
	s.holds(t, Key, "three", third)
	s.lists(t, "", Key)
}

func objectsRefused(t *testing.T, s *suite) {
	name := "readings/r1/1.json"
	first := s.change(t, Key, withObjects("one", map[string]string{name: "kept"}), "")
	second := s.put(t, Key, "two", first)
	_, err := s.store.Put(t.Context(), Key, withObjects("three", map[string]string{name: "other"}), first)
	s.fault(t, err, providers.Conflict)
	_, err = s.store.Put(t.Context(), Key, withObjects("four", nil, "readings/r1/"), first)
	s.fault(t, err, providers.Conflict)
	s.object(t, name, "kept")
	s.holds(t, Key, "two", second)
}

func objectsDropped(t *testing.T, s *suite) {
	revision := s.change(t, Key, withObjects("one", map[string]string{
		"readings/r1/25%/1.json": "1", "readings/r1/50%/1.json": "2",
		"readings/r10/1.json": "3", "readings/r2/1.json": "4", "readings/r 3/1.json": "5",
	}), "")
	revision = s.change(t, Key, withObjects("two", map[string]string{"readings/r4/1.json": "6"}, "readings/r1/", "readings/r 3/", "readings/none/"), revision)
	s.noObject(t, Key, "readings/r1/25%/1.json")
	s.noObject(t, Key, "readings/r1/50%/1.json")
	s.noObject(t, Key, "readings/r 3/1.json")
	s.object(t, "readings/r10/1.json", "3")
	s.object(t, "readings/r2/1.json", "4")
	s.object(t, "readings/r4/1.json", "6")
	s.holds(t, Key, "two", revision)
}

func objectsApart(t *testing.T, s *suite) {
	other := "shop/web/test"
	s.change(t, Key, withObjects("one", map[string]string{"readings/r1/1.json": "of prod"}), "")
	revision := s.change(t, other, withObjects("two", map[string]string{"readings/r1/1.json": "of test"}), "")
	s.change(t, other, withObjects("three", nil, "readings/r1/"), revision)
	s.object(t, "readings/r1/1.json", "of prod")
	s.noObject(t, other, "readings/r1/1.json")
}

func wrongNames(t *testing.T, s *suite) {
	for _, name := range []string{"", "state.json", "state.json/x", "lock/x", "/x", "a//b", "a/", "a/" + strings.Repeat("x", store.MaxSegment+1)} {
		_, err := s.store.Put(t.Context(), Key, withObjects("one", map[string]string{name: "x"}), "")
		s.fault(t, err, providers.Invalid)
		_, err = s.store.Object(t.Context(), Key, name)
		s.fault(t, err, providers.Invalid)
	}
	for _, prefix := range []string{"", "/", "readings", "//"} {
		_, err := s.store.Put(t.Context(), Key, withObjects("one", nil, prefix), "")
		s.fault(t, err, providers.Invalid)
	}
	_, err := s.store.Put(t.Context(), Key, withObjects("one", map[string]string{"readings/r1/1.json": "x"}, "readings/r1/"), "")
	s.fault(t, err, providers.Invalid)
	s.holds(t, Key, "", "")
}

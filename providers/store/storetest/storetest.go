// Package storetest is the conformance suite of the store contract: what
// every implementation of store.Store must do, as named subtests that each
// get a fresh, empty place. It must not know any implementation.
package storetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
)

// Harness is one fresh, empty place and the ways to it.
type Harness struct {
	// Open opens the place as another process would: nothing in memory is
	// shared with what was opened before.
	Open func(t *testing.T) store.Store

	// Plant writes a document past the store, as a foreign hand would.
	Plant func(t *testing.T, key string, data []byte)

	// Denied opens the place with credentials it does not accept; nil for a
	// store that has none.
	Denied func(t *testing.T) store.Store

	// Secrets are the credentials that no error may contain.
	Secrets []string

	// Strays lists what the store has left outside of its place; nil for a
	// store that cannot reach outside.
	Strays func(t *testing.T) []string
}

// Key is the key most tests use.
const Key = "shop/web/prod"

// Run runs the suite; fresh makes a new place for each subtest. They run in
// parallel.
func Run(t *testing.T, fresh func(t *testing.T) Harness) {
	tests := []struct {
		name string
		run  func(t *testing.T, s *suite)
	}{
		{"absent key", absentKey},
		{"create", create},
		{"create twice is a conflict", createTwice},
		{"update", update},
		{"update of an absent key is a conflict", updateAbsent},
		{"update from a stale revision is a conflict", updateStale},
		{"update from a made-up revision is a conflict", updateMadeUp},
		{"same document written again", sameAgain},
		{"bytes come back as written", sameBytes},
		{"another process sees the write", otherProcess},
		{"many writes", manyWrites},
		{"racing creators", racingCreators},
		{"racing writers", racingWriters},
		{"racing writers in one process", racingInside},
		{"two keys are independent", twoKeys},
		{"unusual keys are kept apart", unusualKeys},
		{"keys that are none are refused", wrongKeys},
		{"list", list},
		{"objects", objects},
		{"objects of a refused write change nothing", objectsRefused},
		{"objects dropped by prefix", objectsDropped},
		{"objects of keys are kept apart", objectsApart},
		{"object names that are none are refused", wrongNames},
		{"oversize document is not written", oversizeWrite},
		{"oversize document is not read", oversizeRead},
		{"cancelled context", cancelled},
		{"wrong credentials", denied},
		{"probe", probe},
		{"history", history},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := fresh(t)
			test.run(t, &suite{Harness: h, store: h.Open(t)})
		})
	}
}

// suite is what a subtest works with: a place and one store opened on it.
type suite struct {
	Harness
	store store.Store
	other store.Store // see reader
}

// reader is another process that only reads, the same for a whole subtest.
func (s *suite) reader(t *testing.T) store.Store {
	if s.other == nil {
		s.other = s.Open(t)
	}
	return s.other
}

func (s *suite) get(t *testing.T, from store.Store, key string) (string, store.Revision) {
	t.Helper()
	data, revision, err := from.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("get %q: %v", key, err)
	}
	if (revision == "") != (data == nil) {
		t.Fatalf("get %q: %d bytes at revision %q, expected both or neither", key, len(data), revision)
	}
	return string(data), revision
}

func (s *suite) put(t *testing.T, key, body string, expect store.Revision) store.Revision {
	t.Helper()
	return s.change(t, key, store.Change{Data: []byte(body), Note: "note of " + body}, expect)
}

func (s *suite) change(t *testing.T, key string, change store.Change, expect store.Revision) store.Revision {
	t.Helper()
	revision, err := s.store.Put(t.Context(), key, change, expect)
	if err != nil {
		t.Fatalf("put %q: %v", key, err)
	}
	if revision == "" || revision == expect {
		t.Fatalf("put %q: revision %q after %q, expected a new one", key, revision, expect)
	}
	return revision
}

// conflict demands that a write of Key is refused by the store's own word.
func (s *suite) conflict(t *testing.T, body string, expect store.Revision) {
	t.Helper()
	_, err := s.store.Put(t.Context(), Key, store.Change{Data: []byte(body), Note: body}, expect)
	s.fault(t, err, providers.Conflict)
}

// holds demands what another process reads.
func (s *suite) holds(t *testing.T, key, body string, revision store.Revision) {
	t.Helper()
	got, at := s.get(t, s.reader(t), key)
	if got != body || at != revision {
		t.Fatalf("%q holds %q at %q, expected %q at %q", key, clip(got), at, clip(body), revision)
	}
}

// fault demands an error of a kind and looks for what no error may have.
func (s *suite) fault(t *testing.T, err error, kinds ...providers.Kind) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, expected one of kind %v", kinds)
	}
	s.wellMade(t, err)
	for _, kind := range kinds {
		if providers.KindOf(err) == kind {
			return
		}
	}
	t.Fatalf("error of kind %q, expected %v: %v", providers.KindOf(err), kinds, err)
}

func (s *suite) wellMade(t *testing.T, err error) {
	t.Helper()
	fault, ok := errors.AsType[*providers.Fault](err)
	if !ok || error(fault) != err { //nolint:errorlint // the outermost error itself is meant
		t.Fatalf("error is a %T, expected a *providers.Fault: %v", err, err)
	}
	if fault.Provider == "" || fault.Op == "" || fault.Err == nil {
		t.Errorf("fault %#v, expected provider, operation and error", fault)
	}
	text := fault.Error() + " " + fault.Hint
	if !strings.HasPrefix(fault.Error(), fault.Provider+": ") || strings.HasPrefix(fault.Err.Error(), fault.Provider+": ") {
		t.Errorf("%q names its provider %q not once", fault.Error(), fault.Provider)
	}
	if strings.ContainsAny(text, "\n\r") || strings.HasSuffix(fault.Error(), ".") {
		t.Errorf("%q, expected one line without a full stop", text)
	}
	for _, secret := range s.Secrets {
		if secret != "" && strings.Contains(text, secret) {
			t.Errorf("error text holds a secret: %q", strings.ReplaceAll(text, secret, "***"))
		}
	}
}

func (s *suite) lists(t *testing.T, prefix string, want ...string) {
	t.Helper()
	got, err := s.reader(t).List(t.Context(), prefix)
	if err != nil {
		t.Fatalf("list %q: %v", prefix, err)
	}
	if diff := cmp.Diff(want, got, cmp.Transformer("nil", func(l []string) []string { return append([]string{}, l...) })); diff != "" {
		t.Fatalf("list %q (-want +got):\n%s", prefix, diff)
	}
}

func clip(text string) string {
	if len(text) > 80 {
		return text[:80] + "…"
	}
	return text
}

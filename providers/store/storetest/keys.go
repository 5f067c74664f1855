package storetest

import (
	"sort"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
)

func twoKeys(t *testing.T, s *suite) {
	one := s.put(t, Key, "one", "")
	two := s.put(t, "shop/web/test", "two", "")
	one = s.put(t, Key, "one again", one)
	two = s.put(t, "shop/web/test", "two again", two)
	s.conflict(t, "other's revision", two)
	s.holds(t, Key, "one again", one)
	s.holds(t, "shop/web/test", "two again", two)
}

// unusual are keys that a careless store would mix up, or that would lead out
// of it.
func unusual() []string {
	long := strings.Repeat("l", 190)
	return []string{
		"a/b/c", "a/b/C", "A/b/c", "a/b/.c", "a./b.lock/c..d",
		"a b/c/d", "a%20b/c/d", "a+b/c/d", "a/b/c\nd\x00e", "a/b/\xff\xfe",
		"../../etc", "././.", "a/b/..", "..%2f/%2e%2e/y",
		"città/größe/环境", "citta\u0300/größe/环境",
		"a/b/state.json", "refs/heads/HEAD", ".git/hooks/update",
		"-x/--force/-", "a:b/c*d?/[e]\\f", "a@{1}/b~1/c^2", "$(x)/`y`/z", "con/nul/aux.txt",
		"a/b/" + long, "a/b/" + long + "2", long + "/" + long + "/" + long,
	}
}

func unusualKeys(t *testing.T, s *suite) {
	revisions := map[string]store.Revision{}
	for _, key := range unusual() {
		revisions[key] = s.put(t, key, "body of "+key, "") // a conflict if two keys are one
	}
	other := s.Open(t)
	for key, revision := range revisions {
		if body, at := s.get(t, other, key); body != "body of "+key || at != revision {
			t.Fatalf("%q holds %q at %q, expected its own body at %q", key, body, at, revision)
		}
	}
	sorted := unusual()
	sort.Strings(sorted)
	s.lists(t, "", sorted...)
	if s.Strays == nil {
		return
	}
	if strays := s.Strays(t); len(strays) > 0 {
		t.Fatalf("written outside of the store: %q", strays)
	}
}

func wrongKeys(t *testing.T, s *suite) {
	keys := []string{
		"", "a", "a/b", "a/b/c/d", "/b/c", "a//c", "a/b/", "//",
		"a/b/" + strings.Repeat("x", store.MaxSegment+1), "a/b/" + strings.Repeat("é", store.MaxSegment/6+1),
	}
	for _, key := range keys {
		_, _, err := s.store.Get(t.Context(), key)
		s.fault(t, err, providers.Invalid)
		_, err = s.store.Put(t.Context(), key, store.Change{Data: []byte("x"), Note: "x"}, "")
		s.fault(t, err, providers.Invalid)
		_, err = s.store.Object(t.Context(), key, "readings/r1/1.json")
		s.fault(t, err, providers.Invalid)
	}
	s.lists(t, "")
}

func list(t *testing.T, s *suite) {
	for _, key := range []string{"shop/web/prod", "shop/web/test", "shop/api/prod", "shops/web/prod", "a%b/c d/é"} {
		s.put(t, key, "body of "+key, "")
	}
	s.lists(t, "", "a%b/c d/é", "shop/api/prod", "shop/web/prod", "shop/web/test", "shops/web/prod")
	s.lists(t, "shop", "shop/api/prod", "shop/web/prod", "shop/web/test")
	s.lists(t, "shop/", "shop/api/prod", "shop/web/prod", "shop/web/test")
	s.lists(t, "shop/web", "shop/web/prod", "shop/web/test")
	s.lists(t, "shop/web/prod", "shop/web/prod")
	s.lists(t, "a%b/c d", "a%b/c d/é")
	s.lists(t, "sho")
	s.lists(t, "none")
	s.lists(t, "..")
}

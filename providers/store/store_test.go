package store_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/providers/store/memory"
)

func TestEscapeKey(t *testing.T) {
	tests := []struct{ key, want string }{
		{"shop/web/prod", "shop/web/prod"},
		{"Shop/web-2/eu_1", "Shop/web-2/eu_1"},
		{"shop.example.com/v1.2/prod", "shop.example.com/v1.2/prod"},
		{"a/b/..", "a/b/%2e%2e"},
		{"a/b/.c", "a/b/%2ec"},
		{"a/b/c.", "a/b/c%2e"},
		{"a/b/c..d", "a/b/c%2e%2ed"},
		{"a/b/c.lock", "a/b/c%2elock"},
		{"a/b/c.locks", "a/b/c.locks"},
		{"a b/100%/ü", "a%20b/100%25/%c3%bc"},
		{"a~b/c^d/e:f?g*h[i\\j@{k", "a%7eb/c%5ed/e%3af%3fg%2ah%5bi%5cj%40%7bk"},
	}
	for _, test := range tests {
		got, err := store.EscapeKey(test.key)
		if err != nil || got != test.want {
			t.Errorf("%q became %q, %v, expected %q", test.key, got, err, test.want)
		}
		if back, ok := store.UnescapeKey(got); !ok || back != test.key {
			t.Errorf("%q became %q again, %v, expected %q", got, back, ok, test.key)
		}
	}
}

func TestPathsThatAreNoKeys(t *testing.T) {
	for _, path := range []string{"", "a/b", "a/b/c/d", "a/b/%", "a/b/%2", "a/b/%zz", "a/b/%41", "a/b/c d", "a/b/%C3%BC", "a//c", "a/b/" + strings.Repeat("x", store.MaxSegment+1)} {
		if key, ok := store.UnescapeKey(path); ok {
			t.Errorf("%q was taken for the key %q", path, key)
		}
	}
}

func FuzzKeys(f *testing.F) {
	for _, key := range []string{"shop/web/prod", "a/b/..", "a%2f/b/c", "%/%%/.lock", "\xff/\x00/\n"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if path, err := store.EscapeKey(key); err == nil {
			back, ok := store.UnescapeKey(path)
			if !ok || back != key {
				t.Fatalf("%q became %q and then %q", key, path, back)
			}
			if strings.Contains(path, "..") || strings.Contains(path, "//") || strings.Contains("/"+path, "/.") || strings.ContainsAny(path, " ~^:?*[\\@\x00\n") {
				t.Fatalf("%q became %q, which is no legal ref", key, path)
			}
		}
		if back, ok := store.UnescapeKey(key); ok {
			if path, err := store.EscapeKey(back); err != nil || path != key {
				t.Fatalf("path %q is key %q, which is path %q, %v", key, back, path, err)
			}
		}
	})
}

// loose is a store that breaks its promise in one way.
type loose struct {
	store.Store
	ignoresCreate, ignoresStale, forgets, lies bool
}

func (l loose) Put(ctx context.Context, key string, change store.Change, expect store.Revision) (store.Revision, error) {
	_, now, err := l.Get(ctx, key)
	if err != nil {
		return "", err
	}
	if l.ignoresCreate && expect == "" || l.ignoresStale && expect != "" {
		expect = now
	}
	if l.forgets {
		change.Data = []byte("something else")
	}
	revision, err := l.Store.Put(ctx, key, change, expect)
	if l.lies && providers.IsConflict(err) { // says no, and does it all the same
		_, _ = l.Store.Put(ctx, key, change, now)
	}
	return revision, err
}

func TestProbe(t *testing.T) {
	tests := []struct {
		name  string
		store loose
		want  string // "" for a good store
	}{
		{"good", loose{}, ""},
		{"ignores create-only", loose{ignoresCreate: true}, "took a create over a key that exists"},
		{"ignores the revision", loose{ignoresStale: true}, "took a write from a stale revision"},
		{"writes something else", loose{forgets: true}, "bytes at revision"},
		{"refuses and writes", loose{lies: true}, "a refused write has landed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.store.Store = memory.New()
			for range 2 {
				err := store.Probe(t.Context(), test.store, store.ProbeKey)
				if test.want == "" && err != nil {
					t.Fatal(err)
				}
				if test.want != "" && (providers.KindOf(err) != providers.Invalid || !strings.Contains(err.Error(), test.want) || providers.HintOf(err) == "") {
					t.Fatalf("%v (hint %q), expected %q", err, providers.HintOf(err), test.want)
				}
			}
		})
	}
}

// TestProbeOfAStoreThatFails: a store that does not answer has broken no
// promise; its own fault is passed on.
func TestProbeOfAStoreThatFails(t *testing.T) {
	for k := int64(1); k <= 7; k++ {
		s := memory.New()
		s.Hook = memory.At("", k, memory.Refused)
		err := store.Probe(t.Context(), s, store.ProbeKey)
		if providers.KindOf(err) != providers.Unavailable || err == nil {
			t.Errorf("call %d: %v, expected the store's own fault", k, err)
		}
	}
	s := memory.New()
	s.Hook = memory.At("", 8, memory.Refused)
	if err := store.Probe(t.Context(), s, store.ProbeKey); err != nil {
		t.Errorf("%v: the probe takes more than the seven calls tested", err)
	}
}

func TestCheck(t *testing.T) {
	large := make([]byte, store.MaxDocument+1)
	bad := map[string]store.Change{
		"document":          {Data: large},
		"object":            {Objects: map[string][]byte{"a/b": large}},
		"name":              {Objects: map[string][]byte{"b": nil}},
		"reserved":          {Objects: map[string][]byte{"state.json/b": nil}},
		"prefix":            {Drop: []string{"a"}},
		"empty prefix":      {Drop: []string{""}},
		"added and dropped": {Drop: []string{"a/"}, Objects: map[string][]byte{"a/b": nil}},
	}
	for name, change := range bad {
		if err := change.Check(); err == nil {
			t.Errorf("%s was let through", name)
		} else if sized := slices.Contains([]string{"document", "object"}, name); sized != errors.Is(err, store.ErrTooLarge) {
			t.Errorf("%s: %v, in the chain store.ErrTooLarge: expected %v", name, err, sized)
		}
	}
	fine := store.Change{Data: large[1:], Objects: map[string][]byte{"a/b": large[1:]}, Drop: []string{"ab/", "b/a/"}}
	if err := fine.Check(); err != nil {
		t.Error(err)
	}
}

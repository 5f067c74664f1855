// Package secrettest is the conformance suite of secret sources: every
// implementation passes it. It must not know where secrets are kept; a test
// says through Setup how they are put there.
package secrettest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/secret"
)

// Vault is a fresh source and the place it reads.
type Vault struct {
	Source secret.Source
	// Put stores a value under a key that the suite chooses (lower case
	// letters), replacing what was there, and returns its reference.
	Put func(key, value string) string
	// Missing is a reference to something that is not there.
	Missing string
	// Malformed are references that the source can tell to be wrong.
	Malformed []string
	// Logged is what the source logged so far.
	Logged func() string
}

// Suite is how to test one source.
type Suite struct {
	// Setup makes a fresh vault; it is called anew for each subtest.
	Setup func(t *testing.T) Vault
	// Trims says that a line end behind the value is not part of it.
	Trims bool
	// NoNUL says that a value cannot hold a zero byte.
	NoNUL bool
	// TextOnly says that a value is always valid UTF-8.
	TextOnly bool
	// Most is the longest value there can be, in bytes; 0 for 32 KiB and more.
	Most int
}

// Run runs the suite.
func Run(t *testing.T, s Suite) {
	t.Helper()
	t.Run("values come as they are", s.values)
	t.Run("line end", s.lineEnd)
	t.Run("missing", s.missing)
	t.Run("empty", s.empty)
	t.Run("malformed references", s.malformed)
	t.Run("nothing is kept", s.rotated)
	t.Run("from several goroutines", s.parallel)
	t.Run("cancelled", s.cancelled)
}

func (s Suite) values(t *testing.T) {
	first := 0
	if s.NoNUL {
		first = 1
	}
	last, longest := 255, 32<<10
	if s.TextOnly {
		last = 127
	}
	if s.Most > 0 {
		longest = min(longest, s.Most)
	}
	var all strings.Builder
	for b := first; b <= last; b++ {
		all.WriteByte(byte(b))
	}
	for _, want := range []string{
		"s3cr3t", " with spaces ", "two\nlines", "\n\nblank lines first", "größe €", "$HOME `id` %s %d", all.String(), strings.Repeat("k", longest),
	} {
		v := s.Setup(t)
		ref := v.Put("key", want)
		got, err := v.Source.Resolve(t.Context(), ref)
		if err != nil || got.Reveal() != want {
			t.Errorf("%.20q of %d bytes: %.20q of %d bytes, error %v", want, len(want), got.Reveal(), len(got.Reveal()), err)
		}
		if strings.Contains(v.Logged(), want) {
			t.Errorf("the value is in the log: %.40q", v.Logged())
		}
	}
}

func (s Suite) lineEnd(t *testing.T) {
	for written, trimmed := range map[string]string{"x1\n": "x1", "x2\r\n": "x2", "x3\n\n": "x3\n", "x4\r": "x4\r"} {
		v := s.Setup(t)
		want := written
		if s.Trims {
			want = trimmed
		}
		got, err := v.Source.Resolve(t.Context(), v.Put("key", written))
		if err != nil || got.Reveal() != want {
			t.Errorf("%q: %q, error %v, want %q", written, got.Reveal(), err, want)
		}
	}
}

func (s Suite) missing(t *testing.T) {
	v := s.Setup(t)
	v.Put("other", "0ther-value")
	expect(t, v, v.Missing, providers.NotFound, "0ther-value")
}

func (s Suite) empty(t *testing.T) {
	v := s.Setup(t)
	v.Put("other", "0ther-value")
	expect(t, v, v.Put("key", ""), providers.NotFound, "0ther-value")
	if s.Trims {
		expect(t, v, v.Put("key", "\n"), providers.NotFound, "0ther-value")
	}
}

func (s Suite) malformed(t *testing.T) {
	v := s.Setup(t)
	for _, ref := range append([]string{""}, v.Malformed...) {
		expect(t, v, ref, providers.Invalid, "")
	}
}

// rotated: a later call sees the later value.
func (s Suite) rotated(t *testing.T) {
	v := s.Setup(t)
	for _, want := range []string{"before", "after"} {
		got, err := v.Source.Resolve(t.Context(), v.Put("key", want))
		if err != nil || got.Reveal() != want {
			t.Errorf("%q, error %v, want %q", got.Reveal(), err, want)
		}
	}
}

func (s Suite) parallel(t *testing.T) {
	v := s.Setup(t)
	refs := map[string]string{"one": v.Put("one", "value of one"), "two": v.Put("two", "value of two")}
	var all sync.WaitGroup
	for range 4 {
		for key, ref := range refs {
			all.Go(func() {
				got, err := v.Source.Resolve(t.Context(), ref)
				if err != nil || got.Reveal() != "value of "+key {
					t.Errorf("%s: %q, error %v", key, got.Reveal(), err)
				}
			})
		}
	}
	all.Wait()
}

func (s Suite) cancelled(t *testing.T) {
	v := s.Setup(t)
	ref := v.Put("key", "s3cr3t")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := v.Source.Resolve(ctx, ref)
	if !errors.Is(err, context.Canceled) || !got.Empty() {
		t.Errorf("empty %v, error %v, want %v", got.Empty(), err, context.Canceled)
	}
}

// expect asks for a secret that is not to be had: the right kind, a hint, no
// value, and none in any text.
func expect(t *testing.T, v Vault, ref string, kind providers.Kind, hidden string) {
	t.Helper()
	got, err := v.Source.Resolve(t.Context(), ref)
	if err == nil || providers.KindOf(err) != kind || !got.Empty() {
		t.Errorf("%q: empty %v, error %v of kind %v, want %v", ref, got.Empty(), err, providers.KindOf(err), kind)
		return
	}
	if providers.HintOf(err) == "" {
		t.Errorf("%q: error %v without a hint", ref, err)
	}
	if f, ok := errors.AsType[*providers.Fault](err); !ok || f.Provider == "" {
		t.Errorf("%q: error %v does not name its source", ref, err)
	}
	text := fmt.Sprintf("%v %+v %s %s", err, err, providers.HintOf(err), v.Logged())
	if hidden != "" && strings.Contains(text, hidden) {
		t.Errorf("a value is in %q", text)
	}
}

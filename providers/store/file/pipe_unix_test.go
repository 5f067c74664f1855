//go:build unix

package file_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/providers/store/storetest"
)

// TestNoRegularFile: what is in the place of a file is refused before it is
// opened, and its key is listed beside the others.
func TestNoRegularFile(t *testing.T) {
	for _, test := range []struct {
		name  string
		place func(folder string) error
		reads bool // the document can be read, only a write is refused
	}{
		{"a pipe", func(folder string) error { return syscall.Mkfifo(filepath.Join(folder, "state.json"), 0o644) }, false},
		{"a link inside", func(folder string) error { return os.Symlink("lock", filepath.Join(folder, "state.json")) }, false},
		{"a link to nothing", func(folder string) error { return os.Symlink("none", filepath.Join(folder, "state.json")) }, false},
		{"a pipe for the next write", func(folder string) error { return syscall.Mkfifo(filepath.Join(folder, "%tmp"), 0o644) }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, other := t.TempDir(), "shop/web/zone"
			s := open(t, providers.Env{}, "file:"+dir)
			for _, key := range []string{storetest.Key, other} {
				if _, err := s.Put(t.Context(), key, store.Change{Data: []byte("x")}, ""); err != nil {
					t.Fatal(err)
				}
			}
			folder := filepath.Join(dir, filepath.FromSlash(storetest.Key))
			if !test.reads {
				if err := os.Remove(filepath.Join(folder, "state.json")); err != nil {
					t.Fatal(err)
				}
			}
			if err := test.place(folder); err != nil {
				t.Fatal(err)
			}
			_, revision, err := s.Get(t.Context(), storetest.Key)
			if !test.reads {
				refused(t, err)
			} else if err != nil {
				t.Error(err)
			}
			_, err = s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("y")}, revision)
			refused(t, err)
			if keys, err := s.List(t.Context(), ""); err != nil || !slices.Equal(keys, []string{storetest.Key, other}) {
				t.Errorf("listed %q, %v", keys, err)
			}
		})
	}
}

func refused(t *testing.T, err error) {
	t.Helper()
	if err == nil || providers.KindOf(err) != providers.Invalid || providers.HintOf(err) == "" || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("%v (hint %q), expected it to be refused as no regular file", err, providers.HintOf(err))
	}
}

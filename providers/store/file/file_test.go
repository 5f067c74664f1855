package file_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/providers/store/file"
	"github.com/manent/action/providers/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m, file.Spec())) }

func open(t testing.TB, env providers.Env, address string) store.Store {
	t.Helper()
	s, err := file.Spec().Open(env, address)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		workspace := t.TempDir()
		env := providers.Env{Dir: workspace, Log: t.Logf}
		return storetest.Harness{
			Open: func(t *testing.T) store.Store { return open(t, env, "file:state/of/us") },
			Plant: func(t *testing.T, key string, data []byte) {
				folder := filepath.Join(workspace, "state", "of", "us", filepath.FromSlash(key))
				if err := os.MkdirAll(folder, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(folder, "state.json"), data, 0o644); err != nil {
					t.Fatal(err)
				}
			},
			Strays: func(t *testing.T) []string { return strays(t, workspace, filepath.Join("state", "of", "us")) },
		}
	})
}

// strays lists the files of a directory that are not below one folder of it.
func strays(t *testing.T, dir, allowed string) (found []string) {
	err := filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if relative, err := filepath.Rel(dir, name); err != nil || !strings.HasPrefix(relative, allowed+string(filepath.Separator)) {
			found = append(found, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestRacingProcesses(t *testing.T) {
	storetest.RaceProcesses(t, "file:"+t.TempDir())
}

func TestAddresses(t *testing.T) {
	for _, address := range []string{"file:", "files:x", "file:../x", "file:a/../../x", "/x", ""} {
		if _, err := file.Open(providers.Env{Dir: t.TempDir()}, address); providers.KindOf(err) != providers.Invalid || err == nil {
			t.Errorf("address %q: %v, expected it to be refused as invalid", address, err)
		}
	}
}

func TestLinksOutAreRefused(t *testing.T) {
	const target = "state/shop/web/prod"
	tests := []struct{ name, link string }{
		{"the directory", "state"},
		{"the folder of a project", "state/shop"},
		{"the folder of a key", "state/shop/web/prod"},
		{"the document", "state/shop/web/prod/state.json"},
		{"the lock", "state/shop/web/prod/lock"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			workspace, outside := t.TempDir(), t.TempDir()
			inside := filepath.Join(outside, filepath.FromSlash(strings.TrimPrefix(target+"/state.json", test.link)))
			if err := os.MkdirAll(filepath.Dir(filepath.Join(workspace, filepath.FromSlash(test.link))), 0o755); err != nil {
				t.Fatal(err)
			}
			to := outside
			if strings.Contains(test.link, "prod/") {
				to = filepath.Join(outside, "file")
				inside = to
			}
			if err := os.MkdirAll(filepath.Dir(inside), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(inside, []byte("foreign"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(to, filepath.Join(workspace, filepath.FromSlash(test.link))); err != nil {
				t.Fatal(err)
			}
			s := open(t, providers.Env{Dir: workspace}, "file:state")
			_, err := s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("ours")}, "")
			if err == nil || providers.HintOf(err) == "" || providers.KindOf(err) != providers.Invalid {
				t.Errorf("put: %v (hint %q), expected it to be refused as invalid", err, providers.HintOf(err))
			}
			data, _, err := s.Get(t.Context(), storetest.Key)
			if string(data) == "foreign" {
				t.Errorf("get: read %q through a link that leads out", data)
			}
			if !strings.HasSuffix(test.link, "lock") && providers.KindOf(err) != providers.Invalid {
				t.Errorf("get: %v, expected it to be refused as invalid", err)
			}
			if kept, err := os.ReadFile(inside); err != nil || string(kept) != "foreign" {
				t.Errorf("outside file holds %q, %v", kept, err)
			}
		})
	}
}

func TestDirectoryThatCannotBeRead(t *testing.T) {
	if os.Geteuid() == 0 || runtime.GOOS == "windows" {
		// Permissions do not bind this user: a file in the way does.
		workspace := t.TempDir()
		if err := os.WriteFile(filepath.Join(workspace, "state"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		wantFault(t, open(t, providers.Env{Dir: workspace}, "file:state"), providers.Unavailable)
		return
	}
	workspace := t.TempDir()
	if err := os.Mkdir(filepath.Join(workspace, "state"), 0); err != nil {
		t.Fatal(err)
	}
	wantFault(t, open(t, providers.Env{Dir: workspace}, "file:state"), providers.Denied)
}

func wantFault(t *testing.T, s store.Store, kind providers.Kind) {
	t.Helper()
	_, _, err := s.Get(t.Context(), storetest.Key)
	if err == nil || providers.KindOf(err) != kind {
		t.Errorf("get: %v, expected kind %q", err, kind)
	}
	if _, err = s.List(t.Context(), ""); err == nil || providers.KindOf(err) != kind {
		t.Errorf("list: %v, expected kind %q", err, kind)
	}
	if _, err = s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("x")}, ""); err == nil || providers.KindOf(err) != kind {
		t.Errorf("put: %v, expected kind %q", err, kind)
	}
}

// TestLeftOverOfACrash: a temporary file that a killed process left neither
// is read nor stops the next write.
func TestLeftOverOfACrash(t *testing.T) {
	dir := t.TempDir()
	s := open(t, providers.Env{}, "file:"+dir)
	revision, err := s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("one")}, "")
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, filepath.FromSlash(storetest.Key))
	if err := os.WriteFile(filepath.Join(folder, "%tmp"), []byte("half a docum"), 0o644); err != nil {
		t.Fatal(err)
	}
	if data, at, err := s.Get(t.Context(), storetest.Key); err != nil || string(data) != "one" || at != revision {
		t.Fatalf("%q at %q, %v", data, at, err)
	}
	if _, err := s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("two")}, revision); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 2 {
		t.Fatalf("%v, %v, expected the document and the lock", entries, err)
	}
}

// TestFolderThatCannotBeRead: the other keys are listed, and the error names
// the folder. Permissions do not bind root, for whom all are listed.
func TestFolderThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	s := open(t, providers.Env{}, "file:"+dir)
	keys := []string{"shop/api/prod", "shop/app/prod", "shop/web/prod"}
	for _, key := range keys {
		if _, err := s.Put(t.Context(), key, store.Change{Data: []byte("x")}, ""); err != nil {
			t.Fatal(err)
		}
	}
	locked := filepath.Join(dir, "shop", "app")
	if err := os.Chmod(locked, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(locked, 0o755) })
	got, err := s.List(t.Context(), "")
	if _, bound := os.ReadDir(locked); bound != nil {
		keys = []string{keys[0], keys[2]}
		if providers.KindOf(err) != providers.Denied || !strings.Contains(err.Error(), "shop/app") {
			t.Errorf("%v, expected it to be denied and to name shop/app", err)
		}
	} else if err != nil {
		t.Error(err)
	}
	if !slices.Equal(got, keys) {
		t.Errorf("listed %q, expected %q", got, keys)
	}
}

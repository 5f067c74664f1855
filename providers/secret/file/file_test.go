package file

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/secret"
	"github.com/manent/action/providers/secret/secrettest"
)

func TestConformance(t *testing.T) {
	for _, absolute := range []bool{false, true} {
		t.Run(fmt.Sprintf("absolute %v", absolute), func(t *testing.T) {
			secrettest.Run(t, secrettest.Suite{Setup: func(t *testing.T) secrettest.Vault { return setup(t, absolute) }, Trims: true})
		})
	}
}

func setup(t *testing.T, absolute bool) secrettest.Vault {
	dir := t.TempDir()
	source, logged := open(t, dir)
	return secrettest.Vault{
		Source: source,
		Put: func(key, value string) string {
			write(t, filepath.Join(dir, key), value, 0o600)
			if absolute {
				return filepath.Join(dir, key)
			}
			return key
		},
		Missing:   "none",
		Malformed: []string{"a\x00b", "a\nb", ".", "../x", "a/../../x", dir},
		Logged:    logged,
	}
}

func open(t *testing.T, dir string) (secret.Source, func() string) {
	t.Helper()
	var log strings.Builder
	source, err := Spec().New(providers.Env{Dir: dir, Log: func(format string, args ...any) { fmt.Fprintf(&log, format+"\n", args...) }})
	if err != nil {
		t.Fatal(err)
	}
	return source, log.String
}

func write(t *testing.T, path, value string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestSize(t *testing.T) {
	dir := t.TempDir()
	source, _ := open(t, dir)
	for size, fits := range map[int]bool{most: true, most + 1: false} {
		write(t, filepath.Join(dir, "key"), strings.Repeat("x", size), 0o600)
		got, err := source.Resolve(t.Context(), "key")
		if fits != (err == nil) || fits != (len(got.Reveal()) == size) {
			t.Errorf("%d bytes: %d, error %v", size, len(got.Reveal()), err)
		}
		if !fits && (providers.KindOf(err) != providers.Invalid || strings.Contains(err.Error(), "xxx")) {
			t.Errorf("error %.100v of kind %v", err, providers.KindOf(err))
		}
	}
}

// TestLinks: the links of a Kubernetes mount are followed, those that leave
// the workspace are not.
func TestLinks(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	source, _ := open(t, dir)
	write(t, outside, "from outside", 0o600)
	if err := os.Mkdir(filepath.Join(dir, "..2026_11_30"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "..2026_11_30", "key"), "mounted", 0o600)
	for link, target := range map[string]string{"..data": "..2026_11_30", "key": "..data/key", "out": outside} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := source.Resolve(t.Context(), "key"); err != nil || got.Reveal() != "mounted" {
		t.Errorf("%v, error %v", got, err)
	}
	got, err := source.Resolve(t.Context(), "out")
	if providers.KindOf(err) != providers.Invalid || !got.Empty() || strings.Contains(err.Error(), "from outside") {
		t.Errorf("link to the outside: %v, error %v of kind %v", got, err, providers.KindOf(err))
	}
}

func TestModes(t *testing.T) {
	dir := t.TempDir()
	for mode, told := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true, 0o602: true, 0o666: true} {
		source, logged := open(t, dir)
		write(t, filepath.Join(dir, "key"), "s3cr3t", mode)
		if got, err := source.Resolve(t.Context(), "key"); err != nil || got.Reveal() != "s3cr3t" {
			t.Errorf("%#o: %v, error %v", mode, got, err)
		}
		if log := logged(); strings.Contains(log, "secret file key") != told || strings.Contains(log, "s3cr3t") {
			t.Errorf("%#o: logged %q", mode, log)
		}
	}
	source, logged := open(t, t.TempDir())
	write(t, filepath.Join(dir, "key"), "s3cr3t", 0o644)
	if _, err := source.Resolve(t.Context(), filepath.Join(dir, "key")); err != nil || logged() != "" {
		t.Errorf("a mounted file: error %v, logged %q", err, logged())
	}
}

func TestKinds(t *testing.T) {
	s := &Source{}
	for cause, want := range map[error]providers.Kind{
		fs.ErrNotExist: providers.NotFound, fs.ErrPermission: providers.Denied, errNoFile: providers.Invalid, errOutside: providers.Invalid,
	} {
		err := s.refused("key", &fs.PathError{Op: "open", Path: "key", Err: cause})
		if providers.KindOf(err) != want || providers.HintOf(err) == "" {
			t.Errorf("%v: %v of kind %v, want %v with a hint", cause, err, providers.KindOf(err), want)
		}
	}
	if err := s.refused("/key", fs.ErrInvalid); providers.KindOf(err) != providers.Unknown {
		t.Errorf("any other error is %v", providers.KindOf(err))
	}
}

func TestNoWorkspace(t *testing.T) {
	source, err := New(providers.Env{Dir: filepath.Join(t.TempDir(), "gone")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := source.Resolve(t.Context(), "key"); providers.KindOf(err) != providers.NotFound {
		t.Errorf("error %v", err)
	}
}

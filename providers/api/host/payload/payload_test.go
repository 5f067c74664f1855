//go:build unix

package payload

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func limits() Limits { return Limits{Bytes: 1 << 20, Count: 20, Unpack: true} }

// write makes a file of a workspace.
func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644), os.Chmod(path, 0o644))
	if err != nil {
		t.Fatal(err)
	}
}

// paths opens a source and returns its paths; everything is closed again.
func paths(t *testing.T, dir, name string, l Limits) ([]string, error) {
	t.Helper()
	s, err := Open(t.Context(), dir, name, l)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var out []string
	for _, it := range s.items {
		out = append(out, it.path)
	}
	return out, nil
}

func tarOf(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		content := strings.Repeat("x", int(h.Size))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestSources(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "app/b", "b")
	write(t, dir, "app/a/c", "c")
	write(t, dir, "shop.bin", "x")
	plain := tarOf(t, tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755},
		tar.Header{Name: "./a/c", Size: 3}, tar.Header{Name: "b", Size: 2, Mode: 0o755})
	write(t, dir, "app.tar", string(plain))
	var packed bytes.Buffer
	gz := gzip.NewWriter(&packed)
	if _, err := gz.Write(plain); err != nil || gz.Close() != nil {
		t.Fatal(err)
	}
	write(t, dir, "app.tgz", packed.String())
	var zipped bytes.Buffer
	z := zip.NewWriter(&zipped)
	for _, name := range []string{"a/", "a/c", "b"} {
		if _, err := z.Create(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "app.zip", zipped.String())
	for name, want := range map[string][]string{
		"app": {"a", "a/c", "b"}, "app.tar": {"a", "a/c", "b"}, "app.tgz": {"a", "a/c", "b"}, "app.zip": {"a", "a/c", "b"},
		"shop.bin": {"shop.bin"},
	} {
		got, err := paths(t, dir, name, limits())
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v\n%s", name, err, diff)
		}
	}
	as := limits()
	as.Unpack = false
	if got, err := paths(t, dir, "app.tgz", as); err != nil || !cmp.Equal(got, []string{"app.tgz"}) {
		t.Errorf("not unpacked: %v, error %v", got, err)
	}
}

func TestTheArchiveIsAlwaysTheSame(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "app/b", "b")
	s, err := Open(t.Context(), dir, "app", limits())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d  ./b\n81a4 ./b\n"
	if string(s.Inventory) != want || s.Count != 1 || s.Size != 1 {
		t.Errorf("inventory %q, %d files of %d bytes, expected %q", s.Inventory, s.Count, s.Size, want)
	}
	var one, two bytes.Buffer
	if err := errors.Join(s.WriteTar(&one), s.WriteTar(&two)); err != nil || !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Errorf("error %v, archives of %d and %d bytes, expected the same", err, one.Len(), two.Len())
	}
	write(t, dir, "app/b", "")
	if err := s.WriteTar(io.Discard); err == nil || !strings.Contains(err.Error(), "b became shorter") {
		t.Errorf("error %v, expected that b became shorter", err)
	}
}

func TestRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		make   func(t *testing.T, dir string)
		source string
		says   string
	}{
		"nothing there":        {nil, "none", "no such file"},
		"no file":              {func(t *testing.T, dir string) { mkdir(t, dir, "app/x") }, "app", "no file in it"},
		"link":                 {func(t *testing.T, dir string) { link(t, "app/x", "b", dir) }, "app", "b is a symbolic link"},
		"link out":             {func(t *testing.T, dir string) { link(t, "/etc", "x", dir) }, "app", "x is a symbolic link"},
		"source is a link":     {func(t *testing.T, dir string) { link(t, "/etc", "x", dir) }, "app/x", "no file, folder or archive"},
		"through a link":       {func(t *testing.T, dir string) { link(t, "/etc", "x", dir) }, "app/x/passwd", "escapes"},
		"outside":              {nil, "../x", "escapes"},
		"pipe":                 {func(t *testing.T, dir string) { mkdir(t, dir, "app"); fifo(t, dir) }, "app", "neither a file nor a folder"},
		"line break in a name": {func(t *testing.T, dir string) { write(t, dir, "app/a\nb", "") }, "app", "control characters"},
		"backslash":            {func(t *testing.T, dir string) { write(t, dir, `app/a\b`, "") }, "app", "backslashes"},
		"no text":              {func(t *testing.T, dir string) { write(t, dir, "app/\xff", "") }, "app", "the name"},
		"too large":            {func(t *testing.T, dir string) { write(t, dir, "app/a", strings.Repeat("x", 1<<20+1)) }, "app", "max_size"},
		"too many": {func(t *testing.T, dir string) {
			for i := range 21 {
				write(t, dir, "app/"+strings.Repeat("x", i+1), "")
			}
		}, "app", "max_files"},
		"tar climbs":    archived(tar.Header{Name: "../x"}, "leaves the source"),
		"tar absolute":  archived(tar.Header{Name: "/x"}, "leaves the source"),
		"tar inside up": archived(tar.Header{Name: "a/../../x"}, "leaves the source"),
		"tar symlink":   archived(tar.Header{Typeflag: tar.TypeSymlink, Name: "x", Linkname: "/etc"}, "neither a file"),
		"tar hard link": archived(tar.Header{Typeflag: tar.TypeLink, Name: "x", Linkname: "/etc/passwd"}, "x is a link"),
		"tar device":    archived(tar.Header{Typeflag: tar.TypeChar, Name: "x"}, "neither a file"),
		"tar too large": archived(tar.Header{Name: "x", Size: 1<<20 + 1}, "max_size"),
		"twice": {func(t *testing.T, dir string) {
			write(t, dir, "app.tar", string(tarOf(t, tar.Header{Name: "x"}, tar.Header{Name: "./x"})))
		}, "app.tar", "exists"},
		"cut off": {func(t *testing.T, dir string) {
			write(t, dir, "app.tar", string(tarOf(t, tar.Header{Name: "x", Size: 900})[:1000]))
		}, "app.tar", "unexpected EOF"},
		"no gzip": {func(t *testing.T, dir string) { write(t, dir, "app.tgz", "hello, hello") }, "app.tgz", "gzip"},
		"no zip":  {func(t *testing.T, dir string) { write(t, dir, "app.zip", "hello") }, "app.zip", "zip"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tc.make != nil {
				tc.make(t, dir)
			}
			got, err := paths(t, dir, tc.source, limits())
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("files %q, error %v, expected it to say %q", got, err, tc.says)
			}
		})
	}
}

// TestNothingIsLeft looks for what refused archives were unpacked to.
func TestNothingIsLeft(t *testing.T) {
	dir, temp := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	write(t, dir, "bad.tar", string(tarOf(t, tar.Header{Name: "x"}, tar.Header{Name: "/y"})))
	write(t, dir, "good.tar", string(tarOf(t, tar.Header{Name: "x"})))
	_, bad := paths(t, dir, "bad.tar", limits())
	_, good := paths(t, dir, "good.tar", limits())
	left, err := os.ReadDir(temp)
	if bad == nil || good != nil || err != nil || len(left) != 0 {
		t.Errorf("errors %v and %v, %d left behind, expected none", bad, good, len(left))
	}
}

func TestCancelled(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "app/b", "b")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, dir, "app", limits()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, expected the context's", err)
	}
}

func archived(h tar.Header, says string) (out struct {
	make   func(t *testing.T, dir string)
	source string
	says   string
}) {
	out.make = func(t *testing.T, dir string) { write(t, dir, "app.tar", string(tarOf(t, h))) }
	out.source, out.says = "app.tar", says
	return out
}

func mkdir(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, to, name, dir string) {
	t.Helper()
	write(t, dir, "app/real", "")
	if err := os.Symlink(to, filepath.Join(dir, "app", name)); err != nil {
		t.Fatal(err)
	}
}

func fifo(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Mkfifo(filepath.Join(dir, "app/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// FuzzArchives unpacks anything; what comes out is below the folder, plain,
// and within the limits.
func FuzzArchives(f *testing.F) {
	f.Add([]byte("x"), "app.tar")
	f.Add([]byte("x"), "app.zip")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		if unpackerOf(name) == nil || strings.ContainsAny(name, "/\x00") || len(name) > 100 {
			return
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return
		}
		s, err := Open(t.Context(), dir, name, Limits{Bytes: 1 << 16, Count: 10, Unpack: true})
		if err != nil {
			return
		}
		defer s.Close()
		for _, it := range s.items {
			if !fs.ValidPath(it.path) || s.Size > 1<<16 || s.Count > 10 {
				t.Errorf("path %q, %d files, %d bytes", it.path, s.Count, s.Size)
			}
		}
	})
}

package action

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRelease: the binary is downloaded once, checked, and taken from the
// cache from then on, as long as it is what the release lists.
func TestRelease(t *testing.T) {
	s := newReleases(t)
	j := newJob(t, s)
	for i := range 2 {
		if out, messages, code := j.run(t); code != 0 || !slices.Equal(called(out), []string{"run"}) {
			t.Fatalf("call %d ended with %d\n%s\n%s", i+1, code, out, messages)
		}
	}
	list := "/" + release + "/checksums.txt"
	want := []string{list, "/" + release + "/manent-linux-amd64", list}
	if !slices.Equal(s.asked, want) {
		t.Errorf("asked for %q, expected %q", s.asked, want)
	}
	s.mu.Lock()
	s.put("moved", stub) // as the files of a release are
	s.put("manent-linux-amd64", s.URL+"/"+release+"/moved")
	s.mu.Unlock()
	cached := filepath.Join(j.dir, "tools/manent", release, "linux-amd64/manent")
	if err := os.WriteFile(cached, []byte("#!/bin/sh\necho arg=changed\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, messages, code := j.run(t); code != 0 || !slices.Equal(called(out), []string{"run"}) || len(s.asked) != 6 {
		t.Errorf("a changed file in the cache: ended with %d, asked for %q\n%s\n%s", code, s.asked, out, messages)
	}
	j.clean(t)
	j.env["RUNNER_OS"], j.env["RUNNER_ARCH"] = "Windows", "ARM64"
	if _, messages, code := j.run(t); code != 0 || s.asked[len(s.asked)-1] != "/"+release+"/manent-windows-arm64.exe" {
		t.Errorf("Windows ended with %d, asked for %q\n%s", code, s.asked, messages)
	}
}

// clean demands that no folder of a download is left in the cache.
func (j *job) clean(t *testing.T) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(j.dir, "t*/manent/*/*/new.*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// plant puts a file into the cache, with the digest that a cache had beside it
// once.
func (j *job) plant(t *testing.T, text string, mode os.FileMode) {
	t.Helper()
	dir := filepath.Join(j.dir, "tools/manent", release, "linux-amd64")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"manent": text, "sha256": sum(text) + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCacheIsNotTrusted: what is in the cache is run only if the release lists
// it, whatever the cache says of itself.
func TestCacheIsNotTrusted(t *testing.T) {
	const evil = "#!/bin/sh\necho arg=evil\n"
	for name, tc := range map[string]struct {
		text   string
		mode   os.FileMode
		change func(*releases)
		code   int
		want   []string
	}{
		"another file":             {evil, 0o755, func(*releases) {}, 0, []string{"run"}},
		"may not be executed":      {stub, 0o644, func(*releases) {}, 0, []string{"run"}},
		"the same":                 {stub, 0o755, func(s *releases) { delete(s.files, "/"+release+"/manent-linux-amd64") }, 0, []string{"run"}},
		"the release is gone":      {stub, 0o755, func(s *releases) { clear(s.files) }, 5, nil},
		"another, and is gone":     {evil, 0o755, func(s *releases) { clear(s.files) }, 5, nil},
		"the release is a new one": {stub, 0o755, func(s *releases) { s.put("checksums.txt", sum(evil)+"  manent-linux-amd64\n") }, 5, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newReleases(t)
			j := newJob(t, s)
			j.plant(t, tc.text, tc.mode)
			tc.change(s)
			if out, messages, code := j.run(t); code != tc.code || !slices.Equal(called(out), tc.want) {
				t.Errorf("ended with %d, expected %d and %q\n%s\n%s", code, tc.code, tc.want, out, messages)
			}
			j.clean(t)
		})
	}
}

// TestLists: lists as other tools write them.
func TestLists(t *testing.T) {
	for name, list := range map[string]string{
		"no line end at the end": sum("x") + "  other\n" + sum(stub) + "  manent-linux-amd64",
		"line ends of Windows":   sum("x") + "  other\r\n" + sum(stub) + " *manent-linux-amd64\r\n",
		"both":                   sum(stub) + "  manent-linux-amd64\r",
		"capital letters":        strings.ToUpper(sum(stub)) + "  manent-linux-amd64\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newReleases(t)
			s.put("checksums.txt", list)
			j := newJob(t, s)
			if out, messages, code := j.run(t); code != 0 || !slices.Equal(called(out), []string{"run"}) {
				t.Errorf("ended with %d\n%s\n%s", code, out, messages)
			}
		})
	}
}

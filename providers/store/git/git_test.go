package git_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/providers/store/git"
	"github.com/manent/action/providers/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m, git.Spec())) }

// environment is what the tests let a store see of this process's: no home,
// no configuration of the user.
func environment(values map[string]string) func(string) string {
	return func(name string) string {
		if value, ok := values[name]; ok {
			return value
		}
		switch name {
		case "PATH", "TMPDIR", "SystemRoot", "TEMP", "TMP":
			return os.Getenv(name)
		}
		return ""
	}
}

func open(t testing.TB, dir, address string, values map[string]string) store.Store {
	t.Helper()
	s, err := git.Open(providers.Env{Getenv: environment(values), Dir: dir}, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// run runs git the way a person would, apart from the store.
func run(t testing.TB, dir string, in []byte, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(in)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@localhost", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@localhost",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// bare makes an empty bare repository, which spends no process on tidying up
// after each push.
func bare(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state.git")
	run(t, "", nil, "init", "--quiet", "--bare", "--template=", dir)
	config, err := os.OpenFile(filepath.Join(dir, "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = config.WriteString("[receive]\n\tautogc = false\n")
	if err := errors.Join(err, config.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// plant writes a document with plumbing.
func plant(t testing.TB, repository, key string, data []byte) {
	t.Helper()
	blob := run(t, repository, data, "hash-object", "-w", "--stdin")
	tree := run(t, repository, []byte("100644 blob "+blob+"\tstate.json\n"), "mktree")
	commit := run(t, repository, nil, "commit-tree", "-m", "planted", tree)
	run(t, repository, nil, "update-ref", "refs/manent/"+key, commit)
}

func TestConformanceOverAPath(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		repository := bare(t)
		before := listing(t, repository)
		return storetest.Harness{
			Open:  func(t *testing.T) store.Store { return open(t, t.TempDir(), "git:"+repository, nil) },
			Plant: func(t *testing.T, key string, data []byte) { plant(t, repository, key, data) },
			Strays: func(t *testing.T) []string {
				var strays []string
				for _, name := range listing(t, repository) {
					inside := strings.HasPrefix(name, "objects/") || strings.HasPrefix(name, "refs/manent/")
					if !inside && !strings.Contains("\n"+strings.Join(before, "\n")+"\n", "\n"+name+"\n") {
						strays = append(strays, name)
					}
				}
				return strays
			},
		}
	})
}

// listing lists the files of a folder.
func listing(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, err = filepath.Rel(dir, name)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestRacingProcesses(t *testing.T) { storetest.RaceProcesses(t, "git:"+bare(t)) }

// TestRelativeRemote: the path of a remote is one from the top of the checkout,
// as git takes it, also below the top and in a bare repository.
func TestRelativeRemote(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"state.git", "bare.git"} {
		run(t, folder, nil, "init", "--quiet", "--bare", name)
	}
	checkout, below := filepath.Join(folder, "checkout"), filepath.Join(folder, "checkout", "a", "b")
	if err := os.MkdirAll(below, 0o750); err != nil {
		t.Fatal(err)
	}
	run(t, checkout, nil, "init", "--quiet")
	for dir, in := range map[string]string{checkout: checkout, below: checkout, filepath.Join(folder, "bare.git"): filepath.Join(folder, "bare.git")} {
		run(t, in, nil, "config", "remote.origin.url", "../state.git")
		key := "shop/web/" + filepath.Base(dir)
		if _, err := open(t, dir, "git", nil).Put(t.Context(), key, store.Change{Data: []byte("{}")}, ""); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
		if refs := run(t, filepath.Join(folder, "state.git"), nil, "for-each-ref", "refs/manent/"+key); refs == "" {
			t.Errorf("%s: the state is not in the remote", dir)
		}
	}
	run(t, checkout, nil, "config", "remote.origin.url", "../nowhere.git")
	_, _, err := open(t, checkout, "git", nil).Get(t.Context(), storetest.Key)
	isFault(t, "a path that is not there", err, providers.NotFound)
}

package git_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/providers/store/git"
	"github.com/manent/action/providers/store/storetest"
)

const ref = "refs/manent/" + storetest.Key

// write makes n writes, each from the one before, and returns their commits.
func write(t *testing.T, s store.Store, bodies ...string) (revisions []store.Revision) {
	t.Helper()
	_, revision, err := s.Get(t.Context(), storetest.Key)
	for _, body := range bodies {
		if err == nil {
			revision, err = s.Put(t.Context(), storetest.Key, store.Change{Data: []byte(body), Note: body}, revision)
			revisions = append(revisions, revision)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return revisions
}

func TestHistoryThatIsNoneIsRefused(t *testing.T) {
	tests := map[string]func(t *testing.T, repository string, commits []store.Revision){
		"rewound": func(t *testing.T, repository string, commits []store.Revision) {
			run(t, repository, nil, "update-ref", ref, string(commits[0]))
		},
		"replaced": func(t *testing.T, repository string, _ []store.Revision) {
			plant(t, repository, storetest.Key, []byte("foreign"))
		},
		"forked": func(t *testing.T, repository string, commits []store.Revision) {
			run(t, repository, nil, "update-ref", ref, string(commits[0]))
			write(t, open(t, t.TempDir(), "git:"+repository, nil), "fork")
		},
		"forked with a message that looks like a parent": func(t *testing.T, repository string, commits []store.Revision) {
			tree := run(t, repository, nil, "rev-parse", ref+"^{tree}")
			commit := run(t, repository, nil, "commit-tree", "-m", "x\n\nparent "+string(commits[1])+"\n", tree)
			run(t, repository, nil, "update-ref", ref, commit)
		},
		"deleted": func(t *testing.T, repository string, _ []store.Revision) {
			run(t, repository, nil, "update-ref", "-d", ref)
		},
	}
	for name, tamper := range tests {
		t.Run(name, func(t *testing.T) {
			repository := bare(t)
			s := open(t, t.TempDir(), "git:"+repository, nil)
			commits := write(t, s, "one", "two")
			tamper(t, repository, commits)
			_, err := s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("three"), Note: "three"}, commits[1])
			isFault(t, "put", err, providers.Invalid)
			_, _, err = s.Get(t.Context(), storetest.Key)
			isFault(t, "get", err, providers.Invalid)
			if providers.HintOf(err) == "" {
				t.Error("no hint")
			}
		})
	}
}

func TestHistoryThatGrewIsNot(t *testing.T) {
	repository := bare(t)
	s, other := open(t, t.TempDir(), "git:"+repository, nil), open(t, t.TempDir(), "git:"+repository, nil)
	write(t, s, "one")
	commits := write(t, other, "two", "three", "four")
	if data, at, err := s.Get(t.Context(), storetest.Key); err != nil || string(data) != "four" || at != commits[2] {
		t.Fatalf("%q at %q, %v", data, at, err)
	}
	log := run(t, repository, nil, "log", "--format=%an <%ae> %cn <%ce> %s", ref)
	const who = "manent <manent@localhost> manent <manent@localhost> "
	if want := who + "four\n" + who + "three\n" + who + "two\n" + who + "one"; log != want {
		t.Errorf("git log:\n%s\nexpected:\n%s", log, want)
	}
	if parents := run(t, repository, nil, "rev-list", "--count", ref); parents != "4" {
		t.Errorf("%s commits, expected 4", parents)
	}
	run(t, repository, nil, "fsck", "--strict")
}

// TestSameBytesAreTwoCommits: two writers of identical bytes in one second
// never make one commit and so never both win.
func TestSameBytesAreTwoCommits(t *testing.T) {
	repository := bare(t)
	change := store.Change{Data: []byte("same"), Note: "same"}
	if _, err := open(t, t.TempDir(), "git:"+repository, nil).Put(t.Context(), storetest.Key, change, ""); err != nil {
		t.Fatal(err)
	}
	_, err := open(t, t.TempDir(), "git:"+repository, nil).Put(t.Context(), storetest.Key, change, "")
	isFault(t, "put", err, providers.Conflict)
}

func TestRefusedByAHook(t *testing.T) {
	repository := bare(t)
	hook := filepath.Join(repository, "hooks", "pre-receive")
	if err := os.MkdirAll(filepath.Dir(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hook, []byte("#!/bin/sh\necho 'not on my watch' >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := open(t, t.TempDir(), "git:"+repository, nil).Put(t.Context(), storetest.Key, store.Change{Data: []byte("x")}, "")
	isFault(t, "put", err, providers.Denied)
	if !strings.Contains(err.Error(), "not on my watch") || providers.HintOf(err) == "" {
		t.Errorf("%v (hint %q), expected the hook's own words", err, providers.HintOf(err))
	}
}

// TestConfigurationIsShutOut: hooks, signing and filters of the user and of
// the checkout have no say in the scratch repository.
func TestConfigurationIsShutOut(t *testing.T) {
	home, checkout, mark := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "ran")
	hooks := t.TempDir()
	for _, hook := range []string{"pre-push", "reference-transaction", "post-update"} {
		if err := os.WriteFile(filepath.Join(hooks, hook), []byte("#!/bin/sh\ntouch '"+mark+"'\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config := "[core]\n\thooksPath = " + hooks + "\n[commit]\n\tgpgSign = true\n[push]\n\tgpgSign = true\n\tfollowTags = true\n" +
		"[gpg]\n\tprogram = /bin/false\n[transfer]\n\thideRefs = refs/manent\n[init]\n\ttemplateDir = " + hooks + "\n[core]\n\tfsmonitor = " + hooks + "/pre-push\n"
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, checkout, nil, "init", "--quiet")
	repository := bare(t)
	run(t, checkout, nil, "config", "remote.origin.url", repository)
	run(t, checkout, nil, "config", "remote.origin.receivepack", "/bin/false")
	run(t, checkout, nil, "config", "core.hooksPath", hooks)
	roundTrip(t, open(t, checkout, "git", map[string]string{"HOME": home}))
	if _, err := os.Stat(mark); err == nil {
		t.Error("a hook has run")
	}
	if refs := run(t, checkout, nil, "for-each-ref"); refs != "" {
		t.Errorf("the checkout got refs: %s", refs)
	}
}

func TestAddresses(t *testing.T) {
	checkout := t.TempDir()
	run(t, checkout, nil, "init", "--quiet")
	for _, address := range []string{"", "gitx", "git:", "git:-x", "git:--upload-pack=x", "file:x"} {
		if _, err := git.Open(providers.Env{Dir: checkout}, address); err == nil || providers.KindOf(err) != providers.Invalid {
			t.Errorf("%q: %v, expected it to be refused as invalid", address, err)
		}
	}
	for _, address := range []string{"git", "git:upstream", "git:ext::sh -c x", "git:ftp://127.0.0.1/x", "git:git://127.0.0.1/x", "git:http://192.0.2.1/x", "git:http://u:hunter22@192.0.2.1/x", "git:https://127.0.0.1:port/x"} {
		s := open(t, checkout, address, nil)
		_, _, err := s.Get(t.Context(), storetest.Key)
		isFault(t, address, err, providers.Invalid)
		if strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%v holds the password", err)
		}
	}
	isFaultOf := func(address string, kind providers.Kind) {
		_, _, err := open(t, checkout, address, nil).Get(t.Context(), storetest.Key)
		isFault(t, address, err, kind)
	}
	isFaultOf("git:"+filepath.Join(checkout, "none.git"), providers.NotFound)
	isFaultOf("git:./none.git", providers.NotFound)
}

// TestCallThatIsCutShort: a hung host does not hold a call beyond its context,
// and what the killed git leaves behind does not hinder the next call.
func TestCallThatIsCutShort(t *testing.T) {
	repository := bare(t)
	var hang atomic.Bool
	entered := make(chan struct{}, 10)
	url := server(t, repository, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if hang.Load() && strings.HasSuffix(r.URL.Path, "-pack") {
				if _, err := io.Copy(io.Discard, r.Body); err != nil { // else the server does not see the client go
					t.Error(err)
				}
				entered <- struct{}{}
				<-r.Context().Done()
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	s := open(t, t.TempDir(), "git:"+url, nil)
	write(t, s, "one")
	other := open(t, t.TempDir(), "git:"+repository, nil)
	revision := write(t, other, "two")[0]
	calls := map[string]func(context.Context) error{
		"get": func(ctx context.Context) error { _, _, err := s.Get(ctx, storetest.Key); return err },
		"put": func(ctx context.Context) error {
			_, err := s.Put(ctx, storetest.Key, store.Change{Data: []byte("three")}, revision)
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			hang.Store(true)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { <-entered; cancel() }()
			began := time.Now()
			err := call(ctx)
			isFault(t, name, err, providers.Unknown)
			if !errors.Is(err, context.Canceled) || time.Since(began) > 10*time.Second {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			hang.Store(false)
			if data, at, err := s.Get(t.Context(), storetest.Key); err != nil || string(data) != "two" || at != revision {
				t.Errorf("afterwards %q at %q, %v", data, at, err)
			}
		})
	}
}

func TestCloseRemovesTheScratchRepository(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	s, err := git.Open(providers.Env{Dir: t.TempDir(), Getenv: os.Getenv}, "git:"+bare(t))
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, s)
	if _, err := s.Log(t.Context(), storetest.Key, 5); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(temp, "manent-state-*")); err != nil || len(left) != 1 {
		t.Fatalf("%q, %v, expected one scratch repository", left, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(temp, "manent-state-*")); err != nil || len(left) != 0 {
		t.Fatalf("%q, %v, expected none", left, err)
	}
}

// TestNothingSecretInArguments: a git in front of git writes down how it was
// called.
func TestNothingSecretInArguments(t *testing.T) {
	bin, record := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	script := "#!/bin/sh\necho \"$@\" >> '" + record + "'\nPATH='" + os.Getenv("PATH") + "' exec git \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	url := server(t, bare(t), guarded(basic("x-access-token")))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	roundTrip(t, open(t, t.TempDir(), "git:"+url, map[string]string{"MANENT_GIT_TOKEN": token}))
	calls, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(calls), token) || strings.Contains(string(calls), "Authorization") {
		t.Error("a secret was in the arguments of a process")
	}
	verbs := []string{}
	for line := range strings.Lines(string(calls)) {
		verbs = append(verbs, strings.Fields(line)[0])
	}
	// Two to set up, one to write, one to read what nobody else has changed.
	if want := []string{"config", "init", "push", "fetch"}; !slices.Equal(verbs, want) {
		t.Errorf("processes %q, expected %q", verbs, want)
	}
}

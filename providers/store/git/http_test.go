package git_test

import (
	"encoding/base64"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/providers/store/storetest"
)

const token = "s3cr3t-t0ken-value"

// server serves a repository with git's own http backend, behind a door.
func server(t testing.TB, repository string, door func(next http.Handler) http.Handler) string {
	t.Helper()
	run(t, repository, nil, "config", "http.receivepack", "true")
	backend := &cgi.Handler{
		Path: filepath.Join(run(t, "", nil, "--exec-path"), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + filepath.Dir(repository), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x"},
	}
	// The backend looks for its protocol version in a variable that cgi makes
	// of the header.
	s := httptest.NewServer(door(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if version := r.Header.Get("Git-Protocol"); version != "" {
			handler := *backend
			handler.Env = append(handler.Env[:len(handler.Env):len(handler.Env)], "GIT_PROTOCOL="+version)
			handler.ServeHTTP(w, r)
			return
		}
		backend.ServeHTTP(w, r)
	})))
	t.Cleanup(s.Close)
	return s.URL + "/" + filepath.Base(repository)
}

// guarded lets only requests with this header in.
func guarded(authorization string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Values("Authorization"); len(got) != 1 || got[0] != authorization {
				w.Header().Set("WWW-Authenticate", `Basic realm="state"`)
				http.Error(w, "who are you", http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// basic is the header for the token with a user's name.
func basic(user string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+token))
}

func TestConformanceOverHTTP(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		repository := bare(t)
		url := server(t, repository, guarded(basic("x-access-token")))
		with := func(token string) func(t *testing.T) store.Store {
			return func(t *testing.T) store.Store {
				return open(t, t.TempDir(), "git:"+url, map[string]string{"MANENT_GIT_TOKEN": token})
			}
		}
		return storetest.Harness{
			Open:    with(token),
			Denied:  with("wr0ng-t0ken-value"),
			Secrets: []string{token, "wr0ng-t0ken-value", basic("x-access-token")},
			Plant:   func(t *testing.T, key string, data []byte) { plant(t, repository, key, data) },
		}
	})
}

func TestRacingProcessesOverHTTP(t *testing.T) {
	t.Setenv("MANENT_GIT_TOKEN", token)
	storetest.RaceProcesses(t, "git:"+server(t, bare(t), guarded(basic("x-access-token"))))
}

// TestWaysToAuthenticate: whatever the checkout has, the store uses.
func TestWaysToAuthenticate(t *testing.T) {
	tests := []struct {
		name, authorization string
		variables           map[string]string
		configure           func(t *testing.T, checkout, url string)
	}{
		{"token", basic("x-access-token"), map[string]string{"MANENT_GIT_TOKEN": token}, addOrigin},
		{"token with a user", basic("gitlab-ci-token"), map[string]string{"MANENT_GIT_TOKEN": "gitlab-ci-token:" + token}, addOrigin},
		{"header of the checkout", "Bearer " + token, nil, func(t *testing.T, checkout, url string) {
			addOrigin(t, checkout, url)
			run(t, checkout, nil, "config", "http."+root(url)+".extraheader", "Authorization: Bearer "+token)
		}},
		{"header of an included file", basic("x-access-token"), nil, func(t *testing.T, checkout, url string) {
			addOrigin(t, checkout, url)
			file := filepath.Join(t.TempDir(), "credentials.config")
			run(t, checkout, nil, "config", "--file", file, "http."+root(url)+".extraheader", "AUTHORIZATION: "+basic("x-access-token"))
			run(t, checkout, nil, "config", "includeIf.gitdir:"+filepath.ToSlash(checkout)+"/.git.path", file)
		}},
		{"header of the environment", "Bearer " + token, map[string]string{
			"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "http.extraheader", "GIT_CONFIG_VALUE_0": "",
			"GIT_CONFIG_KEY_1": "http.extraheader", "GIT_CONFIG_VALUE_1": "Authorization: Bearer " + token,
		}, addOrigin},
		{"token over a header", basic("x-access-token"), map[string]string{"MANENT_GIT_TOKEN": token}, func(t *testing.T, checkout, url string) {
			addOrigin(t, checkout, url)
			run(t, checkout, nil, "config", "http."+root(url)+".extraheader", "Authorization: Bearer other")
		}},
		{"password in the URL", basic("gitlab-ci-token"), nil, func(t *testing.T, checkout, url string) {
			addOrigin(t, checkout, strings.Replace(url, "://", "://gitlab-ci-token:"+token+"@", 1))
		}},
		{"credential helper", basic("ann"), map[string]string{"HELPER_TOKEN": token, "MANENT_GIT_ENV": "HELPER_TOKEN"}, func(t *testing.T, checkout, url string) {
			addOrigin(t, checkout, url)
			run(t, checkout, nil, "config", "credential.helper", `!f() { echo username=ann; echo "password=$HELPER_TOKEN"; }; f`)
		}},
		{"URL rewritten by the configuration", basic("x-access-token"), map[string]string{"MANENT_GIT_TOKEN": token}, func(t *testing.T, checkout, url string) {
			addOrigin(t, checkout, root(url)+"/alias/state.git")
			run(t, checkout, nil, "config", "url."+url+".insteadOf", root(url)+"/alias/state.git")
		}},
		{"push URL", basic("x-access-token"), map[string]string{"MANENT_GIT_TOKEN": token}, func(t *testing.T, checkout, url string) {
			addOrigin(t, checkout, "https://127.0.0.1:1/mirror.git")
			run(t, checkout, nil, "config", "remote.origin.pushurl", url)
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			url := server(t, bare(t), guarded(test.authorization))
			checkout := t.TempDir()
			run(t, checkout, nil, "init", "--quiet")
			test.configure(t, checkout, url)
			s := open(t, checkout, "git", test.variables)
			roundTrip(t, s)
		})
	}
}

func addOrigin(t *testing.T, checkout, url string) {
	t.Helper()
	run(t, checkout, nil, "config", "remote.origin.url", url)
}

func root(url string) string { return url[:strings.LastIndex(url, "/")] }

func roundTrip(t *testing.T, s store.Store) {
	t.Helper()
	revision, err := s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("one"), Note: "one"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if data, at, err := s.Get(t.Context(), storetest.Key); err != nil || string(data) != "one" || at != revision {
		t.Fatalf("%q at %q, %v", data, at, err)
	}
}

// TestTokenGoesToItsHostOnly: not to a host that the configuration sends us
// to instead, and not over plain http to another machine.
func TestTokenGoesToItsHostOnly(t *testing.T) {
	var mu sync.Mutex
	var headers []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		headers = append(headers, r.Header.Values("Authorization")...)
		http.NotFound(w, r)
	}))
	defer other.Close()
	checkout := t.TempDir()
	run(t, checkout, nil, "init", "--quiet")
	run(t, checkout, nil, "config", "url."+other.URL+"/.insteadOf", "http://127.0.0.1:1/")
	s := open(t, checkout, "git:http://127.0.0.1:1/state.git", map[string]string{"MANENT_GIT_TOKEN": token})
	if _, _, err := s.Get(t.Context(), storetest.Key); providers.KindOf(err) != providers.NotFound || err == nil {
		t.Fatalf("%v, expected the other host's 404", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(headers) > 0 {
		t.Fatal("the token went to another host")
	}
}

// TestAnswersOfAHost: what each answer to the first request means.
func TestAnswersOfAHost(t *testing.T) {
	tests := []struct {
		name   string
		answer func(w http.ResponseWriter)
		kind   providers.Kind
	}{
		{"401", status(http.StatusUnauthorized), providers.Denied},
		{"403", status(http.StatusForbidden), providers.Denied},
		{"404", status(http.StatusNotFound), providers.NotFound},
		{"429", status(http.StatusTooManyRequests), providers.Throttled},
		{"500", status(http.StatusInternalServerError), providers.Unavailable},
		{"503", status(http.StatusServiceUnavailable), providers.Unavailable},
		{"cut off", cut, providers.Unknown},
		{"a page that is no git server", func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>welcome</html>")) }, providers.Unknown},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { test.answer(w) }))
			defer host.Close()
			s := open(t, t.TempDir(), "git:"+host.URL+"/state.git", map[string]string{"MANENT_GIT_TOKEN": token})
			wantFault(t, s, test.kind)
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		wantFault(t, open(t, t.TempDir(), "git:http://"+listener.Addr().String()+"/state.git", nil), providers.Unavailable)
	})
}

func status(code int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.WriteHeader(code) }
}

// cut ends the connection in the middle of an answer.
func cut(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
	w.Header().Set("Content-Length", "1000")
	_, _ = w.Write([]byte("00"))
	panic(http.ErrAbortHandler)
}

// wantFault: reading, writing and listing all fail with one kind; none of
// them takes silence for an absent key.
func wantFault(t *testing.T, s store.Store, kind providers.Kind) {
	t.Helper()
	_, _, err := s.Get(t.Context(), storetest.Key)
	isFault(t, "get", err, kind)
	_, err = s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("x"), Note: "x"}, "")
	isFault(t, "put", err, kind)
	_, err = s.List(t.Context(), "")
	isFault(t, "list", err, kind)
}

func isFault(t *testing.T, op string, err error, kind providers.Kind) {
	t.Helper()
	if err == nil || providers.KindOf(err) != kind {
		t.Errorf("%s: %v (kind %q), expected kind %q", op, err, providers.KindOf(err), kind)
	}
	if err != nil && strings.Contains(err.Error(), token) {
		t.Errorf("%s: the message holds the token", op)
	}
}

// TestLostAnswers: the push lands and its answer is lost.
func TestLostAnswers(t *testing.T) {
	tests := []struct {
		name string
		then func(t *testing.T, repository string) // before the answer is lost
		lose bool
		want string
		kind providers.Kind // of the answer; Unknown for success
	}{
		{"landed", nil, true, "two", providers.Unknown},
		{"landed and built upon", func(t *testing.T, repository string) {
			s := open(t, t.TempDir(), "git:"+repository, nil)
			_, at, err := s.Get(t.Context(), storetest.Key)
			if err == nil {
				_, err = s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("three"), Note: "three"}, at)
			}
			if err != nil {
				t.Error(err)
			}
		}, true, "three", providers.Unknown},
		{"landed and replaced by hand", func(t *testing.T, repository string) {
			plant(t, repository, storetest.Key, []byte("foreign"))
		}, true, "foreign", providers.Invalid},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			repository := bare(t)
			var lose sync.Once
			var armed atomic.Bool
			url := server(t, repository, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if armed.Load() && strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
						lose.Do(func() {
							next.ServeHTTP(httptest.NewRecorder(), r)
							if test.then != nil {
								test.then(t, repository)
							}
							cut(w)
						})
					}
					next.ServeHTTP(w, r)
				})
			})
			s := open(t, t.TempDir(), "git:"+url, nil)
			first, err := s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("one"), Note: "one"}, "")
			if err != nil {
				t.Fatal(err)
			}
			armed.Store(true)
			revision, err := s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("two"), Note: "two"}, first)
			if test.kind != providers.Unknown {
				isFault(t, "put", err, test.kind)
			} else if err != nil || revision == "" {
				t.Errorf("%v, expected the write to be known as landed", err)
			}
			data, _, err := open(t, t.TempDir(), "git:"+repository, nil).Get(t.Context(), storetest.Key)
			if err != nil || string(data) != test.want {
				t.Errorf("%q, %v, expected %q", data, err, test.want)
			}
		})
	}
}

// TestPushThatNeverArrives: the host goes away between reading and pushing.
func TestPushThatNeverArrives(t *testing.T) {
	repository := bare(t)
	var down atomic.Bool
	url := server(t, repository, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if down.Load() {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	s := open(t, t.TempDir(), "git:"+url, nil)
	first, err := s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("one"), Note: "one"}, "")
	if err != nil {
		t.Fatal(err)
	}
	down.Store(true)
	_, err = s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("two"), Note: "two"}, first)
	isFault(t, "put", err, providers.Unavailable)
	down.Store(false)
	if _, err = s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("two"), Note: "two"}, first); err != nil {
		t.Fatal(err)
	}
}

// TestLockedRef: another's push holds the ref's lock for a moment.
func TestLockedRef(t *testing.T) {
	repository := bare(t)
	lock := filepath.Join(repository, "refs", "manent", filepath.FromSlash(storetest.Key)+".lock")
	var pushes atomic.Int32
	url := server(t, repository, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
				if pushes.Add(1) == 3 {
					if err := os.Remove(lock); err != nil {
						t.Error(err)
					}
				}
			}
			next.ServeHTTP(w, r)
		})
	})
	s := open(t, t.TempDir(), "git:"+url, nil)
	first, err := s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("one"), Note: "one"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("two"), Note: "two"}, first); err != nil {
		t.Fatal(err)
	}
	if n := pushes.Load(); n != 3 {
		t.Fatalf("%d pushes, expected 3", n)
	}
}

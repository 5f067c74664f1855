package gitcli

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/manent/action/providers"
)

func client(dir string, values map[string]string) *Client {
	return New(providers.Env{Dir: dir, Getenv: func(name string) string {
		if name == "PATH" {
			return os.Getenv(name)
		}
		return values[name]
	}}, "")
}

// TestCompose: what of a configuration is handed on, and how the remote is
// written down.
func TestCompose(t *testing.T) {
	configuration := []setting{
		{"http.proxy", "http://127.0.0.1:3128"}, {"http.followredirects", "true"}, {"http.https://h/.followredirects", "true"}, {"http.sslverify", "false"}, {"http.https://h/.sslverify", "false"},
		{"http.https://h/.extraheader", "Authorization: Bearer abcdef"}, {"credential.helper", ""}, {"credential.helper", "store"},
		{"core.hookspath", "/evil"}, {"core.sshcommand", "ssh -i key"}, {"url.https://h/.insteadof", "h:"}, {"alias.push", "!evil"},
		{"remote.origin.url", "x"}, {"include.path", "/evil"}, {"safe.directory", "/srv/state.git"}, {"core.fsmonitor", "/evil"}, {"ssh.variant", "ssh"},
	}
	tests := []struct{ name, address, token, url, header, shown string }{
		{"no token", "https://h/o/r.git", "", "https://h/o/r.git", "Authorization: Bearer abcdef", "https://h/o/r.git"},
		{"token", "https://h/o/r.git", "t0k", "https://h/o/r.git", "Authorization: Basic eC1hY2Nlc3MtdG9rZW46dDBr", "https://h/o/r.git"},
		{"token with user", "https://h:8443/o/r.git", "u:t0k", "https://h:8443/o/r.git", "Authorization: Basic dTp0MGs=", "https://h:8443/o/r.git"},
		{"password in the URL", "https://u:t0k@h/o/r.git", "", "https://h/o/r.git", "Authorization: Basic dTp0MGs=", "https://h/o/r.git"},
		{"user in the URL", "https://ann@h/o/r.git", "", "https://ann@h/o/r.git", "Authorization: Bearer abcdef", "https://[redacted]@h/o/r.git"},
		{"ssh takes no token", "git@h:o/r.git", "t0k", "git@h:o/r.git", "Authorization: Bearer abcdef", "git@h:o/r.git"},
		{"a path takes no token", "/srv/state.git", "t0k", "/srv/state.git", "Authorization: Bearer abcdef", "/srv/state.git"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, err := client("", map[string]string{TokenVariable: test.token}).compose(test.address, configuration)
			if err != nil {
				t.Fatal(err)
			}
			var keys, headers []string
			values := map[string]string{}
			for _, a := range r.settings {
				keys, values[a.key] = append(keys, a.key), a.value
				if strings.HasSuffix(strings.ToLower(a.key), ".extraheader") {
					headers = append(headers, a.value)
				}
			}
			if values["remote.manent.url"] != test.url || r.shown != test.shown || !slices.Equal(headers, []string{test.header}) {
				t.Errorf("URL %q, shown as %q, headers %q", values["remote.manent.url"], r.shown, headers)
			}
			for _, want := range []string{"http.proxy", "credential.helper", "url.https://h/.insteadof", "ssh.variant", "core.hooksPath"} {
				if !slices.Contains(keys, want) {
					t.Errorf("%s was not handed on: %q", want, keys)
				}
			}
			if values["http.followRedirects"] != "false" {
				t.Error("redirects are followed")
			}
			for _, key := range keys {
				if strings.Contains(key, ".followredirects") || strings.Contains(key, "sslverify") || strings.Contains(values[key], "evil") || key == "safe.directory" {
					t.Errorf("%s = %s was handed on", key, values[key])
				}
			}
			if values["core.sshcommand"] != "ssh -i key" || slices.Index(keys, "core.sshcommand") < slices.Index(keys, "core.sshCommand") {
				t.Error("the user's ssh command does not come after ours")
			}
			if !slices.Equal(r.safe, []string{"/srv/state.git"}) {
				t.Errorf("trusted %q", r.safe)
			}
			if said := r.secrets.Clean("abcdef"); said == "abcdef" {
				t.Error("the header's token is not hidden in messages")
			}
		})
	}
}

// TestMeanings: messages as git and hosts write them.
func TestMeanings(t *testing.T) {
	tests := []struct {
		text string
		kind providers.Kind
	}{
		{"fatal: Authentication failed for 'https://h/o/r.git/'", providers.Denied},
		{"fatal: could not read Username for 'https://h': terminal prompts disabled", providers.Denied},
		{"fatal: unable to access 'https://h/o/r.git/': The requested URL returned error: 403", providers.Denied},
		{"remote: Permission to o/r.git denied to x.", providers.Denied},
		{"git@h: Permission denied (publickey).", providers.Denied},
		{"Host key verification failed.", providers.Denied},
		{"remote: You are not allowed to push code to this project.", providers.Denied},
		{"! [remote rejected] x -> refs/manent/a/b/c (pre-receive hook declined)", providers.Denied},
		{"! [remote rejected] x -> refs/manent/a/b/c (deny updating a hidden ref)", providers.Denied},
		{"fatal: detected dubious ownership in repository at '/srv/x.git'", providers.Denied},
		{"remote: Repository not found.", providers.NotFound},
		{"fatal: repository 'https://h/o/r.git/' not found", providers.NotFound},
		{"fatal: '/srv/x.git' does not appear to be a git repository", providers.NotFound},
		{"remote: The project you were looking for could not be found", providers.NotFound},
		{"fatal: unable to access 'https://h/': Could not resolve host: h", providers.Unavailable},
		{"fatal: unable to access 'https://h/': Failed to connect to h port 443", providers.Unavailable},
		{"fatal: unable to access 'https://h/': The requested URL returned error: 502", providers.Unavailable},
		{"fatal: unable to access 'https://h/': server certificate verification failed.", providers.Unavailable},
		{"fatal: unable to access 'https://h/': The requested URL returned error: 429", providers.Throttled},
		{"fatal: unable to access 'https://h/': The requested URL returned error: 308", providers.Invalid},
		{"error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502; fatal: the remote end hung up unexpectedly", providers.Unknown},
		{"remote: fatal error in commit_refs; ! [remote rejected] (failure)", providers.Unknown},
		{"fatal: the remote end hung up unexpectedly", providers.Unknown},
		{"! [remote rejected] (failed to update ref); cannot lock ref 'refs/manent/a/b/c': is at 1 but expected 2", providers.Unknown},
		{"! [rejected] (stale info)", providers.Unknown},
		{"something new", providers.Unknown},
		{"", providers.Unknown},
	}
	for _, test := range tests {
		err := Result{text: test.text, err: errors.New("exit status 1")}.Fault()
		if providers.KindOf(err) != test.kind || err == nil {
			t.Errorf("%q is %q, expected %q", test.text, providers.KindOf(err), test.kind)
		}
		if test.kind == providers.Denied && providers.HintOf(err) == "" {
			t.Errorf("%q: no hint", test.text)
		}
	}
	if err := (Result{}).Fault(); err != nil {
		t.Errorf("success is %v", err)
	}
	if err := (Result{text: "repository not found", err: context.Canceled}).Fault(); providers.KindOf(err) != providers.Unknown || !providers.Lost(err) {
		t.Errorf("a call that was cut short is %v", err)
	}
	if err := (Result{err: exec.ErrNotFound}).Fault(); providers.KindOf(err) != providers.Invalid || providers.HintOf(err) == "" {
		t.Errorf("no git is %v", err)
	}
}

func TestOneLine(t *testing.T) {
	c := client("", nil)
	c.remote = &remote{}
	c.remote.addSecret("Bearer hunter22")
	got := c.oneLine("remote: no.\n\n\tfatal:  unable to access 'https://u:pw@h/x/'\r\n hunter22 \xff")
	if want := "remote: no; fatal: unable to access 'https://[redacted]@h/x/'; [redacted] ?"; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
	if got := c.oneLine(strings.Repeat("ü", 1000)); len(got) > shown+len("…") || !strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes of text", len(got))
	}
}

func TestOutputIsBounded(t *testing.T) {
	b := &bounded{max: 5}
	for range 3 {
		if n, err := b.Write([]byte("abc")); n != 3 || err != nil {
			t.Fatal(n, err)
		}
	}
	if b.String() != "abcab" {
		t.Errorf("kept %q", b.String())
	}
}

// TestTrustIsWrittenDown: git reads back what the user trusts.
func TestTrustIsWrittenDown(t *testing.T) {
	dir, odd := t.TempDir(), `/srv/a "quoted" \ path`
	r := &remote{safe: []string{"/srv/state.git", odd, "*"}}
	if err := r.trust(dir); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, trustFile)
	out := client(dir, nil).run(t.Context(), command{dir: dir, args: []string{"config", "--file", file, "--null", "--get-all", "safe.directory"}, env: os.Environ()})
	if err := out.Fault(); err != nil || string(out.Out) != "/srv/state.git\x00"+odd+"\x00*\x00" {
		t.Errorf("%q, %v", out.Out, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestEnvironmentIsChosen: a git process gets what it needs and what
// MANENT_GIT_ENV names, and not the rest of the pipeline's secrets.
func TestEnvironmentIsChosen(t *testing.T) {
	env := client("", map[string]string{
		"HOME": "/h", "DEPLOY_KEY": "no", "MY_TOKEN": "yes", "OTHER": "yes", "MANENT_GIT_ENV": "MY_TOKEN, OTHER",
		"GIT_DIR": "/evil", "GIT_CONFIG_COUNT": "1", TokenVariable: "no",
	}).environ()
	for _, want := range []string{"HOME=/h", "MY_TOKEN=yes", "OTHER=yes", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %q", want, env)
		}
	}
	for _, entry := range env {
		if strings.HasSuffix(entry, "=no") || strings.HasPrefix(entry, "GIT_DIR") || strings.HasPrefix(entry, "GIT_CONFIG") {
			t.Errorf("%s was passed on", entry)
		}
	}
}

package gcpsm

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/google"
	"github.com/manent/action/providers/api/google/googletest"
	"github.com/manent/action/providers/secret"
	"github.com/manent/action/providers/secret/secrettest"
)

func TestConformance(t *testing.T) {
	secrettest.Run(t, secrettest.Suite{Setup: func(t *testing.T) secrettest.Vault {
		g := googletest.New(t)
		job := start(t, g, g.GitHub())
		return secrettest.Vault{
			Source: job.source, Put: g.Put, Missing: googletest.Project + "/secrets/missing",
			Malformed: []string{
				"s3cr3t", "projects/shop/secrets", "projects/shop/secrets/a/versions/", "projects/shop/secrets/a/versions/1/2", "projects/shop/secrets/a#",
				"projects/shop/secrets/a b", "projects/../secrets/a", "/projects/shop/secrets/a", "projects/shop/secrets/a:access", "projects/shop/secrets/a?x=1",
			},
			Logged: func() string { return job.log.String() },
		}
	}})
}

// job is one that reads secrets.
type job struct {
	source   secret.Source
	redactor *providers.Redactor
	log      *strings.Builder
}

func start(t *testing.T, g *googletest.Server, vars map[string]string) job {
	t.Helper()
	j := job{redactor: &providers.Redactor{}, log: &strings.Builder{}}
	source, err := open(providers.Env{
		Getenv: func(name string) string { return vars[name] }, Redactor: j.redactor,
		Log: func(format string, args ...any) { fmt.Fprintf(j.log, format+"\n", args...) },
	}, google.Options{Transport: g, Backoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	j.source = source
	return j
}

func (j job) read(t *testing.T, ref, want string) {
	t.Helper()
	if got, err := j.source.Resolve(t.Context(), ref); err != nil || got.Reveal() != want {
		t.Errorf("%s: %q, error %v, want %q", ref, got.Reveal(), err, want)
	}
}

// refused expects a fault whose text holds the words, and no token.
func (j job) refused(t *testing.T, g *googletest.Server, ref string, kind providers.Kind, words ...string) {
	t.Helper()
	got, err := j.source.Resolve(t.Context(), ref)
	text := fmt.Sprintf("%v, hint: %s", err, providers.HintOf(err))
	if err == nil || providers.KindOf(err) != kind || !got.Empty() {
		t.Errorf("%s: empty %v, kind %v of %q, want %v", ref, got.Empty(), providers.KindOf(err), text, kind)
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%q does not say %q", text, word)
		}
	}
	for _, token := range append(g.Issued(), "eyJ", googletest.RefreshToken, googletest.ClientSecret) {
		if strings.Contains(text, token) {
			t.Errorf("a token is in %q", text)
		}
	}
}

func TestVersionsAndFields(t *testing.T) {
	g := googletest.New(t)
	j := start(t, g, g.GitHub())
	g.Put("db", `{"password":"first"}`)
	ref := g.Put("db", `{"password":"second"}`)
	j.read(t, ref, `{"password":"second"}`)
	j.read(t, ref+"#password", "second")
	j.read(t, ref+"/versions/1#password", "first")
	j.read(t, ref+"/versions/latest#password", "second")
	j.refused(t, g, ref+"#user", providers.NotFound, `"user"`)
	j.refused(t, g, ref+"/versions/3", providers.NotFound, "version")
	if n := g.Requests(googletest.Tokens); n != 1 {
		t.Errorf("logged in %d times, want once", n)
	}
}

// TestRenewal: a rollout is longer than its tokens, and its job's tokens.
func TestRenewal(t *testing.T) {
	for name, account := range map[string]string{"as the job": "", "as a service account": googletest.Account} {
		t.Run(name, func(t *testing.T) {
			g := googletest.New(t)
			vars := g.GitHub()
			vars["GOOGLE_SERVICE_ACCOUNT"] = account
			j := start(t, g, vars)
			ref := g.Put("db", "value")
			g.Life(time.Minute) // less than a token must still last
			j.read(t, ref, "value")
			j.read(t, ref, "value")
			if n := g.Requests(googletest.Tokens); n != 2 {
				t.Errorf("logged in %d times, want again before the token expires", n)
			}
			g.Life(time.Hour)
			j.read(t, ref, "value")
			g.Withdraw()
			j.read(t, ref, "value")
			if n := g.Requests(googletest.Tokens); n != 4 {
				t.Errorf("logged in %d times, want again after the token was withdrawn", n)
			}
			for _, token := range g.Issued() {
				if !strings.Contains(j.redactor.Clean(token), "[redacted]") {
					t.Error("a token is not known to the redactor")
				}
			}
		})
	}
}

// TestTokensDown: while the service of tokens is down, a token that still
// lasts is used; afterwards nobody can say, and that is no refusal.
func TestTokensDown(t *testing.T) {
	g := googletest.New(t)
	j := start(t, g, g.GitHub())
	ref := g.Put("db", "value")
	g.Life(time.Minute)
	j.read(t, ref, "value")
	g.Answer(googletest.Tokens, http.StatusServiceUnavailable, "down")
	j.read(t, ref, "value")
	g.Withdraw()
	j.refused(t, g, ref, providers.Unavailable, "login at sts.googleapis.com", "503")
}

func TestRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		set   func(*googletest.Server)
		kind  providers.Kind
		words []string
	}{
		"by the attribute condition": {func(g *googletest.Server) { g.Refuse("unauthorized_client") }, providers.Denied, []string{"unauthorized_client", "attribute condition"}},
		"token not accepted":         {func(g *googletest.Server) { g.Refuse("invalid_grant") }, providers.Denied, []string{"invalid_grant", "audiences"}},
		"provider gone":              {func(g *googletest.Server) { g.Refuse("invalid_target") }, providers.Denied, []string{"GOOGLE_WORKLOAD_IDENTITY_PROVIDER"}},
		"identity refused":           {func(g *googletest.Server) { g.Pipeline.Answer(http.StatusForbidden, "no") }, providers.Denied, []string{"id-token: write"}},
		"identity down":              {func(g *googletest.Server) { g.Pipeline.Answer(http.StatusBadGateway, "no") }, providers.Unavailable, nil},
		"tokens throttled":           {func(g *googletest.Server) { g.Answer(googletest.Tokens, http.StatusTooManyRequests, "{}") }, providers.Throttled, nil},
		"tokens cut off":             {func(g *googletest.Server) { g.Answer(googletest.Tokens, http.StatusOK, `{"access_token":"eyJhalf`) }, providers.Unknown, nil},
		"tokens without one":         {func(g *googletest.Server) { g.Answer(googletest.Tokens, http.StatusOK, `{"expires_in":3600}`) }, providers.Unknown, nil},
		"tokens not found":           {func(g *googletest.Server) { g.Answer(googletest.Tokens, http.StatusNotFound, "") }, providers.Denied, nil},
		"no permission":              {func(g *googletest.Server) { g.Answer(googletest.Secrets, http.StatusForbidden, "{}") }, providers.Denied, []string{"roles/secretmanager.secretAccessor"}},
		"token refused for good":     {func(g *googletest.Server) { g.Answer(googletest.Secrets, http.StatusUnauthorized, "{}") }, providers.Denied, []string{"401"}},
		"throttled":                  {func(g *googletest.Server) { g.Answer(googletest.Secrets, http.StatusTooManyRequests, "{}") }, providers.Throttled, nil},
		"down":                       {func(g *googletest.Server) { g.Answer(googletest.Secrets, http.StatusInternalServerError, "{}") }, providers.Unavailable, nil},
		"disabled version": {func(g *googletest.Server) {
			g.Answer(googletest.Secrets, http.StatusBadRequest, `{"error":{"code":400,"message":"is in DISABLED state","status":"FAILED_PRECONDITION"}}`)
		}, providers.Invalid, []string{"disabled"}},
		"cut off": {func(g *googletest.Server) {
			g.Answer(googletest.Secrets, http.StatusOK, `{"name":"x","payload":{"data":"eyJ`)
		}, providers.Unknown, nil},
		"no payload": {func(g *googletest.Server) { g.Answer(googletest.Secrets, http.StatusOK, `{}`) }, providers.Unknown, nil},
		"not base64": {func(g *googletest.Server) {
			g.Answer(googletest.Secrets, http.StatusOK, `{"name":"x","payload":{"data":"%"}}`)
		}, providers.Unknown, nil},
		"wrong checksum": {func(g *googletest.Server) { g.Checksum("1") }, providers.Unknown, []string{"checksum"}},
		"too long":       {func(g *googletest.Server) { g.Put("db", strings.Repeat("k", 64<<10+1)) }, providers.Unknown, []string{"65536"}},
		"far too long":   {func(g *googletest.Server) { g.Put("db", strings.Repeat("k", 1<<20)) }, providers.Unknown, []string{"too long"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := googletest.New(t)
			j := start(t, g, g.GitHub())
			ref := g.Put("db", "value")
			tc.set(g)
			j.refused(t, g, ref, tc.kind, tc.words...)
		})
	}
}

func TestNoChecksum(t *testing.T) {
	g := googletest.New(t)
	g.Checksum("-")
	start(t, g, g.GitHub()).read(t, g.Put("db", "value"), "value")
}

func TestOtherJobs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials.json")
	if err := os.WriteFile(file, []byte(googletest.File()), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		vars  func(*googletest.Server) map[string]string
		kind  providers.Kind // of the refusal, if words are given
		words []string
	}{
		"GitLab":           {func(g *googletest.Server) map[string]string { return g.GitLab(time.Hour) }, 0, nil},
		"GitLab, too late": {func(g *googletest.Server) map[string]string { return g.GitLab(-time.Hour) }, providers.Denied, []string{"expired"}},
		"a file": {func(*googletest.Server) map[string]string {
			return map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": file}
		}, 0, nil},
		"a file beside a provider, without an identity": {func(*googletest.Server) map[string]string {
			return map[string]string{"GITHUB_ACTIONS": "true", "GOOGLE_WORKLOAD_IDENTITY_PROVIDER": googletest.Pool, "GOOGLE_APPLICATION_CREDENTIALS": file}
		}, 0, nil},
		"no such file": {func(*googletest.Server) map[string]string {
			return map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": file + ".not"}
		}, providers.Denied, []string{"GOOGLE_APPLICATION_CREDENTIALS"}},
		"GitHub without id-token": {func(*googletest.Server) map[string]string {
			return map[string]string{"GITHUB_ACTIONS": "true", "GOOGLE_WORKLOAD_IDENTITY_PROVIDER": googletest.Pool}
		}, providers.Denied, []string{"id-token: write"}},
		"a shell that names a provider": {func(*googletest.Server) map[string]string {
			return map[string]string{"GOOGLE_WORKLOAD_IDENTITY_PROVIDER": googletest.Pool}
		}, providers.Denied, []string{"GOOGLE_WORKLOAD_IDENTITY_PROVIDER"}},
		"another account": {func(g *googletest.Server) map[string]string {
			vars := g.GitHub()
			vars["GOOGLE_SERVICE_ACCOUNT"] = "owner@shop.iam.gserviceaccount.com"
			return vars
		}, providers.Denied, []string{"roles/iam.workloadIdentityUser", "login at iamcredentials.googleapis.com"}},
		"another provider": {func(g *googletest.Server) map[string]string {
			vars := g.GitHub()
			vars["GOOGLE_WORKLOAD_IDENTITY_PROVIDER"] += "2"
			return vars
		}, providers.Denied, []string{"invalid_target"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := googletest.New(t)
			j := start(t, g, tc.vars(g))
			ref := g.Put("db", "value")
			if tc.words == nil {
				j.read(t, ref, "value")
			} else {
				j.refused(t, g, ref, tc.kind, tc.words...)
			}
		})
	}
}

// TestFileWithdrawn: what a file holds is in no text, though the answer
// quotes it.
func TestFileWithdrawn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials.json")
	if err := os.WriteFile(file, []byte(googletest.File()), 0o600); err != nil {
		t.Fatal(err)
	}
	g := googletest.New(t)
	g.Refuse("invalid_grant")
	start(t, g, map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": file}).refused(t, g, g.Put("db", "value"), providers.Denied, "invalid_grant")
}

func TestBadSettings(t *testing.T) {
	for _, vars := range []map[string]string{
		{"GOOGLE_WORKLOAD_IDENTITY_PROVIDER": "projects/shop/locations/global/workloadIdentityPools/a/providers/b"},
		{"GOOGLE_WORKLOAD_IDENTITY_PROVIDER": googletest.Pool + "/"},
		{"GOOGLE_WORKLOAD_IDENTITY_PROVIDER": "https://evil.example/" + googletest.Pool},
		{"GOOGLE_WORKLOAD_IDENTITY_PROVIDER": googletest.Pool, "GOOGLE_SERVICE_ACCOUNT": "me"},
		{"GOOGLE_WORKLOAD_IDENTITY_PROVIDER": googletest.Pool, "GOOGLE_SERVICE_ACCOUNT": "a@b/../c"},
	} {
		_, err := New(providers.Env{Getenv: func(name string) string { return vars[name] }})
		if providers.KindOf(err) != providers.Invalid || providers.HintOf(err) == "" {
			t.Errorf("%v: error %v", vars, err)
		}
	}
	for _, prefix := range []string{"https://iam.googleapis.com/", "//iam.googleapis.com/"} {
		if _, err := New(providers.Env{Getenv: func(string) string { return prefix + googletest.Pool }}); err == nil {
			t.Errorf("%s: the account was not refused", prefix)
		}
		vars := map[string]string{"GOOGLE_WORKLOAD_IDENTITY_PROVIDER": prefix + googletest.Pool}
		if _, err := New(providers.Env{Getenv: func(name string) string { return vars[name] }}); err != nil {
			t.Error(err)
		}
	}
}

// FuzzParse: no reference makes another path or query of the address.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"projects/shop/secrets/db#password", "projects/example.com:shop/secrets/db/versions/3", "projects/../secrets/a", "projects/a/secrets/b?c#d", "projects/1/secrets/_"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		path, _, ok := parse(ref)
		if ok && (strings.ContainsAny(path, "?#%\\ \n") || strings.Contains(path, "/.") || strings.Count(path, "/") != 5 || !strings.HasPrefix(path, "projects/")) {
			t.Errorf("%q is %q", ref, path)
		}
	})
}

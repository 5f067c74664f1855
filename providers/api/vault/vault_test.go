package vault

import (
	"context"
	"encoding/pem"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/identity/identitytest"
	"github.com/manent/action/providers/api/vault/vaulttest"
	"github.com/manent/action/providers/httpx"
)

type lab struct {
	jobs   *identitytest.Pipeline
	server *vaulttest.Server
	masked []string
}

const path = "secret/data/shop"

func newLab(t *testing.T) *lab {
	l := &lab{jobs: identitytest.New(t)}
	l.server = vaulttest.New(t, l.jobs)
	l.server.Put(path, map[string]any{"password": "hunter22"})
	return l
}

// direct carries requests without a network, so that they take no time.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

// open returns the client of a job on GitHub, with changes of its variables.
func (l *lab) open(t *testing.T, changes ...string) *Client {
	t.Helper()
	return l.client(t, l.jobs.GitHub(), httpx.Options{Backoff: time.Millisecond}, changes...)
}

func (l *lab) client(t *testing.T, vars map[string]string, o httpx.Options, changes ...string) *Client {
	t.Helper()
	maps.Copy(vars, l.server.Vars())
	for i := 0; i < len(changes); i += 2 {
		vars[changes[i]] = changes[i+1]
	}
	c, err := newClient(providers.Env{
		Getenv: func(name string) string { return vars[name] }, Redactor: &providers.Redactor{},
		Mask: func(s providers.Secret) error { l.masked = append(l.masked, s.Reveal()); return nil },
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func reads(t *testing.T, c *Client) {
	t.Helper()
	if data, err := c.Read(t.Context(), path); err != nil || !strings.Contains(string(data), "hunter22") {
		t.Fatalf("%s, error %v", data, err)
	}
}

// One login is enough for all that is read while its token lasts, and the
// token is hidden before anybody gets it.
func TestLogin(t *testing.T) {
	l := newLab(t)
	c := l.open(t)
	for range 3 {
		reads(t, c)
	}
	if logins, renewed := l.server.Counts(); logins != 1 || renewed != 0 || !slices.Equal(l.jobs.Asked(), []string{vaulttest.Audience}) {
		t.Errorf("%d logins, %d renewed, tokens for %q", logins, renewed, l.jobs.Asked())
	}
	if !slices.Contains(l.masked, c.lease.token.Reveal()) || len(l.masked) != 2 {
		t.Errorf("%d masked, expected the job's token and Vault's", len(l.masked))
	}
	c = l.open(t)
	c.env.Mask = func(providers.Secret) error { return errors.New("cannot mask") }
	if _, err := c.Read(t.Context(), path); err == nil {
		t.Error("a token that could not be hidden was used")
	}
}

func TestGivenToken(t *testing.T) {
	l := newLab(t)
	c := l.open(t, "VAULT_TOKEN", vaulttest.RootToken)
	reads(t, c)
	if logins, _ := l.server.Counts(); logins != 0 || !slices.Contains(l.masked, vaulttest.RootToken) {
		t.Errorf("%d logins, masked %d", logins, len(l.masked))
	}
	_, err := l.open(t, "VAULT_TOKEN", "hvs.0ther-t0ken").Read(t.Context(), path)
	if providers.KindOf(err) != providers.Denied || !strings.Contains(providers.HintOf(err), "VAULT_TOKEN") || strings.Contains(err.Error(), "0ther") {
		t.Errorf("error %v, hint %q", err, providers.HintOf(err))
	}
}

// A token is renewed in the last third of its life, replaced when it cannot be
// renewed any more, used to its end while Vault lends none, and not beyond.
func TestLease(t *testing.T) {
	jobs := identitytest.New(t)
	type call struct {
		at              time.Duration
		away            bool // neither logins nor renewals are answered
		fails           bool
		logins, renewed int
	}
	for name, tc := range map[string]struct {
		life, most time.Duration
		calls      []call
	}{
		"renewed":    {time.Hour, 24 * time.Hour, []call{{0, false, false, 1, 0}, {39 * time.Minute, false, false, 1, 0}, {41 * time.Minute, false, false, 1, 1}, {80 * time.Minute, false, false, 1, 1}, {82 * time.Minute, false, false, 1, 2}}},
		"to its end": {time.Hour, time.Hour, []call{{0, false, false, 1, 0}, {50 * time.Minute, false, false, 2, 1}, {65 * time.Minute, false, false, 2, 1}}},
		"late":       {time.Hour, 24 * time.Hour, []call{{0, false, false, 1, 0}, {3 * time.Hour, false, false, 2, 0}}},
		"away":       {time.Hour, 24 * time.Hour, []call{{0, false, false, 1, 0}, {59 * time.Minute, true, false, 1, 0}, {60 * time.Minute, true, true, 1, 0}, {61 * time.Minute, false, false, 2, 0}}},
		"short":      {20 * time.Second, time.Minute, []call{{0, false, false, 1, 0}, {10 * time.Second, false, false, 1, 0}, {15 * time.Second, false, false, 1, 1}, {40 * time.Second, false, false, 2, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &lab{jobs: jobs, server: vaulttest.New(t, jobs)}
			l.server.Put(path, map[string]any{"password": "hunter22"})
			l.server.Live(tc.life, tc.most)
			synctest.Test(t, func(t *testing.T) {
				c := l.client(t, jobs.GitLab(vaulttest.Audience, 24*time.Hour), httpx.Options{Transport: direct{l.server}, Retries: -1})
				began := time.Now()
				for _, step := range tc.calls {
					<-time.After(time.Until(began.Add(step.at)))
					status := 0
					if step.away {
						status = http.StatusServiceUnavailable
					}
					l.server.Answer("auth/", status, `{"errors":["Vault is sealed"]}`)
					_, err := c.Read(t.Context(), path)
					if logins, renewed := l.server.Counts(); (err != nil) != step.fails || logins != step.logins || renewed != step.renewed {
						t.Errorf("after %v: error %v, %d logins, %d renewed, expected %+v", step.at, err, logins, renewed, step)
					}
					if step.fails && providers.KindOf(err) != providers.Unavailable {
						t.Errorf("after %v: %v of kind %v", step.at, err, providers.KindOf(err))
					}
				}
			})
		})
	}
}

func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		changes []string
		kind    providers.Kind
		says    string
		hint    string
	}{
		"another role":      {[]string{"VAULT_ROLE", "other"}, providers.Denied, `role \"other\" could not be found`, "VAULT_ROLE"},
		"another audience":  {[]string{"MANENT_VAULT_AUDIENCE", "https://x.example"}, providers.Denied, "error validating token", `bound_audiences "https://x.example"`},
		"another namespace": {[]string{"VAULT_NAMESPACE", "teams/other"}, providers.Denied, "status 404", "VAULT_NAMESPACE"},
		"another method":    {[]string{"VAULT_AUTH_PATH", "github-jwt"}, providers.Denied, "status 404", "auth method github-jwt"},
		"a role of nobody":  {[]string{"VAULT_ROLE", ""}, providers.Denied, "neither VAULT_TOKEN nor VAULT_ROLE", "VAULT_ROLE"},
		"no permission":     {[]string{"ACTIONS_ID_TOKEN_REQUEST_URL", ""}, providers.Denied, "vault: login as shop-prod: identity: ", "id-token: write"},
		"no pipeline":       {[]string{"ACTIONS_ID_TOKEN_REQUEST_URL", "", "GITHUB_ACTIONS", ""}, providers.Denied, "neither VAULT_TOKEN nor the identity", "VAULT_TOKEN"},
		"a token in a file": {[]string{"ACTIONS_ID_TOKEN_REQUEST_URL", "", "GITHUB_ACTIONS", "", "MANENT_ID_TOKEN", "x"}, providers.Invalid, "MANENT_ID_TOKEN", "as it is"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			data, err := l.open(t, tc.changes...).Read(t.Context(), path)
			if err == nil || providers.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.says) || !strings.Contains(providers.HintOf(err), tc.hint) || data != nil {
				t.Errorf("%v of kind %v, hint %q", err, providers.KindOf(err), providers.HintOf(err))
			}
			if strings.Contains(err.Error(), "eyJ") {
				t.Errorf("%v holds a token", err)
			}
		})
	}
	l := newLab(t)
	expired := l.client(t, l.jobs.GitLab(vaulttest.Audience, -time.Minute), httpx.Options{})
	if _, err := expired.Read(t.Context(), path); providers.KindOf(err) != providers.Denied || !strings.Contains(err.Error(), "expired") {
		t.Errorf("a job's token that has expired: %v", err)
	}
	l.server.Deny(path)
	if _, err := l.open(t).Read(t.Context(), path); providers.KindOf(err) != providers.Denied || !strings.Contains(providers.HintOf(err), `role "shop-prod" have to allow to read secret/data/shop`) {
		t.Errorf("a path that is not allowed: %v, hint %q", err, providers.HintOf(err))
	}
	if logins, _ := l.server.Counts(); logins != 2 {
		t.Errorf("%d logins, expected one more after the refusal, and no third", logins)
	}
}

func TestAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		below  string
		status int
		body   string
		kind   providers.Kind
	}{
		"sealed": {"", 503, `{"errors":["Vault is sealed"]}`, providers.Unavailable}, "500": {"secret/", 500, "", providers.Unavailable}, "429": {"secret/", 429, "", providers.Throttled},
		"400": {"secret/", 400, "", providers.Invalid}, "no JSON": {"secret/", 200, "<html>", providers.Unknown}, "no data": {"secret/", 200, `{"data":null}`, providers.Unknown},
		"a list": {"secret/", 200, `{"data":["x"]}`, providers.Unknown}, "cut off": {"secret/", 200, `{"data":{"password":"hunt`, providers.Unknown}, "too long": {"secret/", 200, strings.Repeat("x", maxBody+1), providers.Unknown},
		"login without a token": {"auth/", 200, `{"auth":{"client_token":"","lease_duration":60}}`, providers.Unknown}, "login without auth": {"auth/", 200, `{"data":{}}`, providers.Unknown},
		"login of less than nothing": {"auth/", 200, `{"auth":{"client_token":"hvs.x","lease_duration":-1}}`, providers.Unknown},
		"login, 500":                 {"auth/", 500, "", providers.Unavailable}, "login, 429": {"auth/", 429, "", providers.Throttled}, "login, 403": {"auth/", 403, "", providers.Denied},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.server.Answer(tc.below, tc.status, tc.body)
			data, err := l.open(t).Read(t.Context(), path)
			if err == nil || providers.KindOf(err) != tc.kind || data != nil || strings.Contains(err.Error(), "hunt") {
				t.Errorf("%s, %v of kind %v", data, err, providers.KindOf(err))
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	for _, vars := range []map[string]string{
		{}, {"VAULT_ADDR": "http://192.0.2.1:8200"}, {"VAULT_ADDR": "vault.example"}, {"VAULT_ADDR": "https://u:hunter22@vault.example"}, {"VAULT_ADDR": "https://vault.example/?x=1"},
		{"VAULT_ADDR": "https://vault.example", "VAULT_AUTH_PATH": "../sys"}, {"VAULT_ADDR": "https://vault.example", "VAULT_AUTH_PATH": "a//b"},
	} {
		if _, err := New(providers.Env{Getenv: func(name string) string { return vars[name] }}); providers.KindOf(err) != providers.Invalid || err == nil || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%v: error %v", vars, err)
		}
	}
}

// TestAuthority: a certificate is verified, with VAULT_CACERT if there is one.
func TestAuthority(t *testing.T) {
	l := newLab(t)
	strict := httptest.NewTLSServer(l.server)
	defer strict.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: strict.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	reads(t, l.open(t, "VAULT_ADDR", strict.URL, "VAULT_CACERT", file))
	strict.Config.ErrorLog = nil
	if _, err := l.open(t, "VAULT_ADDR", strict.URL).Read(t.Context(), path); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("error %v, expected that an unknown certificate is refused", err)
	}
}

func TestCancelled(t *testing.T) {
	l := newLab(t)
	c := l.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Read(ctx, path); !errors.Is(err, context.Canceled) || providers.KindOf(err) != providers.Unknown {
		t.Errorf("error %v", err)
	}
	reads(t, c)
	if _, err := c.Read(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

package azurekv

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/azure"
	"github.com/manent/action/providers/api/azure/azuretest"
	"github.com/manent/action/providers/secret"
	"github.com/manent/action/providers/secret/secrettest"
)

// TestConformance: the longest value is 25 kB.
// https://learn.microsoft.com/azure/key-vault/secrets/about-secrets
func TestConformance(t *testing.T) {
	secrettest.Run(t, secrettest.Suite{TextOnly: true, Most: 25000, Setup: func(t *testing.T) secrettest.Vault {
		a := azuretest.New(t, azuretest.Public())
		job := start(t, a, a.GitHub())
		return secrettest.Vault{
			Source: job.source, Put: a.Put, Missing: azuretest.Vault + "/missing",
			Malformed: []string{
				"s3cr3t", "shop-vault/", "/db", "shop-vault/db/", "shop-vault/db/latest", "shop-vault/db#", "shop-vault/d_b", "shop-vault/db?x=1",
				"https://shop-vault.vault.azure.net/secrets/db", "shop-vault.evil.example/db", "evil.example/db", "a/db", "-ab/db", "ab-/db", "shop@vault/db", "shop-vault/../db",
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

func start(t *testing.T, a *azuretest.Server, vars map[string]string) job {
	t.Helper()
	j := job{redactor: &providers.Redactor{}, log: &strings.Builder{}}
	source, err := open(providers.Env{
		Getenv: func(name string) string { return vars[name] }, Redactor: j.redactor,
		Log: func(format string, args ...any) { fmt.Fprintf(j.log, format+"\n", args...) },
	}, azure.Options{Transport: a, Backoff: time.Millisecond})
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
func (j job) refused(t *testing.T, a *azuretest.Server, ref string, kind providers.Kind, words ...string) {
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
	for _, token := range append(a.Issued(), "eyJ", azuretest.Secret) {
		if strings.Contains(text, token) {
			t.Errorf("a token is in %q", text)
		}
	}
}

func TestVersionsAndFields(t *testing.T) {
	a := azuretest.New(t, azuretest.Public())
	j := start(t, a, a.GitHub())
	a.Put("db", `{"password":"first"}`)
	ref := a.Put("db", `{"password":"second"}`)
	j.read(t, ref, `{"password":"second"}`)
	j.read(t, ref+"#password", "second")
	j.read(t, ref+"/"+azuretest.Version(1)+"#password", "first")
	j.refused(t, a, ref+"#user", providers.NotFound, `"user"`)
	j.refused(t, a, ref+"/"+azuretest.Version(3), providers.NotFound, "SecretNotFound")
	if n := a.Logins(); n != 1 {
		t.Errorf("logged in %d times, want once", n)
	}
}

// TestRenewal: a rollout is longer than its tokens, and its job's tokens.
func TestRenewal(t *testing.T) {
	a := azuretest.New(t, azuretest.Public())
	j := start(t, a, a.GitHub())
	ref := a.Put("db", "value")
	a.Life(time.Minute) // less than a token must still last
	j.read(t, ref, "value")
	a.Life(time.Hour)
	j.read(t, ref, "value")
	if n := a.Logins(); n != 2 {
		t.Errorf("logged in %d times, want again before the token expires", n)
	}
	a.Withdraw()
	j.read(t, ref, "value")
	if n := a.Logins(); n != 3 {
		t.Errorf("logged in %d times, want again after the token was withdrawn", n)
	}
	if asked := a.Pipeline.Asked(); len(asked) != 3 {
		t.Errorf("the job's token was minted %d times, want for each login", len(asked))
	}
	for _, token := range a.Issued() {
		if !strings.Contains(j.redactor.Clean(token), "[redacted]") {
			t.Error("a token is not known to the redactor")
		}
	}
}

// TestStale: what proves the identity expired on the way.
func TestStale(t *testing.T) {
	a := azuretest.New(t, azuretest.Public())
	j := start(t, a, a.GitHub())
	ref := a.Put("db", "value")
	a.Stale(1)
	j.read(t, ref, "value")
	a.Withdraw()
	a.Stale(2)
	j.refused(t, a, ref, providers.Denied, "AADSTS700024", "clock")
}

// TestTokensDown: while logins are down, a token that still lasts is used;
// afterwards nobody can say, and that is no refusal.
func TestTokensDown(t *testing.T) {
	a := azuretest.New(t, azuretest.Public())
	j := start(t, a, a.GitHub())
	ref := a.Put("db", "value")
	a.Life(time.Minute)
	j.read(t, ref, "value")
	a.Answer(a.Cloud.Login, http.StatusServiceUnavailable, "down")
	j.read(t, ref, "value")
	a.Withdraw()
	j.refused(t, a, ref, providers.Unavailable, "login at login.microsoftonline.com", "503")
}

func TestRefused(t *testing.T) {
	login := azuretest.Public().Login
	vault := azuretest.Vault + "." + azuretest.Public().Vaults
	denied := func(inner string) string {
		return `{"error":{"code":"Forbidden","message":"no","innererror":{"code":"` + inner + `"}}}`
	}
	for name, tc := range map[string]struct {
		set   func(*azuretest.Server)
		kind  providers.Kind
		words []string
	}{
		"no such subject":      {func(a *azuretest.Server) { a.Refuse(700213) }, providers.Denied, []string{"AADSTS700213", "federated credential"}},
		"identity refused":     {func(a *azuretest.Server) { a.Pipeline.Answer(http.StatusForbidden, "no") }, providers.Denied, []string{"id-token: write"}},
		"identity down":        {func(a *azuretest.Server) { a.Pipeline.Answer(http.StatusBadGateway, "no") }, providers.Unavailable, nil},
		"logins throttled":     {func(a *azuretest.Server) { a.Answer(login, http.StatusTooManyRequests, "{}") }, providers.Throttled, nil},
		"logins cut off":       {func(a *azuretest.Server) { a.Answer(login, http.StatusOK, `{"access_token":"eyJhalf`) }, providers.Unknown, nil},
		"logins without token": {func(a *azuretest.Server) { a.Answer(login, http.StatusOK, `{}`) }, providers.Unknown, nil},
		"no role":              {func(a *azuretest.Server) { a.Answer(vault, http.StatusForbidden, denied("ForbiddenByRbac")) }, providers.Denied, []string{"Key Vault Secrets User"}},
		"no policy":            {func(a *azuretest.Server) { a.Answer(vault, http.StatusForbidden, denied("AccessDenied")) }, providers.Denied, []string{"get on secrets"}},
		"firewall":             {func(a *azuretest.Server) { a.Answer(vault, http.StatusForbidden, denied("ForbiddenByFirewall")) }, providers.Denied, []string{"firewall"}},
		"disabled":             {func(a *azuretest.Server) { a.Answer(vault, http.StatusForbidden, denied("SecretDisabled")) }, providers.Denied, []string{"disabled"}},
		"throttled":            {func(a *azuretest.Server) { a.Answer(vault, http.StatusTooManyRequests, "{}") }, providers.Throttled, nil},
		"down":                 {func(a *azuretest.Server) { a.Answer(vault, http.StatusInternalServerError, "{}") }, providers.Unavailable, nil},
		"cut off":              {func(a *azuretest.Server) { a.Answer(vault, http.StatusOK, `{"id":"x","value":"eyJ`) }, providers.Unknown, nil},
		"no value":             {func(a *azuretest.Server) { a.Answer(vault, http.StatusOK, `{"id":"x"}`) }, providers.Unknown, nil},
		"too long":             {func(a *azuretest.Server) { a.Put("db", strings.Repeat("k", 1<<20)) }, providers.Unknown, []string{"too long"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := azuretest.New(t, azuretest.Public())
			j := start(t, a, a.GitHub())
			ref := a.Put("db", "value")
			tc.set(a)
			j.refused(t, a, ref, tc.kind, tc.words...)
		})
	}
}

// TestChallenge: a vault that asks for what manent has not is not given it.
func TestChallenge(t *testing.T) {
	for header, word := range map[string]string{
		`Bearer authorization="https://login.microsoftonline.com/other", resource="https://vault.azure.net"`:        "login.microsoftonline.com/other",
		`Bearer authorization="https://login.microsoftonline.us/other", resource="https://vault.usgovcloudapi.net"`: "vault.usgovcloudapi.net",
		`Bearer authorization="https://login.microsoftonline.com/other", resource="https://management.azure.com"`:   "management.azure.com",
		`Bearer`: "does not say",
	} {
		a := azuretest.New(t, azuretest.Public())
		j := start(t, a, a.GitHub())
		ref := a.Put("db", "value")
		a.Challenge(header)
		j.refused(t, a, ref, providers.Denied, word)
		if hosts, want := a.Hosts(), []string{a.Cloud.Login, a.VaultHost()}; !slices.Equal(hosts, want) {
			t.Errorf("asked %v, want %v", hosts, want)
		}
	}
}

func TestClouds(t *testing.T) {
	government := azuretest.Cloud{Login: "login.microsoftonline.us", Audience: "api://AzureADTokenExchangeUSGov", Vaults: "vault.usgovcloudapi.net"}
	china := azuretest.Cloud{Login: "login.chinacloudapi.cn", Audience: "api://AzureADTokenExchangeChina", Vaults: "vault.azure.cn"}
	for name, tc := range map[string]struct {
		vars map[string]string
		want azuretest.Cloud
	}{
		"by default":               {nil, azuretest.Public()},
		"by name":                  {map[string]string{"AZURE_CLOUD": "AzureUSGovernment"}, government},
		"by authority":             {map[string]string{"AZURE_AUTHORITY_HOST": "https://login.microsoftonline.us"}, government},
		"by the other authority":   {map[string]string{"AZURE_AUTHORITY_HOST": "https://login.partner.microsoftonline.cn/"}, china},
		"by both":                  {map[string]string{"AZURE_CLOUD": "AzureChinaCloud", "AZURE_AUTHORITY_HOST": "https://login.chinacloudapi.cn/"}, china},
		"public, by its authority": {map[string]string{"AZURE_AUTHORITY_HOST": "https://login.microsoftonline.com/"}, azuretest.Public()},
	} {
		t.Run(name, func(t *testing.T) {
			a := azuretest.New(t, tc.want)
			vars := a.GitHub()
			maps.Copy(vars, tc.vars)
			start(t, a, vars).read(t, a.Put("db", "value"), "value")
			if asked := a.Pipeline.Asked(); !slices.Equal(asked, []string{tc.want.Audience}) {
				t.Errorf("asked for %q", asked)
			}
		})
	}
}

func TestOtherJobs(t *testing.T) {
	for name, tc := range map[string]struct {
		vars  func(*azuretest.Server) map[string]string
		kind  providers.Kind // of the refusal, if words are given
		words []string
	}{
		"GitLab":           {func(a *azuretest.Server) map[string]string { return a.GitLab(time.Hour) }, 0, nil},
		"GitLab, too late": {func(a *azuretest.Server) map[string]string { return a.GitLab(-time.Hour) }, providers.Denied, []string{"expired"}},
		"a secret":         {func(*azuretest.Server) map[string]string { return with("AZURE_CLIENT_SECRET", azuretest.Secret) }, 0, nil},
		"a wrong secret":   {func(*azuretest.Server) map[string]string { return with("AZURE_CLIENT_SECRET", "wr0ng-secret") }, providers.Denied, []string{"AADSTS7000215", "AZURE_CLIENT_SECRET"}},
		"a secret beside an identity": {func(a *azuretest.Server) map[string]string {
			vars := a.GitHub()
			vars["AZURE_CLIENT_SECRET"] = "wr0ng-secret"
			return vars
		}, providers.Denied, []string{"AADSTS7000215"}},
		"another application": {func(a *azuretest.Server) map[string]string {
			vars := a.GitHub()
			vars["AZURE_CLIENT_ID"] = azuretest.Tenant
			return vars
		}, providers.Denied, []string{"AADSTS700016", "AZURE_CLIENT_ID"}},
		"another tenant": {func(a *azuretest.Server) map[string]string {
			vars := a.GitHub()
			vars["AZURE_TENANT_ID"] = azuretest.Client
			return vars
		}, providers.Denied, []string{"AADSTS90002", "AZURE_TENANT_ID"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := azuretest.New(t, azuretest.Public())
			j := start(t, a, tc.vars(a))
			ref := a.Put("db", "value")
			if tc.words == nil {
				j.read(t, ref, "value")
			} else {
				j.refused(t, a, ref, tc.kind, tc.words...)
			}
		})
	}
}

func with(name, value string) map[string]string {
	vars := azuretest.Application()
	vars[name] = value
	return vars
}

// TestFile: a pod's token is read anew for each login, since the cluster
// renews it.
func TestFile(t *testing.T) {
	a := azuretest.New(t, azuretest.Public())
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j := start(t, a, with("AZURE_FEDERATED_TOKEN_FILE", path))
	ref := a.Put("db", "value")
	j.refused(t, a, ref, providers.Denied, "AZURE_FEDERATED_TOKEN_FILE")
	write("\n")
	j.refused(t, a, ref, providers.Denied, "empty")
	write(a.Pipeline.Mint(-time.Minute, a.Cloud.Audience))
	j.refused(t, a, ref, providers.Denied, "AADSTS700024")
	write(a.Pipeline.Mint(time.Hour, "api://somebody-else"))
	j.refused(t, a, ref, providers.Denied, "AADSTS700213")
	write(a.Pipeline.Mint(time.Hour, a.Cloud.Audience) + "\n")
	j.read(t, ref, "value")
	write(strings.Repeat("x", 1<<20))
	a.Withdraw()
	j.refused(t, a, ref, providers.Denied, "longer than")
}

func TestBadSettings(t *testing.T) {
	for _, vars := range []map[string]string{
		{"AZURE_CLOUD": "AzureGermanCloud"},
		{"AZURE_CLOUD": "AzureCloud", "AZURE_AUTHORITY_HOST": "https://login.microsoftonline.us/"},
		{"AZURE_AUTHORITY_HOST": "https://evil.example/"},
		{"AZURE_AUTHORITY_HOST": "http://login.microsoftonline.com/"},
		{"AZURE_AUTHORITY_HOST": "https://login.microsoftonline.com/evil"},
		{"AZURE_TENANT_ID": "../evil"},
		{"AZURE_CLIENT_ID": "a b"},
	} {
		_, err := New(providers.Env{Getenv: func(name string) string { return vars[name] }})
		if err == nil || providers.KindOf(err) != providers.Invalid || providers.HintOf(err) == "" {
			t.Errorf("%v: error %v", vars, err)
		}
	}
}

// FuzzParse: no reference makes another host, path or query of the address.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"shop-vault/db#password", "a.b/c", "shop-vault/db/0123456789abcdef0123456789abcdef", "shop@vault/db", "v:1/db", "vault/../x", "vault/db?x#y"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		r, ok := parse(ref)
		if ok && (strings.ContainsAny(r.vault+r.name+r.version, "./:@?#%\\ \n") || r.vault == "" || r.name == "") {
			t.Errorf("%q is %+v", ref, r)
		}
	})
}

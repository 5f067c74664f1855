package aws

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/aws/awstest"
	"github.com/manent/action/providers/api/identity/identitytest"
)

type lab struct {
	jobs   *identitytest.Pipeline
	sts    *awstest.STS
	masked []string
}

func newLab(t *testing.T) *lab {
	l := &lab{jobs: identitytest.New(t)}
	l.sts = awstest.New(t, l.jobs)
	return l
}

// env is a job on GitHub that may take the role, with changes; "" unsets.
func (l *lab) env(changes ...string) providers.Env {
	vars := l.jobs.GitHub()
	maps.Copy(vars, l.sts.Vars())
	vars["GITHUB_RUN_ID"], vars["AWS_MAX_ATTEMPTS"] = "4711", "1"
	for i := 0; i < len(changes); i += 2 {
		vars[changes[i]] = changes[i+1]
	}
	return providers.Env{
		Getenv: func(name string) string { return vars[name] }, Redactor: &providers.Redactor{},
		Mask: func(s providers.Secret) error { l.masked = append(l.masked, s.Reveal()); return nil },
	}
}

func retrieve(t *testing.T, env providers.Env) (sdk.Config, sdk.Credentials, error) {
	t.Helper()
	cfg, err := Config(t.Context(), env, "")
	if err != nil {
		return cfg, sdk.Credentials{}, err
	}
	c, err := cfg.Credentials.Retrieve(t.Context())
	return cfg, c, err
}

// A session is taken with a token of its own, kept, and hidden before anybody
// gets it.
func TestRole(t *testing.T) {
	l := newLab(t)
	env := l.env()
	cfg, c, err := retrieve(t, env)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Region != awstest.Region || c.SessionToken == "" || !c.CanExpire {
		t.Errorf("region %q, %v", cfg.Region, c.CanExpire)
	}
	for range 3 {
		if again, err := cfg.Credentials.Retrieve(t.Context()); err != nil || again.SessionToken != c.SessionToken {
			t.Errorf("another session, error %v", err)
		}
	}
	if got := l.sts.Sessions(); !slices.Equal(got, []string{"manent-4711"}) || len(l.jobs.Asked()) != 1 {
		t.Errorf("sessions %q, tokens for %q", got, l.jobs.Asked())
	}
	for _, secret := range []string{c.SecretAccessKey, c.SessionToken} {
		if !slices.Contains(l.masked, secret) || env.Redactor.Clean(secret) != "[redacted]" {
			t.Error("a secret is not hidden")
		}
	}
	env.Mask = func(providers.Secret) error { return errors.New("cannot mask") }
	if _, c, err := retrieve(t, env); err == nil || c.HasKeys() {
		t.Errorf("secrets that could not be hidden were handed out, error %v", err)
	}
}

// Keys of the environment are taken as they are, also where a role could be.
func TestKeys(t *testing.T) {
	l := newLab(t)
	_, c, err := retrieve(t, l.env("AWS_ACCESS_KEY_ID", "AKIA", "AWS_SECRET_ACCESS_KEY", "s3cr3t-k3y", "AWS_SESSION_TOKEN", "t0k3n"))
	if err != nil || c.AccessKeyID != "AKIA" || c.SecretAccessKey != "s3cr3t-k3y" || c.SessionToken != "t0k3n" {
		t.Errorf("%q, error %v", c.AccessKeyID, err)
	}
	if len(l.sts.Sessions()) != 0 || !slices.Contains(l.masked, "s3cr3t-k3y") {
		t.Errorf("sessions %q, masked %d", l.sts.Sessions(), len(l.masked))
	}
}

// What is no job of a pipeline, or has a token in a file, is left to the SDK.
func TestChain(t *testing.T) {
	l := newLab(t)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	for name, env := range map[string]providers.Env{
		"a shell":         l.env("GITHUB_ACTIONS", "", "ACTIONS_ID_TOKEN_REQUEST_URL", ""),
		"a token's file":  l.env("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/token"),
		"no role":         l.env("AWS_ROLE_ARN", ""),
		"no environment":  {},
		"nothing but env": {Getenv: func(string) string { return "" }},
	} {
		_, c, err := retrieve(t, env)
		if providers.KindOf(err) != providers.Denied || err == nil || providers.HintOf(err) == "" || c.HasKeys() || len(l.sts.Sessions()) != 0 {
			t.Errorf("%s: %v of kind %v", name, err, providers.KindOf(err))
		}
	}
}

func TestRefusals(t *testing.T) {
	l := newLab(t)
	closed, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	type row struct {
		env    providers.Env
		status int
		code   string
		kind   providers.Kind
		says   string
		hint   string
	}
	for name, tc := range map[string]row{
		"no permission":      {l.env("ACTIONS_ID_TOKEN_REQUEST_URL", ""), 0, "", providers.Denied, "the job was given no identity", "id-token: write"},
		"another role":       {l.env("AWS_ROLE_ARN", "arn:aws:iam::1:role/x"), 0, "", providers.Denied, "session of arn:aws:iam::1:role/x: Not authorized", `audience "sts.amazonaws.com"`},
		"another audience":   {l.env("MANENT_AWS_AUDIENCE", "sts.example"), 0, "", providers.Denied, "InvalidIdentityToken", `audience "sts.example"`},
		"plain http":         {l.env("AWS_ENDPOINT_URL_STS", "http://192.0.2.1"), 0, "", providers.Invalid, "AWS_ENDPOINT_URL_STS", ""},
		"nobody listens":     {l.env("AWS_ENDPOINT_URL_STS", "http://"+closed.Addr().String()), 0, "", providers.Unavailable, "session of", ""},
		"500":                {l.env(), 500, "InternalFailure", providers.Unavailable, "HTTP 500", ""},
		"503":                {l.env(), 503, "ServiceUnavailable", providers.Unavailable, "HTTP 503", ""},
		"429":                {l.env(), 429, "TooManyRequests", providers.Throttled, "HTTP 429", ""},
		"400 throttled":      {l.env(), 400, "Throttling", providers.Throttled, "HTTP 400", ""},
		"403":                {l.env(), 403, "AccessDenied", providers.Denied, "HTTP 403", "trust policy"},
		"expired token":      {l.env(), 400, "ExpiredTokenException", providers.Denied, "HTTP 400", "new job"},
		"issuer is away":     {l.env(), 400, "IDPCommunicationError", providers.Unavailable, "HTTP 400", ""},
		"malformed":          {l.env(), 400, "ValidationError", providers.Invalid, "HTTP 400", ""},
		"409 is no conflict": {l.env(), 409, "Conflict", providers.Unavailable, "HTTP 409", ""},
		"412 is no conflict": {l.env(), 412, "PreconditionFailed", providers.Unavailable, "HTTP 412", ""},
	} {
		t.Run(name, func(t *testing.T) {
			l.sts.Answer(tc.status, tc.code)
			_, c, err := retrieve(t, tc.env)
			if err == nil || c.HasKeys() || providers.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.says) || !strings.Contains(providers.HintOf(err), tc.hint) {
				t.Errorf("%v (%v, hint %q), expected %v", err, providers.KindOf(err), providers.HintOf(err), tc.kind)
			}
			if strings.Contains(err.Error(), "eyJ") || strings.Contains(err.Error(), "\n") || status(err) != 0 {
				t.Errorf("%v holds a token, more than a line, or the status of another service", err)
			}
		})
	}
}

// TestRedirect: neither the job's token nor what is asked of a service goes to
// another host.
func TestRedirect(t *testing.T) {
	visited := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visited++ }))
	t.Cleanup(other.Close)
	for _, code := range []int{301, 302, 303, 307, 308} {
		asked := 0
		first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1), code)
		}))
		t.Cleanup(first.Close)
		cfg, _, err := retrieve(t, newLab(t).env("AWS_ENDPOINT_URL_STS", first.URL))
		if err == nil || asked == 0 {
			t.Errorf("%d: a session by a redirect, %v; asked %d times", code, err, asked)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, first.URL, strings.NewReader("state"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := cfg.HTTPClient.Do(request)
		if err != nil || resp.StatusCode != code {
			t.Fatalf("%d: %v, %v", code, resp, err)
		}
		_ = resp.Body.Close()
	}
	if visited > 0 {
		t.Errorf("%d requests at another host", visited)
	}
}

func TestCancelled(t *testing.T) {
	l := newLab(t)
	cfg, err := Config(t.Context(), l.env(), "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cfg.Credentials.Retrieve(ctx); !errors.Is(err, context.Canceled) || providers.KindOf(err) != providers.Unknown {
		t.Errorf("error %v", err)
	}
}

func TestEndpoint(t *testing.T) {
	for want, vars := range map[string]map[string]string{
		"":                     {},
		"https://all.example":  {"AWS_ENDPOINT_URL": "https://all.example"},
		"https://sts.example":  {"AWS_ENDPOINT_URL": "https://all.example", "AWS_ENDPOINT_URL_STS": "https://sts.example"},
		"http://127.0.0.1:123": {"AWS_ENDPOINT_URL_STS": "http://127.0.0.1:123"},
	} {
		got, err := Endpoint(providers.Env{Getenv: func(name string) string { return vars[name] }}, "STS")
		if err != nil || sdk.ToString(got) != want {
			t.Errorf("%v: %q, error %v", vars, sdk.ToString(got), err)
		}
	}
}

func TestSessionName(t *testing.T) {
	for _, tc := range []struct{ variable, value, want string }{
		{"GITHUB_RUN_ID", "4711", "manent-4711"}, {"CI_PIPELINE_ID", "12", "manent-12"}, {"X", "", "manent-job"},
		{"AWS_ROLE_SESSION_NAME", "shop prod/ä", "shop-prod--"}, {"AWS_ROLE_SESSION_NAME", strings.Repeat("x", 80), strings.Repeat("x", 64)},
	} {
		if got := sessionName(func(name string) string { return map[string]string{tc.variable: tc.value}[name] }); got != tc.want {
			t.Errorf("%s=%s: %q, expected %q", tc.variable, tc.value, got, tc.want)
		}
	}
}

// A service that says that the session has ended is asked once more with a new
// one, whatever this machine's clock says.
func TestRenewer(t *testing.T) {
	l := newLab(t)
	cfg, first, err := retrieve(t, l.env())
	if err != nil {
		t.Fatal(err)
	}
	retryer := cfg.Retryer()
	if retryer.IsErrorRetryable(apiError("AccessDenied")) || retryer.IsErrorRetryable(&providers.Fault{Err: errors.New("connection reset")}) {
		t.Error("a refusal, or missing credentials, are tried again")
	}
	if !retryer.IsErrorRetryable(apiError("ExpiredToken")) || !retryer.IsErrorRetryable(apiError("ExpiredTokenException")) {
		t.Error("an expired session is not tried again")
	}
	if second, err := cfg.Credentials.Retrieve(t.Context()); err != nil || second.SessionToken == first.SessionToken {
		t.Errorf("the session that has ended is used again, error %v", err)
	}
}

func TestLine(t *testing.T) {
	if got := line("a\n b\xff. " + strings.Repeat("é", 400)); len(got) > maxText+3 || strings.Contains(got, "\n") || strings.Contains(got, "\xff") || !strings.HasSuffix(got, "…") {
		t.Errorf("%q", got)
	}
}

package azure_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/azure"
	"github.com/manent/action/providers/api/azure/azuretest"
	"github.com/manent/action/providers/api/bearer"
	"github.com/manent/action/providers/httpx"
)

// here answers every call with what it was authorized by.
type here struct{}

func (here) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	_, _ = fmt.Fprint(w, r.Header.Get("Authorization"))
	return w.Result(), nil
}

// resource is one for each test: the SDK keeps a machine's tokens for the
// whole process.
func resource(t *testing.T) string {
	return "https://" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")) + ".example"
}

func client(t *testing.T, vars map[string]string) *bearer.Client {
	t.Helper()
	env := providers.Env{Getenv: func(name string) string { return vars[name] }}
	in, err := azure.CloudOf(env, "test")
	if err != nil {
		t.Fatal(err)
	}
	c, err := azure.New(env, in, resource(t), azure.Options{Provider: "test", Transport: here{}, Backoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func send(t *testing.T, c *bearer.Client) (string, error) {
	t.Helper()
	resp, err := c.Send(t.Context(), httpx.Request{Method: http.MethodGet, URL: "https://management.azure.com/", Op: "read app web"})
	if err != nil {
		return "", err
	}
	return string(resp.Body), nil
}

// machine is the service that gives a managed identity its tokens, as App
// Service has it. The SDK reads where it is from the environment of the
// process.
// https://learn.microsoft.com/azure/app-service/overview-managed-identity#rest-endpoint-reference
func machine(t *testing.T, status int, body string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-IDENTITY-HEADER") != "right-to-ask" || r.URL.Query().Get("resource") != resource(t) {
			http.Error(w, `{"statusCode":401}`, http.StatusUnauthorized)
			return
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	t.Setenv("IDENTITY_ENDPOINT", server.URL)
	t.Setenv("IDENTITY_HEADER", "right-to-ask")
	t.Setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
}

func TestMachine(t *testing.T) {
	machine(t, http.StatusOK, fmt.Sprintf(`{"access_token":"of-the-machine","expires_on":"%d","token_type":"Bearer"}`, time.Now().Add(time.Hour).Unix()))
	if got, err := send(t, client(t, nil)); err != nil || got != "Bearer of-the-machine" {
		t.Errorf("%q, error %v", got, err)
	}
}

func TestMachineRefuses(t *testing.T) {
	for _, tc := range []struct {
		status int
		body   string
		kind   providers.Kind
	}{
		{http.StatusBadRequest, `{"statusCode":400,"message":"No User Assigned or Delegated Managed Identity found"}`, providers.Denied},
		{http.StatusForbidden, `{"statusCode":403,"message":"s3cr3t"}`, providers.Denied},
		{http.StatusOK, `{"access_token":"s3cr3t`, providers.Unknown},
	} {
		t.Run(fmt.Sprint(tc.status), func(t *testing.T) {
			machine(t, tc.status, tc.body)
			_, err := send(t, client(t, nil))
			if err == nil || providers.KindOf(err) != tc.kind || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("error %v of kind %v, want %v", err, providers.KindOf(err), tc.kind)
			}
		})
	}
}

// TestNone: no credentials at all is a refusal, with what to do.
func TestNone(t *testing.T) {
	t.Setenv("AZURE_TOKEN_CREDENTIALS", "AzureCLICredential")
	t.Setenv("PATH", t.TempDir())
	for name, vars := range map[string]map[string]string{
		"a shell":                          nil,
		"a job on GitHub without id-token": {"GITHUB_ACTIONS": "true", "AZURE_TENANT_ID": azuretest.Tenant, "AZURE_CLIENT_ID": azuretest.Client},
		"a job that names no application":  {"GITLAB_CI": "true", "MANENT_ID_TOKEN": "a.b.c"},
		"a job that names half of one":     {"GITLAB_CI": "true", "MANENT_ID_TOKEN": "a.b.c", "AZURE_CLIENT_ID": azuretest.Client},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := send(t, client(t, vars))
			if err == nil || providers.KindOf(err) != providers.Denied || !strings.Contains(err.Error(), "no credentials of Azure") ||
				!strings.Contains(providers.HintOf(err), "AZURE_TENANT_ID") {
				t.Errorf("error %v of kind %v, hint %q", err, providers.KindOf(err), providers.HintOf(err))
			}
		})
	}
}

// TestCertificate: a certificate comes before the job's identity.
func TestCertificate(t *testing.T) {
	a := azuretest.New(t, azuretest.Public())
	vars := a.GitHub()
	vars["AZURE_CLIENT_CERTIFICATE_PATH"] = "no-such.pem"
	t.Setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")
	for _, name := range []string{"AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_CERTIFICATE_PATH"} {
		t.Setenv(name, vars[name])
	}
	t.Setenv("AZURE_CLIENT_SECRET", "")
	_, err := send(t, client(t, vars))
	if err == nil || !strings.Contains(err.Error(), "no-such.pem") || len(a.Pipeline.Asked()) != 0 {
		t.Errorf("error %v, identity asked for %v", err, a.Pipeline.Asked())
	}
}

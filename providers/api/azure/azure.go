// Package azure logs in to Microsoft Entra: with the pipeline job's own
// identity where there is one, else as Azure's tools do. It asks no person. It
// must not know which of Azure's systems is called, nor what for.
package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/bearer"
	"github.com/manent/action/providers/api/identity"
	"github.com/manent/action/providers/httpx"
)

// The variables that decide, as Azure's SDKs name them.
// https://learn.microsoft.com/azure/developer/go/sdk/authentication/credential-chains
const (
	tenantVar      = "AZURE_TENANT_ID"
	clientVar      = "AZURE_CLIENT_ID"
	secretVar      = "AZURE_CLIENT_SECRET" //nolint:gosec // a variable's name
	certificateVar = "AZURE_CLIENT_CERTIFICATE_PATH"
	fileVar        = "AZURE_FEDERATED_TOKEN_FILE" // of a pod with workload identity
)

// lifetime of a login's request, with its retries.
const lifetime = 8 * time.Second

// Options are for who makes calls.
type Options struct {
	Provider  string            // named in faults
	MaxBody   int64             // longest answer, in bytes; 0 for httpx's
	Transport http.RoundTripper // nil but in tests, as is
	Backoff   time.Duration     // before a call is tried again
}

// New returns a client whose calls carry a token for a resource of the cloud,
// such as "https://vault.azure.net". It does no I/O. Settings that cannot be
// right are an Invalid fault.
//
// With AZURE_TENANT_ID and AZURE_CLIENT_ID the first of these is taken:
// AZURE_CLIENT_SECRET; AZURE_CLIENT_CERTIFICATE_PATH; the file that
// AZURE_FEDERATED_TOKEN_FILE names; the identity of the pipeline's job. Else
// the default chain of Azure's SDK decides: the machine's managed identity,
// the Azure CLI, the Azure Developer CLI, Azure PowerShell;
// AZURE_TOKEN_CREDENTIALS picks one of them. The secret and the certificate
// come first because they are there only if somebody wants them used, while a
// job's identity may be meant for another cloud.
func New(env providers.Env, in Cloud, resource string, o Options) (*bearer.Client, error) {
	if env.Redactor == nil {
		env.Redactor = &providers.Redactor{}
	}
	l := login{env: env, provider: o.Provider, cloud: in, scope: resource + "/.default"}
	if err := l.settings(); err != nil {
		return nil, err
	}
	l.http = httpx.New(httpx.Options{
		Provider: o.Provider, Deadline: lifetime, Timeout: lifetime / 2, MaxBody: 1 << 20, Secrets: env.Redactor, Transport: o.Transport, Backoff: o.Backoff,
	})
	return bearer.New(httpx.Options{
		Provider: o.Provider, MaxBody: o.MaxBody, Secrets: env.Redactor, Transport: o.Transport, Backoff: o.Backoff,
	}, l.fetch, env.Hide), nil
}

// login gets tokens.
type login struct {
	env      providers.Env
	provider string
	cloud    Cloud
	scope    string
	http     *httpx.Client

	tenant, client string
}

func (l *login) settings() error {
	l.tenant, l.client = l.getenv(tenantVar), l.getenv(clientVar)
	for _, v := range []struct{ name, value string }{{tenantVar, l.tenant}, {clientVar, l.client}} {
		if v.value != "" && !regexp.MustCompile(`^[A-Za-z0-9.-]{1,128}$`).MatchString(v.value) {
			return l.fault(providers.Invalid, fmt.Errorf("%s is %.100q, expected an id such as 00000000-0000-0000-0000-000000000000", v.name, v.value),
				"the portal shows both on the page of the application")
		}
	}
	return nil
}

// fetch gets a new token. What proves the identity is replaced once if it
// expired on the way.
func (l *login) fetch(ctx context.Context) (bearer.Token, error) {
	token, again, err := l.once(ctx)
	if again {
		token, _, err = l.once(ctx)
	}
	return token, err
}

// once logs in anew: a credential is not kept, since it would give a token
// that was withdrawn again and again. (A machine's tokens the SDK keeps for
// the whole process all the same, and the machine itself for longer.)
func (l *login) once(ctx context.Context) (token bearer.Token, again bool, err error) {
	over := bearer.NewLogin(l.http, l.env.Hide, read)
	credential, fault, err := l.credential(over)
	if err != nil {
		return token, false, err
	}
	got, err := credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{l.scope}})
	if err != nil {
		return token, over.Expired(), fault(ctx, err)
	}
	return bearer.Token{Value: providers.NewSecret(got.Token), Expires: got.ExpiresOn}, false, nil
}

// credential chooses how to log in, and says how to read its errors.
func (l *login) credential(over *bearer.Login) (azcore.TokenCredential, func(context.Context, error) error, error) {
	opts := azcore.ClientOptions{
		Cloud:     cloud.Configuration{ActiveDirectoryAuthorityHost: l.cloud.Authority},
		Transport: over, Retry: policy.RetryOptions{MaxRetries: -1}, // httpx retries
		Telemetry: policy.TelemetryOptions{Disabled: true},
	}
	seen := func(ctx context.Context, _ error) error { return over.Fault(ctx, l.provider) }
	named := l.tenant != "" && l.client != ""
	secret := l.getenv(secretVar)
	proof, proven := l.proof(over)
	var credential azcore.TokenCredential
	var err error
	switch {
	case named && secret != "":
		if err := l.env.Hide(providers.NewSecret(secret)); err != nil {
			return nil, nil, err
		}
		credential, err = azidentity.NewClientSecretCredential(l.tenant, l.client, secret, &azidentity.ClientSecretCredentialOptions{ClientOptions: opts})
	case named && proven && l.getenv(certificateVar) == "":
		credential, err = azidentity.NewClientAssertionCredential(l.tenant, l.client, proof, &azidentity.ClientAssertionCredentialOptions{ClientOptions: opts})
	default:
		seen = l.chained
		opts.Retry = policy.RetryOptions{}
		opts.Transport = nil
		credential, err = azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: opts, TenantID: l.tenant})
	}
	if err != nil {
		return nil, nil, l.fault(providers.Invalid, errors.New("the settings of AZURE_… do not fit together"), "see the page about credentials")
	}
	return credential, seen, nil
}

// proof is what shows that manent is the application: a file's token, or the
// job's. False when there is neither. Its errors are remembered: the SDK keeps
// only their text.
func (l *login) proof(over *bearer.Login) (func(context.Context) (string, error), bool) {
	get := func(context.Context) (providers.Secret, error) { return l.fileToken(l.getenv(fileVar)) }
	if l.getenv(fileVar) == "" {
		who, ok := identity.From(l.env)
		if !ok || !who.Given() {
			return nil, false
		}
		get = func(ctx context.Context) (providers.Secret, error) { return who.Token(ctx, l.cloud.Exchange) }
	}
	return func(ctx context.Context) (string, error) {
		token, err := get(ctx)
		if err != nil {
			over.Failed(err)
			return "", err
		}
		return token.Reveal(), nil
	}, true
}

func (l *login) getenv(variable string) string {
	if l.env.Getenv == nil {
		return ""
	}
	return l.env.Getenv(variable)
}

func (l *login) fault(kind providers.Kind, err error, hint string) error {
	return &providers.Fault{Provider: l.provider, Op: "login", Kind: kind, Err: err, Hint: hint}
}

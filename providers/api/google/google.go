// Package google logs in to Google Cloud: with the pipeline job's own identity
// where a workload identity provider is named, else as every Google tool does.
// It must not know which of Google's systems is called, nor what for.
package google

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/bearer"
	"github.com/manent/action/providers/api/identity"
	"github.com/manent/action/providers/httpx"
)

// The variables that decide. The first two are named like the inputs of
// google-github-actions/auth.
const (
	providerVar = "GOOGLE_WORKLOAD_IDENTITY_PROVIDER" // projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/NAME
	accountVar  = "GOOGLE_SERVICE_ACCOUNT"            // optional: the service account to act as, NAME@PROJECT.iam.gserviceaccount.com
	fileVar     = "GOOGLE_APPLICATION_CREDENTIALS"    // optional: a file with credentials
)

// scope covers all of Google Cloud; what is allowed is decided by roles.
const scope = "https://www.googleapis.com/auth/cloud-platform"

// lifetime of a login's request, with its retries.
const lifetime = 8 * time.Second

// Options are for who makes calls.
type Options struct {
	Provider  string            // named in faults
	MaxBody   int64             // longest answer, in bytes; 0 for httpx's
	Transport http.RoundTripper // nil but in tests, as is
	Backoff   time.Duration     // before a call is tried again
}

// New returns a client whose calls carry a token of Google's. It does no I/O.
// Settings that cannot be right are an Invalid fault.
//
// With GOOGLE_WORKLOAD_IDENTITY_PROVIDER the job's token is exchanged for one
// of Google's, as GOOGLE_SERVICE_ACCOUNT if that is given, and again for each
// renewal. Without it these are looked for, in this order: the file that
// GOOGLE_APPLICATION_CREDENTIALS names, the file that gcloud keeps, the
// machine's service account.
func New(env providers.Env, o Options) (*bearer.Client, error) {
	if env.Redactor == nil {
		env.Redactor = &providers.Redactor{}
	}
	l := login{env: env, provider: o.Provider}
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
	http     *httpx.Client

	pool    string // the workload identity provider's name, "" for none
	account string
}

// settings reads the variables.
func (l *login) settings() error {
	named := l.getenv(providerVar)
	if named == "" {
		return nil
	}
	parts := regexp.MustCompile(`^(?:https:|)(?://iam\.googleapis\.com/|)(projects/[0-9]+/locations/global/workloadIdentityPools/[a-z0-9-]+/providers/[a-z0-9-]+)$`).FindStringSubmatch(named)
	if parts == nil {
		return l.invalid(fmt.Errorf("%s is %.200q, expected projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/NAME", providerVar, named),
			"`gcloud iam workload-identity-pools providers describe` prints it as name; the project is given by its number")
	}
	l.pool, l.account = parts[1], l.getenv(accountVar)
	if l.account != "" && !regexp.MustCompile(`^[a-z0-9.-]+@[a-z0-9.-]+$`).MatchString(l.account) {
		return l.invalid(fmt.Errorf("%s is %.200q, expected NAME@PROJECT.iam.gserviceaccount.com", accountVar, l.account), "name the account by its address")
	}
	return nil
}

// fetch gets a new token. A job's token that expired on the way is replaced
// once.
func (l *login) fetch(ctx context.Context) (bearer.Token, error) {
	token, again, err := l.once(ctx)
	if again {
		token, _, err = l.once(ctx)
	}
	return token, err
}

func (l *login) once(ctx context.Context) (token bearer.Token, again bool, err error) {
	if l.pool == "" {
		token, err = l.found(ctx)
		return token, false, err
	}
	who, ok := identity.From(l.env)
	if (!ok || !who.Given()) && l.getenv(fileVar) != "" {
		token, err = l.found(ctx)
		return token, false, err
	}
	if !ok {
		return token, false, l.denied(fmt.Errorf("%s is set, but this is no job of a pipeline", providerVar), "unset it to log in as gcloud does")
	}
	return l.federated(ctx, who)
}

func (l *login) getenv(variable string) string {
	if l.env.Getenv == nil {
		return ""
	}
	return l.env.Getenv(variable)
}

func (l *login) invalid(err error, hint string) error {
	return &providers.Fault{Provider: l.provider, Op: "login", Kind: providers.Invalid, Err: err, Hint: hint}
}

func (l *login) denied(err error, hint string) error {
	return &providers.Fault{Provider: l.provider, Op: "login", Kind: providers.Denied, Err: err, Hint: hint}
}

// errNone is what application default credentials say when there are none.
var errNone = errors.New("no credentials of Google in the environment, in gcloud's file, or of this machine")

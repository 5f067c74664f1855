package haproxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

// Instance is one HAProxy. Its client keeps connections from call to call.
type Instance struct {
	*Client
	ID string // host and port of its URL
}

// Connect makes a client for each URL, without I/O, and refuses what cannot be
// one: a URL that shows a password, plain http to another machine, one that is
// there twice. Calls need a context made by Login.
func Connect(options httpx.Options, urls []string, allowHTTP bool, version, backend string) ([]Instance, error) {
	options.Auth, options.NoRedirects = authenticate, true
	var out []Instance
	for _, raw := range urls {
		u, err := providers.CheckURL(raw, allowHTTP)
		if err != nil {
			return nil, err
		}
		path := strings.TrimRight(u.Path, "/")
		switch {
		case u.RawQuery != "" || u.Fragment != "":
			return nil, fmt.Errorf("%q, expected one without a query", httpx.CleanURL(raw))
		case strings.HasSuffix(path, "/"+V2) || strings.HasSuffix(path, "/"+V3):
			return nil, fmt.Errorf("%q, expected the version in api_version only", httpx.CleanURL(raw))
		case slices.ContainsFunc(out, func(i Instance) bool { return i.ID == u.Host }):
			return nil, fmt.Errorf("%s is there twice", u.Host)
		}
		out = append(out, Instance{Client: New(options, raw, version, backend), ID: u.Host})
	}
	if len(out) == 0 {
		return nil, errors.New("it is empty")
	}
	return out, nil
}

// loginKey is where a context has user and password.
type loginKey struct{}

// Login is a context for calls with a secret of the form user:password.
func Login(ctx context.Context, secret providers.Secret) (context.Context, error) {
	user, password, ok := strings.Cut(strings.TrimRight(secret.Reveal(), "\r\n"), ":")
	if !ok || user == "" || password == "" {
		return ctx, &providers.Fault{Kind: providers.Invalid, Err: errors.New("the secret is not of the form user:password"), Hint: "store both in it, with a colon between them"}
	}
	return context.WithValue(ctx, loginKey{}, [2]providers.Secret{providers.NewSecret(user), providers.NewSecret(password)}), nil
}

func authenticate(req *http.Request) error {
	login, ok := req.Context().Value(loginKey{}).([2]providers.Secret)
	if !ok {
		return errors.New("the context has no login")
	}
	req.SetBasicAuth(login[0].Reveal(), login[1].Reveal())
	return nil
}

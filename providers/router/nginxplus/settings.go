package nginxplus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
	"github.com/manent/action/providers/router"
)

var versioned = regexp.MustCompile(`/[0-9]+/?$`)

// New returns a router; of the options only retries matter.
func New(env providers.Env, s Settings, opts httpx.Options) (*Router, error) {
	r := &Router{settings: s, env: env}
	var err error
	if r.parts, err = s.parts(); err == nil {
		err = s.check()
	}
	if err == nil && len(env.Targets) > 0 {
		r.members, err = router.Members(s.Member, env.Targets)
	}
	if err != nil {
		return nil, &providers.Fault{Provider: name, Op: "settings", Kind: providers.Invalid, Err: err}
	}
	opts.Provider, opts.Timeout, opts.Deadline, opts.Auth = name, s.Timeout, s.Timeout, authenticate
	opts.CAFile, opts.NoRedirects = s.common().CAPath(env.Dir), true
	r.http = httpx.New(opts)
	return r, nil
}

func (s Settings) check() error {
	switch {
	case s.Upstream == "" || strings.ContainsAny(s.Upstream, "/ \t\r\n"):
		return fmt.Errorf("upstream %q, expected the name of one", s.Upstream)
	case s.Version < 0:
		return fmt.Errorf("api_version %d, expected 1 or more, or none for the newest that both sides know", s.Version)
	}
	return s.common().Check()
}

func (s Settings) common() router.API {
	return router.API{CAFile: s.CAFile, PinnedFor: s.PinnedFor, Timeout: s.Timeout}
}

type part struct{ id, url string }

// parts are the instances, named by host and port of their URLs.
func (s Settings) parts() ([]part, error) {
	var out []part
	for _, raw := range s.URLs {
		u, err := providers.CheckURL(raw, s.AllowHTTP)
		switch {
		case err != nil:
			return nil, fmt.Errorf("api_urls: %w", err)
		case u.RawQuery != "" || u.Fragment != "":
			return nil, fmt.Errorf("api_urls: %q, expected one without a query", httpx.CleanURL(raw))
		case versioned.MatchString(u.Path):
			return nil, fmt.Errorf("api_urls: %q, expected the version in api_version only", httpx.CleanURL(raw))
		case slices.ContainsFunc(out, func(p part) bool { return p.id == u.Host }):
			return nil, fmt.Errorf("api_urls: %s is there twice", u.Host)
		}
		out = append(out, part{id: u.Host, url: raw})
	}
	if len(out) == 0 {
		return nil, errors.New("api_urls is empty, expected at least one address")
	}
	return out, nil
}

// basic is what the API's location asks for, under its own key in a context.
type basic struct{ user, password string }

type basicKey struct{}

// login checks that there is something to act on, and puts the credentials
// into the context of a call.
func (r *Router) login(ctx context.Context) (context.Context, error) {
	if err := router.HasTargets(r.members); err != nil {
		return nil, router.Named(name, "targets", err)
	}
	secret, err := r.settings.Credentials.Resolve(ctx, r.env)
	if err != nil {
		return nil, router.Named(name, "credentials_secret", err)
	}
	if secret.Empty() {
		return ctx, nil
	}
	user, password, ok := strings.Cut(strings.TrimSpace(secret.Reveal()), ":")
	if !ok || user == "" {
		return nil, router.Named(name, "credentials_secret", &providers.Fault{Kind: providers.Invalid, Err: fmt.Errorf("secret %s is not user:password", r.settings.Credentials)})
	}
	return context.WithValue(ctx, basicKey{}, basic{user, password}), nil
}

func authenticate(req *http.Request) error {
	if b, ok := req.Context().Value(basicKey{}).(basic); ok {
		req.SetBasicAuth(b.user, b.password)
	}
	return nil
}

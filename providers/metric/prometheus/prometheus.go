// Package prometheus asks a server with Prometheus's HTTP API: Prometheus,
// Thanos, Mimir, VictoriaMetrics, Amazon or Google managed Prometheus. It must
// not know what the numbers are for.
package prometheus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/promql"
	"github.com/manent/action/providers/httpx"
	"github.com/manent/action/providers/metric"
)

var _ metric.System = (*System)(nil)

const (
	name = "prometheus"

	// parallel is how many queries are under way at a time.
	parallel = 4

	// maxSteps is the server's limit on (end-start)/step, from its web/api/v1.
	maxSteps = 11_000
)

// Settings of the system, rollout.providers.prometheus in a configuration.
type Settings struct {
	URL       string              `name:"url" required:"true" help:"address of the API without /api/v1, with its path prefix if there is one"`
	Headers   map[string]string   `name:"headers" help:"headers sent with each request, such as X-Scope-OrgID for a tenant"`
	Token     providers.SecretRef `name:"token_secret" help:"secret sent as bearer token"`
	Username  string              `name:"username" help:"user of basic authentication"`
	Password  providers.SecretRef `name:"password_secret" help:"secret that is the user's password"`
	CAFile    string              `name:"ca_file" help:"PEM file of the authorities to trust instead of the system's"`
	AllowHTTP bool                `name:"allow_http" default:"false" help:"allow plain http to another machine"`
	Timeout   time.Duration       `name:"timeout" default:"15s" help:"longest wait for one answer, 1s to 2m; a reading waits at most 5/3 of it, retries included"`
}

// Spec describes the system.
//
// Its delay is 0: a query is evaluated over what was scraped until then, and
// rate() takes both sides of a comparison from the same instants. Behind
// remote write the newest samples are still on their way: a metric sets its
// delay then.
func Spec() metric.Spec {
	return metric.Spec{
		Spec:   providers.Define(name, "Prometheus, or a server with its HTTP API (Thanos, Mimir, VictoriaMetrics)", New),
		Traits: metric.Traits{Language: "PromQL", Escape: promql.Escape, Window: promql.Window},
	}
}

// System asks one server.
type System struct {
	env      providers.Env
	settings Settings
	http     httpx.Options
}

// New checks the settings and returns the system. It does no I/O.
func New(env providers.Env, s Settings) (metric.System, error) {
	if err := check(s); err != nil {
		return nil, &providers.Fault{Provider: name, Op: "settings", Kind: providers.Invalid, Err: err}
	}
	if s.CAFile != "" && !filepath.IsAbs(s.CAFile) {
		s.CAFile = filepath.Join(env.Dir, s.CAFile)
	}
	return &System{env: env, settings: s, http: httpx.Options{
		Provider: name, CAFile: s.CAFile, Timeout: s.Timeout, Deadline: s.Timeout * 5 / 3,
	}}, nil
}

func check(s Settings) error {
	u, err := providers.CheckURL(s.URL, s.AllowHTTP)
	if err != nil {
		return fmt.Errorf("url: %w", err)
	}
	for header := range s.Headers {
		if http.CanonicalHeaderKey(header) == "Authorization" {
			return errors.New("headers: Authorization would put a credential into the configuration, expected token_secret or password_secret")
		}
	}
	switch {
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("url: %q, expected one without a query", httpx.CleanURL(s.URL))
	case s.Token != "" && (s.Username != "" || s.Password != ""):
		return errors.New("token_secret and username, expected one way to authenticate")
	case (s.Username == "") != (s.Password == ""):
		return errors.New("username and password_secret, expected both or none")
	case s.CAFile != "" && !filepath.IsAbs(s.CAFile) && !filepath.IsLocal(s.CAFile):
		return fmt.Errorf("ca_file: %q, expected a path inside the workspace or an absolute one", s.CAFile)
	case s.Timeout < time.Second || s.Timeout > 2*time.Minute:
		return fmt.Errorf("timeout: %v, expected 1s to 2m", s.Timeout)
	}
	return nil
}

// Query implements metric.System. Each query is a request of its own, so that
// one that fails leaves the others alone; a whole call takes no longer than
// one query may.
func (s *System) Query(ctx context.Context, queries []metric.Query) ([]metric.Answer, error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, s.http.Deadline)
	defer cancel()
	answers := make([]metric.Answer, len(queries))
	slots := make(chan struct{}, parallel)
	var all sync.WaitGroup
	for i, q := range queries {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			answers[i] = conn.answer(limited, q)
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return nil, &providers.Fault{Provider: name, Op: "query", Err: err}
	}
	return answers, nil
}

// connect resolves the credentials, once for a call.
func (s *System) connect(ctx context.Context) (*connection, error) {
	token, err := s.settings.Token.Resolve(ctx, s.env)
	if err != nil {
		return nil, err
	}
	password, err := s.settings.Password.Resolve(ctx, s.env)
	if err != nil {
		return nil, err
	}
	secrets := new(providers.Redactor)
	secrets.Add(token)
	secrets.Add(password)
	opts := s.http
	opts.Secrets = secrets
	opts.Auth = func(r *http.Request) error {
		switch {
		case !token.Empty():
			r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token.Reveal()))
		case !password.Empty():
			r.SetBasicAuth(s.settings.Username, password.Reveal())
		}
		return nil
	}
	c := &carrier{base: s.settings.URL, headers: s.settings.Headers, http: httpx.New(opts)}
	return &connection{api: v1.NewAPI(c), secrets: secrets, limit: s.http.Deadline}, nil
}

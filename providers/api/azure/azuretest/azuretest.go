// Package azuretest is the part of Azure that manent talks to: the logins of
// Microsoft Entra, and Key Vault. It refuses what the real services refuse. It
// must not know what is asked for which purpose.
package azuretest

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/manent/action/providers/api/identity/identitytest"
)

// The names of what there is.
const (
	Tenant = "11111111-2222-3333-4444-555555555555"
	Client = "66666666-7777-8888-9999-000000000000"
	Secret = "cl1ent~s3cret.of-the-application"
	Vault  = "shop-vault"
)

// Cloud is one of Azure's clouds, by its hosts.
type Cloud struct{ Login, Audience, Vaults string }

// Public is where most are.
func Public() Cloud {
	return Cloud{"login.microsoftonline.com", "api://AzureADTokenExchange", "vault.azure.net"}
}

// Server is one of the clouds.
type Server struct {
	Cloud    Cloud
	Pipeline *identitytest.Pipeline // whose tokens are accepted

	url string

	mu        sync.Mutex
	life      time.Duration
	tokens    map[string]token
	code      int                 // that logins are refused with, 0 for none
	stale     int                 // logins that find what proves them expired
	answers   map[string]answer   // by host
	secrets   map[string][]string // versions by name
	challenge string              // with which the vault refuses all tokens, "" for none
	requests  []string            // hosts, with /token for a login
}

type token struct {
	expires time.Time
	scope   string
}

type answer struct {
	status int
	body   string
}

// New starts a cloud.
func New(t testing.TB, in Cloud) *Server {
	t.Helper()
	s := &Server{
		Cloud: in, Pipeline: identitytest.New(t), life: time.Hour,
		tokens: map[string]token{}, answers: map[string]answer{}, secrets: map[string][]string{},
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// Application returns the variables that name the application.
func Application() map[string]string {
	return map[string]string{"AZURE_TENANT_ID": Tenant, "AZURE_CLIENT_ID": Client}
}

// GitHub returns the variables of a job on GitHub that Azure lets in.
func (s *Server) GitHub() map[string]string {
	vars := Application()
	maps.Copy(vars, s.Pipeline.GitHub())
	return vars
}

// GitLab returns the variables of a job on GitLab that Azure lets in.
func (s *Server) GitLab(life time.Duration) map[string]string {
	vars := Application()
	maps.Copy(vars, s.Pipeline.GitLab(s.Cloud.Audience, life))
	return vars
}

// RoundTrip implements http.RoundTripper: whatever host is asked, this is it.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	here, err := url.Parse(s.url)
	if err != nil {
		return nil, err
	}
	if r.URL.Scheme != "https" {
		return nil, fmt.Errorf("%s is not https", r.URL)
	}
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.Host = here.Scheme, here.Host, r.URL.Host
	return http.DefaultTransport.RoundTrip(out)
}

// VaultHost is the host of the vault.
func (s *Server) VaultHost() string { return Vault + "." + s.Cloud.Vaults }

// Life sets how long tokens last from now on.
func (s *Server) Life(d time.Duration) { s.locked(func() { s.life = d }) }

// Withdraw makes all tokens worthless.
func (s *Server) Withdraw() { s.locked(func() { s.tokens = map[string]token{} }) }

// Refuse makes logins be refused with a number of Entra's; 0 for no more.
func (s *Server) Refuse(code int) { s.locked(func() { s.code = code }) }

// Stale makes the next logins find that what proves them has expired.
func (s *Server) Stale(logins int) { s.locked(func() { s.stale = logins }) }

// Answer makes a host answer so; 0 for no more.
func (s *Server) Answer(host string, status int, body string) {
	s.locked(func() { s.answers[host] = answer{status, body} })
}

// Challenge makes the vault refuse every token with this header.
func (s *Server) Challenge(header string) { s.locked(func() { s.challenge = header }) }

// Put adds a version to a secret and returns its reference.
func (s *Server) Put(name, value string) string {
	s.locked(func() { s.secrets[name] = append(s.secrets[name], value) })
	return Vault + "/" + name
}

// Version is the name of a secret's n-th version, counted from 1.
func Version(n int) string { return fmt.Sprintf("%032x", n) }

// Logins returns how many tokens were asked for.
func (s *Server) Logins() int {
	n := 0
	s.locked(func() {
		for _, r := range s.requests {
			if strings.HasSuffix(r, "/token") {
				n++
			}
		}
	})
	return n
}

// Hosts returns which hosts were asked, each once.
func (s *Server) Hosts() []string {
	var out []string
	s.locked(func() {
		for _, r := range s.requests {
			host, _, _ := strings.Cut(r, "/")
			out = append(out, host)
		}
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// Issued returns the tokens that are good now.
func (s *Server) Issued() []string {
	var out []string
	s.locked(func() { out = slices.Collect(maps.Keys(s.tokens)) })
	return out
}

func (s *Server) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

func (s *Server) issue(scope string) string {
	value := "access." + rand.Text()
	s.tokens[value] = token{time.Now().Add(s.life), scope}
	return value
}

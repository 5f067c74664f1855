// Package googletest is the part of Google Cloud that manent talks to: the
// exchange of tokens, IAM credentials and Secret Manager. It refuses what the
// real services refuse. It must not know what is asked for which purpose.
package googletest

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/manent/action/providers/api/identity/identitytest"
)

// The names of what there is.
const (
	Pool    = "projects/123456789/locations/global/workloadIdentityPools/pipelines/providers/github"
	Account = "deployer@shop.iam.gserviceaccount.com"
	Project = "projects/shop"

	audience = "https://iam.googleapis.com/" + Pool
	scope    = "https://www.googleapis.com/auth/cloud-platform"
)

// The services, by their hosts.
const (
	Tokens      = "sts.googleapis.com" //nolint:gosec // a host
	Credentials = "iamcredentials.googleapis.com"
	Secrets     = "secretmanager.googleapis.com"
	OAuth       = "oauth2.googleapis.com"
)

// RefreshToken and ClientSecret are of the user that File describes.
const (
	RefreshToken = "1//refresh-t0ken-of-a-user"
	ClientSecret = "cl1ent-s3cret-of-a-user"
)

// Server is Google.
type Server struct {
	Pipeline *identitytest.Pipeline // whose tokens are accepted

	url string

	mu       sync.Mutex
	life     time.Duration
	tokens   map[string]token
	refused  string              // by STS: the code of its error
	answers  map[string]answer   // by host
	secrets  map[string][]string // versions by name
	checksum string              // in place of the right one
	requests []string            // "host path"
}

type token struct {
	expires   time.Time
	principal string // the account, or "federated"
}

type answer struct {
	status int
	body   string
}

// New starts Google.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{
		Pipeline: identitytest.New(t), life: time.Hour, tokens: map[string]token{}, answers: map[string]answer{}, secrets: map[string][]string{},
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// GitHub returns the variables of a job on GitHub that Google lets in.
func (s *Server) GitHub() map[string]string {
	vars := map[string]string{"GOOGLE_WORKLOAD_IDENTITY_PROVIDER": Pool}
	maps.Copy(vars, s.Pipeline.GitHub())
	return vars
}

// GitLab returns the variables of a job on GitLab that Google lets in.
func (s *Server) GitLab(life time.Duration) map[string]string {
	vars := map[string]string{"GOOGLE_WORKLOAD_IDENTITY_PROVIDER": Pool}
	maps.Copy(vars, s.Pipeline.GitLab(audience, life))
	return vars
}

// File is a file of credentials, of a user.
func File() string {
	return fmt.Sprintf(`{"type":"authorized_user","client_id":"client","client_secret":%q,"refresh_token":%q}`, ClientSecret, RefreshToken)
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

// Life sets how long tokens last from now on.
func (s *Server) Life(d time.Duration) { s.locked(func() { s.life = d }) }

// Withdraw makes all tokens worthless.
func (s *Server) Withdraw() { s.locked(func() { s.tokens = map[string]token{} }) }

// Refuse makes the exchange of tokens refuse with a code; "" for no more.
func (s *Server) Refuse(code string) { s.locked(func() { s.refused = code }) }

// Answer makes a service answer so; 0 for no more.
func (s *Server) Answer(host string, status int, body string) {
	s.locked(func() { s.answers[host] = answer{status, body} })
}

// Put adds a version to a secret and returns the secret's name.
func (s *Server) Put(name, value string) string {
	name = Project + "/secrets/" + name
	s.locked(func() { s.secrets[name] = append(s.secrets[name], value) })
	return name
}

// Checksum makes every checksum this text; "-" for none at all.
func (s *Server) Checksum(text string) { s.locked(func() { s.checksum = text }) }

// Requests returns how many requests a service got.
func (s *Server) Requests(host string) int {
	n := 0
	s.locked(func() {
		for _, r := range s.requests {
			if r == host {
				n++
			}
		}
	})
	return n
}

// Issued returns the tokens that are good now.
func (s *Server) Issued() []string {
	var out []string
	s.locked(func() {
		for value := range s.tokens {
			out = append(out, value)
		}
	})
	return out
}

func (s *Server) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// issue makes a token.
func (s *Server) issue(principal string) (value string, expires time.Time) {
	value, expires = "ya29."+rand.Text(), time.Now().Add(s.life)
	s.tokens[value] = token{expires, principal}
	return value, expires
}

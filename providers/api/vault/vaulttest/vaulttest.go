// Package vaulttest is a Vault with two KV engines and the auth method JWT,
// for the jobs of one pipeline. It refuses what Vault refuses. It must not know
// what its secrets are for.
package vaulttest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/manent/action/providers/api/identity/identitytest"
)

// What the Vault has: a role that trusts an audience, in a namespace, and the
// engines secret (version 2) and kv (version 1).
const (
	Role      = "shop-prod"
	Audience  = "https://vault.example"
	Namespace = "teams/shop"
	RootToken = "hvs.r00t-t0ken" //nolint:gosec // of nothing real
)

// Server is the Vault.
type Server struct {
	URL string

	jobs *identitytest.Pipeline

	mu      sync.Mutex
	life    time.Duration
	most    time.Duration // that a token lives, however often it is renewed
	tokens  map[string]*token
	logins  int
	renewed int
	values  map[string]map[string]any // by path of the API
	denied  map[string]bool           // paths that no policy allows
	status  map[string]answer         // of requests below a path
}

type token struct{ begun, ends time.Time }

type answer struct {
	status int
	body   string
}

// New starts a Vault whose tokens live an hour, renewed at most four.
func New(t testing.TB, jobs *identitytest.Pipeline) *Server {
	t.Helper()
	s := &Server{
		jobs: jobs, life: time.Hour, most: 4 * time.Hour, tokens: map[string]*token{},
		values: map[string]map[string]any{}, denied: map[string]bool{}, status: map[string]answer{},
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Vars are the variables of a job that may log in.
func (s *Server) Vars() map[string]string {
	return map[string]string{"VAULT_ADDR": s.URL + "/", "VAULT_NAMESPACE": Namespace, "VAULT_ROLE": Role, "MANENT_VAULT_AUDIENCE": Audience}
}

// Live sets how long new tokens live, and the most.
func (s *Server) Live(life, most time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life, s.most = life, most
}

// Revoke ends all tokens.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = map[string]*token{}
}

// Put stores fields under a path of the API; nil is a deleted version.
func (s *Server) Put(path string, fields map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[path] = fields
}

// Deny takes a path out of all policies.
func (s *Server) Deny(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied[path] = true
}

// Answer makes requests below a path of the API end so; 0 for as usual.
func (s *Server) Answer(path string, status int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status[path] = answer{status, body}
}

// Counts returns how often somebody logged in, and renewed a token.
func (s *Server) Counts() (logins, renewed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins, s.renewed
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path, ok := strings.CutPrefix(r.URL.Path, "/v1/")
	w.Header().Set("Content-Type", "application/json")
	for _, below := range slices.Sorted(maps.Keys(s.status)) {
		if a := s.status[below]; a.status != 0 && strings.HasPrefix(path, below) {
			w.WriteHeader(a.status)
			_, _ = io.WriteString(w, a.body)
			return
		}
	}
	switch {
	case !ok || r.Header.Get("X-Vault-Request") != "true" || r.URL.RawQuery != "":
		refuse(w, http.StatusBadRequest, "missing 'X-Vault-Request' header")
	case r.Header.Get("X-Vault-Namespace") != Namespace:
		refuse(w, http.StatusNotFound, fmt.Sprintf("no handler for route %q. route entry not found.", path))
	case r.Method == http.MethodPost && path == "auth/jwt/login":
		s.login(w, r)
	case strings.HasPrefix(path, "auth/") && path != "auth/token/renew-self":
		refuse(w, http.StatusNotFound, fmt.Sprintf("no handler for route %q. route entry not found.", path))
	case !s.valid(r.Header.Get("X-Vault-Token")) || s.denied[path]:
		refuse(w, http.StatusForbidden, "permission denied")
	case r.Method == http.MethodPost && path == "auth/token/renew-self":
		s.renew(w, r.Header.Get("X-Vault-Token"))
	case r.Method == http.MethodGet:
		s.read(w, path)
	default:
		refuse(w, http.StatusMethodNotAllowed, "unsupported operation")
	}
}

func refuse(w http.ResponseWriter, status int, problems ...string) {
	w.WriteHeader(status)
	if problems == nil {
		problems = []string{}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": problems})
}

func (s *Server) valid(text string) bool {
	t := s.tokens[text]
	return text == RootToken || t != nil && time.Now().Before(t.ends)
}

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	var in struct{ Role, JWT string }
	if json.NewDecoder(r.Body).Decode(&in) != nil || r.Header.Get("X-Vault-Token") != "" {
		refuse(w, http.StatusBadRequest, "failed to parse JSON input")
		return
	}
	if in.Role != Role {
		refuse(w, http.StatusBadRequest, fmt.Sprintf("role %q could not be found", in.Role))
		return
	}
	if err := s.jobs.Check(in.JWT, Audience); err != nil {
		refuse(w, http.StatusBadRequest, "error validating token: "+err.Error())
		return
	}
	s.logins++
	text := "hvs." + rand.Text()
	s.tokens[text] = &token{begun: time.Now()}
	s.extend(w, text)
}

func (s *Server) renew(w http.ResponseWriter, text string) {
	s.renewed++
	s.extend(w, text)
}

// extend gives a token a new life, within the most that it may have.
func (s *Server) extend(w http.ResponseWriter, text string) {
	t := s.tokens[text]
	left := min(s.life, time.Until(t.begun.Add(s.most)))
	t.ends = time.Now().Add(left)
	_ = json.NewEncoder(w).Encode(map[string]any{"auth": map[string]any{
		"client_token": text, "accessor": "x", "policies": []string{"default", "shop"}, "lease_duration": int(left.Seconds()), "renewable": true,
	}})
}

func (s *Server) read(w http.ResponseWriter, path string) {
	fields, ok := s.values[path]
	data := map[string]any{"request_id": "1", "lease_id": "", "renewable": false, "lease_duration": 2764800, "data": fields}
	if below, v2 := strings.CutPrefix(path, "secret/"); v2 {
		if !strings.HasPrefix(below, "data/") {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"errors":[],"warnings":["Invalid path for a versioned K/V secrets engine."]}`)
			return
		}
		data["lease_duration"] = 0
		data["data"] = map[string]any{"data": fields, "metadata": map[string]any{"version": 3, "created_time": "2026-11-30T17:00:00Z", "deletion_time": "", "destroyed": false}}
		if ok && fields == nil {
			w.WriteHeader(http.StatusNotFound)
		}
	}
	if !ok {
		refuse(w, http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(data)
}

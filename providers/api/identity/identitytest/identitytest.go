// Package identitytest is a pipeline that gives its jobs an identity, and the
// check of its tokens that a cloud makes. It refuses what the real ones would
// refuse. It must not know what a token is used for.
package identitytest

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Issuer and Subject are of every token.
const (
	Issuer  = "https://pipeline.example"
	Subject = "repo:shop/web:environment:prod"
)

// requestToken is the right to ask for tokens.
const requestToken = "r1ght-t0-ask-f0r-t0kens"

// Pipeline mints tokens and knows its own.
type Pipeline struct {
	URL string // of the service that mints, as GitHub's

	key []byte

	mu     sync.Mutex
	asked  []string // audiences, in order
	status int      // that every request is answered with; 0 for a token
	body   string   // of that answer
}

// New starts a pipeline.
func New(t testing.TB) *Pipeline {
	t.Helper()
	p := &Pipeline{key: []byte(rand.Text())}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

// GitHub returns the variables of a job with `id-token: write`.
func (p *Pipeline) GitHub() map[string]string {
	return map[string]string{
		"GITHUB_ACTIONS":                 "true",
		"ACTIONS_ID_TOKEN_REQUEST_URL":   p.URL + "/idtoken/1?api-version=2.0",
		"ACTIONS_ID_TOKEN_REQUEST_TOKEN": requestToken,
	}
}

// GitLab returns the variables of a job with one token of `id_tokens:`.
func (p *Pipeline) GitLab(audience string, life time.Duration) map[string]string {
	return map[string]string{"GITLAB_CI": "true", "MANENT_ID_TOKEN": p.Mint(life, audience)}
}

// Answer makes the service answer every request so; 0 for tokens again. A body
// of 200 is sent in place of a token.
func (p *Pipeline) Answer(status int, body string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.body = status, body
}

// Asked returns the audiences that tokens were minted for by requests.
func (p *Pipeline) Asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// ServeHTTP implements http.Handler.
func (p *Pipeline) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	query := r.URL.Query()
	switch {
	case r.Method != http.MethodGet || r.URL.Path != "/idtoken/1" || query.Get("api-version") != "2.0" || len(query["audience"]) != 1:
		http.Error(w, `{"message":"not found"}`, http.StatusNotFound)
	case r.Header.Get("Authorization") != "Bearer "+requestToken:
		http.Error(w, `{"message":"unauthorized"}`, http.StatusUnauthorized)
	case p.status != 0:
		w.WriteHeader(p.status)
		_, _ = fmt.Fprint(w, p.body)
	default:
		p.asked = append(p.asked, query.Get("audience"))
		w.Header().Set("Content-Type", "application/json; charset=utf-8; api-version=2.0")
		_ = json.NewEncoder(w).Encode(map[string]any{"count": 1, "value": p.Mint(5*time.Minute, query.Get("audience"))})
	}
}

type claims struct {
	Issuer   string   `json:"iss"`
	Subject  string   `json:"sub"`
	Audience []string `json:"aud"`
	Issued   int64    `json:"iat"`
	Expires  int64    `json:"exp"`
	ID       string   `json:"jti"`
}

// Mint returns a token that expires after a time, which may be negative.
func (p *Pipeline) Mint(life time.Duration, audience ...string) string {
	now := time.Now()
	return p.sign(claims{Issuer: Issuer, Subject: Subject, Audience: audience, Issued: now.Unix(), Expires: now.Add(life).Unix(), ID: rand.Text()})
}

func (p *Pipeline) sign(c claims) string {
	body, _ := json.Marshal(c)
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(body)
	mac := hmac.New(sha256.New, p.key)
	_, _ = mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// ErrExpired is of a token that was good once.
var ErrExpired = errors.New("token is expired")

// Check verifies a token as the other side does: signature, issuer, audience
// and expiry.
func (p *Pipeline) Check(token, audience string) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return errors.New("not a token")
	}
	var c claims
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(body, &c)
	}
	switch {
	case err != nil:
		return err
	case !hmac.Equal([]byte(token), []byte(p.sign(c))):
		return errors.New("signature is wrong")
	case c.Issuer != Issuer || c.Subject != Subject:
		return fmt.Errorf("issuer %q, subject %q", c.Issuer, c.Subject)
	case !slices.Contains(c.Audience, audience):
		return fmt.Errorf("audience %q, expected %q", c.Audience, audience)
	case !time.Now().Before(time.Unix(c.Expires, 0)):
		return ErrExpired
	}
	return nil
}

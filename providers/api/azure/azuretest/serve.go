package azuretest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/manent/action/providers/api/identity/identitytest"
)

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	login := r.Host == s.Cloud.Login
	entry := r.Host
	if login && strings.HasSuffix(r.URL.Path, "/token") {
		entry += "/token"
	}
	s.requests = append(s.requests, entry)
	switch a := s.answers[r.Host]; {
	case a.status != 0:
		w.WriteHeader(a.status)
		_, _ = fmt.Fprint(w, a.body)
	case login && r.URL.Path == "/"+Tenant+"/v2.0/.well-known/openid-configuration":
		base := "https://" + s.Cloud.Login + "/" + Tenant
		reply(w, map[string]string{
			"authorization_endpoint": base + "/oauth2/v2.0/authorize", "token_endpoint": base + "/oauth2/v2.0/token", "issuer": base + "/v2.0",
		})
	case login && r.URL.Path == "/common/discovery/instance":
		s.discover(w, r)
	case login && strings.HasSuffix(r.URL.Path, "/openid-configuration"):
		refuse(w, http.StatusBadRequest, "invalid_tenant", 90002, "Tenant not found.")
	case login && r.URL.Path == "/"+Tenant+"/oauth2/v2.0/token" && r.Method == http.MethodPost:
		s.token(w, r)
	case r.Host == s.VaultHost():
		s.vault(w, r)
	default:
		http.NotFound(w, r)
	}
}

// discover is GET /common/discovery/instance: which hosts are this authority.
func (s *Server) discover(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Query().Get("authorization_endpoint"), "https://"+s.Cloud.Login+"/") {
		refuse(w, http.StatusBadRequest, "invalid_instance", 50049, "Unknown or invalid instance.")
		return
	}
	reply(w, map[string]any{
		"tenant_discovery_endpoint": "https://" + s.Cloud.Login + "/" + Tenant + "/v2.0/.well-known/openid-configuration",
		"api-version":               "1.1",
		"metadata":                  []map[string]any{{"preferred_network": s.Cloud.Login, "preferred_cache": s.Cloud.Login, "aliases": []string{s.Cloud.Login}}},
	})
}

// token is POST …/oauth2/v2.0/token.
// https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	form := func(name string) string { return r.PostFormValue(name) }
	scope := "https://" + s.Cloud.Vaults + "/.default"
	switch {
	case form("grant_type") != "client_credentials":
		refuse(w, http.StatusBadRequest, "unsupported_grant_type", 70003, "The app requested an unsupported grant type.")
	case form("client_id") != Client:
		refuse(w, http.StatusBadRequest, "unauthorized_client", 700016, "Application was not found in the directory.")
	case !slices.Contains(strings.Fields(form("scope")), scope):
		refuse(w, http.StatusBadRequest, "invalid_scope", 70011, "The provided value for the input parameter 'scope' is not valid.")
	case s.code != 0:
		// What a careless service might say: the token itself.
		refuse(w, http.StatusUnauthorized, "invalid_client", s.code, "Refused: "+form("client_assertion")+form("client_secret"))
	case s.stale > 0:
		s.stale--
		refuse(w, http.StatusUnauthorized, "invalid_client", 700024, "Client assertion is not within its valid time range.")
	case form("client_secret") != "" && form("client_secret") != Secret:
		refuse(w, http.StatusUnauthorized, "invalid_client", 7000215, "Invalid client secret provided.")
	case form("client_secret") == "" && !s.proven(w, r):
	default:
		reply(w, map[string]any{"token_type": "Bearer", "expires_in": int(s.life.Seconds()), "ext_expires_in": int(s.life.Seconds()), "access_token": s.issue(scope)})
	}
}

// proven checks the assertion and answers if it is not accepted.
func (s *Server) proven(w http.ResponseWriter, r *http.Request) bool {
	if r.PostFormValue("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
		refuse(w, http.StatusBadRequest, "invalid_request", 900144, "The request body must contain the following parameter: 'client_assertion_type'.")
		return false
	}
	switch err := s.Pipeline.Check(r.PostFormValue("client_assertion"), s.Cloud.Audience); {
	case errors.Is(err, identitytest.ErrExpired):
		refuse(w, http.StatusUnauthorized, "invalid_client", 700024, "Client assertion is not within its valid time range.")
	case err != nil:
		refuse(w, http.StatusUnauthorized, "invalid_client", 700213, "No matching federated identity record found for presented assertion: "+err.Error())
	default:
		return true
	}
	return false
}

// vault is GET /secrets/NAME/VERSION.
// https://learn.microsoft.com/rest/api/keyvault/secrets/get-secret/get-secret
func (s *Server) vault(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/secrets/"), "/")
	value, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	t, known := s.tokens[value]
	switch {
	case s.challenge != "" || !given || !known || time.Now().After(t.expires) || t.scope != "https://"+s.Cloud.Vaults+"/.default":
		w.Header().Set("WWW-Authenticate", s.asks())
		deny(w, http.StatusUnauthorized, "Unauthorized", "AKV10000: Request is missing a Bearer or PoP token.")
	case r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, "/secrets/") || len(parts) != 2:
		deny(w, http.StatusBadRequest, "BadParameter", "no such method")
	case r.URL.Query().Get("api-version") != "7.4":
		deny(w, http.StatusBadRequest, "BadParameter", "The specified version is not recognized.")
	default:
		versions := s.secrets[parts[0]]
		n := len(versions)
		if parts[1] != "" {
			parsed, _ := strconv.ParseInt(parts[1], 16, 32)
			n = int(parsed)
		}
		if n < 1 || n > len(versions) {
			deny(w, http.StatusNotFound, "SecretNotFound", "A secret with (name/id) "+parts[0]+" was not found in this key vault.")
			return
		}
		reply(w, map[string]any{
			"value": versions[n-1], "id": "https://" + r.Host + "/secrets/" + parts[0] + "/" + Version(n),
			"attributes": map[string]any{"enabled": true},
		})
	}
}

func (s *Server) asks() string {
	if s.challenge != "" {
		return s.challenge
	}
	return fmt.Sprintf(`Bearer authorization="https://%s/%s", resource="https://%s"`, s.Cloud.Login, Tenant, s.Cloud.Vaults)
}

func refuse(w http.ResponseWriter, status int, name string, code int, description string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"error": name, "error_description": fmt.Sprintf("AADSTS%d: %s", code, description), "error_codes": []int{code},
	})
}

func deny(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"code": code, "message": message}})
}

func reply(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

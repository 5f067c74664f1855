package googletest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Host)
	if a := s.answers[r.Host]; a.status != 0 {
		w.WriteHeader(a.status)
		_, _ = fmt.Fprint(w, a.body)
		return
	}
	switch r.Host {
	case Tokens:
		s.exchange(w, r)
	case Credentials:
		s.actAs(w, r)
	case Secrets:
		s.access(w, r)
	case OAuth:
		s.refresh(w, r)
	default:
		http.Error(w, "no such host: "+r.Host, http.StatusBadGateway)
	}
}

// exchange is POST https://sts.googleapis.com/v1/token.
// https://cloud.google.com/iam/docs/reference/sts/rest/v1/TopLevel/token
func (s *Server) exchange(w http.ResponseWriter, r *http.Request) {
	form := func(name string) string { return r.PostFormValue(name) }
	switch {
	case r.Method != http.MethodPost || r.URL.Path != "/v1/token" || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded":
		http.NotFound(w, r)
	case form("grant_type") != "urn:ietf:params:oauth:grant-type:token-exchange":
		refuse(w, "unsupported_grant_type", "Unsupported grant type.")
	case form("requested_token_type") != "urn:ietf:params:oauth:token-type:access_token" || form("subject_token_type") != "urn:ietf:params:oauth:token-type:jwt":
		refuse(w, "invalid_request", "Invalid token type.")
	case !slices.Contains(strings.Fields(form("scope")), scope):
		refuse(w, "invalid_scope", "The scope is missing or not allowed.")
	case form("audience") != "//iam.googleapis.com/"+Pool:
		refuse(w, "invalid_target", `The target service indicated by the "audience" parameters is invalid.`)
	case s.refused != "":
		// What a careless service might say: the token itself.
		refuse(w, s.refused, "Refused: "+form("subject_token"))
	default:
		if err := s.Pipeline.Check(form("subject_token"), audience); err != nil {
			refuse(w, "invalid_grant", "The ID token is not accepted: "+err.Error())
			return
		}
		value, expires := s.issue("federated")
		reply(w, map[string]any{ //nolint:gosec // names, no secrets
			"access_token": value, "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
			"token_type": "Bearer", "expires_in": int(time.Until(expires).Round(time.Second).Seconds()),
		})
	}
}

// actAs is POST …/serviceAccounts/…:generateAccessToken.
// https://cloud.google.com/iam/docs/reference/credentials/rest/v1/projects.serviceAccounts/generateAccessToken
func (s *Server) actAs(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Lifetime string   `json:"lifetime"`
		Scope    []string `json:"scope"`
	}
	err := json.NewDecoder(r.Body).Decode(&body)
	who, ok := s.bearer(r)
	switch {
	case r.Method != http.MethodPost || !strings.HasPrefix(r.URL.Path, "/v1/projects/-/serviceAccounts/"):
		deny(w, http.StatusNotFound, "NOT_FOUND", "no such method")
	case !ok:
		deny(w, http.StatusUnauthorized, "UNAUTHENTICATED", "Request had invalid authentication credentials.")
	case err != nil || !strings.HasSuffix(body.Lifetime, "s") || !slices.Contains(body.Scope, scope):
		deny(w, http.StatusBadRequest, "INVALID_ARGUMENT", "Request contains an invalid argument.")
	case who != "federated" || r.URL.Path != "/v1/projects/-/serviceAccounts/"+Account+":generateAccessToken":
		deny(w, http.StatusForbidden, "PERMISSION_DENIED", "Permission 'iam.serviceAccounts.getAccessToken' denied on resource (or it may not exist).")
	default:
		value, expires := s.issue(Account)
		reply(w, map[string]any{"accessToken": value, "expireTime": expires.UTC().Format(time.RFC3339)})
	}
}

// refresh is POST https://oauth2.googleapis.com/token for a user's file.
func (s *Server) refresh(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/token" || r.PostFormValue("grant_type") != "refresh_token" {
		refuse(w, "unsupported_grant_type", "Invalid grant_type: "+r.PostFormValue("grant_type"))
		return
	}
	if s.refused != "" || r.PostFormValue("refresh_token") != RefreshToken {
		refuse(w, "invalid_grant", "Token has been expired or revoked: "+r.PostFormValue("refresh_token"))
		return
	}
	value, expires := s.issue("user")
	reply(w, map[string]any{"access_token": value, "token_type": "Bearer", "scope": scope, "expires_in": int(time.Until(expires).Round(time.Second).Seconds())})
}

// access is GET …/secrets/…/versions/…:access.
func (s *Server) access(w http.ResponseWriter, r *http.Request) {
	path, method := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/v1/"), ":access")
	name, version, found := strings.Cut(path, "/versions/")
	_, ok := s.bearer(r)
	switch {
	case !ok:
		deny(w, http.StatusUnauthorized, "UNAUTHENTICATED", "Request had invalid authentication credentials.")
	case r.Method != http.MethodGet || !method || !found || r.URL.RawQuery != "":
		deny(w, http.StatusNotFound, "NOT_FOUND", "no such method")
	case !strings.HasPrefix(name, Project+"/secrets/"):
		deny(w, http.StatusForbidden, "PERMISSION_DENIED", "Permission 'secretmanager.versions.access' denied for resource '"+path+"' (or it may not exist).")
	default:
		versions := s.secrets[name]
		n := len(versions)
		if version != "latest" {
			n, _ = strconv.Atoi(version)
		}
		if n < 1 || n > len(versions) {
			deny(w, http.StatusNotFound, "NOT_FOUND", "Secret ["+name+"] not found or has no versions.")
			return
		}
		reply(w, map[string]any{"name": fmt.Sprintf("%s/versions/%d", name, n), "payload": s.payload(versions[n-1])})
	}
}

func (s *Server) payload(value string) map[string]string {
	sum := strconv.FormatUint(uint64(crc32.Checksum([]byte(value), crc32.MakeTable(crc32.Castagnoli))), 10)
	out := map[string]string{"data": base64.StdEncoding.EncodeToString([]byte(value)), "dataCrc32c": sum}
	switch s.checksum {
	case "":
	case "-":
		delete(out, "dataCrc32c")
	default:
		out["dataCrc32c"] = s.checksum
	}
	return out
}

// bearer is who a request's token belongs to.
func (s *Server) bearer(r *http.Request) (principal string, ok bool) {
	value, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	t, known := s.tokens[value]
	return t.principal, given && known && time.Now().Before(t.expires)
}

// refuse answers by RFC 6749, section 5.2.
func refuse(w http.ResponseWriter, code, description string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": code, "error_description": description})
}

func deny(w http.ResponseWriter, status int, name, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": status, "message": message, "status": name}})
}

func reply(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

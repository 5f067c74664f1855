// Package awstest is an AWS that gives sessions of one role to the jobs of one
// pipeline, and the check that each of its services makes of a request's
// session. It refuses what AWS refuses. It must not know any other service.
package awstest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/manent/action/providers/api/identity/identitytest"
)

// What the role is called, and the audience that it trusts.
const (
	Role     = "arn:aws:iam::123456789012:role/manent"
	Audience = "sts.amazonaws.com"
	Region   = "eu-central-1"
)

// STS is the service of sessions.
type STS struct {
	URL string

	jobs *identitytest.Pipeline

	mu       sync.Mutex
	life     time.Duration
	status   int    // that every request is answered with; 0 for a session
	code     string // of that answer
	sessions map[string]session
	names    []string // of sessions, in order
}

type session struct {
	token string
	ends  time.Time
}

// New starts an STS whose sessions live an hour.
func New(t testing.TB, jobs *identitytest.Pipeline) *STS {
	t.Helper()
	s := &STS{jobs: jobs, life: time.Hour, sessions: map[string]session{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Vars are the variables of a job that may take the role.
func (s *STS) Vars() map[string]string {
	return map[string]string{"AWS_ROLE_ARN": Role, "AWS_REGION": Region, "AWS_ENDPOINT_URL_STS": s.URL, "AWS_EC2_METADATA_DISABLED": "true"}
}

// Live sets how long new sessions live.
func (s *STS) Live(life time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life = life
}

// Answer makes every request end so; 0 for sessions again.
func (s *STS) Answer(status int, code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.code = status, code
}

// End ends all sessions, as a changed policy of the role does.
func (s *STS) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, one := range s.sessions {
		one.ends = time.Time{}
		s.sessions[id] = one
	}
}

// Sessions returns the names of the sessions given so far.
func (s *STS) Sessions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.names...)
}

// Ended returns how many sessions have ended so far.
func (s *STS) Ended() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, one := range s.sessions {
		if !time.Now().Before(one.ends) {
			n++
		}
	}
	return n
}

// ServeHTTP implements http.Handler: AssumeRoleWithWebIdentity and nothing
// else.
func (s *STS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, code, message := s.refusal(r)
	w.Header().Set("Content-Type", "text/xml")
	if code != "" {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, "<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>1</RequestId></ErrorResponse>", code, message)
		return
	}
	id, one, secret := s.begin(r)
	_, _ = fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>
<AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/manent/job</Arn><AssumedRoleId>AROA:x</AssumedRoleId></AssumedRoleUser>
<Credentials><AccessKeyId>%s</AccessKeyId><SecretAccessKey>%s</SecretAccessKey><SessionToken>%s</SessionToken><Expiration>%s</Expiration></Credentials>
</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`,
		id, secret, one.token, one.ends.UTC().Format(time.RFC3339Nano))
}

// begin makes a session.
func (s *STS) begin(r *http.Request) (id string, one session, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, one = "ASIA"+rand.Text()[:16], session{token: "s3ssion-" + rand.Text(), ends: time.Now().Add(s.life)}
	s.sessions[id] = one
	s.names = append(s.names, r.PostForm.Get("RoleSessionName"))
	return id, one, "s3cr3t-" + rand.Text()
}

// refusal is why a request gets no session.
func (s *STS) refusal(r *http.Request) (status int, code, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status != 0 {
		return s.status, s.code, "not today"
	}
	if err := r.ParseForm(); err != nil || r.Method != http.MethodPost || r.URL.Path != "/" {
		return http.StatusBadRequest, "MalformedInput", "not a request"
	}
	form := r.PostForm
	token := form.Get("WebIdentityToken")
	problem := s.jobs.Check(token, Audience)
	switch {
	case form.Get("Action") != "AssumeRoleWithWebIdentity" || form.Get("Version") != "2011-06-15" || r.Header.Get("Authorization") != "":
		return http.StatusBadRequest, "InvalidAction", "unknown action"
	case !regexp.MustCompile(`^[\w+=,.@-]{2,64}$`).MatchString(form.Get("RoleSessionName")):
		return http.StatusBadRequest, "ValidationError", "value at 'roleSessionName' does not match"
	case form.Get("RoleArn") != Role:
		return http.StatusForbidden, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity"
	case errors.Is(problem, identitytest.ErrExpired):
		return http.StatusBadRequest, "ExpiredTokenException", "Token expired"
	case problem != nil:
		return http.StatusBadRequest, "InvalidIdentityToken", "token " + token + ": " + problem.Error()
	}
	return 0, "", ""
}

// Refusal is what a service says to a request that is not signed in one of the
// sessions: the code of its error, "" for none. Signatures are not computed.
func (s *STS) Refusal(r *http.Request, service string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	match := regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=(ASIA\w+)/\d{8}/([\w-]+)/(\w+)/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=[0-9a-f]{64}$`).
		FindStringSubmatch(r.Header.Get("Authorization"))
	if match == nil {
		return "MissingAuthenticationToken"
	}
	one, known := s.sessions[match[1]]
	signed := strings.Split(match[4], ";")
	switch {
	case !known || r.Header.Get("X-Amz-Security-Token") != one.token:
		return "InvalidToken"
	case match[2] != Region || match[3] != service || !contains(signed, "host", "x-amz-date", "x-amz-security-token"):
		return "SignatureDoesNotMatch"
	case !time.Now().Before(one.ends):
		return "ExpiredToken"
	}
	return ""
}

func contains(list []string, all ...string) bool {
	have := map[string]bool{}
	for _, name := range list {
		have[name] = true
	}
	for _, name := range all {
		if !have[name] {
			return false
		}
	}
	return true
}

// S3 is the door of an S3 that lets in who has a session, and answers as S3
// does.
func (s *STS) S3(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := s.Refusal(r, "s3")
		if code == "" {
			next.ServeHTTP(w, r)
			return
		}
		status := http.StatusForbidden
		if code == "ExpiredToken" || code == "InvalidToken" {
			status = http.StatusBadRequest
		}
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>The provided token is not good.</Message></Error>", code)
	})
}

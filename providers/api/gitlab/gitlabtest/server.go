// Package gitlabtest is a GitLab of one project for tests: it refuses every
// request that the documented API does not know, and behaves as documented
// where a client could get it wrong. It must not know the client.
package gitlabtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Project is the id of the project that every Server has.
const Project = 7

// Job is a job of a pipeline.
type Job struct {
	ID, Pipeline       int64
	Name, Status, User string
	Created            time.Time
}

// Trigger is a job that triggers a pipeline; Child 0 for not yet.
type Trigger struct{ Pipeline, Child, Project int64 }

// Deployment is a deployment; Job 0 for one made by the API.
type Deployment struct {
	ID                       int64
	Environment, SHA, Status string
	Ref                      string
	Tag                      bool // as it was made; the API does not show it
	Job, Pipeline            int64
	Created, Updated         time.Time
	Said                     []Approval
	ByRule                   []Approval // said under one of several rules
	Waiting                  int
}

// Approval is what somebody said about a deployment.
type Approval struct{ Who, Status, Comment string }

// Failure is what happens to a request in place of, or after, its effect.
type Failure struct {
	Method, Path string // part of the path
	Skip         int    // requests that pass before
	Times        int    // 0 for always
	After        bool   // the request has its effect first
	Status       int    // of the answer; 0 for none: the connection ends
	Header       http.Header
	Body         string
	Cut          bool // the answer ends early
}

// Server is the GitLab. Its fields may be set until the first request.
type Server struct {
	URL         string // of the API, as in CI_API_V4_URL
	JobToken    string // in JOB-TOKEN, "" for none
	AccessToken string // in PRIVATE-TOKEN, "" for none
	SHAs, Refs  []string
	Jobs        []Job
	Triggers    []Trigger
	PerPage     int // most per page, 0 for what is asked
	Failures    []Failure
	Settings    Settings

	t           *testing.T
	now         func() time.Time
	mu          sync.Mutex
	deployments []Deployment
	requests    []string
	sent        []string
}

// New starts a server that ends with the test.
func New(t *testing.T) *Server {
	s := &Server{t: t, now: time.Now}
	backend := httptest.NewServer(s)
	t.Cleanup(backend.Close)
	s.URL = backend.URL + "/api/v4"
	return s
}

// Deploy adds deployments, in the order of their ids.
func (s *Server) Deploy(deployments ...Deployment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deployments = append(s.deployments, deployments...)
}

// Deployments are those that there are.
func (s *Server) Deployments() []Deployment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.deployments)
}

// Requests are method and path of all requests, without /api/v4.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Sent are all requests that reached a handler: method, path, query and body,
// by spaces, without what is empty.
func (s *Server) Sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// answer is what a handler says; list is to be paginated.
type answer struct {
	status int
	body   any
	list   []any
}

func refusal(status int, message any) answer {
	return answer{status: status, body: map[string]any{"message": message}}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/api/v4")
	s.requests = append(s.requests, r.Method+" "+path)
	failure := s.failure(r.Method, path)
	if failure != nil && !failure.After {
		s.fail(w, failure, nil)
		return
	}
	made := s.serve(r, path)
	if failure != nil {
		s.fail(w, failure, made.body)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if made.list != nil {
		made.body = s.page(w.Header(), r.URL.Query(), made.list)
	}
	w.WriteHeader(made.status)
	if err := json.NewEncoder(w).Encode(made.body); err != nil {
		s.t.Errorf("answer %s: %v", path, err)
	}
}

func (s *Server) failure(method, path string) *Failure {
	for i := range s.Failures {
		f := &s.Failures[i]
		if f.Method != method || !strings.Contains(path, f.Path) || f.Times < 0 {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times--; f.Times == 0 {
			f.Times = -1
		} else if f.Times < 0 {
			f.Times = 0
		}
		return f
	}
	return nil
}

func (s *Server) fail(w http.ResponseWriter, f *Failure, body any) {
	if f.Status == 0 {
		panic(http.ErrAbortHandler)
	}
	for key, values := range f.Header {
		w.Header()[key] = values
	}
	text := []byte(f.Body)
	if f.Body == "" && body != nil {
		text, _ = json.Marshal(body) // made of maps
	}
	if f.Cut {
		w.Header().Set("Content-Length", strconv.Itoa(len(text)+10))
	}
	w.WriteHeader(f.Status)
	_, _ = w.Write(text) // a client that is gone is the test's
}

// serve checks a request against the documentation, and carries it out.
func (s *Server) serve(r *http.Request, path string) answer {
	if !s.authorized(r) {
		return refusal(http.StatusUnauthorized, "401 Unauthorized")
	}
	for _, e := range append(documented(), setupEndpoints()...) {
		ids := e.path.FindStringSubmatch(path)
		if e.method != r.Method || ids == nil {
			continue
		}
		if len(ids) > 1 && !e.outside && ids[1] != strconv.Itoa(Project) && ids[1] != url.PathEscape(Path) {
			return refusal(http.StatusNotFound, "404 Project Not Found")
		}
		made := e.carryOut(s, ids, r.URL.Query(), s.check(r, e))
		s.checkAnswer(e, made)
		return made
	}
	s.t.Errorf("%s %s is not in the documentation that this test knows", r.Method, path)
	return answer{status: http.StatusNotFound, body: map[string]any{"error": "404 Not Found"}}
}

func (s *Server) authorized(r *http.Request) bool {
	job, access := r.Header.Get("JOB-TOKEN"), r.Header.Get("PRIVATE-TOKEN")
	if job != "" && access != "" {
		s.t.Error("a request has two tokens")
	}
	if r.Header.Get("Authorization") != "" || strings.Contains(r.URL.RawQuery, "token") {
		s.t.Error("a token is sent where it is not expected")
	}
	return (job != "" && job == s.JobToken) || (access != "" && access == s.AccessToken)
}

// check refuses what the endpoint does not know, and returns the body.
func (s *Server) check(r *http.Request, e endpoint) map[string]any {
	for key, values := range r.URL.Query() {
		if !slices.Contains(e.query, key) || len(values) != 1 {
			s.t.Errorf("%s %s has the parameter %s=%q, %s knows %v", r.Method, r.URL.Path, key, values, e.address, e.query)
		}
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	said := r.Method + " " + strings.TrimPrefix(r.URL.EscapedPath(), "/api/v4")
	for _, more := range []string{r.URL.Query().Encode(), string(text)} {
		said = strings.TrimSpace(said + " " + more)
	}
	s.sent = append(s.sent, said)
	if len(e.body)+len(e.may) == 0 {
		if len(text) > 0 {
			s.t.Errorf("%s %s has a body %q, %s knows none", r.Method, r.URL.Path, text, e.address)
		}
		return nil
	}
	var body map[string]any
	if err := json.Unmarshal(text, &body); err != nil || r.Header.Get("Content-Type") != "application/json" {
		s.t.Errorf("%s %s has the body %q of type %q", r.Method, r.URL.Path, text, r.Header.Get("Content-Type"))
	}
	for key, value := range body {
		want, known := e.body[key]
		if !known {
			want, known = e.may[key]
		}
		if !known || fmt.Sprintf("%T", value) != want {
			s.t.Errorf("%s %s has %s = %v, %s knows %v", r.Method, r.URL.Path, key, value, e.address, e.body)
		}
	}
	for key := range e.body {
		if _, given := body[key]; !given {
			s.t.Errorf("%s %s lacks %s, which %s requires", r.Method, r.URL.Path, key, e.address)
		}
	}
	return body
}

// checkAnswer keeps the server itself to the documentation.
func (s *Server) checkAnswer(e endpoint, made answer) {
	objects := made.list
	if made.list == nil && made.status < 300 {
		objects = []any{made.body}
	}
	for _, o := range objects {
		object, ok := o.(map[string]any)
		if !ok {
			s.t.Errorf("%s answers %T", e.address, o)
		}
		for key := range object {
			if !slices.Contains(e.answer, key) {
				s.t.Errorf("%s answers with %s, which is not documented", e.address, key)
			}
		}
	}
}

// page cuts a list, https://docs.gitlab.com/api/rest/#pagination.
func (s *Server) page(header http.Header, query url.Values, list []any) []any {
	number := func(key string, fallback int) int {
		if n, err := strconv.Atoi(query.Get(key)); err == nil && n > 0 {
			return n
		}
		return fallback
	}
	page, size := number("page", 1), min(number("per_page", 20), 100)
	if s.PerPage > 0 {
		size = min(size, s.PerPage)
	}
	from := min((page-1)*size, len(list))
	to := min(from+size, len(list))
	next := ""
	if to < len(list) {
		next = strconv.Itoa(page + 1)
	}
	header.Set("X-Page", strconv.Itoa(page))
	header.Set("X-Per-Page", strconv.Itoa(size))
	header.Set("X-Next-Page", next)
	return list[from:to]
}

// endpoint is one row of the documentation.
type endpoint struct {
	method  string
	path    *regexp.Regexp
	address string
	query   []string
	body    map[string]string // required attributes with their types
	may     map[string]string // optional ones
	answer  []string          // documented keys
	outside bool              // it is not below a project

	// One of both: by the number that follows the project, or by the name.
	serve func(s *Server, id int64, query url.Values, body map[string]any) answer
	named func(s *Server, name string, query url.Values, body map[string]any) answer
}

// carryOut does what was asked for; ids are what the path holds.
func (e endpoint) carryOut(s *Server, ids []string, query url.Values, body map[string]any) answer {
	last := ""
	if len(ids) > 2 || e.outside {
		last = ids[len(ids)-1]
	}
	if e.serve != nil {
		id, _ := strconv.ParseInt(last, 10, 64) // digits
		return e.serve(s, id, query, body)
	}
	name, err := url.PathUnescape(last)
	if err != nil {
		s.t.Errorf("%q is no escaped name", last)
	}
	return e.named(s, name, query, body)
}

package githubtest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Operations that the server serves, by the ids of the description.
const (
	Reviews           = "actions/get-reviews-for-run"
	ListDeployments   = "repos/list-deployments"
	CreateDeployment  = "repos/create-deployment"
	ListStatuses      = "repos/list-deployment-statuses"
	CreateStatus      = "repos/create-deployment-status"
	GetRepository     = "repos/get"
	ListEnvironments  = "repos/get-all-environments"
	GetEnvironment    = "repos/get-environment"
	SetRules          = "repos/create-or-update-environment"
	ListPatterns      = "repos/list-deployment-branch-policies"
	AddPattern        = "repos/create-deployment-branch-policy"
	GetUser           = "users/get-by-username"
	GetTeam           = "teams/get-by-name"
	apiVersion        = "2022-11-28"
	previewOfStatuses = "application/vnd.github.flash-preview+json"
	enterprise        = "/api/v3"
)

// The repository and the token of the server, and a commit that is in it.
const (
	Repo   = "shop/web"
	Token  = "the-token-of-this-job"
	Commit = "6dcb09b5b57875f334f61aebed695e2e4193db5e"
)

// Server is the API.
type Server struct {
	URL        string // as of github.com
	Enterprise string // as of a GitHub Enterprise Server

	t           *testing.T
	description Description

	mu          sync.Mutex
	permissions map[string]string // of the token: read or write by subject
	wanted      map[string]string // permission that an operation takes
	requests    []Request
	meets       map[string][]Meet
	deployments []*deployment
	reviews     map[int64][]Review
	ids         int64

	environments map[string]Environment
	plan         string
	private      bool
}

// Request is one that was allowed.
type Request struct {
	Operation string
	Path      string
	Query     string // in the order of its keys
	Body      string // as it came
}

// Meet says how a request is answered that is not served as usual.
type Meet struct {
	Status  int
	Header  map[string]string
	Body    string // JSON as the description has it, or anything from 500 on
	Applied bool   // carried out before it is answered like this
	Lost    bool   // the connection ends instead of an answer
	Cut     bool   // the answer of the server itself ends in the middle
	Wrong   bool   // against the description, on purpose

	// Meanwhile are environments that somebody else sets as soon as this request
	// has been served as usual.
	Meanwhile map[string]Environment
}

// New begins a server that ends with the test. The token may do what a
// rollout and its setup need.
func New(t *testing.T) *Server {
	t.Helper()
	s := &Server{
		t: t, meets: map[string][]Meet{}, reviews: map[int64][]Review{}, ids: 40, environments: map[string]Environment{},
		permissions: map[string]string{"actions": "read", "deployments": "write", "metadata": "read", "members": "read", "administration": "write"},
		wanted: map[string]string{
			Reviews: "actions: read", ListDeployments: "deployments: read", ListStatuses: "deployments: read",
			CreateDeployment: "deployments: write", CreateStatus: "deployments: write",
			GetRepository: "metadata: read", ListEnvironments: "actions: read", GetEnvironment: "actions: read", ListPatterns: "actions: read",
			SetRules: "administration: write", AddPattern: "administration: write", GetTeam: "members: read",
		},
	}
	var err error
	if s.description, err = Published(); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(server.Close)
	s.URL, s.Enterprise = server.URL, server.URL+enterprise
	return s
}

// Permit replaces the permissions of the token: subject and level by turns.
func (s *Server) Permit(permissions map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.permissions = permissions
}

// Meet answers the next requests of an operation in turn as said.
func (s *Server) Meet(operation string, answers ...Meet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meets[operation] = append(s.meets[operation], answers...)
}

// Requests returns those that were allowed since the last call.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.requests
	s.requests = nil
	return out
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the test's end
	}
	op, path, err := s.allow(r, body)
	if err != nil {
		s.t.Errorf("%s %s: %v", r.Method, r.URL, err)
		answer(w, http.StatusUnprocessableEntity, refusal(err.Error()))
		return
	}
	s.requests = append(s.requests, Request{Operation: op.OperationID, Path: r.URL.Path, Query: r.URL.Query().Encode(), Body: strings.TrimSpace(string(body))})
	status, reply := s.authorize(r, op, path)
	meet, planned := s.next(op.OperationID)
	if status == 0 && (!planned || meet.Applied || meet.Cut || meet.Meanwhile != nil) {
		status, reply = s.do(w, r, op, path, body)
	}
	maps.Copy(s.environments, meet.Meanwhile)
	switch {
	case planned && (meet.Lost || meet.Cut):
		s.breakOff(w, meet, reply)
		return
	case planned && meet.Meanwhile == nil:
		maps.Copy(w.Header(), header(meet.Header))
		status, reply = meet.Status, []byte(meet.Body)
	}
	if status < 500 && !meet.Wrong {
		if err := s.description.CheckAnswer(op, status, undescribed(op.OperationID, reply)); err != nil {
			s.t.Errorf("the server's own answer: %v", err)
		}
	}
	answer(w, status, reply)
}

// allow refuses a request that the description does not allow.
func (s *Server) allow(r *http.Request, body []byte) (Operation, map[string]string, error) {
	op, path, err := s.description.Find(r.Method, strings.TrimPrefix(r.URL.Path, enterprise))
	if err == nil {
		err = op.CheckQuery(r.URL.Query())
	}
	if err == nil {
		err = op.CheckRequest(undescribed(op.OperationID, body))
	}
	if err == nil {
		err = checkHeader(op.OperationID, r.Header, len(body) > 0)
	}
	return op, path, err
}

func checkHeader(operation string, h http.Header, body bool) error {
	accept := h.Get("Accept")
	switch {
	case h.Get("X-Github-Api-Version") != apiVersion:
		return fmt.Errorf("X-GitHub-Api-Version is %q, expected %s", h.Get("X-Github-Api-Version"), apiVersion)
	case !strings.HasPrefix(accept, "application/vnd.github.") || !strings.HasSuffix(accept, "+json"):
		return fmt.Errorf("header Accept is %q, expected JSON of GitHub", accept)
	case operation == CreateStatus && !strings.Contains(accept, previewOfStatuses):
		return fmt.Errorf("header Accept is %q, expected %s for the states that older servers know by it only", accept, previewOfStatuses)
	case body && h.Get("Content-Type") != "application/json":
		return fmt.Errorf("Content-Type is %q, expected application/json", h.Get("Content-Type"))
	case h.Get("User-Agent") != "manent":
		return fmt.Errorf("User-Agent is %q, expected manent", h.Get("User-Agent"))
	}
	return nil
}

// authorize answers as GitHub does to whom it does not serve; 0 to others.
func (s *Server) authorize(r *http.Request, op Operation, path map[string]string) (int, []byte) {
	subject, level, _ := strings.Cut(s.wanted[op.OperationID], ": ")
	has := s.permissions[subject]
	switch {
	case r.Header.Get("Authorization") != "Bearer "+Token:
		return http.StatusUnauthorized, refusal("Bad credentials")
	case path["repo"] != "" && path["owner"]+"/"+path["repo"] != Repo, path["org"] != "" && path["org"] != "shop":
		return http.StatusNotFound, refusal("Not Found")
	case level != "" && has != level && has != "write":
		return http.StatusForbidden, refusal("Resource not accessible by integration")
	}
	return 0, nil
}

func (s *Server) next(operation string) (Meet, bool) {
	queue := s.meets[operation]
	if len(queue) == 0 {
		return Meet{}, false
	}
	s.meets[operation] = queue[1:]
	return queue[0], true
}

// breakOff ends the connection, after half of an answer or before any.
func (s *Server) breakOff(w http.ResponseWriter, meet Meet, reply []byte) {
	if meet.Cut {
		w.Header().Set("Content-Length", strconv.Itoa(len(reply)))
		_, _ = w.Write(reply[:len(reply)/2])
	}
	panic(http.ErrAbortHandler)
}

func answer(w http.ResponseWriter, status int, body []byte) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func header(values map[string]string) http.Header {
	out := http.Header{}
	for key, value := range values {
		out.Set(key, value)
	}
	return out
}

// refusal is the body of an answer from 400 on.
func refusal(message string) []byte {
	return encode(map[string]any{"message": message, "documentation_url": "https://docs.github.com/rest"})
}

// encode writes what always can be.
func encode(value any) []byte {
	out, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return out
}

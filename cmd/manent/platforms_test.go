package main

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	hub "github.com/manent/action/providers/api/github/githubtest"
	gitlab "github.com/manent/action/providers/api/gitlab/gitlabtest"
)

// platforms are the GitHubs and GitLabs of scripts. They end with the test
// that runs all scripts.
type platforms struct {
	t      *testing.T
	mu     sync.Mutex
	writes map[*testscript.TestScript]func() int // since it was asked last
}

// start is "platform github [PLAN]" or "platform gitlab": it starts a server
// and tells it to the script as a person's shell would. PLAN is what a private
// repository's plan does with reviewers.
func (p *platforms) start(ts *testscript.TestScript, _ bool, args []string) {
	var writes func() int
	switch {
	case len(args) > 0 && args[0] == "github":
		s := hub.New(p.t)
		if len(args) > 1 {
			s.SetPlan(args[1], true)
		}
		ts.Setenv("GITHUB_API_URL", s.URL)
		ts.Setenv("GH_TOKEN", hub.Token)
		writes = func() int {
			n := 0
			for _, r := range s.Requests() {
				if r.Body != "" {
					n++
				}
			}
			return n
		}
	case len(args) == 1 && args[0] == "gitlab":
		s := gitlab.New(p.t)
		s.AccessToken = "glpat-of-ada"
		s.Settings = gitlab.Settings{Push: new(false), Groups: map[string]string{"shop/web/prod": "unordered"}}
		ts.Setenv("CI_API_V4_URL", s.URL)
		ts.Setenv("GITLAB_TOKEN", s.AccessToken)
		seen := 0
		writes = func() int {
			n := 0
			for _, r := range s.Sent() {
				if !strings.HasPrefix(r, "GET ") {
					n++
				}
			}
			fresh := n - seen
			seen = n
			return fresh
		}
	default:
		ts.Fatalf("usage: platform github [PLAN] | gitlab")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes[ts] = writes
}

// written is "written N": so many requests that write were sent since the last
// time.
func (p *platforms) written(ts *testscript.TestScript, _ bool, args []string) {
	p.mu.Lock()
	writes := p.writes[ts]
	p.mu.Unlock()
	if len(args) != 1 || writes == nil {
		ts.Fatalf("usage: written N, after platform")
	}
	if got := strconv.Itoa(writes()); got != args[0] {
		ts.Fatalf("%s requests have written, expected %s", got, args[0])
	}
}

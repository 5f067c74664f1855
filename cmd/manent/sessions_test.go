package main

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/manent/action/providers/api/aws/awstest"
	"github.com/manent/action/providers/api/identity/identitytest"
	"github.com/manent/action/providers/store/storetest"
	"github.com/manent/action/state"
)

// cloud is what a job's rollout needs of AWS: sessions of a role for the job's
// identity, and a bucket for its state that is open to them only.
type cloud struct {
	sts     *awstest.STS
	refused atomic.Int32 // requests of the bucket in a session that had ended
	gate    http.HandlerFunc
	asked   func() // after the router was read or written; may be nil
	writes  atomic.Int32
}

// inCloud is a shop whose state is in a bucket, arranged before anything
// listens. Each manent is a job of its own, with the identity of the
// environment's jobs.
func inCloud(t *testing.T, arrange func(c *cloud)) (*shop, *cloud) {
	t.Helper()
	s, jobs := newShop(t), identitytest.New(t)
	c := &cloud{sts: awstest.New(t, jobs), gate: func(http.ResponseWriter, *http.Request) {}}
	arrange(c)
	s.proxy()
	vars := jobs.GitHub()
	maps.Copy(vars, c.sts.Vars())
	maps.Copy(vars, map[string]string{"GITHUB_ACTIONS": "", "MANENT_RUN_ID": "7", "AWS_MAX_ATTEMPTS": "2"})
	for name, value := range vars {
		s.env = append(s.env, name+"="+value)
	}
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.gate(w, r) }))
	t.Cleanup(gate.Close)
	admin := httptest.NewServer(c.admin(t, s.vars["ADMIN"]))
	t.Cleanup(admin.Close)
	s.vars["STATE"] = storetest.S3(t, c.bucket)
	s.vars["GATE"], s.vars["ADMIN"] = gate.URL, admin.URL
	s.configure(sessionsConfig)
	return s, c
}

func (c *cloud) bucket(next http.Handler) http.Handler {
	open := c.sts.S3(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.sts.Refusal(r, "s3") == "ExpiredToken" {
			c.refused.Add(1)
		}
		open.ServeHTTP(w, r)
	})
}

// admin passes everything on to the proxy's own interface.
func (c *cloud) admin(t *testing.T, address string) http.Handler {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pass.ServeHTTP(w, r)
		if r.Method == http.MethodPut && r.URL.Path == "/v1/weights" {
			c.writes.Add(1)
		}
		if c.asked != nil {
			c.asked()
		}
	})
}

// red is a gate that fails from the moment something is so; at that moment it
// does something, once.
func red(so func() bool, then func()) http.HandlerFunc {
	var failed atomic.Bool
	return func(w http.ResponseWriter, _ *http.Request) {
		if !failed.Load() && so() && failed.CompareAndSwap(false, true) {
			then()
		}
		if failed.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
}

const sessionsConfig = `
project: shop
application: web
environment: prod
state: "$STATE"
steps:
  - {name: copy, at: deploy, run: "true"}
rollout:
  traffic: {steps: [10, 100], bake: 2m}
  health:
    interval: 100ms
    probes: [{name: works, url: "$GATE", status: 200}]
traffic:
  router: {provider: proxy, settings: {admin: $ADMIN}}
`

// returned demands that all traffic is back and the state says so.
func (s *shop) returned(t *testing.T) {
	t.Helper()
	doc, _ := s.status()
	if doc.Rollout.Status != state.Returned || doc.Passes[0].Share != 0 {
		t.Errorf("the rollout is %s with %v %%, expected that it is returned", doc.Rollout.Status, doc.Passes[0].Share)
	}
	seen, _ := s.visits(people("after", 50))
	if seen.Slots["a"] != 50 {
		t.Errorf("clients saw %+v, expected slot a alone", seen)
	}
}

// TestReturnInALaterSession: the gate turns red when the session has ended in
// which the rollout began. It returns, and the return is written down.
func TestReturnInALaterSession(t *testing.T) {
	t.Parallel()
	s, c := inCloud(t, func(c *cloud) {
		c.sts.Live(1500 * time.Millisecond)
		c.gate = red(func() bool { return c.sts.Ended() > 0 }, func() {})
	})
	out := s.exits(1, "run", "--version", "2.0")
	if !strings.Contains(out, "all traffic is at slot a") {
		t.Errorf("expected that all traffic is back:\n%s", out)
	}
	if n := len(c.sts.Sessions()); n < 2 || c.refused.Load() > 2 {
		t.Errorf("%d sessions, and %d requests in one that had ended", n, c.refused.Load())
	}
	c.sts.Live(time.Hour)
	s.returned(t)
}

// TestReturnAfterAnEndedSession: the sessions end at once, whatever they were
// promised, each time the router is asked, and when the gate turns red.
func TestReturnAfterAnEndedSession(t *testing.T) {
	t.Parallel()
	s, c := inCloud(t, func(c *cloud) {
		c.asked = c.sts.End
		c.gate = red(func() bool { return c.writes.Load() > 0 }, c.sts.End)
	})
	s.exits(1, "run", "--version", "2.0")
	if n := len(c.sts.Sessions()); n < 3 || int(c.refused.Load()) < n-1 {
		t.Errorf("%d sessions, %d requests in one that had ended, expected that each end was met", n, c.refused.Load())
	}
	s.returned(t)
}

// TestNoSessionForTheReturn: the sessions have ended and there is no new one
// when the gate turns red.
func TestNoSessionForTheReturn(t *testing.T) {
	t.Parallel()
	withoutSession(t, state.Running, func(c *cloud) {
		c.gate = red(func() bool { return c.writes.Load() > 0 }, c.down)
	})
}

// down ends all sessions, and there are no new ones.
func (c *cloud) down() {
	c.sts.Answer(http.StatusServiceUnavailable, "ServiceUnavailable")
	c.sts.End()
}

// withoutSession rolls out until there is no session, of which nothing is
// concluded: the state says what it said before. With sessions again the next
// call finishes the return.
func withoutSession(t *testing.T, status state.Status, arrange func(*cloud)) {
	t.Helper()
	s, c := inCloud(t, arrange)
	r := s.start("run", "--version", "2.0", "--no-wait")
	for r.wait() == 2 { // not yet
		r = s.start("run", "--version", "2.0", "--no-wait")
	}
	if code := r.wait(); code != 5 || !strings.Contains(r.err.String(), "aws: session of "+awstest.Role) {
		t.Fatalf("ended with %d, expected 5\n%s\n%s", code, &r.out, &r.err)
	}
	if r := s.start("run", "--version", "2.0", "--no-wait"); r.wait() != 5 {
		t.Errorf("while there is no session: ended with %d, expected 5\n%s", r.wait(), &r.err)
	}
	c.sts.Answer(0, "")
	doc, _ := s.status()
	if doc.Rollout.Status != status || doc.Passes[0].Share != 10 {
		t.Errorf("the state says %s with %v %%, expected %s with 10 %%", doc.Rollout.Status, doc.Passes[0].Share, status)
	}
	s.exits(1, "run", "--version", "2.0")
	s.returned(t)
}

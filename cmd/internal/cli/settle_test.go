package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/ci"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

// reviewers is a platform whose people have said something, or do not answer.
type reviewers struct {
	said []ci.Review
	err  error
}

func (p *reviewers) Identity(context.Context) (state.RunRef, error) {
	return state.RunRef{Platform: "github", Repository: "o/r", Run: "7", Attempt: 1, Actor: "alice", URL: "https://github.test/o/r/actions/runs/7"}, nil
}
func (p *reviewers) Output(map[string]string) error { return nil }
func (p *reviewers) Summary(string) error           { return nil }
func (p *reviewers) Annotate(string, string) error  { return nil }
func (p *reviewers) Mask(providers.Secret) error    { return nil }
func (p *reviewers) Ways(state.RunRef, string) ci.Ways {
	return ci.Ways{Decide: ci.Way{Do: "start the workflow manent decide", At: "https://github.test/o/r/actions/workflows/manent-decide.yml"}}
}
func (p *reviewers) Reviews(_ context.Context, run state.RunRef) ([]ci.Review, error) {
	if run.Run != "7" {
		return nil, errors.New("asked about another run")
	}
	return p.said, p.err
}

const reviewedConfig = `
project: shop
application: web
environment: prod
state: file:state
steps: [{name: copy, at: deploy, run: "true"}]
rollout:
  traffic: {steps: [10, 100]}
  approvalsBetween: ["10"]
traffic:
  router: {provider: proxy, settings: {admin: "http://127.0.0.1:9"}}
`

// waiting is a command line in a directory where a rollout of this run waits
// for approval@10, before anything was claimed.
func waiting(t *testing.T, p *reviewers) *app {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("prod.yml", []byte(reviewedConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	a := fresh(t, p)
	a.file = "prod.yml"
	cfg, err := a.load(false, true)
	if err != nil {
		t.Fatal(err)
	}
	me, _ := p.Identity(t.Context())
	save(t, a, cfg, &state.Rollout{
		ID: "r1", Version: "2.0", Owner: me, Attempt: 1, Status: state.Waiting, Started: a.now().UTC(),
		Steps: []state.Step{{Name: "approval@10", Kind: "approval", State: state.Started}},
		Pause: &state.Pause{ID: "approval@10.1", Kind: state.PauseApproval, Step: "approval@10", Reason: "approval asked for", Until: a.now().Add(time.Hour).UTC()},
	})
	return fresh(t, p)
}

func fresh(t *testing.T, p *reviewers) *app {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	a := newApp("test", func(string) string { return "" }, dir)
	a.stdin, a.stdout, a.stderr = strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}
	a.screen, a.pipeline = a.newScreen(a.stdout), p
	return a
}

func save(t *testing.T, a *app, cfg config.Config, r *state.Rollout) {
	t.Helper()
	pinned, err := cfg.Pin()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := checkpoint.Digest(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.Config, r.Digest = pinned, digest
	s, err := a.openStore(cfg.State)
	if err != nil {
		t.Fatal(err)
	}
	session := checkpoint.Open(s, cfg.Key(), a.now, checkpoint.Nonce)
	doc, err := session.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	doc.Rollout, doc.Passes = r, []state.Pass{{}}
	if err := session.Save(t.Context(), doc, "test", nil, nil); err != nil {
		t.Fatal(err)
	}
	a.close()
}

// decision returns the only decision in the state, nil for none.
func decision(t *testing.T, p *reviewers) (*state.Decision, state.Status) {
	t.Helper()
	a := fresh(t, p)
	defer a.close()
	s, err := a.openStore("file:state")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := checkpoint.Open(s, "shop/web/prod", a.now, checkpoint.Nonce).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(doc.Rollout.Decisions) == 0 {
		return nil, doc.Rollout.Status
	}
	return &doc.Rollout.Decisions[0], doc.Rollout.Status
}

// TestReviews: a reviewer's yes is recorded with the name, and nothing else is
// a yes; a no returns traffic, and no answer is neither.
func TestReviews(t *testing.T) {
	review := func(environment string, says ci.ReviewState) ci.Review {
		return ci.Review{Environment: environment, State: says, Who: "carol", Comment: "looked at it"}
	}
	approve := []string{"approve", "-c", "prod.yml", "--owner", "self", "--once", "--pause", "approval@10", "--review", "prod-approve-10"}
	settle := func(after string) []string {
		return []string{"revert", "-c", "prod.yml", "--owner", "self", "--reviews", "--after", after}
	}
	lost := &providers.Fault{Kind: providers.Unavailable, Provider: "github", Op: "reviews", Err: errors.New("503")}
	for _, row := range []struct {
		name   string
		args   []string
		said   []ci.Review
		err    error
		code   int
		verb   string // of the decision, "" for none
		who    string
		status state.Status
		says   string
	}{
		{"approved", approve, []ci.Review{review("Prod-Approve-10", ci.Approved)}, nil, exitDone, "approve", "carol", state.Waiting, ""},
		{"approved after a rejection", approve, []ci.Review{review("prod-approve-10", ci.Rejected), review("prod-approve-10", ci.Approved)}, nil, exitDone, "approve", "carol", state.Waiting, ""},
		{"approved by two", approve, []ci.Review{review("prod-approve-10", ci.Approved), {Environment: "prod-approve-10", State: ci.Approved, Who: "dave"}}, nil, exitDone, "approve", "carol, dave", state.Waiting, ""},
		{"nobody was asked", approve, nil, nil, exitPaused, "", "", state.Waiting, "it has no required reviewers"},
		{"another environment", approve, []ci.Review{review("prod-approve-50", ci.Approved)}, nil, exitPaused, "", "", state.Waiting, ""},
		{"pending", approve, []ci.Review{review("prod-approve-10", ci.Pending)}, nil, exitPaused, "", "", state.Waiting, ""},
		{"approve, no answer", approve, nil, lost, exitUnsure, "", "", state.Waiting, ""},
		{"rejected", settle("failure"), []ci.Review{review("prod-approve-10", ci.Rejected)}, nil, exitFailed, "reject", "carol", state.Returned, "rejected by carol: looked at it"},
		{"another one rejected", settle("failure"), []ci.Review{review("prod-approve-50", ci.Rejected)}, nil, exitPaused, "", "", state.Waiting, "https://github.test/o/r/actions/workflows/manent-decide.yml"},
		{"settle, no answer", settle("failure"), nil, lost, exitUnsure, "", "", state.Waiting, ""},
		{"cancelled, no answer", settle("cancelled"), nil, lost, exitFailed, "revert", "alice", state.Returned, "job was cancelled"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := &reviewers{said: row.said, err: row.err}
			code, _, stderr := called(t, waiting(t, p), row.args...)
			if code != row.code || !strings.Contains(stderr, row.says) {
				t.Errorf("ended with %d, expected %d and %q:\n%s", code, row.code, row.says, stderr)
			}
			d, status := decision(t, p)
			if status != row.status || (d == nil) != (row.verb == "") || d != nil && (d.Verb != row.verb || d.Who != row.who) {
				t.Errorf("decision %+v, rollout %s; expected %s by %s, %s", d, status, row.verb, row.who, row.status)
			}
		})
	}
}

// TestPickNoLookAlike: GitHub passes over capitals, and what looks like a name
// or is another one in Unicode's eyes is not that name.
func TestPickNoLookAlike(t *testing.T) {
	for name, taken := range map[string]bool{
		"staging-approve-10": true, "Staging-Approve-10": true,
		"\u017ftaging-approve-10": false, "staging-approve-1\u00d8": false, "staging-approve-10 ": false, "staging-approve-1": false, "": false,
	} {
		got := pick([]ci.Review{{Environment: name, State: ci.Approved, Who: "eve"}}, "staging-approve-10", ci.Approved)
		if (len(got) == 1) != taken {
			t.Errorf("%q: %v, expected %v", name, got, taken)
		}
	}
}

// TestWriteFileLeavesNothing: a directory that cannot be written to is said,
// and no half of a file stays.
func TestWriteFileLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "in-the-way"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(filepath.Join(dir, "in-the-way", "file"), "x"); err == nil {
		t.Error("a file below a file was written")
	}
	if err := writeFile(filepath.Join(dir, "a", "file"), "x"); err != nil {
		t.Fatal(err)
	}
	if names, err := filepath.Glob(filepath.Join(dir, "*", "*")); err != nil || len(names) != 1 {
		t.Errorf("%v %v, expected the file alone", names, err)
	}
}

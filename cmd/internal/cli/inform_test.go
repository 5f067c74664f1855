package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/ci"
	"github.com/manent/action/runner"
	"github.com/manent/action/state"
)

// page is a platform that keeps what it is told, or refuses all of it.
type page struct {
	reviewers
	platform    string // github without it
	refuses     error
	panics      bool
	summaries   []string
	annotations []string
	tracked     []ci.Deployment
	deadlines   []time.Duration
}

func (p *page) Identity(ctx context.Context) (state.RunRef, error) {
	me, err := p.reviewers.Identity(ctx)
	me.Platform = firstOf(p.platform, me.Platform)
	return me, err
}

func (p *page) Summary(markdown string) error {
	if p.panics {
		panic("no paper")
	}
	p.summaries = append(p.summaries, markdown)
	return p.refuses
}

func (p *page) Annotate(level, message string) error {
	p.annotations = append(p.annotations, level+" "+message)
	return p.refuses
}

func (p *page) Track(ctx context.Context, d ci.Deployment) error {
	p.tracked = append(p.tracked, d)
	if end, ok := ctx.Deadline(); ok {
		p.deadlines = append(p.deadlines, time.Until(end))
	}
	return p.refuses
}

// informed is a command line on a platform where a rollout of its own run
// waits for approval@10.
func informed(t *testing.T, p *page) *app {
	t.Helper()
	a := waiting(t, &p.reviewers)
	a.pipeline = p
	if p.platform == "" {
		return a
	}
	a.file = "prod.yml"
	cfg, err := a.load(false, true)
	if err != nil {
		t.Fatal(err)
	}
	me, _ := p.Identity(t.Context())
	r := &state.Rollout{ID: "r1", Version: "2.0", Owner: me, Attempt: 1, Status: state.Waiting, Started: a.now().UTC()}
	save(t, a, cfg, r)
	a = fresh(t, &p.reviewers)
	a.pipeline = p
	return a
}

// Every call that acts shows once how its rollout stands, says loudly what
// somebody has to do something about, and tracks the rollout.
func TestInform(t *testing.T) {
	run := []string{"run", "-c", "prod.yml", "--version", "2.0", "--no-wait"}
	approve := []string{"approve", "-c", "prod.yml", "--version", "2.0", "--pause", "approval@10"}
	for _, row := range []struct {
		name    string
		args    []string
		code    int
		summary string // "" for none
		says    []string
		tracked ci.DeploymentState // "" for not at all
	}{
		{"approved", approve, exitDone, "| approve | `approval@10.1` | alice |", nil, ci.Waiting},
		{"reverted, the router is silent", []string{"revert", "-c", "prod.yml", "--version", "2.0", "--reason", "a|b"}, exitUnsure, "a&#124;b", []string{"error could not tell: "}, ci.Failed},
		{"rejected by its return job", []string{"revert", "-c", "prod.yml", "--owner", "self", "--after", "cancelled"}, exitFailed, "version 2.0 is returned", []string{"error failed: "}, ci.Failed},
		{"held for a person", []string{"revert", "-c", "prod.yml", "--owner", "self", "--after", "failure"}, exitPaused, "Waiting for a person", []string{"warning paused: "}, ci.Waiting},
		{"an approval is open", run, exitNotYet, "`manent approve -c prod.yml --version 2.0 --pause approval@10.1`", []string{"notice not yet: approval@10: "}, ci.Waiting},
		{"another version is in the way", []string{"run", "-c", "prod.yml", "--version", "3.0", "--no-wait"}, exitConflict, "version 2.0 is waiting-approval", []string{"error conflict: "}, ""},
		{"nothing written", append(approve, "--dry-run"), exitDone, "", nil, ""},
		{"no such file", []string{"run", "-c", "none.yml", "--version", "2.0"}, exitUsage, "", []string{"error usage: "}, ""},
		{"a wrong flag", []string{"run", "-c", "prod.yml", "--versions", "2.0"}, exitUsage, "", []string{"error usage: "}, ""},
		{"no verb", []string{"rnu"}, exitUsage, "", []string{"error usage: unknown verb"}, ""},
		{"a look at nothing", []string{"status", "-c", "none.yml"}, exitUsage, "", []string{"error usage: "}, ""},
		{"a look is no act", []string{"status", "-c", "prod.yml"}, exitDone, "", nil, ""},
		{"a round", []string{"resume", "-c", "prod.yml"}, exitDone, "version 2.0 is waiting-approval", nil, ci.Waiting},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := &page{}
			code, _, stderr := called(t, informed(t, p), row.args...)
			if code != row.code {
				t.Errorf("ended with %d, expected %d:\n%s", code, row.code, stderr)
			}
			if want := min(len(row.summary), 1); len(p.summaries) != want || !strings.Contains(strings.Join(p.summaries, ""), row.summary) {
				t.Errorf("summaries are %q, expected %d with %q", p.summaries, want, row.summary)
			}
			if len(p.annotations) != len(row.says) || !strings.Contains(strings.Join(p.annotations, ""), strings.Join(row.says, "")) {
				t.Errorf("annotations are %q, expected %q", p.annotations, row.says)
			}
			var tracked ci.DeploymentState
			for _, d := range p.tracked {
				tracked += d.State
			}
			if tracked != row.tracked {
				t.Errorf("tracked is %q, expected %q", tracked, row.tracked)
			}
		})
	}
}

// The deployment names the rollout, so that any later process finds it, and
// an environment of its own.
func TestTracked(t *testing.T) {
	p := &page{}
	called(t, informed(t, p), "resume", "-c", "prod.yml")
	if len(p.tracked) != 1 || p.tracked[0].Began.IsZero() || len(p.deadlines) != 1 || p.deadlines[0] > trackLimit {
		t.Fatalf("tracked %+v within %v", p.tracked, p.deadlines)
	}
	got := p.tracked[0]
	got.Began = time.Time{}
	want := ci.Deployment{
		Rollout: "r1", Environment: "web-prod", Version: "2.0", State: ci.Waiting,
		Description: "shop/web/prod: version 2.0 is waiting-approval, waits at approval@10",
		URL:         "https://github.test/o/r/actions/runs/7",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deployment (-want +got):\n%s", diff)
	}
	for status, want := range map[state.Status]ci.DeploymentState{
		state.Running: ci.InProgress, state.Returning: ci.InProgress, state.Waiting: ci.Waiting, state.Paused: ci.Waiting,
		state.Drifted: ci.Waiting, state.Returned: ci.Failed, state.Stopped: ci.Failed, state.Completed: ci.Succeeded,
	} {
		if got := deploymentState(status); got != want {
			t.Errorf("%s is %s, expected %s", status, got, want)
		}
	}
}

// Only this repository's own rollouts are shown, by default not on GitLab.
func TestTracks(t *testing.T) {
	me := state.RunRef{Platform: "github", Repository: "o/r", Run: "7"}
	held := &runner.HeldError{Reason: "busy"}
	for _, row := range []struct {
		name, platform, variable string
		owner                    state.RunRef
		failed                   error
		want                     bool
	}{
		{"its own", "github", "", me, nil, true},
		{"of another run", "github", "", state.RunRef{Platform: "github", Repository: "o/r", Run: "6"}, nil, true},
		{"of another repository", "github", "", state.RunRef{Platform: "github", Repository: "o/s"}, nil, false},
		{"of a shell", "github", "", state.RunRef{Platform: "local", Repository: "o/r"}, nil, false},
		{"in the way", "github", "", me, held, false},
		{"failed", "github", "", me, errors.New("x"), true},
		{"turned off", "github", "0", me, nil, false},
		{"gitlab", "gitlab", "", state.RunRef{Platform: "gitlab", Repository: "o/r"}, nil, false},
		{"gitlab, turned on", "gitlab", "1", state.RunRef{Platform: "gitlab", Repository: "o/r"}, nil, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := testApp(t)
			a.getenv = func(name string) string { return map[string]string{trackVariable: row.variable}[name] }
			me := me
			me.Platform = row.platform
			if got := a.tracks(me, &state.Rollout{Owner: row.owner}, row.failed); got != row.want {
				t.Errorf("got %t, expected %t", got, row.want)
			}
			if a.tracks(me, nil, nil) {
				t.Error("no rollout is tracked")
			}
		})
	}
}

// What a platform refuses is a warning with its remedy: neither the exit code
// nor the rollout is another one for it.
func TestRefusedIsAWarning(t *testing.T) {
	p := &page{refuses: &providers.Fault{Provider: "github", Op: "deployment", Kind: providers.Denied, Err: errors.New("403"), Hint: "grant it"}}
	code, _, stderr := called(t, informed(t, p), "run", "-c", "prod.yml", "--version", "2.0", "--no-wait")
	if code != exitNotYet || strings.Count(stderr, "manent: warning: ") != 3 || strings.Count(stderr, "hint: grant it") != 3 {
		t.Errorf("ended with %d:\n%s", code, stderr)
	}
	if last := strings.LastIndex(stderr, "warning"); last > strings.Index(stderr, "manent: not yet: ") {
		t.Errorf("a warning comes after how the call ended:\n%s", stderr)
	}
	p = &page{panics: true}
	code, _, stderr = called(t, informed(t, p), "approve", "-c", "prod.yml", "--version", "2.0", "--pause", "approval@10")
	if d, _ := decision(t, &p.reviewers); code != exitDone || !strings.Contains(stderr, "warning: internal: panic: no paper") || d == nil {
		t.Errorf("ended with %d and %+v:\n%s", code, d, stderr)
	}
}

// A shell shows its messages itself; a summary goes where its variable says.
func TestInformShell(t *testing.T) {
	args := []string{"run", "-c", "prod.yml", "--version", "3.0", "--no-wait"}
	p := &page{platform: "local"}
	if code, _, _ := called(t, informed(t, p), args...); code != exitConflict || p.summaries != nil || p.annotations != nil {
		t.Errorf("ended with %d, summaries %q, annotations %q", code, p.summaries, p.annotations)
	}
	p = &page{platform: "local"}
	a := informed(t, p)
	a.getenv = func(name string) string { return map[string]string{"MANENT_SUMMARY": "summary.md"}[name] }
	if code, _, _ := called(t, a, args...); code != exitConflict || len(p.summaries) != 1 || p.annotations != nil || p.tracked != nil {
		t.Errorf("ended with %d, summaries %q, annotations %q, tracked %v", code, p.summaries, p.annotations, p.tracked)
	}
}

// After a signal there is little time, and a deployment takes too long.
func TestInformInterrupted(t *testing.T) {
	p := &page{}
	a := informed(t, p)
	defer a.close()
	a.file = "prod.yml"
	ctx, cancel := context.WithCancel(t.Context())
	p1, err := a.place(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.engine(ctx, p1); err != nil {
		t.Fatal(err)
	}
	cancel()
	a.acts = true
	if code := a.finish(ctx, "run", view{}, ctx.Err()); code != exitNotYet || len(p.summaries) != 1 || p.tracked != nil || p.annotations != nil {
		t.Errorf("%d: summaries %q, annotations %q, tracked %v", code, p.summaries, p.annotations, p.tracked)
	}
}

// A signal while the rollout is shown as a deployment, which does not answer,
// takes nothing from what the call has come to, and it ends soon.
func TestInterruptedWhileTracking(t *testing.T) {
	p := &silentPage{}
	a := informed(t, &p.page)
	a.pipeline = p
	ctx, cancel := context.WithCancel(t.Context())
	p.asked = func() {
		if len(p.summaries) != 1 || len(p.values) != 1 || p.values[0]["status"] != "waiting-approval" {
			t.Errorf("before tracking there are summaries %q and outputs %v, expected one of each", p.summaries, p.values)
		}
		cancel()
	}
	began := time.Now()
	code := a.execute(ctx, []string{"resume", "-c", "prod.yml"})
	if took := time.Since(began); took > 2*lateLimit || code != exitDone || p.asks != 1 {
		t.Errorf("ended with %d after %v, asked %d times, expected 0 within %v and once", code, took, p.asks, 2*lateLimit)
	}
}

// silentPage does not answer about deployments.
type silentPage struct {
	keeper
	asked func()
	asks  int
}

func (p *silentPage) Track(ctx context.Context, _ ci.Deployment) error {
	p.asks++
	p.asked()
	<-ctx.Done()
	return ctx.Err()
}

// One environment that cannot be read keeps nobody from seeing the others.
func TestSummaryOfWhatIsThere(t *testing.T) {
	p := &page{}
	a := informed(t, p)
	broken := filepath.Join("state", "shop", "web", "broken")
	if err := os.MkdirAll(broken, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "state.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := called(t, a, "resume", "--state", "file:state"); code != exitUnsure || len(p.summaries) != 1 || !strings.Contains(p.summaries[0], "web in prod") {
		t.Errorf("ended with %d, summaries %q:\n%s", code, p.summaries, stderr)
	}
}

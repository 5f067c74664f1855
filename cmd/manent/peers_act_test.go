//go:build peers

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/manent/action/state"
)

// byWorkflow is what the generated workflows roll out: half of the traffic, and
// then all of it, judged by the proxy's own log.
const byWorkflow = `
project: shop
application: web
environment: prod
state: git
secrets:
  - {name: key, ref: "env:SHOP_KEY"}
steps:
  - {name: copy, at: deploy, run: 'test "$SHOP_KEY" = $KEY'}
rollout:
  traffic: {steps: [50, 100], bake: 1s, maxBake: 30s, finalBake: 300ms, scaleDownDelay: 1s}
  providers:
    accesslog: {files: ["$LOG"], format: proxy}
  health:
    interval: 200ms
    metrics:
      - {name: errors, provider: accesslog, query: error_rate, max: 0.05, delay: 1ms}
traffic:
  router: {provider: proxy, settings: {admin: $ADMIN}}
`

// with is the configuration with parts of it changed, which have to be there.
func with(t *testing.T, changes ...string) string {
	t.Helper()
	configuration := byWorkflow
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(configuration, changes[i]) {
			t.Fatalf("the configuration has no %q", changes[i])
		}
		configuration = strings.Replace(configuration, changes[i], changes[i+1], 1)
	}
	return configuration
}

const (
	baked   = "bake: 1s, maxBake: 30s"
	approve = "rollout:\n  approvalsBetween: [\"50\"]\n"
)

func ofVersion(v string) map[string]string { return map[string]string{"version": v} }

// TestPeersGitHub runs the workflows that manent generate github writes in a real
// local runner, against the proxy and a Git remote, while requests are sent.
func TestPeersGitHub(t *testing.T) {
	t.Parallel()
	kit := newActKit(t)
	for _, scenario := range []struct { // the longest first
		name string
		run  func(*testing.T, *actKit)
	}{
		{"retire", actRetire},
		{"slow to stop", actSlowToStop},
		{"frozen", actFrozen},
		{"dispatch", actDispatch},
		{"lost", actLost},
		{"drift approved", actDriftApproved},
		{"drift rejected", actDriftRejected},
		{"healthy", actHealthy},
		{"broken", actBroken},
		{"approved", actApproved},
		{"approved too late", actTooLate},
		{"rejected", actRejected},
		{"expired", actExpired},
		{"cancelled", actCancelled},
		{"dispatch, in mid-bake", actAsleep},
	} {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			scenario.run(t, kit)
		})
	}
}

// A healthy version is promoted. Act itself goes through the whole workflow.
func actHealthy(t *testing.T, kit *actKit) {
	h := kit.hub(t, byWorkflow)
	visitors := h.crowd(40)
	r := h.dispatch(rolloutFile, "ada", ofVersion("2.0")).whole()
	visitors.stop().unbroken(t)
	r.ended(map[string]any{"prepare": "success", "stage-50": "success", "stage-100": "success", "return": "skipped"})
	h.ends(state.Completed, "b")
	h.shown("success")
	if owner := h.rollout().Owner; owner.Run != "101" || owner.Actor != "ada" || owner.Repository != "shop/web" {
		t.Errorf("the rollout's owner is %+v", owner)
	}
}

// A broken version is returned, and the run fails: the stage says so, nothing
// behind it runs, and the return job finds that there is nothing to do.
func actBroken(t *testing.T, kit *actKit) {
	h := kit.hub(t, byWorkflow)
	h.b.every.Store(2)
	visitors := h.crowd(40)
	r := h.dispatch(rolloutFile, "ada", ofVersion("2.0")).whole()
	seen := visitors.stop()
	r.ended(map[string]any{"prepare": "success", "stage-50": 1, "stage-100": "skipped", "return": "success"})
	h.ends(state.Returned, "a")
	h.shown("failure")
	if len(seen.Failed) > 0 || len(seen.Errors) != 1 || seen.Errors["b"] == 0 {
		t.Errorf("clients saw %+v, expected errors of b only", seen)
	}
}

// A job whose runner is lost in mid-bake holds: the return job says so and
// moves nothing. Re-run, it goes on.
func actLost(t *testing.T, kit *actKit) {
	h := kit.hub(t, with(t, baked, "bake: 5s, maxBake: 30s"))
	visitors := h.crowd(40)
	r := h.dispatch(rolloutFile, "ada", ofVersion("2.0")).play("stage-50")
	job := r.reach("stage-50", "gate@traffic@50")
	if err := syscall.Kill(-job.entry(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.end("stage-50", job)
	r.play().ended(map[string]any{"prepare": "success", "stage-50": "failure", "stage-100": "skipped", "return": 3})
	if w := h.weights(); w != "50 50" {
		t.Errorf("weights %s, expected 50 50", w)
	}
	if !strings.Contains(r.calls["return"].text, "re-run the failed jobs") {
		t.Errorf("the return job does not say what to do:\n%s", r.calls["return"].text)
	}
	r.rerun().play().ended(map[string]any{"prepare": "success", "stage-50": "success", "stage-100": "success", "return": "skipped"})
	visitors.stop().unbroken(t)
	h.ends(state.Completed, "b")
}

// A cancelled job is returned by the return job. Manent ends well before the
// runner's second signal.
func actCancelled(t *testing.T, kit *actKit) {
	h := kit.hub(t, with(t, baked, "bake: 1h"))
	visitors := h.crowd(40)
	r := h.dispatch(rolloutFile, "ada", ofVersion("2.0")).play("stage-50")
	job := r.reach("stage-50", "gate@traffic@50")
	if sent := job.cancel(job.entry()); len(sent) != 1 {
		t.Errorf("the signals %v were needed, expected the first only", sent)
	}
	r.end("stage-50", job, "cancelled")
	if code := r.codes["stage-50"]; code != 2 {
		t.Errorf("the cancelled job ended with %d, expected 2", code)
	}
	r.play().ended(map[string]any{"prepare": "success", "stage-50": "cancelled", "stage-100": "skipped", "return": 1})
	visitors.stop().unbroken(t)
	h.ends(state.Returned, "a")
	if d := h.rollout().Decisions; len(d) != 1 || d[0].Verb != "revert" || d[0].Who != "ada" {
		t.Errorf("decisions %+v, expected one to revert", d)
	}
}

// A command that hears nothing, and a state that does not answer: manent is
// still there when the runner's second signal comes, and ends at once. It leaves
// no command behind.
func actSlowToStop(t *testing.T, kit *actKit) {
	h := kit.hub(t, with(t, "steps:\n", `steps:
  - {name: warm, at: activation, rerun: safe, run: 'echo $$ >$DIR/warm.pid; trap "" INT TERM; while :; do sleep 0.2; done'}
`))
	visitors := h.crowd(40)
	r := h.dispatch(rolloutFile, "ada", ofVersion("2.0")).play("stage-100")
	job := r.reach("stage-100", "warm")
	warming := h.pid("warm.pid")
	entry := job.entry()
	closed := h.write("remote/shop/web/hooks/pre-receive", "#!/bin/sh\nwhile [ -e \"$0\" ]; do sleep 0.1; done\n")
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	sent := job.cancel(entry)
	if err := os.Remove(closed); err != nil {
		t.Fatal(err)
	}
	if len(sent) != 2 {
		t.Errorf("the signals %v were needed, expected SIGINT and SIGTERM", sent)
	}
	eventually(t, func() error {
		if err := syscall.Kill(warming, 0); err == nil {
			return fmt.Errorf("command %d is still there", warming)
		}
		return nil
	})
	r.end("stage-100", job, "cancelled")
	r.play().ended(map[string]any{"prepare": "success", "stage-50": "success", "stage-100": "cancelled", "return": 1})
	visitors.stop().unbroken(t)
	h.ends(state.Returned, "a")
}

// pid is a process that a command has written down.
func (h *gitHub) pid(name string) int {
	h.t.Helper()
	var pid int
	eventually(h.t, func() error {
		text, err := os.ReadFile(filepath.Join(h.dir, name))
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err
	})
	return pid
}

// A process that hears neither signal is killed, and the return job is none the
// worse for it.
func actFrozen(t *testing.T, kit *actKit) {
	h := kit.hub(t, with(t, baked, "bake: 1h"))
	visitors := h.crowd(40)
	r := h.dispatch(rolloutFile, "ada", ofVersion("2.0")).play("stage-50")
	job := r.reach("stage-50", "gate@traffic@50")
	entry := job.entry()
	if err := syscall.Kill(entry, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if sent := job.cancel(entry); len(sent) != 3 {
		t.Errorf("the signals %v were needed, expected all three", sent)
	}
	r.end("stage-50", job, "cancelled")
	r.play().ended(map[string]any{"prepare": "success", "stage-50": "cancelled", "stage-100": "skipped", "return": 1})
	visitors.stop().unbroken(t)
	h.ends(state.Returned, "a")
}

// The reviewer of the run is who the state says has approved.
func actApproved(t *testing.T, kit *actKit) {
	h := kit.hub(t, with(t, "rollout:\n", approve))
	visitors := h.crowd(40)
	r := h.dispatch(rolloutFile, "ada", ofVersion("2.0")).play()
	if w := h.weights(); w != "50 50" || r.due() != "approval-50" {
		t.Fatalf("weights %s, %s is next", w, r.due())
	}
	r.review("approved", "grace", "looks good").play()
	visitors.stop().unbroken(t)
	r.ended(map[string]any{"prepare": "success", "stage-50": "success", "approval-50": "success", "stage-100": "success", "return": "skipped"})
	h.ends(state.Completed, "b")
	if d := h.rollout().Decisions; len(d) != 1 || d[0].Verb != "approve" || d[0].Who != "grace" || d[0].Reason != "looks good" {
		t.Errorf("decisions %+v, expected the review", d)
	}
}

// notApproved is how the jobs of a run end whose approval is no yes.
func notApproved(approval any) map[string]any {
	return map[string]any{"prepare": "success", "stage-50": "success", "approval-50": approval, "stage-100": "skipped", "return": 1}
}

// A rejected review starts the return job, which finds who has said no.
func actRejected(t *testing.T, kit *actKit) {
	h := kit.hub(t, with(t, "rollout:\n", approve))
	visitors := h.crowd(40)
	r := h.dispatch(rolloutFile, "ada", ofVersion("2.0")).play()
	r.review("rejected", "grace", "the prices are wrong").play().ended(notApproved("failure"))
	visitors.stop().unbroken(t)
	h.ends(state.Returned, "a")
	if d := h.rollout().Decisions; len(d) != 1 || d[0].Verb != "reject" || d[0].Who != "grace" || d[0].Reason != "the prices are wrong" {
		t.Errorf("decisions %+v, expected the review", d)
	}
}

// overdue plays a run until its approval has been asked for too long.
func (h *gitHub) overdue() *workflowRun {
	h.t.Helper()
	r := h.dispatch(rolloutFile, "ada", ofVersion("2.0")).play()
	asked := h.rollout().Pause
	if asked == nil || asked.Kind != state.PauseApproval {
		h.t.Fatalf("pause %+v, expected an approval", asked)
	}
	pause(h.t.Context(), time.Until(asked.Until)) // what is waited for is this moment itself
	return r
}

// A review that nobody has given in time is a no.
func actExpired(t *testing.T, kit *actKit) {
	h := kit.hub(t, with(t, "rollout:\n", approve+"  approvalTimeout: 1s\n"))
	visitors := h.crowd(40)
	h.overdue().unanswered().play().ended(notApproved("failure"))
	visitors.stop().unbroken(t)
	h.ends(state.Returned, "a")
}

// So is a yes that comes too late.
func actTooLate(t *testing.T, kit *actKit) {
	h := kit.hub(t, with(t, "rollout:\n", approve+"  approvalTimeout: 1s\n"))
	visitors := h.crowd(40)
	h.overdue().review("approved", "grace", "sorry").play().ended(notApproved(64))
	visitors.stop().unbroken(t)
	h.ends(state.Returned, "a")
}

// drifted is a run that has found weights that manent did not write. Its return
// job leaves them alone.
func (h *gitHub) drifted() *workflowRun {
	h.t.Helper()
	r := h.dispatch(rolloutFile, "ada", ofVersion("2.0")).play("stage-100")
	h.byHand(70, 30)
	r.play().ended(map[string]any{"prepare": "success", "stage-50": "success", "stage-100": 3, "return": 3})
	if w := h.weights(); w != "70 30" {
		h.t.Errorf("weights %s, expected 70 30", w)
	}
	if !strings.Contains(r.calls["return"].text, "/actions/workflows/"+decideFile) {
		h.t.Errorf("the return job does not say where to decide:\n%s", r.calls["return"].text)
	}
	return r
}

// decide starts manent decide about the open pause.
func (h *gitHub) decide(decision string) *workflowRun {
	h.t.Helper()
	asked := h.rollout().Pause
	if asked == nil {
		h.t.Fatal("nothing is asked")
	}
	return h.dispatch(decideFile, "linus", map[string]string{
		"environment": "shop/web/prod", "decision": decision, "version": "2.0", "pause": asked.ID, "seen": asked.Seen, "reason": "it was me",
	}).play()
}

// A yes by workflow lets the re-run jobs go on.
func actDriftApproved(t *testing.T, kit *actKit) {
	h := kit.hub(t, byWorkflow)
	visitors := h.crowd(40)
	r := h.drifted()
	h.decide("approve").ended(map[string]any{"web-prod": "success"})
	r.rerun().play().ended(map[string]any{"prepare": "success", "stage-50": "success", "stage-100": "success", "return": "skipped"})
	visitors.stop().unbroken(t)
	h.ends(state.Completed, "b")
	if d := h.rollout().Decisions; len(d) != 1 || d[0].Who != "linus" || d[0].Reason != "it was me" || !strings.HasSuffix(d[0].From, "/actions/runs/102") {
		t.Errorf("decisions %+v, expected the one of run 102", d)
	}
}

// A no by workflow returns the traffic.
func actDriftRejected(t *testing.T, kit *actKit) {
	h := kit.hub(t, byWorkflow)
	visitors := h.crowd(40)
	r := h.drifted()
	h.decide("reject").ended(map[string]any{"web-prod": "success"})
	visitors.stop().unbroken(t)
	h.ends(state.Returned, "a")
	r.rerun().play().ended(map[string]any{"prepare": "success", "stage-50": "success", "stage-100": 1, "return": "success"})
	h.servesOnly("a")
}

// shown demands the last status of the rollout's only deployment.
func (h *gitHub) shown(want string) {
	h.t.Helper()
	all := h.api.Shown()
	if len(all) != 1 || all[0].Environment != "web-prod" || len(all[0].Statuses) == 0 {
		h.t.Fatalf("deployments %+v, expected one of web-prod", all)
	}
	if got, _, _ := strings.Cut(all[0].Statuses[len(all[0].Statuses)-1], ":"); got != want {
		h.t.Errorf("the deployment says %q, expected %s", all[0].Statuses, want)
	}
}

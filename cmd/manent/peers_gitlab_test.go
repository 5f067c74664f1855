//go:build peers

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/manent/action/state"
)

// A healthy version is promoted through the manual approvals of the pipelines
// as they are generated: the parent's trigger job, the child, and the parent's
// delayed job, which scales the replaced version down.
func TestPeersGitLabPromoted(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"STEPS": "25, 50, 100", "APPROVALS": `"25", "50"`})
	p.overHTTP()
	p.parent(100, "2.0").ends(codes{
		"prepare": 0, "stage-25": 0, "approval-25": 0, "stage-50": 0, "approval-50": 0, "stage-100": 0, "manent-web-prod-retire": 0,
	}, press("approval-25", "approval-50")...)
	p.servesOnly("b")
	p.shown("web-prod success")
	doc, _ := p.status()
	for i, step := range []string{"approval@25.", "approval@50."} {
		if d := doc.Rollout.Decisions[i]; !strings.HasPrefix(d.Pause, step) || d.Verb != "approve" || d.Who != "bob" {
			t.Errorf("decision %+v, expected an approval of %s by bob", d, step)
		}
	}
	if doc.Rollout.Status != state.Completed || doc.Rollout.Owner.Run != "100" {
		t.Errorf("rollout %s of run %s, expected it completed and of the parent", doc.Rollout.Status, doc.Rollout.Owner.Run)
	}
	p.retired("a\n")
	p.kept(p.repository, doc)
	for path, want := range map[string]string{
		"manent-summary.md": "version 2.0 is completed", ".gitlab-ci-reports/dotenv/manent.env": "MANENT_OUT_STATUS=completed\n",
	} {
		if text := p.artifact("stage-100", path); !strings.Contains(text, want) {
			t.Errorf("%s of the last job lacks %q:\n%s", path, want, text)
		}
	}
}

// The component with inputs makes the same pipeline around a child, which here
// has one job between two approvals.
func TestPeersGitLabComponent(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil, "--granularity", "segment")
	text, err := os.ReadFile("../../templates/rollout.yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "templates/rollout.yml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	p.write(parentFile, `
stages: [deploy]
include:
  - component: $CI_SERVER_FQDN/shop/web/rollout@$CI_COMMIT_SHA
    inputs:
      key: shop/web/prod
      environment: prod
      config: envconfig/shop/web/prod.yml
      rollout: .gitlab/manent-web-prod.rollout.yml
      image: example.test/ops/manent:1.0.0
      state: project
      name: web
`)
	p.commit()
	p.parent(100, "2.0").ends(codes{"segment-1": 0, "approval-50": 0, "segment-2": 0, "manent-web-retire": 0}, press("approval-50")...)
	p.servesOnly("b")
	p.retired("a\n")
	p.scheduled(110).ends(codes{"manent-web-resume": 0})
}

// A candidate that fails is returned by the job that watches it; if that is
// lost with the return before it, by the return job.
func TestPeersGitLabReturned(t *testing.T) {
	t.Parallel()
	t.Run("by the stage", func(t *testing.T) {
		t.Parallel()
		p := newProject(t, nil)
		p.b.every.Store(2)
		p.child(100, "2.0").ends(codes{"prepare": 0, "stage-50": 1}, press("approval-50")...)
		p.isReturned("gate@traffic@50")
		p.child(100, "2.0").ends(codes{"stage-50": 1, "return": 0}, "stage-50", "return") // a retry begins nothing
		p.isReturned("gate@traffic@50")
	})
	t.Run("by the return job", func(t *testing.T) {
		t.Parallel()
		p := newProject(t, nil)
		toll := newToll(t, p.vars["ADMIN"])
		toll.kill(2, before) // the write that returns
		p.route(toll.url)
		p.b.every.Store(2)
		run := p.child(100, "2.0").start("prepare", "stage-50", "return")
		run.prints("share 50 % in force")
		toll.victim <- &exec.Cmd{Process: p.manent()}
		run.reaches(toll.reached)
		close(toll.dead)
		run.demands(codes{"prepare": 0, "stage-50": 137, "return": 1})
		p.isReturned("gate@traffic@50")
	})
}

// A job that is lost in mid-bake holds, and its retry, which is another job of
// the same pipeline, goes on to the end.
func TestPeersGitLabRetried(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"BAKE": "5s"})
	run := p.watching(p.child(100, "2.0"), "return")
	p.end(syscall.SIGKILL)
	if said := run.demands(codes{"prepare": 0, "stage-50": 137, "return": 3}); !strings.Contains(said, "holds: its job ended without a verdict") {
		t.Errorf("the return job did not say that it holds:\n%s", said)
	}
	p.weighs(50, 50)
	p.child(100, "2.0").with("CI_JOB_RETRY_COUNT", "1").ends(
		codes{"stage-50": 0, "approval-50": 0, "stage-100": 0}, append(press("approval-50"), "stage-50", "approval-50", "stage-100")...)
	p.servesOnly("b")
	p.visitors.stop().unbroken(t)
	if doc, _ := p.status(); doc.Rollout.Status != state.Completed || doc.Rollout.Attempt != 1 {
		t.Errorf("rollout %s in attempt %d, expected it completed in its first", doc.Rollout.Status, doc.Rollout.Attempt)
	}
}

// A cancelled pipeline runs no return job: the schedule returns the traffic,
// orphanAfter after the last sign of life, whether manent got a signal or not.
func TestPeersGitLabCancelled(t *testing.T) {
	t.Parallel()
	for name, cancel := range map[string]func(p *project, run *running){
		"with a signal": func(p *project, run *running) {
			p.end(syscall.SIGTERM)
			run.demands(codes{"prepare": 0, "stage-50": 2})
		},
		"killed at once": func(p *project, run *running) {
			if err := syscall.Kill(-run.cmd.Process.Pid, syscall.SIGKILL); err != nil {
				p.t.Fatal(err)
			}
			run.wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, map[string]string{"BAKE": "30s", "ORPHAN": "4s"})
			run := p.watching(p.child(100, "2.0"))
			cancel(p, run)
			p.weighs(50, 50)
			left, _ := p.status()
			tries := 0
			eventually(t, func() error {
				tries++
				if got := p.scheduled(110 + tries).start().jobs(); got["manent-web-prod-resume"] != 1 {
					return fmt.Errorf("the schedule ended with %v, and has not returned the traffic", got)
				}
				return nil
			})
			after := p.isReturned("").Rollout.Ended.Sub(left.Written)
			if after < 4*time.Second {
				t.Errorf("returned %v after the last sign of life, expected orphanAfter, 4s, to be over", after)
			}
			t.Logf("returned %v after the last sign of life, in run %d of the schedule", after, tries)
		})
	}
}

// A person says no: the approval's job returns the traffic and fails, and
// nothing behind it runs.
func TestPeersGitLabRejected(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil)
	p.child(100, "2.0").ends(codes{"prepare": 0, "stage-50": 0}, "prepare", "stage-50")
	p.child(100, "2.0").with("DECISION", "maybe").ends(codes{"approval-50": 64, "return": 3}, append(press("approval-50"), "approval-50", "return")...)
	p.weighs(50, 50)
	p.child(100, "2.0").with("DECISION", "reject").with("GITLAB_USER_LOGIN", "carol").ends(codes{"approval-50": 1, "return": 0}, append(press("approval-50"), "approval-50", "return")...)
	doc := p.isReturned("approval@50")
	if d := doc.Rollout.Decisions[0]; d.Verb != "reject" || d.Who != "carol" {
		t.Errorf("decision %+v, expected that carol rejects", d)
	}
}

// An approval that nobody has given in time is a no, whoever comes first
// after that: somebody who presses the button too late, or the schedule.
func TestPeersGitLabExpired(t *testing.T) {
	t.Parallel()
	for name, comes := range map[string]func(p *project){
		"pressed too late": func(p *project) {
			p.child(100, "2.0").ends(codes{"approval-50": 64, "return": 1}, append(press("approval-50"), "approval-50", "return")...)
		},
		"by the schedule": func(p *project) {
			p.scheduled(110).ends(codes{"manent-web-prod-resume": 1})
			p.child(100, "2.0").ends(codes{"approval-50": 64, "return": 0}, append(press("approval-50"), "approval-50", "return")...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, map[string]string{"TIMEOUT": "3s"})
			p.child(100, "2.0").ends(codes{"prepare": 0, "stage-50": 0}, "prepare", "stage-50")
			doc, _ := p.status()
			eventually(t, func() error {
				if left := time.Until(doc.Rollout.Pause.Until); left >= 0 {
					return fmt.Errorf("the approval may be given for %v", left)
				}
				return nil
			})
			comes(p)
			p.isReturned("approval@50")
		})
	}
}

// Somebody changes the weights by hand: the job fails, the return job moves
// nothing and names the commands. A person decides with one of them in a clone,
// and the retried job goes on.
func TestPeersGitLabDrift(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"BAKE": "5s"})
	run := p.watching(p.child(100, "2.0"), "return")
	p.weigh(70, 30)
	said := run.demands(codes{"prepare": 0, "stage-50": 3, "return": 3})
	p.weighs(70, 30)
	command := regexp.MustCompile("return +> hint: .*`manent (approve [^`]+)`").FindStringSubmatch(said)
	if command == nil {
		t.Fatalf("the return job names no command to approve:\n%s", said)
	}
	words := strings.Fields(command[1])
	p.exits(0, words[0], words[1:]...)
	p.child(100, "2.0").ends(codes{"stage-50": 0, "approval-50": 0, "stage-100": 0},
		append(press("approval-50"), "stage-50", "approval-50", "stage-100")...)
	p.servesOnly("b")
}

// Two pipelines one after the other. The delayed job of the first begins while
// the second rolls out and leaves its slots alone; that of the second scales
// the replaced version down. A pipeline between them that is late is refused.
func TestPeersGitLabNextPipeline(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil)
	rest := append(press("approval-50"), "approval-50", "stage-100")
	p.child(100, "2.0").ends(codes{"prepare": 0, "stage-50": 0, "approval-50": 0, "stage-100": 0}, press("approval-50")...)
	p.child(200, "3.0").ends(codes{"prepare": 0, "stage-50": 0}, "prepare", "stage-50")
	p.parent(100, "2.0").ends(codes{"manent-web-prod-retire": 0}, "manent-web-prod-retire")
	p.retired("")
	p.weighs(50, 50)
	p.child(200, "3.0").ends(codes{"approval-50": 0, "stage-100": 0}, rest...)
	p.parent(200, "3.0").ends(codes{"manent-web-prod-retire": 0}, "manent-web-prod-retire")
	p.retired("b\n")
	p.child(150, "2.5").ends(codes{"prepare": 4, "return": 0}, "prepare", "return")     // begins too late
	p.child(100, "2.0").ends(codes{"stage-100": 4, "return": 0}, "stage-100", "return") // a retry of what is over
	p.servesOnly("a")
	p.shown("web-prod success", "web-prod success")
}

// watching runs a pipeline's jobs to the middle of the bake.
func (p *project) watching(l pipeline, more ...string) *running {
	p.t.Helper()
	run := l.start(append([]string{"prepare", "stage-50"}, more...)...)
	run.prints("stage 50%: reading 1 is ")
	return run
}

// end sends a signal to the manent of the job at work.
func (p *project) end(sig syscall.Signal) {
	p.t.Helper()
	if err := p.manent().Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// isReturned demands that the rollout has failed there and all traffic is back.
func (p *project) isReturned(step string) state.Document {
	p.t.Helper()
	p.servesOnly("a")
	p.weighs(100, 0)
	p.shown("web-prod failed")
	doc, _ := p.status()
	if r := doc.Rollout; r.Status != state.Returned || r.Failure == nil || step != "" && r.Failure.Step != step {
		p.t.Errorf("rollout %s, failure %+v, expected it returned from %s", r.Status, r.Failure, step)
	}
	return doc
}

// retired demands what the plugin was asked to scale down.
func (p *project) retired(want string) {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "retired"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.t.Fatal(err)
	}
	if string(text) != want {
		p.t.Errorf("scaled down: %q, expected %q", text, want)
	}
}

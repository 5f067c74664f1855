package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/manent/action/runner/generate"
	"github.com/manent/action/state"
)

// TestWays: in a pipeline the remedy is what to press there, then the command,
// with file and version; on the page, and as the hint of the call.
func TestWays(t *testing.T) {
	cells := 0
	const hub, lab = "https://github.test/shop/web/actions/", "https://gitlab.test/shop/web/-/pipelines/"
	for platform, rows := range map[string][]struct{ from, job, result, page, hint string }{
		"github": {
			{"prepared", "stage-10", "", "- [press Review deployments, to approve or to reject](" + hub + "runs/200)\n- [start the workflow manent decide](" + hub + "workflows/" + generate.DecideFile + ")\n- `manent reject -c prod.yml --version 2.0 --pause approval@10.1`", ""},
			{"waiting", "return", "failure", "[press Review deployments", "hint: press Review deployments, to approve or to reject, at " + hub + "runs/200; start the workflow manent decide at " + hub + "workflows/" + generate.DecideFile + "; on a command line: `manent approve -c prod.yml --version 2.0` in a job of github shop/web run 200"},
			{"drifted", "stage-100", "", "[start the workflow manent decide]", "hint: start the workflow manent decide at " + hub + "workflows/" + generate.DecideFile + "; on a command line: `manent approve -c prod.yml --version 2.0 --pause traffic@100.2 --seen "},
			{"running", "return", "failure", "[if a job has failed, re-run the failed jobs](" + hub + "runs/200)", "leave it to the workflow manent.traffic-retire, or start it at " + hub + "workflows/" + generate.RetireFile},
			{"returned", "stage-100", "", "[start the workflow again with the same version](" + hub + "workflows/manent-web-prod.yml)", "hint: start the workflow again with the same version at " + hub + "workflows/manent-web-prod.yml; on a command line: `manent retry -c prod.yml --version 2.0`"},
			{"answered", "return", "failure", "**Approved** at `approval@10` by carol at ", ""},
		},
		"gitlab": {
			{"prepared", "stage-10", "", "- [start the manual job approval-10, with the variable DECISION = reject to return all traffic](" + lab + "200)\n- `manent reject -c prod.yml --version 2.0 --pause approval@10.1`", ""},
			{"drifted", "stage-100", "", "- `manent approve -c prod.yml --version 2.0 --pause traffic@100.2 --seen ", "hint: `manent approve -c prod.yml --version 2.0 --pause traffic@100.2"},
			{"running", "return", "failure", "[if a job has failed, retry it](" + lab + "200)", "leave it to the pipeline schedule"},
			{"returned", "stage-100", "", "[run a new pipeline with the same ROLLOUT\\_ENVIRONMENT and ROLLOUT\\_VERSION](" + lab + "new)", "hint: run a new pipeline with the same ROLLOUT_ENVIRONMENT and ROLLOUT_VERSION at " + lab + "new; on a command line: `manent retry -c prod.yml --version 2.0`"},
			{"answered", "return", "failure", "**Approved** at `approval@10` by alice at ", ""},
		},
	} {
		t.Run(platform, func(t *testing.T) {
			p := newPlant(t, platform, &cells)
			all := p.moments()
			p.goTo(all["waiting"])
			p.said = "approved"
			p.must(0, owner(), "approval-10")
			p.said = ""
			all["answered"] = p.look()
			for _, row := range rows {
				p.goTo(all[row.from])
				got := p.played(owner(), row.job, row.result)
				page := got.stdout + got.stderr
				if platform == "github" {
					data, err := os.ReadFile("summary")
					if err != nil {
						t.Fatal(err)
					}
					page = string(data)
				}
				if !strings.Contains(page, row.page) {
					t.Errorf("%s of %s: the page does not say %q:\n%s", row.job, row.from, row.page, page)
				}
				if row.from == "answered" && strings.Contains(page, "counts as rejected") {
					t.Errorf("the page says that an answered question still expires:\n%s", page)
				}
				if !strings.Contains(got.stderr, row.hint) {
					t.Errorf("%s of %s does not say %q:\n%s", row.job, row.from, row.hint, got.stderr)
				}
			}
			p.goTo(all["waiting"])
			seen := p.play(owner(), job{args: []string{"status", "--config=prod.yml"}}, "", nil)
			if !strings.Contains(seen.stdout, "; a yes is given in its own run, by a job of it\n  manent reject -c prod.yml --version 2.0 --pause approval@10.1\n") || strings.Contains(seen.stdout, "manent approve") {
				t.Errorf("status shows a command that would be refused, or not where the yes is given:\n%s", seen.stdout)
			}
			// The job that a hint names is the generated one.
			r := all["waiting"].document(t).Rollout
			if name := approvalJob(r); p.job(name).name != name {
				t.Errorf("no job is called %q", name)
			}
		})
	}
}

// TestFilesHint: a job without a checkout is told how it gets one.
func TestFilesHint(t *testing.T) {
	cells := 0
	for platform, want := range map[string]string{"github": "put actions/checkout in front of this step", "gitlab": "GIT_STRATEGY must not be none"} {
		p := newPlant(t, platform, &cells)
		for file, hinted := range map[string]bool{"none.yml": true, "broken.yml": false} {
			if err := os.WriteFile("broken.yml", []byte("project: ["), 0o600); err != nil {
				t.Fatal(err)
			}
			got := p.play(owner(), job{args: []string{"run", "--config=" + file, "--version=2.0"}}, "", nil)
			if got.code != exitUsage || strings.Contains(got.stderr, want) != hinted {
				t.Errorf("%s, %s: ended with %d, expected the hint: %t\n%s", platform, file, got.code, hinted, got.stderr)
			}
		}
	}
}

// TestAboutSeveral: after several environments no hint names the version of one.
func TestAboutSeveral(t *testing.T) {
	a := testApp(t)
	see := func(key, version string) {
		a.about.see(&state.Document{Key: key, Rollout: &state.Rollout{Version: version}})
	}
	see("a/b/c", "2.0")
	if got := a.runnable("call `manent retry`"); got != "call `manent retry --version 2.0`" {
		t.Errorf("got %q", got)
	}
	see("a/b/d", "3.0")
	see("a/b/d", "3.0")
	if got := a.runnable("call `manent retry`"); got != "call `manent retry`" {
		t.Errorf("got %q", got)
	}
}

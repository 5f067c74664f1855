package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers/store"
	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

// The runs of the matrix: each rolls out a version of its own, unless a table
// says otherwise.
func older() run { return run{id: 100, number: 11, version: "1.0"} }
func owner() run { return run{id: 200, number: 12, version: "2.0"} }
func newer() run { return run{id: 300, number: 14, version: "3.0"} }

// moments plays run 200 and returns the plant in every status of its rollout.
// Those that no job can bring about by itself are written by the test.
func (p *plant) moments() map[string]moment {
	p.t.Helper()
	all := map[string]moment{"nothing": p.look()}
	after := func(status string) { all[status] = p.look() }
	p.must(0, owner(), "prepare")
	after("prepared")
	p.must(0, owner(), "stage-10")
	after("waiting")
	p.edit(func(r *state.Rollout) {
		r.Status, r.Pause = state.Paused, &state.Pause{ID: "copy.1", Step: "copy", Kind: state.PauseRerun, Reason: "it may not be run again", Since: r.Started}
	})
	after("paused")
	p.goTo(all["waiting"])
	p.said = "approved"
	p.must(0, owner(), "approval-10")
	after("approved")
	p.must(0, owner(), "stage-50")
	p.said = ""
	after("running")
	p.edit(func(r *state.Rollout) {
		r.Status, r.Ended = state.Stopped, p.now().UTC()
		r.Failure = &state.Failure{Step: "traffic@100", Reason: "onFailure is stop"}
	})
	after("stopped")
	p.goTo(all["running"])
	p.router.set(p.t, 30)
	p.must(3, owner(), "stage-100")
	after("drifted")
	p.goTo(all["running"])
	p.router.down.Store(true)
	p.person(6, "revert", "--version", "2.0", "--no-wait")
	p.router.down.Store(false)
	after("returning")
	p.goTo(all["running"])
	p.person(0, "revert", "--version", "2.0")
	after("returned")
	p.goTo(all["running"])
	p.must(0, owner(), "stage-100")
	after("completed")
	return all
}

// person calls manent in a run of its own, as manent-decide.yml does.
func (p *plant) person(code int, args ...string) end {
	p.t.Helper()
	got := p.play(run{id: 900}, job{args: append([]string{args[0], "--config=prod.yml"}, args[1:]...)}, "", nil)
	if got.code != code {
		p.t.Fatalf("%v ended with %d, expected %d: %s", args, got.code, code, got.stderr)
	}
	return got
}

// edit writes the rollout past all rules.
func (p *plant) edit(change func(*state.Rollout)) {
	p.t.Helper()
	var s store.Store = p.store.Again()
	session := checkpoint.Open(s, matrixKey, p.now, checkpoint.Nonce)
	doc, err := session.Load(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	change(doc.Rollout)
	if err := session.Save(p.t.Context(), doc, "test", nil, nil); err != nil {
		p.t.Fatal(err)
	}
}

// column is a way to play a job: GitHub's approval finds what people have said
// in the run, and a return job how the others have ended.
type column struct{ job, said, result string }

func plays() map[string]column {
	return map[string]column{
		"prepare": {job: "prepare"}, "stage-10": {job: "stage-10"}, "stage-50": {job: "stage-50"}, "stage-100": {job: "stage-100"},
		"approve":   {job: "approval-10", said: "approved"},
		"unasked":   {job: "approval-10"},                                 // github: the job was let through
		"reject":    {job: "reject"},                                      // gitlab: DECISION=reject
		"failed":    {job: "return", result: "failure"},                   // a job has failed
		"rejected":  {job: "return", said: "rejected", result: "failure"}, // github: so has the approval
		"cancelled": {job: "return", result: "cancelled"},                 // github
	}
}

// onlyOn are plays that one platform has.
func onlyOn() map[string]string {
	return map[string]string{"unasked": "github", "rejected": "github", "cancelled": "github", "reject": "gitlab"}
}

// cell plays a job in a moment and demands how it ends: "4" is a code and
// nothing moved or changed, "0~" the rollout goes on without the router, "1>0"
// the router ends with that share.
func (p *plant) cell(name string, m moment, r run, in, want string) end {
	p.t.Helper()
	if only := onlyOn()[in]; only != "" && only != p.platform {
		return end{}
	}
	if *p.cells++; *p.cells%stride != 0 {
		return end{}
	}
	c := plays()[in]
	p.goTo(m)
	p.said = c.said
	got := p.played(r, c.job, c.result)
	p.said = ""
	now := p.look()
	found := fmt.Sprint(got.code)
	switch {
	case p.router.writes.Load() > 0 || now.share != m.share:
		found += fmt.Sprintf(">%v", now.share)
	case now.told() != m.told():
		found += "~"
	}
	if found != want {
		p.t.Errorf("%s, %s of run %d: %s, expected %s: %s", name, in, r.id, found, want, got.stderr)
	}
	if lacks := got.lacks(m.holder(p.t)); lacks != "" {
		p.t.Errorf("%s, %s of run %d ended with %d and does not say %q: %s", name, in, r.id, got.code, lacks, got.stderr)
	}
	return got
}

// lacks is what an ending has to say and does not: what it is, what to do, and
// of a conflict whose run has the environment.
func (e end) lacks(holder string) string {
	for _, says := range map[bool][]string{true: nil, false: {"manent: " + word(e.code) + ": ", "\nhint: "}}[e.code == 0] {
		if !strings.Contains(e.stderr, says) {
			return says
		}
	}
	if e.code == exitConflict && !strings.Contains(e.stderr, holder) {
		return holder
	}
	return ""
}

// holder is the page of the run that has the environment.
func (m moment) holder(t *testing.T) string {
	t.Helper()
	if m.doc == nil || m.document(t).Rollout == nil {
		return "nobody has it"
	}
	return m.document(t).Rollout.Owner.URL
}

// told is what the state says of rollouts, without who wrote it when.
func (m moment) told() string {
	var doc map[string]any
	if json.Unmarshal(m.doc, &doc) != nil {
		return ""
	}
	for _, key := range []string{"seq", "nonce", "written", "note"} {
		delete(doc, key)
	}
	if r, ok := doc["rollout"].(map[string]any); ok {
		delete(r["owner"].(map[string]any), "attempt")
	}
	data, _ := json.Marshal(doc)
	return string(data)
}

// rows plays a table: a line of columns, then one line for each status.
func (p *plant) rows(name string, all map[string]moment, r run, table string) {
	p.t.Helper()
	lines := strings.Split(strings.TrimSpace(table), "\n")
	heads := strings.Fields(lines[0])
	for _, line := range lines[1:] {
		words := strings.Fields(line)
		m, ok := all[words[0]]
		if !ok || len(words) != len(heads) {
			p.t.Fatalf("row %q does not fit %q", line, lines[0])
		}
		for i, want := range words[1:] {
			p.cell(name+", "+words[0], m, r, heads[i+1], want)
		}
	}
}

// TestMatrix: nothing moves that should not, whichever job of whichever run
// comes when. The plants of both platforms are real but for the platform.
func TestMatrix(t *testing.T) {
	cells := 0
	for _, platform := range []string{"github", "gitlab"} {
		t.Run(platform, func(t *testing.T) {
			p := newPlant(t, platform, &cells)
			all := p.moments()
			for _, table := range []struct {
				name string
				play func(map[string]moment)
			}{
				{"again", p.again}, {"strangers", p.strangers}, {"newer releases", p.newerReleases}, {"returns", p.returns},
				{"stale approvals", p.staleApprovals}, {"passed by", p.passedBy}, {"attempts", p.attempts}, {"begins", p.begins}, {"ways back", p.waysBack}, {"replaced", p.replaced}, {"superseded", p.superseded},
			} {
				t.Run(table.name, func(t *testing.T) {
					began, before := time.Now(), cells
					defer func(above *testing.T) { p.t = above }(p.t)
					p.t = t
					table.play(all)
					t.Logf("%d cells in %v", cells-before, time.Since(began).Round(time.Millisecond))
				})
			}
		})
	}
	t.Logf("%d cells enumerated, 1 in %d of the tables played", cells, stride)
}

// again: the jobs of the run that has the rollout, run again: what is done is
// not done again, and what has ended is said again.
func (p *plant) again(all map[string]moment) {
	r := owner()
	r.attempt = 2
	p.rows("again", all, r, `
when      prepare stage-10 approve unasked reject stage-50 stage-100 failed rejected cancelled
nothing   0~      0>10     64      64      64     2>10     2>10      0      0        0
prepared  0       0>10     64      3       64     2>10     2>10      3      3        1~
waiting   0       0        0~      3       0>0    2        2         3      1>0      1>0
paused    0       3        64      3       64     3        3         3      3        3
approved  0       0~       0       3       0>0    0>50     0>100     3      1>0      1>0
running   0       0        0       3       64     0        0>100     3      3        1>0
drifted   0       0        0       3       64     0        3         3      3        3
returning 1>0     1>0      0       3       64     1>0      1>0       1>0    1>0      1>0
returned  1       1        0       3       64     1        1         0      0        0
stopped   1       1        0       3       64     1        1         1      1        1
completed 0       0        0       3       64     0        0         0      0        0
`)
}

// strangers: the jobs of runs that do not have the rollout.
func (p *plant) strangers(all map[string]moment) {
	active := []string{"prepared", "waiting", "paused", "approved", "running", "drifted", "returning"}
	ended := []string{"returned", "stopped", "completed"}
	same := func(r run) run { r.version = owner().version; return r }
	held := "4 4 4 4 4 4 4 0 0 0"
	for _, status := range append(active, ended...) {
		p.row("older", status, all, older(), held)
		p.row("older, same version", status, all, same(older()), held)
	}
	for _, status := range active {
		p.row("newer", status, all, newer(), held)
		p.row("newer, same version", status, all, same(newer()), held)
	}
	// What has ended holds nothing: a newer run begins, and pauses where a
	// stopped one has left both slots with traffic.
	p.row("newer", "returned", all, newer(), "0~ 0>10 4 4 4 2>10 2>10 0 0 0")
	p.row("newer, same version", "returned", all, same(newer()), "0~ 0>10 4 4 4 2>10 2>10 0 0 0") // what is done in place of a retry
	p.row("newer", "stopped", all, newer(), "3~ 3~ 4 4 4 3~ 3~ 0 0 0")
	p.row("newer", "completed", all, newer(), "0~ 0>90 4 4 4 2>90 2>90 0 0 0")
	p.row("newer, same version", "completed", all, same(newer()), "0 0 4 4 4 0 0 0 0 0")

	// onNewVersion: supersede lets a newer run return the rollout first, and
	// nobody else.
	p.configure("rollout:", "rollout:\n  onNewVersion: supersede")
	for _, status := range active {
		p.row("supersede, older", status, all, older(), held)
		p.row("supersede, newer, same version", status, all, same(newer()), held)
		share := map[bool]string{true: "0~", false: "0>0"}[status == "prepared"]
		p.row("supersede, newer", status, all, newer(), share+" 0>10 4 4 4 2>10 2>10 0 0 0")
	}
	p.configure()
}

// row plays all jobs in one moment.
func (p *plant) row(name, status string, all map[string]moment, r run, codes string) {
	p.t.Helper()
	p.rows(name, all, r, "when prepare stage-10 approve unasked reject stage-50 stage-100 failed rejected cancelled\n"+status+" "+codes)
}

// newerReleases: an old run is run again when a newer one has released since,
// whatever became of both.
func (p *plant) newerReleases(all map[string]moment) {
	again := owner()
	again.attempt = 2
	for _, old := range []string{"returned", "completed"} {
		p.goTo(all[old])
		p.must(0, newer(), "prepare")
		after := map[string]moment{"prepared": p.look()}
		p.must(0, newer(), "stage-10")
		after["waiting"] = p.look()
		p.said = "approved"
		p.must(0, newer(), "approval-10")
		p.said = ""
		p.must(0, newer(), "stage-50")
		after["running"] = p.look()
		p.must(0, newer(), "stage-100")
		after["completed"] = p.look()
		p.goTo(after["running"])
		p.person(0, "revert", "--version", "3.0")
		after["returned"] = p.look()
		for status := range after {
			p.row(old+", then 3.0", status, after, again, "4 4 4 4 4 4 4 0 0 0")
		}
	}
}

// returns: the job "return" by what it sees, as design and `revert --help` have it.
func (p *plant) returns(all map[string]moment) {
	with := func(from string, change func(*state.Rollout)) moment {
		p.goTo(all[from])
		p.edit(change)
		return p.look()
	}
	first := with("running", func(r *state.Rollout) { r.First = true })
	driven := with("running", func(r *state.Rollout) { r.Resume = true })
	p.configure("rollout:", "rollout:\n  onCancel: hold")
	p.goTo(all["nothing"])
	p.must(0, owner(), "prepare")
	p.must(0, owner(), "stage-10")
	hold := p.look()
	p.configure()
	for _, row := range []struct {
		sees       string
		from       moment
		in         string
		ahead      time.Duration
		want, says string
	}{
		{"no rollout at all", all["nothing"], "failed", 0, "0", "this run has no rollout in shop/web/prod, nothing to do"},
		{"no rollout at all, cancelled", all["nothing"], "cancelled", 0, "0", "this run has no rollout in shop/web/prod, nothing to do"},
		{"returned already", all["returned"], "failed", 0, "0", "version 2.0 is returned already, nothing to do"},
		{"returned already, cancelled", all["returned"], "cancelled", 0, "0", "version 2.0 is returned already, nothing to do"},
		{"on its way back", all["returning"], "failed", 0, "1>0", "all traffic is at slot a"},
		{"on its way back, cancelled", all["returning"], "cancelled", 0, "1>0", "all traffic is at slot a"},
		{"cancelled", all["running"], "cancelled", 0, "1>0", "the pipeline's job was cancelled"},
		{"cancelled while a person is asked", all["waiting"], "cancelled", 0, "1>0", "the pipeline's job was cancelled"},
		{"cancelled, onCancel: hold", hold, "cancelled", 0, "3", "onCancel is hold"},
		{"cancelled, first release", first, "cancelled", 0, "3", "a first release has no stable version to return to"},
		{"cancelled in a drift", all["drifted"], "cancelled", 0, "3", "drift"},
		{"cancelled in a pause", all["paused"], "cancelled", 0, "3", "it may not be run again"},
		{"ended without a verdict", all["running"], "failed", 0, "3", "in the same run goes on, "},
		{"approval rejected", all["waiting"], "rejected", 0, "1>0", "rejected by carol: looked"},
		{"approval rejected, onCancel: hold", hold, "rejected", 0, "1>0", "rejected by carol: looked"},
		{"approval expired", all["waiting"], "failed", 31 * 24 * time.Hour, "1>0", "all traffic is at slot a"},
		{"approval open", all["waiting"], "failed", 0, "3", "approval@10.1"},
		{"drift", all["drifted"], "failed", 0, "3", "--seen"},
		{"drift, rejected before", all["drifted"], "rejected", 0, "3", "--seen"},
		{"pause", all["paused"], "failed", 0, "3", "--pause copy.1"},
		{"driven by resume", driven, "failed", 0, "2", "goes on with `manent resume"},
		{"stopped", all["stopped"], "failed", 0, "1", "onFailure is stop"},
		{"serves", all["completed"], "failed", 0, "0", "version 2.0 serves"},
		{"serves, cancelled", all["completed"], "cancelled", 0, "0", "version 2.0 serves"},
	} {
		p.ahead = row.ahead
		said := p.cell(row.sees, row.from, owner(), row.in, row.want)
		p.ahead = 0
		if !strings.Contains(said.stdout+said.stderr, row.says) && said != (end{}) {
			p.t.Errorf("%s: does not say %q: %s%s", row.sees, row.says, said.stdout, said.stderr)
		}
	}
}

// staleApprovals: a yes that is about something else than the open question is
// refused, whoever gives it, and nothing changes.
func (p *plant) staleApprovals(all map[string]moment) {
	p.goTo(all["waiting"])
	p.person(0, "revert", "--version", "2.0")
	rejected := p.look()
	p.person(0, "retry", "--version", "2.0", "--until", "approval@10")
	retried := p.look()
	p.goTo(all["completed"])
	p.must(0, newer(), "prepare")
	p.must(0, newer(), "stage-10")
	next := p.look()
	p.goTo(rejected)
	p.person(0, "run", "--version", "2.0", "--until", "approval@10")
	anew := p.look()
	old := all["waiting"].document(p.t).Rollout.ID
	approve := func(flags string) job { return job{args: strings.Fields("approve --config=prod.yml " + flags)} }
	theirs := p.job("approval-10")
	for _, row := range []struct {
		name string
		from moment
		job  job
		late time.Duration
		code int
		says string
	}{
		{"job, the rollout was retried by a person", retried, theirs, 0, 4, "run 200 is not the current one"},
		{"job, the rollout was returned", rejected, theirs, 0, 64, "waits for no decision, it is returned"},
		{"job, another version asks", next, theirs, 0, 4, "version 2.0 is not the current one"},
		{"job, another question is open", all["paused"], theirs, 0, 64, "is not open, \"copy.1\" is"},
		{"job, too late", all["waiting"], theirs, 31 * 24 * time.Hour, 64, "the time to answer"},
		{"job, before it is asked", all["prepared"], theirs, 0, 64, "waits for no decision, it is running"},
		{"person, attempt of before", retried, approve("--version 2.0 --attempt 1 --pause approval@10.1"), 0, 4, "attempt 1 is not the current one"},
		{"person, rollout of before", retried, approve("--rollout " + old + " --pause approval@10.1"), 0, 4, "rollout " + old + " is not the current one"},
		{"person, version of before", next, approve("--version 2.0 --pause approval@10"), 0, 4, "version 2.0 is not the current one"},
		{"person, run of before", next, approve("--owner 200 --pause approval@10"), 0, 4, "run 200 is not the current one"},
		{"person, pause of before", all["paused"], approve("--version 2.0 --pause approval@10.1"), 0, 64, "is not open, \"copy.1\" is"},
		{"person, pause of before the retry", retried, approve("--version 2.0 --pause approval@10.1"), 0, 64, "is not open, \"approval@10.2\" is"},
		{"person, pause of the same version's first rollout", anew, approve("--version 2.0 --pause approval@10.1"), 0, 64, "is not open, \"approval@10.2\" is"},
		{"job, the same version was rolled out again", anew, theirs, 0, 4, "run 200 is not the current one"},
		{"person, it is given in its own run", all["waiting"], approve("--version 2.0 --pause approval@10"), 0, 64, "is given in the run that asks for it"},
		{"person, the same by the id of the pause", all["waiting"], approve("--version 2.0 --pause approval@10.1"), 0, 64, "is given in the run that asks for it"},
		{"person, pause to come", all["waiting"], approve("--version 2.0 --pause approval@10.2"), 0, 64, "is not open, \"approval@10.1\" is"},
		{"person, answered", all["approved"], approve("--version 2.0 --pause approval@10"), 0, 64, "was answered by "},
		{"person, given and gone on", all["running"], approve("--version 2.0 --pause approval@10"), 0, 64, "waits for no decision, it is running"},
		{"person, on its way back", all["returning"], approve("--version 2.0 --pause approval@10"), 0, 64, "waits for no decision, it is returning"},
		{"person, returned", all["returned"], approve("--version 2.0 --pause approval@10"), 0, 64, "waits for no decision, it is returned"},
		{"person, serves", all["completed"], approve("--version 2.0 --pause approval@10"), 0, 64, "waits for no decision, it is completed"},
		{"person, too late", all["waiting"], approve("--version 2.0 --pause approval@10"), 31 * 24 * time.Hour, 64, "the time to answer"},
		{"person, other weights", all["drifted"], approve("--version 2.0 --pause traffic@100.2 --seen 0123456789ab"), 0, 64, "names weights"},
		{"person, no weights", all["drifted"], approve("--version 2.0 --pause traffic@100.2"), 0, 64, "names weights"},
	} {
		if *p.cells++; *p.cells%stride != 0 {
			continue
		}
		p.goTo(row.from)
		p.said, p.ahead = "approved", row.late
		who := owner()
		if row.job.name == "" {
			who = run{id: 900}
		}
		got := p.play(who, row.job, "", nil)
		p.said, p.ahead = "", 0
		now := p.look()
		if got.code != row.code || !strings.Contains(got.stderr, row.says) {
			p.t.Errorf("%s: ended with %d, expected %d and %q: %s", row.name, got.code, row.code, row.says, got.stderr)
		}
		if now.told() != row.from.told() || p.router.writes.Load() > 0 {
			p.t.Errorf("%s: something moved", row.name)
		}
	}
}

// superseded: a newer run has taken the place of one that waited in the queue
// and never started. GitHub's run numbers show that there was one, so that the
// newer run can record it; started again, it is an older run.
func (p *plant) superseded(all map[string]moment) {
	waited := run{id: 250, number: 13, version: "2.5"}
	p.goTo(all["completed"])
	p.must(0, newer(), "prepare")
	p.must(0, newer(), "stage-10")
	after := map[string]moment{"waiting": p.look()}
	want := map[string]string{"github": "run #13", "gitlab": ""}[p.platform]
	if got := after["waiting"].document(p.t).Rollout.Passed; got != want {
		p.t.Errorf("recorded as superseded: %q, expected %q", got, want)
	}
	p.row("superseded", "waiting", after, waited, "4 4 4 4 4 4 4 0 0 0")
	*p.cells++
	if said := p.person(0, "activity"); strings.Contains(said.stdout, "; superseded: run #13") != (want != "") {
		p.t.Errorf("activity: %s", said.stdout)
	}
}

package cli

import (
	"fmt"
	"strings"

	"github.com/manent/action/providers/store/memory"
	"github.com/manent/action/state"
)

// player is one of two who play at once.
type player struct {
	run    run
	job    job
	result string
}

// race plays two jobs at once. The first stops in front of its k-th call of
// the store until the second is in front of its j-th, or has ended; then the
// first goes on to its end. It reports which of both points were there.
func (p *plant) race(a, b player, k, j int) (ofA, ofB end, atK, atJ bool) {
	stopped, on, over := make(chan bool, 1), make(chan struct{}), make(chan end, 1)
	calls := 0
	go func() {
		ofA := p.play(a.run, a.job, a.result, func(string, string) memory.Fault {
			if calls++; calls == k {
				stopped <- true
				<-on
			}
			return memory.None
		})
		select {
		case stopped <- false:
		default:
		}
		over <- ofA
	}()
	if atK = <-stopped; !atK {
		return <-over, end{}, false, false
	}
	seen := 0
	ofB = p.play(b.run, b.job, b.result, func(string, string) memory.Fault {
		if seen++; seen == j {
			atJ = true
			close(on)
			ofA = <-over
		}
		return memory.None
	})
	if !atJ {
		close(on)
		ofA = <-over
	}
	return ofA, ofB, true, atJ
}

// orders plays every order of two jobs in which each is interrupted once;
// the second only at every few calls.
func (p *plant) orders(from moment, a, b player, every int, check func(where string, ofA, ofB end, now moment)) {
	for k := 1; ; k += (stride + 2) / 3 {
		for j := 1 + k%stride; ; j += every * stride {
			p.goTo(from)
			ofA, ofB, atK, atJ := p.race(a, b, k, j)
			if !atK {
				return
			}
			*p.cells++
			check(fmt.Sprintf("%s of run %d before call %d, then call %d", a.job.name, a.run.id, k, j), ofA, ofB, p.look())
			if !atJ {
				break
			}
		}
	}
}

// begins: two runs race for the environment. One gets it, and the other one
// says whose it is.
func (p *plant) begins(all map[string]moment) {
	prepare := p.job("prepare")
	for _, pair := range [][2]run{{owner(), newer()}, {newer(), owner()}} {
		a, b := player{run: pair[0], job: prepare}, player{run: pair[1], job: prepare}
		p.orders(all["nothing"], a, b, 1, func(where string, ofA, ofB end, now moment) {
			won, lost := ofA, ofB
			r := now.document(p.t).Rollout
			if r.Owner.Run == fmt.Sprint(b.run.id) {
				won, lost = ofB, ofA
			}
			if won.code != 0 || lost.code != 4 || !strings.Contains(lost.stderr, r.Owner.URL) {
				p.t.Errorf("%s: run %s has it: %d and %d, expected 0 and 4: %s%s", where, r.Owner.Run, ofA.code, ofB.code, ofA.stderr, ofB.stderr)
			}
			if d := now.document(p.t); len(d.History) > 0 || now.share != 0 || r.Step("traffic:prepare").Tries > 1 {
				p.t.Errorf("%s: share %v, history %v, tries %d", where, now.share, d.History, r.Step("traffic:prepare").Tries)
			}
		})
	}
}

// waysBack: whoever brings traffic back, twice or at once, it comes back once
// and each says so.
func (p *plant) waysBack(all map[string]moment) {
	way, from := player{owner(), p.job("return"), "cancelled"}, all["running"]
	if p.platform == "gitlab" { // has no job that acts on a cancel
		way, from = player{owner(), p.job("reject"), ""}, all["waiting"]
	}
	resume := player{run{id: 900}, job{name: "resume", args: []string{"resume", "--config=prod.yml"}}, ""}
	for _, pair := range [][2]player{{way, resume}, {resume, way}, {way, way}} {
		p.orders(from, pair[0], pair[1], 4, func(where string, ofA, ofB end, now moment) {
			r := now.document(p.t).Rollout
			if r.Status != state.Returned || now.share != 0 {
				p.t.Errorf("%s: %s, share %v: %s%s", where, r.Status, now.share, ofA.stderr, ofB.stderr)
			}
			for _, e := range []end{ofA, ofB} {
				late := way.job.name == "reject" && e.code == 64 && strings.Contains(e.stderr, "waits for no decision, it is return") // a second no
				if e.code != 0 && e.code != 1 && !late {
					p.t.Errorf("%s: %d: %s", where, e.code, e.stderr)
				}
			}
		})
	}
}

// replaced: a return job that comes so late that the environment is another
// run's touches nothing of it.
func (p *plant) replaced(all map[string]moment) {
	if p.platform == "gitlab" {
		return
	}
	way := player{owner(), p.job("return"), "cancelled"}
	for k := 1; ; k++ {
		p.goTo(all["running"])
		var taken moment
		calls := 0
		got := p.play(way.run, way.job, way.result, func(string, string) memory.Fault {
			if calls++; calls == k {
				p.person(0, "revert", "--version", "2.0")
				p.must(0, newer(), "prepare")
				p.must(0, newer(), "stage-10")
				taken = p.look()
			}
			return memory.None
		})
		if calls < k {
			return
		}
		*p.cells++
		now := p.look()
		if now.told() != taken.told() || now.share != taken.share {
			p.t.Errorf("before call %d: run 300's rollout was touched: share %v, expected %v", k, now.share, taken.share)
		}
		if e := got.lacks(now.holder(p.t)); e != "" || !strings.Contains("0 1 4", fmt.Sprint(got.code)) {
			p.t.Errorf("before call %d: %d, which does not say %q: %s", k, got.code, e, got.stderr)
		}
	}
}

// passedBy: a yes that somebody has given past the reviewers, of a rollout that
// takes it, is none to the job behind the review; nor does anything else go on.
func (p *plant) passedBy(all map[string]moment) {
	p.goTo(all["waiting"])
	p.edit(func(r *state.Rollout) { delete(r.Step("approval@10").Receipt, "answer") })
	p.person(0, "approve", "--version", "2.0", "--pause", "approval@10", "--who", "ada")
	given := map[string]moment{"answered": p.look()}
	p.must(0, owner(), "stage-10")
	given["opened"] = p.look()
	review := map[string]string{"github": "0~ 3", "gitlab": "0 0"}[p.platform]
	p.rows("passed by", given, owner(), "when approve unasked\nanswered "+review+"\nopened "+review)
	for name, m := range given {
		p.goTo(m)
		p.person(0, "resume")
		if now := p.look(); now.share != m.share || p.router.writes.Load() > 0 {
			p.t.Errorf("%s: resume went on, to share %v", name, now.share)
		}
		*p.cells++
		if p.platform == "github" { // where the platform itself asks
			p.confirmed(name, m)
		}
	}
}

// confirmed: the reviewers' yes is recorded beside the other one, once, and
// counts.
func (p *plant) confirmed(name string, m moment) {
	p.goTo(m)
	p.said = "approved"
	p.must(0, owner(), "approval-10")
	p.must(0, owner(), "approval-10")
	p.must(0, owner(), "stage-50")
	p.said = ""
	*p.cells++
	r := p.look().document(p.t).Rollout
	if by := r.Step("approval@10").Receipt["approved"]; by != "carol" || len(r.Decisions) != 2 || r.Decisions[0].Who != "ada" || r.Decisions[1].Who != "carol" {
		p.t.Errorf("%s: approved by %q, decisions %+v, expected ada's and carol's, and carol's to count", name, by, r.Decisions)
	}
}

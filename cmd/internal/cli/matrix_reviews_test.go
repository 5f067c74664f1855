package cli

import (
	"fmt"
	"strings"
)

// attempts: GitHub lists the reviews of all attempts of a run. The last word
// counts: neither is a no of before a yes an answer, nor a yes of before a no.
func (p *plant) attempts(all map[string]moment) {
	if p.platform == "gitlab" { // where a job's own script records a no
		return
	}
	type turn struct{ said, job, want string }
	for _, row := range []struct {
		name  string
		turns []turn
	}{
		{"a no, then a yes", []turn{{"no yes", "approval-10", "0~"}, {"no yes", "approval-10", "0"}, {"no yes", "return", "3"}, {"no yes", "stage-50", "0>50"}}},
		{"and a no again", []turn{{"no yes", "approval-10", "0~"}, {"no yes no", "return", "1>0"}, {"no yes no", "approval-10", "3"}}},
		{"a yes, then a no", []turn{{"yes no", "approval-10", "3"}, {"yes no", "return", "1>0"}}},
		{"a yes that was taken, then a no", []turn{{"approved", "approval-10", "0~"}, {"yes no", "approval-10", "3"}, {"yes no", "return", "1>0"}}},
		{"and a yes by the same", []turn{{"approved", "approval-10", "0~"}, {"yes no yes", "approval-10", "0~"}, {"yes no yes", "return", "3"}, {"yes no yes", "stage-50", "0>50"}}},
		{"a no that nobody has taken, and no job that says yes", []turn{{"no yes", "return", "1>0"}}},
	} {
		p.goTo(all["waiting"])
		for i, turn := range row.turns {
			before := p.look()
			p.router.writes.Store(0)
			p.said = turn.said
			r := owner()
			r.attempt = i + 1
			got := p.played(r, turn.job, "failure")
			p.said = ""
			*p.cells++
			now := p.look()
			found := fmt.Sprint(got.code)
			switch {
			case p.router.writes.Load() > 0 || now.share != before.share:
				found += fmt.Sprintf(">%v", now.share)
			case now.told() != before.told():
				found += "~"
			}
			if found != turn.want || got.code == 3 && turn.job == "approval-10" && !strings.Contains(got.stderr, "is a no, by carol") {
				p.t.Errorf("%s, turn %d, %s: %s, expected %s: %s", row.name, i+1, turn.job, found, turn.want, got.stderr)
			}
		}
	}
}

package generate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/plan"
)

// setup is what a job is reckoned with beside its waits: start of the runner's
// job, checkout, the binary, the state, and the steps that act.
const setup = 30 * time.Second

// TestGeneratedMinutes counts what a rollout costs in runner minutes and keeps
// docs/runner-minutes.md what the generated jobs say.
func TestGeneratedMinutes(t *testing.T) {
	env := read(t, "canary", func(c *config.Config) { c.Rollout.Traffic.Testers = nil })
	approvals, wait := 0, 8*time.Hour
	var bakes time.Duration
	for _, s := range env.Plan.Steps {
		if s.Approval {
			approvals++
		} else {
			bakes += s.Wait.Std()
		}
	}
	if approvals != 2 || bakes != 40*time.Minute || len(env.Config.Rollout.Traffic.Steps) != 5 {
		t.Fatalf("%d approvals, %s of bakes, shares %v", approvals, bakes, env.Config.Rollout.Traffic.Steps)
	}
	lasts := bakes + 2*wait
	var b strings.Builder
	b.WriteString(minutesHead)
	row := func(mode string, jobs int, own int64, every time.Duration) {
		sweeps := int64(lasts / every)
		fmt.Fprintf(&b, "| %s | %d | %d | %d, every %s | %d |\n", mode, jobs, own, sweeps, config.Duration(every), own+sweeps)
	}
	for _, granularity := range []string{PerSegment, PerStage, PerStep} {
		jobs, own := cost(env.Plan, granularity)
		if all, err := Jobs(env.Plan, granularity, 330*time.Minute); err != nil || len(all) != jobs {
			t.Fatalf("%s: %d jobs counted, %d generated (%v)", granularity, jobs, len(all), err)
		}
		row("environments, `--granularity "+granularity+"`", jobs, own, 15*time.Minute)
	}
	row("dispatch", 1+approvals, int64(1+approvals), 5*time.Minute)
	fmt.Fprintf(&b, "| for comparison: one job that waits for all of it | 1 | %d | – | %d |\n", minutes(lasts+setup), minutes(lasts+setup))
	b.WriteString(minutesTail)
	golden(t, "../../docs/runner-minutes.md", b.String())
}

// cost counts the jobs of a plan and their minutes, each rounded up.
func cost(p plan.Plan, granularity string) (jobs int, billed int64) {
	for _, steps := range group(p.Steps, granularity) {
		took := setup
		for _, s := range steps {
			if !s.Approval {
				took += s.Wait.Std()
			}
		}
		jobs++
		billed += minutes(took)
	}
	return jobs, billed
}

const minutesHead = `# Runner minutes

Generated from the code; do not edit.

What one rollout costs on GitHub: shares 1, 5, 25, 50 and 100 %, a bake of 10
minutes after each but the last, two approvals that are answered after 8 hours,
16 hours and 40 minutes in all. A job is reckoned with its bakes and 30 s for
checkout, binary, state and the steps that act, and is billed in whole minutes.
Nobody waits for an approval on a runner. The schedule is that of
manent.traffic-retire, one minute a run and environment, whether a rollout is on
its way or not.

| mode | jobs | minutes of the jobs | runs of the schedule meanwhile | minutes in all |
|---|---|---|---|---|
`

const minutesTail = `
The bakes are the larger part of what a rollout itself costs, and no job waits
for anything else. Mode dispatch waits on no runner at all, and pays with its
schedule: 12 minutes an hour, against 60 of an hour's bake and 4 of the other
mode's schedule. It is the cheaper one with long bakes, not with short bakes and
long approvals.

The schedule runs between rollouts, too: every 15 minutes is 96 minutes a day for
each environment, every 5 minutes 288. On a public repository and on runners of
your own that costs nothing; else ` + "`--schedule`" + ` makes it rarer. What a
rarer schedule delays: scaling down the replaced version, readings while an
approval is waited for, the return of a rollout that nobody drives, and in mode
dispatch every step.

GitLab bills what a job really takes. The jobs are the same, a manual job costs
nothing while it waits, and the delayed job scales down, so that the schedule is
for the rest only.
`

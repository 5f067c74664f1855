package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/manent/action/runner/config"
)

// warnings are the sentences under the plan: what a person should know before
// the rollout, beyond what validate has to say about the file.
func (b *builder) warnings() []string {
	all := []string{}
	for _, w := range []string{
		b.noDeploy(), b.raceWindow(), b.ungated(), b.firstRelease(), b.sticky(), b.weightsStay(), b.durations(), b.falseAlarm(),
	} {
		if w != "" {
			all = append(all, w)
		}
	}
	return all
}

func (b *builder) falseAlarm() string {
	_, sentence := FalseAlarm(b.cfg, b.cat)
	return sentence
}

func (b *builder) noDeploy() string {
	if b.cfg.Plugin.Name != "" {
		return ""
	}
	for _, c := range b.cfg.Steps {
		if c.At == "deploy" {
			return ""
		}
	}
	return "nothing deploys the new version: name a plugin, or a step with `at: deploy`; run stops at config"
}

func (b *builder) raceWindow() string {
	name, traits, ok := b.cat.RouterOf(b.cfg)
	if b.cfg.Rollout.Strategy != "traffic" || !ok || traits.Conditional {
		return ""
	}
	return fmt.Sprintf("router %s cannot refuse a write based on old weights: weights are read, compared, written and read again, and a change by somebody else in between is overwritten", name)
}

func (b *builder) ungated() string {
	var stages []string
	for _, s := range b.plan.Steps {
		// the same shares in every pass
		if name := StageName("", s.Share); s.Kind == Gate && s.Ungated && !slices.Contains(stages, name) {
			stages = append(stages, name)
		}
	}
	switch len(stages) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("stage %s is ungated: no metric, probe or alarm judges it", stages[0])
	}
	return fmt.Sprintf("stages %s are ungated: no metric, probe or alarm judges them", strings.Join(stages, ", "))
}

func (b *builder) firstRelease() string {
	if b.cfg.Rollout.Strategy != "traffic" {
		return ""
	}
	return "on a first release, which is what the router says and not the state, the candidate gets all traffic at once: no testers, no shares in between, no comparison; a failure then leaves it in place"
}

func (b *builder) sticky() string {
	pinned, delay := b.cat.PinnedFor(b.cfg), b.cfg.Rollout.Traffic.ScaleDownDelay.Std()
	switch {
	case b.cfg.Rollout.Strategy != "traffic" || pinned == 0:
		return ""
	case pinned > delay:
		return fmt.Sprintf("clients stay on their slot for %s: a return is not instant for them, and the replaced version is retired after %s, not after scaleDownDelay %s",
			config.Duration(pinned), config.Duration(pinned), config.Duration(delay))
	}
	return fmt.Sprintf("clients stay on their slot for %s: a return is not instant for them", config.Duration(pinned))
}

func (b *builder) weightsStay() string {
	if b.cfg.Rollout.Strategy != "traffic" || b.cfg.Rollout.OnFailure != "stop" {
		return ""
	}
	return "onFailure: stop leaves the weights where they are: a bad version keeps its share until somebody calls `manent revert`"
}

// durations says how long the job may have to run.
func (b *builder) durations() string {
	approvals := 0
	for _, s := range b.plan.Steps {
		if s.Approval {
			approvals++
		}
	}
	text := fmt.Sprintf("bakes take %s; with all timeouts used up the steps with a known limit take %s", b.plan.Watch, b.plan.Longest)
	switch approvals {
	case 0:
	case 1:
		text += fmt.Sprintf(", and the approval up to %s more", b.cfg.Rollout.ApprovalTimeout)
	default:
		text += fmt.Sprintf(", and each of %d approvals up to %s more", approvals, b.cfg.Rollout.ApprovalTimeout)
	}
	return text + ": a job that waits needs a time limit above that"
}

package runner

import (
	"context"

	"github.com/manent/action/runner/plan"
)

// Kind is one row of the table of step kinds.
type Kind struct {
	Kind    plan.Kind
	Does    string // one line, for the documentation
	Undo    string // what undoes it
	Acts    bool   // it changes the world: intent first, under the lease
	perform func(context.Context, *call) (result, error)
}

// Kinds is the table of all step kinds: the only place that ties a kind to
// what it does. Adding a kind is a row here and a file step_<kind>.go.
func Kinds() []Kind {
	return []Kind{
		{plan.Config, "validates, looks at every provider before any traffic moves, pins the configuration", "nothing to undo", false, stepConfig},
		{plan.Secrets, "resolves every secret once", "nothing to undo", false, stepSecrets},
		{plan.Command, "runs a command of the user", "the user's own", true, stepCommand},
		{plan.Prepare, "reads who serves, claims the free slot for the candidate, cancels its pending retirement", "the slot is free again with the return", false, stepPrepare},
		{plan.Deploy, "puts the candidate into the free slot, without traffic", "the candidate is scaled down after the return", true, stepDeploy},
		{plan.Testers, "sends the testers' requests to the candidate", "traffic:revert takes the testers' entry away", true, stepTesters},
		{plan.Traffic, "drift check, capacity, weights, in force at the data plane, read back", "traffic:revert sets all traffic to stable", true, stepTraffic},
		{plan.Gate, "watches the stage: readings until its bake is over", "nothing to undo", false, stepGate},
		{plan.Approval, "waits for a person, then for one fresh green reading", "nothing to undo", false, stepApproval},
		{plan.Promote, "makes the candidate the serving version, takes the testers' entry away", "traffic:revert makes stable the serving version again", true, stepPromote},
		{plan.Revert, "all traffic back to stable, read back; testers off; the candidate's scale-down is set", "nothing: it is the way back", true, stepRevert},
		{plan.Retire, "scales down the replaced version, if all its conditions hold", "nothing", true, stepRetire},
		{plan.Drain, "takes a batch out of the load balancer", "restore", true, stepAbsent},
		{plan.DrainWait, "waits for connections to end", "nothing to undo", false, stepAbsent},
		{plan.Restore, "puts a batch back into service", "drain", true, stepAbsent},
		{plan.RestoreWait, "waits until the load balancer sees the batch healthy", "nothing to undo", false, stepAbsent},
	}
}

// kindOf returns the row of a kind.
func kindOf(k plan.Kind) Kind {
	for _, row := range Kinds() {
		if row.Kind == k {
			return row
		}
	}
	return Kind{Kind: k, perform: stepAbsent}
}

// stepAbsent refuses a kind that this build cannot do. validate refuses such
// a plan before; this is for a rollout begun by another build.
func stepAbsent(_ context.Context, c *call) (result, error) {
	return failed("not in this build", "use a build that has step kind "+string(c.step.Kind)), nil
}

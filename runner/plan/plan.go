// Package plan turns a configuration into the ordered list of steps that
// manent plan prints and that runner, generators, report and docs range over;
// it also owns the names of steps. It is pure: no I/O, no clock. It must not
// know how a step is done or what a provider is.
package plan

import (
	"github.com/manent/action/runner/config"
)

// Kind is what sort of step it is.
type Kind string

// The kinds, in the order in which a pass meets them.
const (
	Config      Kind = "config"
	Secrets     Kind = "secrets"
	Command     Kind = "command" // the user's own
	Prepare     Kind = "prepare"
	Deploy      Kind = "deploy"
	Testers     Kind = "testers"
	Gate        Kind = "gate"
	Approval    Kind = "approval"
	Traffic     Kind = "traffic"
	Promote     Kind = "promote"
	Drain       Kind = "drain"
	DrainWait   Kind = "drain-wait"
	Restore     Kind = "restore"
	RestoreWait Kind = "restore-wait"
	Revert      Kind = "revert" // only as a record: the way back
	Retire      Kind = "retire" // only as a record: later, outside the queue
)

// Plan is the ordered list.
type Plan struct {
	Strategy string          `json:"strategy"`
	Passes   []Pass          `json:"passes"`
	Steps    []Step          `json:"steps"`
	Watch    config.Duration `json:"watch"`    // all bakes together
	Longest  config.Duration `json:"longest"`  // longest duration the configuration allows, approvals left out
	Warnings []string        `json:"warnings"` // of Warned
}

// Pass is one independently routed part; its name is "" without waves.
type Pass struct {
	Name    string          `json:"name"`
	Wave    string          `json:"wave,omitempty"`
	Region  string          `json:"region,omitempty"` // value of the label region, for freezes
	Cluster string          `json:"cluster,omitempty"`
	Targets []config.Target `json:"targets,omitempty"`
}

// Step is one row of the plan.
type Step struct {
	Name     string          `json:"name"`
	Kind     Kind            `json:"kind"`
	Pass     string          `json:"pass"`
	Stage    string          `json:"stage"`              // "25%", with waves "eu/25%"
	Share    float64         `json:"share"`              // candidate's percent once the step is done
	Wait     config.Duration `json:"wait,omitempty"`     // bake, or how long an approval may take
	Longest  config.Duration `json:"longest,omitempty"`  // longest duration the configuration allows
	Approval bool            `json:"approval,omitempty"` // a person is asked
	Undo     string          `json:"undo,omitempty"`     // what undoes it, in words
	Ungated  bool            `json:"ungated,omitempty"`  // a gate that evaluates nothing
	Command  string          `json:"command,omitempty"`  // name of the user's own command; deploy may have several, with commas
	Batch    int             `json:"batch,omitempty"`    // counted from 0
	Hosts    []string        `json:"hosts,omitempty"`    // targets of the batch
}

// Name is a step's name in parts; String and ParseName are inverse.
type Name struct {
	Kind    Kind
	Share   float64 // traffic, gate, approval
	Pass    string
	Wave    string // approval@<wave>
	Command string // the user's own step
	Number  int    // gate@traffic@25#3; 0 = none
	InBatch bool   // it has a batch: deploy@canary#0 is not deploy@canary
	Batch   int    // drain@canary#0
	Retry   int    // drain@canary#0.1; 0 = none
}

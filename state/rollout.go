package state

import (
	"encoding/json"
	"time"
)

// Status is where a rollout is.
type Status string

// The statuses. Active ones hold the environment, without expiry.
const (
	Running   Status = "running"          // steps are due or waited for
	Waiting   Status = "waiting-approval" // a planned approval is open
	Drifted   Status = "paused-drift"     // the router's weights are not manent's
	Paused    Status = "paused"           // a decision the plan did not foresee
	Returning Status = "returning"        // traffic is on its way back to stable
	Returned  Status = "returned"         // all traffic is back, read at the router
	Stopped   Status = "stopped"          // failed; weights left as configured
	Completed Status = "completed"        // this version serves
)

// Terminal reports whether the rollout no longer holds its environment.
func (s Status) Terminal() bool { return s == Returned || s == Stopped || s == Completed }

// Rollout is one version on its way.
type Rollout struct {
	ID         string     `json:"id"`
	Version    string     `json:"version"`
	Owner      RunRef     `json:"owner"`
	Attempt    int        `json:"attempt"` // of the rollout: 1, and one more with each retry
	Status     Status     `json:"status"`
	Started    time.Time  `json:"started"`
	Ended      time.Time  `json:"ended,omitzero"`
	First      bool       `json:"first,omitempty"`   // no version served before
	Config     RawConfig  `json:"config"`            // pinned at the config step, without secrets
	Digest     string     `json:"digest"`            // of the pinned configuration
	Resume     bool       `json:"resume,omitempty"`  // driven by `manent resume` (wait: resume)
	Stages     []Stage    `json:"stages,omitempty"`  // one per share and pass, in order
	Steps      []Step     `json:"steps,omitempty"`   // records, in order of their first start
	Pause      *Pause     `json:"pause,omitempty"`   // what is waited for
	Return     *Return    `json:"return,omitempty"`  // why and how far
	Failure    *Failure   `json:"failure,omitempty"` // what went wrong first
	Decisions  []Decision `json:"decisions,omitempty"`
	Superseded string     `json:"superseded,omitempty"` // version that replaced it
	Passed     string     `json:"passed,omitempty"`     // earlier runs of its workflow that began nothing here and cannot any more
}

// Stage is one share of the plan with its bake, gate and approval.
type Stage struct {
	Name       string          `json:"name"` // "25%", with waves "eu/25%"
	Pass       string          `json:"pass,omitempty"`
	Share      float64         `json:"share"`              // as planned, percent
	Achieved   float64         `json:"achieved,omitempty"` // as the router can, percent
	Status     string          `json:"status"`             // see StageStatus
	InForce    time.Time       `json:"inForce,omitzero"`   // the share was seen in force
	Ended      time.Time       `json:"ended,omitzero"`
	Score      *float64        `json:"score,omitempty"`     // of the last reading, 0–100
	Red        int             `json:"red,omitempty"`       // red readings so far
	FirstError time.Time       `json:"firstError,omitzero"` // first of the present run of readings in error
	Readings   []Reading       `json:"readings,omitempty"`  // newest last, at most ReadingLimit
	Count      int             `json:"count,omitempty"`     // all readings taken
	Memory     json.RawMessage `json:"memory,omitempty"`    // what a sequential analysis carries over
}

// Stage statuses.
const (
	StagePending = "pending"
	StageBaking  = "baking"
	StagePassed  = "passed"
	StageUngated = "ungated" // its gate evaluated nothing: shown, never called passed
	StageFailed  = "failed"
)

// ReadingLimit bounds the summaries kept in a stage; the raw readings are
// side objects.
const ReadingLimit = 20

// Reading is the summary of one evaluation of a gate.
type Reading struct {
	N       int       `json:"n"`
	At      time.Time `json:"at"`
	Verdict string    `json:"verdict"` // green, red, thin, error, void, ungated
	Score   *float64  `json:"score,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Object  string    `json:"object,omitempty"` // name of the side object
	Digest  string    `json:"digest,omitempty"` // sha256 of it
}

// StepState is how far a step got.
type StepState string

// Step states. A step found Started is entered again.
const (
	Started StepState = "started"
	Done    StepState = "done"
	Skipped StepState = "skipped"
	Failed  StepState = "failed"
)

// Step is the record of one step.
type Step struct {
	Name    string    `json:"name"` // traffic@25@eu
	Kind    string    `json:"kind"`
	Pass    string    `json:"pass,omitempty"`
	State   StepState `json:"state"`
	Tries   int       `json:"tries"` // times it was started or entered again
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended,omitzero"`
	Due     time.Time `json:"due,omitzero"`      // not before, for a wait
	Message string    `json:"message,omitempty"` // what was read, decided and why
	Intent  *Intent   `json:"intent,omitempty"`
	Receipt Receipt   `json:"receipt,omitempty"`
	ID      string    `json:"id,omitempty"` // stable MANENT_STEP_ID of a command
}

// Intent is what a step is about to write to a router, part by part. A write
// found unfinished is one where every part is its From or its To.
type Intent struct {
	From    []PartWeights `json:"from,omitempty"`
	To      []PartWeights `json:"to,omitempty"`
	Share   float64       `json:"share"`             // achieved share of To
	Testers *bool         `json:"testers,omitempty"` // wanted state of the testers' entry
}

// Pause is what a person is asked.
type Pause struct {
	ID        string        `json:"id"`   // unique in the environment
	Kind      string        `json:"kind"` // see the pause kinds
	Step      string        `json:"step"`
	Since     time.Time     `json:"since"`
	Until     time.Time     `json:"until,omitzero"` // a planned approval expires then
	Reason    string        `json:"reason"`
	Weights   []PartWeights `json:"weights,omitempty"` // seen, for a drift
	Seen      string        `json:"seen,omitempty"`    // short digest of Weights, to be named in the decision
	Returning bool          `json:"returning,omitempty"`
}

// Pause kinds.
const (
	PauseApproval = "approval" // planned
	PauseDrift    = "drift"    // weights are not manent's
	PauseBusy     = "busy"     // the free slot is not free
	PauseRerun    = "rerun"    // a command that may not be run again was interrupted
	PauseOrphan   = "orphan"   // nobody drives the rollout
)

// Decision is a person's word, appended by compare-and-set.
type Decision struct {
	Verb    string    `json:"verb"`            // approve, reject, revert
	Pause   string    `json:"pause,omitempty"` // id of the pause it answers; "" for revert
	Attempt int       `json:"attempt"`
	Seen    string    `json:"seen,omitempty"` // digest of the weights a drift decision names
	Who     string    `json:"who"`
	From    string    `json:"from"` // where: run URL or host
	At      time.Time `json:"at"`
	Reason  string    `json:"reason,omitempty"`
	Applied bool      `json:"applied,omitempty"` // the engine has acted on it
}

// Failure is why the rollout did not go on.
type Failure struct {
	Step   string    `json:"step"`
	Reason string    `json:"reason"`
	Remedy string    `json:"remedy,omitempty"`
	At     time.Time `json:"at"`
}

// Return is the way back.
type Return struct {
	Reason  string    `json:"reason"`
	Since   time.Time `json:"since"`
	Passes  []string  `json:"passes"`            // still to be returned, in order
	Pending []string  `json:"pending,omitempty"` // parts that are not back yet, and why
	Tries   int       `json:"tries,omitempty"`
	Then    string    `json:"then,omitempty"` // version that supersedes this one
}

// Step returns the record of the named step, nil when it has none.
func (r *Rollout) Step(name string) *Step {
	for i := range r.Steps {
		if r.Steps[i].Name == name {
			return &r.Steps[i]
		}
	}
	return nil
}

// Stage returns the named stage, nil when there is none.
func (r *Rollout) Stage(name string) *Stage {
	for i := range r.Stages {
		if r.Stages[i].Name == name {
			return &r.Stages[i]
		}
	}
	return nil
}

// Pass returns the named pass, nil when there is none.
func (d *Document) Pass(name string) *Pass {
	for i := range d.Passes {
		if d.Passes[i].Name == name {
			return &d.Passes[i]
		}
	}
	return nil
}

// Active reports whether a rollout holds the environment.
func (d *Document) Active() bool { return d.Rollout != nil && !d.Rollout.Status.Terminal() }

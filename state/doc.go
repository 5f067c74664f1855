// Package state is the rollout document: what one environment's rollouts were
// told, did and saw, as data. Every call of manent reads it, does one step and
// writes it back; nothing else is remembered between calls.
//
// It imports the standard library only. It must not know where it is stored
// (state/checkpoint), how it is decided upon (runner) or what a provider is.
// It holds no secrets.
package state

import (
	"encoding/json"
	"time"
)

// Schema is the version of the document this build writes.
const Schema = 1

// Document is everything stored for one environment.
type Document struct {
	Schema  int       `json:"schema"`            // version of this format
	Key     string    `json:"key"`               // project/application/environment
	Seq     uint64    `json:"seq"`               // grows by one with every write
	Nonce   string    `json:"nonce"`             // of the process that wrote it, new for each write
	Written time.Time `json:"written"`           // by the writer's clock
	Note    string    `json:"note,omitempty"`    // what this write recorded; the commit message in Git
	Passes  []Pass    `json:"passes,omitempty"`  // what serves, per pass; outlives rollouts
	Rollout *Rollout  `json:"rollout,omitempty"` // the active or the last rollout
	History []Past    `json:"history,omitempty"` // ended rollouts, newest first, at most HistoryLimit
	Newest  RunRef    `json:"newest,omitzero"`   // newest pipeline run that started a rollout here
	Pauses  int       `json:"pauses,omitempty"`  // asked so far, of all rollouts: no id of a pause comes twice
	Lease   *Lease    `json:"lease,omitempty"`   // the process that works right now
}

// HistoryLimit bounds History, and with it the side objects kept.
const HistoryLimit = 10

// Pass is one independently routed part of the environment: the whole of it
// without waves, else an element of a wave.
type Pass struct {
	Name       string        `json:"name"`                 // "" without waves
	Serving    Slot          `json:"serving,omitempty"`    // slot that serves; "" before the first release
	Slots      Slots         `json:"slots"`                // what is in each slot
	Weights    []PartWeights `json:"weights,omitempty"`    // last written by manent, in the router's own units
	Share      float64       `json:"share"`                // percent of traffic for the candidate slot
	Testers    bool          `json:"testers,omitempty"`    // testers are routed to the candidate
	Promoted   bool          `json:"promoted,omitempty"`   // the candidate of the last rollout was promoted
	Retired    bool          `json:"retired,omitempty"`    // the version it replaced was scaled down: no way back by weights
	Drained    []string      `json:"drained,omitempty"`    // members out of the load balancer
	Unsettled  time.Time     `json:"unsettled,omitzero"`   // until then a call to the router whose answer was lost may still land
	Off        time.Time     `json:"off,omitzero"`         // since when the weights are seen not in force any more
	Before     *Slots        `json:"before,omitempty"`     // what was in the slots when a return began that undoes a promotion
	Half       *Intent       `json:"half,omitempty"`       // write of weights that the last rollout left undone: some units may be as it wanted
	Retirement *Retirement   `json:"retirement,omitempty"` // scale-down that is still to come
}

// Retirement is the delayed scale-down of a replaced version.
type Retirement struct {
	Slot    Slot      `json:"slot"`
	Version string    `json:"version"`         // only if the slot still holds this version
	Ref     Ref       `json:"ref,omitempty"`   // and this reference
	Rollout string    `json:"rollout"`         // the rollout that replaced it
	Due     time.Time `json:"due"`             // not before
	Reason  string    `json:"reason,omitzero"` // why it has not happened although due
}

// Slot is one of the two places a version can be in.
type Slot string

// The slots.
const (
	SlotA Slot = "a"
	SlotB Slot = "b"
)

// Other returns the other slot; "" for "".
func (s Slot) Other() Slot {
	switch s {
	case SlotA:
		return SlotB
	case SlotB:
		return SlotA
	}
	return ""
}

// Ref is how a provider finds a release again (revision, host name, …).
type Ref map[string]string

// Release is a version and where its provider put it.
type Release struct {
	Version string `json:"version"`
	Ref     Ref    `json:"ref,omitempty"`
}

// RefRollout is the key in a candidate's Ref that manent itself sets: the
// rollout's id, constant within a rollout and new for each (a router's salt).
const RefRollout = "manent-rollout"

// Slots is what is in each slot. Candidate is the slot of the rollout's new
// version; "" when no rollout has claimed one.
type Slots struct {
	A         Release `json:"a,omitzero"`
	B         Release `json:"b,omitzero"`
	Candidate Slot    `json:"candidate,omitempty"`
}

// Get returns the release in a slot.
func (s Slots) Get(slot Slot) Release {
	if slot == SlotB {
		return s.B
	}
	return s.A
}

// With returns a copy with another release in the slot.
func (s Slots) With(slot Slot, r Release) Slots {
	if slot == SlotB {
		s.B = r
	} else {
		s.A = r
	}
	return s
}

// PartWeights are the weights of one part of a router (instance, rule,
// listener), keyed by the unit's name, in the router's own units. They are
// compared exactly, never recomputed from a percentage.
type PartWeights struct {
	ID      string             `json:"id"`
	Weights map[string]float64 `json:"weights"`
}

// Receipt is what a provider needs to be told again about a call it made.
type Receipt map[string]string

// RunRef says which pipeline run, and in what order of runs.
type RunRef struct {
	Platform   string `json:"platform,omitempty"`   // github, gitlab, local
	Repository string `json:"repository,omitempty"` // owner/name or path
	Run        string `json:"run,omitempty"`        // run id, the same for all attempts
	Order      int64  `json:"order,omitempty"`      // grows with each run of one repository; 0 = unordered
	Attempt    int    `json:"attempt,omitempty"`    // 1 and up
	Workflow   string `json:"workflow,omitempty"`   // the file that the run is one of
	Number     int64  `json:"number,omitempty"`     // of the run among those of its workflow, without gaps; 0 = unknown
	URL        string `json:"url,omitempty"`
	Actor      string `json:"actor,omitempty"` // who started it
}

// Same reports whether both are the same run, whatever the attempt.
func (r RunRef) Same(o RunRef) bool {
	return r.Platform == o.Platform && r.Repository == o.Repository && r.Run == o.Run
}

// OlderThan reports whether r is known to be an earlier run than o.
func (r RunRef) OlderThan(o RunRef) bool {
	return r.Platform == o.Platform && r.Repository == o.Repository &&
		r.Order != 0 && o.Order != 0 && r.Order < o.Order
}

// Between returns the numbers of the runs of one workflow that came after o
// and before r; last is less than first for none, or when it is not known.
func (r RunRef) Between(o RunRef) (first, last int64) {
	if r.Platform != o.Platform || r.Repository != o.Repository || r.Workflow == "" || r.Workflow != o.Workflow || o.Number == 0 || r.Number == 0 {
		return 1, 0
	}
	return o.Number + 1, r.Number - 1
}

// Lease is the right of one process to act, for as long as it works. It ends
// with the write that records the outcome. Another process takes it over when
// the record has not changed for 30 s of that other process's own clock.
type Lease struct {
	ID    string    `json:"id"`    // nonce of the process
	Owner RunRef    `json:"owner"` // whose process
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	Step  string    `json:"step,omitempty"` // what it does
	Since time.Time `json:"since"`          // by its own clock, to be shown only
	Beat  int       `json:"beat"`           // grows while a long call goes on
}

// Past is an ended rollout in the history.
type Past struct {
	ID       string    `json:"id"`
	Version  string    `json:"version"`
	Status   Status    `json:"status"`
	Attempt  int       `json:"attempt"`
	Owner    RunRef    `json:"owner,omitzero"`
	Started  time.Time `json:"started"`
	Ended    time.Time `json:"ended"`
	Replaced string    `json:"replaced,omitempty"` // version that served before
	Reason   string    `json:"reason,omitempty"`
	Readings int       `json:"readings,omitempty"` // side objects stored for it
}

// RawConfig is the pinned configuration, as JSON. State does not look inside.
type RawConfig = json.RawMessage

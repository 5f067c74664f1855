// Package external is the protocol between manent and a plugin that is a
// program of its own: the documents they exchange (Request, Answer), their JSON
// Schema, and a client that starts the program once for each request.
//
// It must not know what the requests are for, nor any contract.
package external

import (
	"encoding/json"
	"time"
)

// Protocol is the version of the protocol that this build speaks.
const Protocol = 1

// Capabilities that a program may have.
const (
	Deploys = "deploy"         // puts a version into a slot
	Slots   = "slots"          // tells whether a slot is ready for a share
	Scales  = "scale"          // changes a slot's capacity
	Routes  = "traffic_router" // splits the traffic between the slots
	Pools   = "pool"           // takes members out of a load balancer and back
	Metrics = "metrics"        // answers queries
)

// Capabilities lists them all.
func Capabilities() []string { return []string{Deploys, Slots, Scales, Routes, Pools, Metrics} }

// Request is what the program reads from its standard input.
type Request struct {
	Protocol int               `json:"protocol" help:"version of the protocol, 1"`
	ID       string            `json:"id" help:"new for each request; the answer repeats it"`
	Request  string            `json:"request" help:"what is asked"`
	Settings map[string]string `json:"settings,omitempty" help:"the setting settings, as configured"`
	Secrets  map[string]string `json:"secrets,omitempty" help:"the values of the setting secrets, if secrets_in is request"`
	Targets  []Target          `json:"targets,omitempty" help:"the environment's targets"`
	Params   any               `json:"params" help:"depends on the request"`
}

// Answer is what the program writes to its standard output: one of result and
// error, and nothing before or after it.
type Answer struct {
	Protocol int             `json:"protocol" help:"1"`
	ID       string          `json:"id" help:"that of the request"`
	Result   json.RawMessage `json:"result,omitempty" help:"depends on the request"`
	Error    *Error          `json:"error,omitempty" help:"why there is no result"`
}

// Error is a program's no, or its word that it cannot tell.
type Error struct {
	Kind       string `json:"kind" help:"what it means, see below" enum:"kind"`
	Message    string `json:"message" help:"what happened, in one line, with the value; at most 1000 characters are kept"`
	Hint       string `json:"hint,omitempty" help:"what to do"`
	RetryAfter string `json:"retryAfter,omitempty" help:"not before this time from now, such as 30s; at most 1h" format:"duration"`
	Drift      *Drift `json:"drift,omitempty" help:"with kind conflict of the request write: what was found"`
}

// Drift is the part that was not as expected.
type Drift struct {
	Part string  `json:"part" help:"its id"`
	Seen Weights `json:"seen" help:"its weights now"`
}

// Weights of a part, by unit, in the router's own units.
type Weights map[string]float64

// Target is one server of the environment.
type Target struct {
	Host   string            `json:"host" help:"as configured"`
	Port   int               `json:"port,omitempty" help:"of the application"`
	Labels map[string]string `json:"labels,omitempty" help:"as configured"`
}

// None is a document without anything in it.
type None struct{}

// Description is the result of describe.
type Description struct {
	Name         string   `json:"name" help:"of the program, for messages"`
	Protocols    []int    `json:"protocols" help:"versions of the protocol it speaks"`
	Capabilities []string `json:"capabilities" help:"what it can do" enum:"capability"`
	Traits       Traits   `json:"traits" help:"of its router; {} without one"`
}

// Traits are what a program's router is like.
type Traits struct {
	Unit        string  `json:"unit,omitempty" help:"what a weight is: percent, unless it plans"`
	Step        float64 `json:"step,omitempty" help:"smallest difference between two shares, percentage points"`
	Conditional bool    `json:"conditional,omitempty" help:"write itself compares with expect, so that no change in between is lost; else manent reads and compares before it"`
	Testers     string  `json:"testers,omitempty" help:"it can send testers to one slot, by a header or by an address of its own" enum:"testers"`
	Plans       bool    `json:"plans,omitempty" help:"it answers plan, since its weights are no percentages"`
	PinnedFor   string  `json:"pinnedFor,omitempty" help:"clients stay this long on their slot after it has lost its weight" format:"duration"`
}

// Release is a version and where it is.
type Release struct {
	Version string            `json:"version" help:"empty in a slot of which nothing is known"`
	Ref     map[string]string `json:"ref,omitempty" help:"what deploy returned for it, and manent-rollout"`
}

// SlotState are the slots as manent knows them.
type SlotState struct {
	A         Release `json:"a" help:"what is in slot a"`
	B         Release `json:"b" help:"what is in slot b"`
	Candidate string  `json:"candidate,omitempty" help:"the slot of the new version" enum:"slot"`
}

// SlotParams are those of deploy and retire.
type SlotParams struct {
	Slot    string            `json:"slot" help:"which slot" enum:"slot"`
	Release Release           `json:"release" help:"what is to be in it, or is"`
	Step    string            `json:"step" help:"id of the step, the same when it is entered again after a crash"`
	Vars    map[string]string `json:"vars,omitempty" help:"the variables MANENT_…, also in the environment"`
	Gradual bool              `json:"gradual,omitempty" help:"the slot's capacity follows its share by scale: deploy may begin with the least, and ready is asked for no more than the share; missing or false: deploy brings all of it"`
}

// ShareParams are those of ready and scale.
type ShareParams struct {
	SlotParams
	Share float64 `json:"share" help:"percent of the traffic that the slot is to have capacity for"`
}

// DeployResult is the result of deploy.
type DeployResult struct {
	Ref map[string]string `json:"ref" help:"how to find the version again; added to the release's; at most 32 entries of 1024 bytes"`
}

// ReadyResult is the result of ready.
type ReadyResult struct {
	Ready  bool   `json:"ready" help:"there is capacity for the share"`
	Reason string `json:"reason,omitempty" help:"why not yet; required if it is not ready"`
}

// ReadParams are those of read.
type ReadParams struct {
	Slots SlotState `json:"slots" help:"what is known to be in the slots"`
}

// Part is one independently written part of a router.
type Part struct {
	ID       string             `json:"id" help:"its name, the same each time"`
	Weights  Weights            `json:"weights,omitempty" help:"in the router's own units; required without error"`
	Shares   map[string]float64 `json:"shares,omitempty" help:"percent of all the traffic that slots a and b really get; required without error"`
	Units    map[string]int     `json:"units,omitempty" help:"servers that are up, by slot; leave it out if nobody knows"`
	Revision string             `json:"revision,omitempty" help:"the system's own version of it"`
	Pending  bool               `json:"pending,omitempty" help:"accepted, not yet in force"`
	Foreign  map[string]float64 `json:"foreign,omitempty" help:"weight held by entries that are not manent's"`
	By       string             `json:"by,omitempty" help:"who changed it last"`
	Error    *Error             `json:"error,omitempty" help:"this part could not be read; the others are right"`
}

// ReadResult is the result of read.
type ReadResult struct {
	Parts   []Part `json:"parts" help:"at least one"`
	Testers bool   `json:"testers,omitempty" help:"testers are sent to one slot"`
}

// PartWeights are the weights of one part.
type PartWeights struct {
	ID      string  `json:"id" help:"of the part"`
	Weights Weights `json:"weights" help:"by unit"`
}

// WriteParams are those of write.
type WriteParams struct {
	Slots  SlotState     `json:"slots" help:"as for read"`
	Want   []PartWeights `json:"want" help:"weights to set, for each part that is to be changed"`
	Expect []PartWeights `json:"expect" help:"what the parts were when manent decided"`
}

// WriteResult is the result of write.
type WriteResult struct {
	Receipt map[string]string `json:"receipt,omitempty" help:"handed to settled"`
}

// SettledParams are those of settled.
type SettledParams struct {
	Want    []PartWeights     `json:"want" help:"weights that are to be in force"`
	Receipt map[string]string `json:"receipt,omitempty" help:"of the write; missing after a crash"`
}

// SettledResult is the result of settled.
type SettledResult struct {
	Settled bool `json:"settled" help:"every part has these weights, and requests are split by them"`
}

// PlanParams are those of plan.
type PlanParams struct {
	Slot      string  `json:"slot" help:"whose share it is" enum:"slot"`
	Share     float64 `json:"share" help:"percent, 0 to 100"`
	Tolerance float64 `json:"tolerance" help:"how far off it may be, percentage points"`
	Parts     []Part  `json:"parts" help:"as read returned them"`
}

// PlanResult is the result of plan.
type PlanResult struct {
	Weights []PartWeights `json:"weights" help:"for every part"`
	Share   float64       `json:"share" help:"what these really give, percent"`
}

// Match says which requests are the testers'.
type Match struct {
	Header string `json:"header,omitempty" help:"name of a header"`
	Value  string `json:"value,omitempty" help:"its value"`
	Tag    string `json:"tag,omitempty" help:"name of an address"`
}

// TargetParams are those of target.
type TargetParams struct {
	Slots SlotState `json:"slots" help:"as for read"`
	Slot  string    `json:"slot" help:"where testers go" enum:"slot"`
	Match Match     `json:"match" help:"who they are"`
	On    bool      `json:"on" help:"put it in place, or take it away"`
}

// TargetResult is the result of target: with on at least one of the two.
type TargetResult struct {
	URL    string            `json:"url,omitempty" help:"address by which testers reach the slot, if it is not the ordinary one"`
	Header map[string]string `json:"header,omitempty" help:"headers to send"`
}

// MemberParams are those of drain and restore.
type MemberParams struct {
	Member string `json:"member" help:"its id"`
}

// Member is one server behind a load balancer.
type Member struct {
	ID          string `json:"id" help:"its name, the same each time"`
	InService   bool   `json:"inService" help:"it takes new requests"`
	Connections int    `json:"connections,omitempty" help:"requests it still works on"`
}

// MembersResult is the result of members.
type MembersResult struct {
	Members []Member `json:"members" help:"all of the pool"`
}

// Query is one question to a metric system.
type Query struct {
	ID    string    `json:"id" help:"the answer repeats it"`
	Text  string    `json:"text" help:"in the program's own language"`
	Track string    `json:"track,omitempty" help:"whose traffic" enum:"slot"`
	From  time.Time `json:"from" help:"begin of the window"`
	To    time.Time `json:"to" help:"end of the window"`
	Step  string    `json:"step,omitempty" help:"a series with a value each step; missing: one value for the window" format:"duration"`
}

// QueryParams are those of query.
type QueryParams struct {
	Queries []Query `json:"queries" help:"to be answered in their order"`
}

// Point is one value.
type Point struct {
	At    time.Time `json:"at" help:"when"`
	Value float64   `json:"value" help:"a number"`
}

// QueryAnswer is the answer to one query: one of points, noData, several and
// error.
type QueryAnswer struct {
	ID       string   `json:"id" help:"that of the query"`
	Points   []Point  `json:"points,omitempty" help:"oldest first; a gap is a missing point"`
	NoData   bool     `json:"noData,omitempty" help:"there is nothing; this is never 0"`
	Several  bool     `json:"several,omitempty" help:"there is more than one series"`
	Partial  bool     `json:"partial,omitempty" help:"data are missing"`
	Warnings []string `json:"warnings,omitempty" help:"for people"`
	Error    *Error   `json:"error,omitempty" help:"this query alone failed"`
}

// QueryResult is the result of query.
type QueryResult struct {
	Answers []QueryAnswer `json:"answers" help:"one for each query, in order"`
}

// Package gate judges one stage: it says what to ask the metric systems,
// turns their answers into a reading, and a reading into what the stage does
// next. It is pure: no I/O, no clock of its own. It must not know how an
// answer is fetched or how a rollout is returned.
package gate

import (
	"encoding/json"
	"time"

	"github.com/manent/action/analysis"
	"github.com/manent/action/providers/metric"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

// Result of one metric, probe or alarm in one reading.
type Result string

// The results. Only Pass is a pass.
const (
	Pass         Result = "pass"
	Fail         Result = "fail"
	Inconclusive Result = "inconclusive"
	Errored      Result = "error"
	SkippedHere  Result = "skipped" // comparative, at 100 % and on a first release
)

// Verdict of a whole reading.
type Verdict string

// The verdicts.
const (
	Green   Verdict = "green"
	Red     Verdict = "red"
	Thin    Verdict = "thin"    // something inconclusive
	Error   Verdict = "error"   // thin with an error among them
	Void    Verdict = "void"    // weights were not manent's
	Ungated Verdict = "ungated" // nothing was evaluated
)

// Subject is what a reading is about.
type Subject struct {
	Stage     string            // its name, for the record
	Vars      map[string]string // application, environment, wave, version, host …; {track}, {step}, {start}, {end} are the gate's
	Candidate state.Slot
	Tracks    map[state.Slot]string // what {track} stands for; the slot's name when missing
	Share     float64               // candidate's share in percent, as achieved
	First     bool                  // first release: nothing to compare with
	InForce   time.Time             // when the share was seen in force
	Now       time.Time
	AtEnd     bool // at or after the end of the bake, see Clock.AtEnd
	Systems   map[string]metric.Traits
	Course    Course
}

// Course is what statistics need to know of the rollout around a reading.
type Course struct {
	Bake    time.Duration     `json:"bake,omitempty"`    // of this stage, nanoseconds
	Stages  int               `json:"stages,omitempty"`  // of the whole plan in which versions are compared, see config.Config.CompareStages
	Passes  int               `json:"passes,omitempty"`  // of the whole plan; 0 counts as one
	Memory  json.RawMessage   `json:"memory,omitempty"`  // what the analysis of this stage carried over, from state.Stage
	Earlier []json.RawMessage `json:"earlier,omitempty"` // and that of the pass's earlier stages, oldest first
}

// Question is what one metric system is to be asked, in one call, and which
// of its alarms (metric.Alarms) are looked at.
type Question struct {
	Provider string
	Queries  []metric.Query
	Alarms   []string
}

// Answers are what came back, by query id, and for alarms by AlarmID. A
// provider that failed as a whole has its error under every id of its question.
type Answers map[string]metric.Answer

// ProbeResult is what a probe saw.
type ProbeResult struct {
	Name   string `json:"name"`
	URL    string `json:"url"`
	Result Result `json:"result"` // pass, fail or error
	Status int    `json:"status,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Record is a whole reading as stored: queries, windows, raw figures and the
// rule that decided, so that the same verdict can be had again offline.
type Record struct {
	Stage   string          `json:"stage"`
	N       int             `json:"n"`
	At      time.Time       `json:"at"`
	Share   float64         `json:"share"`
	InForce time.Time       `json:"inForce"`
	Version string          `json:"version"`
	Verdict Verdict         `json:"verdict"`
	Score   *float64        `json:"score,omitempty"`
	Reason  string          `json:"reason,omitempty"` // the messages that decided
	Metrics []MetricResult  `json:"metrics,omitempty"`
	Probes  []ProbeResult   `json:"probes,omitempty"`
	Alarms  []AlarmResult   `json:"alarms,omitempty"`
	First   bool            `json:"first,omitempty"` // first release
	AtEnd   bool            `json:"atEnd,omitempty"` // at or after the end of the bake
	Health  config.Health   `json:"health"`          // the rules it was judged by
	Course  Course          `json:"course,omitzero"`
	Memory  json.RawMessage `json:"memory,omitempty"` // what the analysis carries over to the next reading
}

// MetricResult is one metric in one reading.
type MetricResult struct {
	Name      string   `json:"name"`
	Result    Result   `json:"result"`
	Rule      string   `json:"rule"`   // "maxRatio 1.5"
	Reason    string   `json:"reason"` // both sides, in words
	Candidate *Side    `json:"candidate,omitempty"`
	Stable    *Side    `json:"stable,omitempty"`
	Samples   *Samples `json:"samples,omitempty"`
	Weight    float64  `json:"weight"`
	Critical  bool     `json:"critical,omitempty"`

	// of a metric with analysis
	Planned    int         `json:"planned,omitempty"`    // points of a side at the end of the bake
	Each       int         `json:"each,omitempty"`       // planned points that each point of a longer series stands for
	Cumulative bool        `json:"cumulative,omitempty"` // a point counts since ever, not during its step
	Statistics *Statistics `json:"statistics,omitempty"`
}

// Statistics are the figures of a statistical comparison. Number is a float64
// that is written as text when JSON has no number for it.
type Statistics struct {
	// of analysis: mann-whitney
	U      Number          `json:"u,omitempty"`
	P      Number          `json:"p,omitempty"`     // two-sided
	Level  Number          `json:"level,omitempty"` // that it was compared with
	Method analysis.Method `json:"method,omitempty"`
	Shift  *Shift          `json:"shift,omitempty"`
	Effect Number          `json:"effect,omitempty"` // chance that a candidate's point is above a stable's

	Ratio           Number   `json:"ratio"`
	Delta           Number   `json:"delta"`
	CandidateMean   Number   `json:"mean_candidate"` // sequential: bad ÷ all
	StableMean      Number   `json:"mean_stable"`
	CandidatePoints int      `json:"points_candidate"` // sequential: blocks of time counted
	StablePoints    int      `json:"points_stable"`
	Warnings        []string `json:"warnings,omitempty"`

	// of analysis: sequential
	Counts   *analysis.Counts `json:"counts,omitempty"`   // of this stage
	Evidence Number           `json:"evidence,omitempty"` // the largest so far
	Needed   Number           `json:"needed,omitempty"`   // 1 ÷ alpha
	Smallest Number           `json:"smallest,omitempty"` // ratio that the traffic would have shown in 4 of 5 rollouts
}

// Shift is the median of all differences candidate − stable with its interval.
type Shift struct {
	Estimate   Number  `json:"estimate"`
	Low        Number  `json:"low"`
	High       Number  `json:"high"`
	Confidence float64 `json:"confidence"`
}

// AlarmResult is one alarm in one reading.
type AlarmResult struct {
	Name   string `json:"name"`
	Alarm  string `json:"alarm"` // its name in the metric system
	Result Result `json:"result"`
	Reason string `json:"reason,omitempty"`
	Seen   *Side  `json:"seen,omitempty"` // one point, 0 quiet or 1 firing
}

// Side is one side of a metric: what was asked and what came back.
type Side struct {
	State    SideState      `json:"state"`
	Query    string         `json:"query"` // as sent
	From     time.Time      `json:"from"`  // window as asked for
	To       time.Time      `json:"to"`
	Step     time.Duration  `json:"step,omitempty"` // nanoseconds; 0 = one value
	Seen     *Window        `json:"seen,omitempty"` // window and step as evaluated, when the system said so
	Points   []metric.Point `json:"points,omitempty"`
	Partial  bool           `json:"partial,omitempty"`
	Warnings []string       `json:"warnings,omitempty"`
	Error    string         `json:"error,omitempty"`
}

// SideState says in what way a side came back.
type SideState string

// The states of a side.
const (
	Answered SideState = "answered"
	NoData   SideState = "no data"        // the system answered that it has nothing
	Several  SideState = "several series" // where one was expected
	Broken   SideState = "error"          // see Side.Error
	Unasked  SideState = "not asked"      // the window begins before the share was in force
)

// Window is a span of time.
type Window struct {
	From time.Time     `json:"from"`
	To   time.Time     `json:"to"`
	Step time.Duration `json:"step,omitempty"`
}

// Samples are the requests seen on each side.
type Samples struct {
	Candidate *Side `json:"candidate,omitempty"`
	Stable    *Side `json:"stable,omitempty"`
}

// Clock is what a stage's decision needs to know of time. Bake and MaxBake
// are spans since InForce; a MaxBake shorter than Bake counts as Bake.
type Clock struct {
	InForce  time.Time
	Now      time.Time
	Bake     time.Duration
	MaxBake  time.Duration
	Delay    time.Duration // the largest delay of the metrics judged here, see LargestDelay
	LastRead time.Time     // of the previous reading that was not void, see LastRead; zero for none
}

// Act is what a stage does after a reading.
type Act string

// The acts.
const (
	GoOn   Act = "go-on"  // read again at Next
	Finish Act = "finish" // the stage is done
	Refuse Act = "refuse" // the stage failed
)

// Outcome is what a reading leads to.
type Outcome struct {
	Act        Act
	Next       time.Time // of the next reading, for GoOn
	Reason     string    // why, in words
	Red        int       // red readings so far, to be stored in the stage
	FirstError time.Time // to be stored in the stage
	Status     string    // of the stage, a state.Stage… constant
}

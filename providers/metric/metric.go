// Package metric is the contract of a metric system: queries in, numbers out.
// It must not judge; that is runner/gate's.
package metric

import (
	"context"
	"errors"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/state"
)

// Query is one question, already free of placeholders.
type Query struct {
	ID    string     // of the caller; comes back in the answer
	Text  string     // in the language of the system
	Track state.Slot // whose traffic, for systems that do not have it in Text
	From  time.Time  // window, From < To
	To    time.Time
	Step  time.Duration // 0 = one value over the window or at its end; else a series
}

// Point is one value of a series; gaps are missing points, never zeros.
type Point struct {
	At    time.Time `json:"at"`
	Value float64   `json:"value"` // may be NaN or infinite if the system says so
}

// Answer is what came back for one query.
type Answer struct {
	ID       string
	Points   []Point   // oldest first; one for Step 0
	From     time.Time // window as really evaluated
	To       time.Time
	Step     time.Duration // as really used
	Partial  bool          // the system says that data are missing
	Warnings []string      // as the system gave them
	Resolved string        // the query as sent
	Err      error         // ErrNoData, ErrSeveral or a *providers.Fault for this query alone
}

// ErrNoData says that the system answered that it has nothing. It is never 0.
var ErrNoData = errors.New("no data")

// ErrSeveral says that more than one series came back where one was expected.
var ErrSeveral = errors.New("several series")

// System answers queries.
type System interface {
	// Query answers all queries, in their order; both sides of a comparison
	// come in one call so that they can be asked at one instant. An error
	// means that none was answered.
	Query(ctx context.Context, queries []Query) ([]Answer, error)
}

// Traits say how a system behaves, for defaults and warnings.
type Traits struct {
	Language string              // "PromQL"
	Delay    time.Duration       // how old data must be to count, unless a metric says so
	Escape   func(string) string // makes a placeholder's value safe inside a quoted string of the language

	// Window returns the longest range that a value of the query stands for
	// ("rate(x[5m])": 5m), 0 when it has none or none can be read. It is nil
	// for a language whose values stand for one step each.
	Window func(query string) time.Duration

	// OwnTracks: it tells the slots apart by Query.Track, so that a query of a
	// comparison needs no {track}.
	OwnTracks bool

	// Step writes what {step} stands for in a query; nil: as in 15s.
	Step func(time.Duration) string
}

// Alarms is optional: a system that has alarms of its own answers for each
// name, in order, with one point: 0 quiet, 1 firing; ErrNoData when the alarm
// itself has too little data. An error means that none was answered.
type Alarms interface {
	Alarms(ctx context.Context, names []string) ([]Answer, error)
}

// Spec describes one metric system.
type Spec struct {
	providers.Spec[System]
	Traits Traits
}

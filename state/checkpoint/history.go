package checkpoint

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/manent/action/state"
)

// ReadingName is the name of the side object of a stage's n-th reading.
func ReadingName(rollout, stage string, n int) string {
	return ReadingsPrefix(rollout) + stage + "/" + strconv.Itoa(n) + ".json"
}

// ReadingsPrefix is the prefix of all readings of a rollout.
func ReadingsPrefix(rollout string) string { return "readings/" + rollout + "/" }

// Archive moves the ended rollout into the history, to make room for the next,
// and bounds the history. It returns the prefixes of the readings that are no
// longer named, for Save to drop. replaced is the version that served before
// it. It refuses a rollout that still holds the environment.
func Archive(doc *state.Document, replaced string) (drop []string, err error) {
	r := doc.Rollout
	if r == nil {
		return nil, nil
	}
	if !r.Status.Terminal() {
		return nil, fmt.Errorf("rollout %s of version %s is %s, expected an ended one", r.ID, r.Version, r.Status)
	}
	doc.History = slices.Insert(slices.Clone(doc.History), 0, pastOf(r, replaced))
	doc.Rollout = nil
	if len(doc.History) <= state.HistoryLimit {
		return nil, nil
	}
	gone := doc.History[state.HistoryLimit:]
	doc.History = slices.Clip(doc.History[:state.HistoryLimit])
	for _, past := range gone {
		kept := slices.ContainsFunc(doc.History, func(p state.Past) bool { return p.ID == past.ID })
		if !kept { // attempts of one rollout share its readings
			drop = append(drop, ReadingsPrefix(past.ID))
		}
	}
	return drop, nil
}

func pastOf(r *state.Rollout, replaced string) state.Past {
	past := state.Past{
		ID: r.ID, Version: r.Version, Status: r.Status, Attempt: r.Attempt, Owner: r.Owner,
		Started: r.Started, Ended: r.Ended, Replaced: replaced,
	}
	switch {
	case r.Failure != nil:
		past.Reason = r.Failure.Reason
	case r.Return != nil:
		past.Reason = r.Return.Reason
	}
	for i := range r.Stages {
		past.Readings += r.Stages[i].Count
	}
	return past
}

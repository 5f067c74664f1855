package dialect

import (
	"strconv"
	"time"

	"github.com/manent/action/state"
)

// Members of a receipt, after the name of a part.
const (
	generation = ""        // the one that a patch of ours made,
	at         = " at"     // when it did, on this machine's clock
	gone       = " gone"   // the slot that lost its traffic, "" for none
	seenWanted = " wanted" // the generation that was found to be as wanted already,
	seenAt     = " seen"   // when it was, on this machine's clock
)

// Note puts what was done to a part into a receipt. The time of a write is that
// of a patch only: a step that is entered again finds the part as wanted, and
// must not begin to wait once more.
func Note(receipt state.Receipt, id string, r Route, lost state.Slot, sent bool, now time.Time) {
	when, which := now.UTC().Format(time.RFC3339Nano), strconv.FormatInt(r.Split.Generation(), 10)
	receipt[id+gone] = string(lost)
	if !sent {
		receipt[id+seenWanted], receipt[id+seenAt] = which, when
		return
	}
	receipt[id+generation], receipt[id+at] = which, when
}

// LastWrite is when a part was written last, and the slot that lost its traffic
// then: by the receipt if that is of the present generation, and not of a machine
// whose clock is ahead, else as the API server recorded it. That is on another
// clock, and so never later than now, nor than the part was seen as wanted.
func LastWrite(r Route, receipt state.Receipt, id string, now time.Time) (Write, state.Slot) {
	lost := state.Slot(receipt[id+gone])
	w := Write{At: r.Changed(now), Ours: len(receipt) > 0, Back: lost != ""}
	which := strconv.FormatInt(r.Split.Generation(), 10)
	if when, err := time.Parse(time.RFC3339Nano, receipt[id+seenAt]); err == nil && receipt[id+seenWanted] == which && when.Before(w.At) {
		w.At = when
	}
	if when, err := time.Parse(time.RFC3339Nano, receipt[id+at]); err == nil && receipt[id+generation] == which && !when.After(now) {
		w.At = when
	}
	return w, lost
}

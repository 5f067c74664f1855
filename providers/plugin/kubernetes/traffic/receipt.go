package traffic

import (
	"strconv"
	"time"

	"github.com/manent/action/providers/api/kubernetes/dialect"
	"github.com/manent/action/state"
)

// Members of a receipt, after the name of a part.
const (
	generation = ""        // the one that a patch of ours made,
	at         = " at"     // when it did, on this machine's clock
	gone       = " gone"   // the slot that lost its traffic, "" for none
	seenWanted = " wanted" // the generation that was found to be as wanted already
)

// note puts what was done to a part into a receipt. The time is that of a patch
// only: a step that is entered again finds the part as wanted, and must not
// begin to wait once more.
func (j *job) note(receipt state.Receipt, sent bool, now time.Time) {
	id, when := j.want.ID, now.UTC().Format(time.RFC3339Nano)
	receipt[id+gone] = string(j.gone())
	which := strconv.FormatInt(j.found.Split.Generation(), 10)
	if !sent {
		receipt[id+seenWanted] = which
		return
	}
	receipt[id+generation], receipt[id+at] = which, when
}

// written is what a receipt says of a part.
type written struct {
	dialect.Write
	Gone state.Slot
}

// lastWrite is when a part was written last: by the receipt if that is of the
// present generation, else as the API server recorded it.
func lastWrite(o dialect.Route, receipt state.Receipt, id string) written {
	w := written{Write: dialect.Write{At: o.Changed(), Ours: len(receipt) > 0}, Gone: state.Slot(receipt[id+gone])}
	w.Back = w.Gone != ""
	when, err := time.Parse(time.RFC3339Nano, receipt[id+at])
	if err == nil && receipt[id+generation] == strconv.FormatInt(o.Split.Generation(), 10) {
		w.At = when
	}
	return w
}

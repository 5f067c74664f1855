package checkpoint

import (
	"time"

	"github.com/manent/action/state"
)

// Patience is how long a lease's record must stand still, by the taker's own
// clock, before another process may take it.
const Patience = 30 * time.Second

// Watch is what a process that waits for a lease remembers of it between
// reads. The zero value is ready.
type Watch struct {
	seen  record
	since time.Time
}

// record is what changes while a lease's holder is alive.
type record struct {
	id   string
	beat int
	seq  uint64
}

// See notes a document read at now and returns since when its lease's record
// has stood still in this process's eyes.
func (w *Watch) See(doc *state.Document, now time.Time) time.Time {
	current := record{seq: doc.Seq}
	if doc.Lease != nil {
		current.id, current.beat = doc.Lease.ID, doc.Lease.Beat
	}
	if w.since.IsZero() || current != w.seen {
		w.seen, w.since = current, now
	}
	return w.since
}

// Held reports who keeps me from taking the lease, and until when at least;
// nil when I may take it: it is free or mine, its record has stood still for
// Patience since firstSeen, it belongs to an earlier attempt of my own run, or
// to a dead process of my host. alive says whether a process of this host
// lives; it is only asked when the hosts are the same, see Host.
func Held(doc *state.Document, me state.Lease, firstSeen, now time.Time, alive func(pid int) bool) (by *state.Lease, until time.Time) {
	lease := doc.Lease
	if lease == nil || lease.ID == me.ID {
		return nil, time.Time{}
	}
	ownLater := me.Owner.Run != "" && me.Owner.Same(lease.Owner) && me.Owner.Attempt > lease.Owner.Attempt
	if ownLater || lease.Host != "" && lease.Host == me.Host && !alive(lease.PID) {
		return nil, time.Time{}
	}
	until = firstSeen.Add(Patience)
	if !now.Before(until) {
		return nil, time.Time{}
	}
	return lease, until
}

// Take puts my lease into the document, begun at now. Whether I may is Held's
// to say; that nobody else did is for Save to prove.
func Take(doc *state.Document, me state.Lease, now time.Time) {
	me.Since, me.Beat = now.UTC(), 0
	doc.Lease = &me
}

// Give takes the lease with this id out of the document; false when it is
// another's or gone.
func Give(doc *state.Document, id string) bool {
	if doc.Lease == nil || doc.Lease.ID != id {
		return false
	}
	doc.Lease = nil
	return true
}

package accesslog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/providers/api/accesslog"
	"github.com/manent/action/state"
)

// window is what a query covers: from its beginning until before its end.
type window struct {
	from, to time.Time
	step     time.Duration // 0 = one span
}

// union is the smallest window over both; the zero window is none.
func (w window) union(o window) window {
	if w.from.IsZero() || o.from.Before(w.from) {
		w.from = o.from
	}
	if o.to.After(w.to) {
		w.to = o.to
	}
	return w
}

// spans is the number of steps in the window.
func (w window) spans() int {
	if w.step == 0 {
		return 1
	}
	return int(w.to.Sub(w.from) / w.step)
}

// span returns the nth span.
func (w window) span(n int) (from, to time.Time) {
	if w.step == 0 {
		return w.from, w.to
	}
	from = w.from.Add(time.Duration(n) * w.step)
	return from, from.Add(w.step)
}

// tally counts the requests of one window by slot and span.
type tally struct {
	window
	percentiles bool
	slots       map[state.Slot][]*accesslog.Stats // a span without requests is nil
	unknown     map[string]int                    // requests whose track is no slot
	lines       int                               // requests of any track
	strays      int                               // of them with a track, but one that is no slot
}

// maxUnknown bounds how many unknown values are told apart: a client may
// decide what is logged.
const maxUnknown = 5

// tallyFor returns the tally of a question's window, the same for all
// questions with that window.
func tallyFor(all map[window]*tally, q question) *tally {
	t := all[q.window]
	if t == nil {
		n := q.spans()
		t = &tally{window: q.window, unknown: map[string]int{}, slots: map[state.Slot][]*accesslog.Stats{
			state.SlotA: make([]*accesslog.Stats, n), state.SlotB: make([]*accesslog.Stats, n),
		}}
		all[q.window] = t
	}
	t.percentiles = t.percentiles || q.percentile
	return t
}

func (t *tally) add(slot state.Slot, e accesslog.Entry) {
	if e.At.Before(t.from) || !e.At.Before(t.to) {
		return
	}
	t.lines++
	spans := t.slots[slot]
	if spans == nil {
		t.stray(e.Track)
		return
	}
	n := 0
	if t.step > 0 {
		n = int(e.At.Sub(t.from) / t.step)
	}
	if spans[n] == nil {
		spans[n] = new(accesslog.Stats)
		if t.percentiles {
			spans[n] = accesslog.NewStats()
		}
	}
	spans[n].Add(e)
}

func (t *tally) stray(track string) {
	if track != "" && track != "-" { // these had no slot yet
		t.strays++
	}
	if _, known := t.unknown[track]; !known && len(t.unknown) >= maxUnknown {
		track = "others"
	}
	t.unknown[track]++
}

// requests of a slot in the whole window, and those that the client left.
func (t *tally) requests(slot state.Slot) (answered, left int) {
	for _, s := range t.slots[slot] {
		if s != nil {
			answered, left = answered+s.Requests, left+s.Abandoned
		}
	}
	return answered, left
}

// judge says which requests tell nothing of a track, and whether they are too
// many: more strays than maxStrays percent, or more abandoned than not.
func (t *tally) judge(track state.Slot, maxStrays float64) (warnings []string, partial bool) {
	sum, values := 0, []string(nil)
	for _, v := range slices.Sorted(maps.Keys(t.unknown)) {
		sum += t.unknown[v]
		values = append(values, fmt.Sprintf("%.40q (%d)", v, t.unknown[v]))
	}
	if sum > 0 {
		warnings = append(warnings, fmt.Sprintf("%d requests of tracks that are no slot: %s", sum, strings.Join(values, ", ")))
	}
	answered, left := t.requests(track)
	if left > answered {
		warnings = append(warnings, fmt.Sprintf("%d of %d requests of slot %s were abandoned by the client (499, 000)", left, left+answered, track))
	}
	return warnings, left > answered || float64(t.strays)*100 > maxStrays*float64(t.lines)
}

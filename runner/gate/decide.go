package gate

import (
	"fmt"
	"time"

	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

// End is when the bake is over and its data are old enough to count.
func (c Clock) End() time.Time { return c.InForce.Add(c.Bake + c.Delay) }

// Deadline is when data that are still too thin fail the stage.
func (c Clock) Deadline() time.Time { return c.InForce.Add(max(c.Bake, c.MaxBake) + c.Delay) }

// AtEnd reports whether a reading now is at or after the end of the bake.
func (c Clock) AtEnd() bool { return !c.Now.Before(c.End()) }

// Waiting is the clock of a stage that is done and waits for an approval until
// then: it is watched as during a bake, so that red readings count and nothing
// else ends it.
func (c Clock) Waiting(until time.Time) Clock {
	c.Bake = max(c.Bake, until.Sub(c.InForce))
	return c
}

// Approved is the clock of the fresh reading that an approval given then needs
// before it opens the way: due at once, and as patient as the stage was while
// data are thin. InForce of the Subject stays what it was.
func (c Clock) Approved(given time.Time) Clock {
	fresh := Clock{InForce: given, Now: c.Now, MaxBake: max(c.Bake, c.MaxBake)}
	if !c.LastRead.Before(given) {
		fresh.LastRead = c.LastRead
	}
	return fresh
}

// Opens reports whether a reading taken after an approval was given opens the
// way: it is green, or there is nothing to evaluate.
func Opens(r Record) bool { return r.Verdict == Green || r.Verdict == Ungated }

// LastRead is when the stage's newest reading that was not void was taken, for
// the Clock; zero when there is none since the share was in force.
func LastRead(stage state.Stage) time.Time { return readBefore(stage, time.Time{}) }

// readBefore is when the newest reading before t was taken; a zero t stands
// for now.
func readBefore(stage state.Stage, t time.Time) time.Time {
	var newest time.Time
	for _, r := range stage.Readings {
		counts := r.Verdict != string(Void) && !r.At.Before(stage.InForce) && (t.IsZero() || r.At.Before(t))
		if counts && r.At.After(newest) {
			newest = r.At
		}
	}
	return newest
}

// FirstDue is when the first reading of a stage is due. Without a bake there
// is one reading, once data are old enough; with one, readings fall every
// interval from the moment the share is in force, and at its end.
func FirstDue(h config.Health, c Clock) time.Time {
	if c.Bake <= 0 {
		return c.End()
	}
	return nextAfter(h, c, c.InForce)
}

// NextDue is when the next reading is due after the ones the stage has: what
// Outcome.Next said after the last of them.
func NextDue(h config.Health, c Clock, stage state.Stage) time.Time {
	if c.LastRead.IsZero() {
		return FirstDue(h, c)
	}
	last := Verdict("")
	for _, r := range stage.Readings {
		if r.At.Equal(c.LastRead) {
			last = Verdict(r.Verdict)
		}
	}
	return dueAfter(h, c, c.LastRead, last, stage.FirstError)
}

// dueAfter is when the reading after one that left the stage open is due. A
// green one past the end was the first after a gap: the next is an interval
// later. One in error there is followed by a last one when grace ends.
func dueAfter(h config.Health, c Clock, last time.Time, verdict Verdict, firstError time.Time) time.Time {
	next := nextAfter(h, c, last)
	if last.Before(c.End()) {
		return next
	}
	switch verdict {
	case Green:
		return nextAfter(h, c, last.Add(interval(h)-1))
	case Error:
		if limit := firstError.Add(h.Grace.Std()); limit.After(last) && limit.Before(next) {
			return limit
		}
	}
	return next
}

// Longest is the longest a stage can take if every reading is taken when it
// is due.
func Longest(h config.Health, c Clock) time.Duration {
	// Each tolerated red reading can begin a grace anew.
	again := time.Duration(max(0, h.FailureLimit)) * (interval(h) + h.Grace.Std())
	return c.Deadline().Sub(c.InForce) + h.Grace.Std() + again
}

// Decide says what a reading leads to. Red, thin, error and green are the
// reading's verdict:
//
//   - red, at any time: counts against failureLimit; beyond it the stage fails
//     at once. A tolerated one is followed by another reading, also past the
//     end of the bake.
//   - thin: go on during the bake. At and after its end, the next interval
//     until maxBake, then fail. Without a bake, and without a maxBake, that is
//     the first reading.
//   - error: go on during the bake. At and after its end, until grace after
//     the first reading in error there, then fail. A reading that is not in
//     error ends the run.
//   - green: go on during the bake. At and after its end the stage is done,
//     unless nobody watched for more than two intervals before this reading:
//     then one more, an interval later, has to be green as well.
//   - ungated: as green, with a status of its own.
//   - void: nothing counts. The caller keeps LastRead as it was.
//
// The end is that of the bake plus the largest delay, and so is maxBake's.
// Red and FirstError of the outcome replace the stage's.
func Decide(h config.Health, c Clock, stage state.Stage, r Record) Outcome {
	o := Outcome{Act: GoOn, Red: stage.Red, Status: state.StageBaking, Reason: r.Reason}
	switch r.Verdict {
	case Void:
		o.FirstError = stage.FirstError
	case Red:
		o = red(h, o)
	case Thin:
		if !c.Now.Before(c.Deadline()) {
			o = refuse(o, fmt.Sprintf("%s %s after the share was in force", lacking(r), c.Now.Sub(c.InForce).Round(time.Second)))
		}
	case Green, Ungated:
		o = pass(h, c, stage, r, o)
	default: // Error; a verdict nobody knows is one
		o = failing(h, c, stage, o)
	}
	if o.Act == GoOn {
		o.Next = dueAfter(h, c, c.Now, r.Verdict, o.FirstError)
	}
	return o
}

// lacking says what keeps a thin reading from being green.
func lacking(r Record) string {
	if r.Score != nil && Conclusive(r.Metrics) {
		return "still no score that passes"
	}
	return "still inconclusive"
}

func red(h config.Health, o Outcome) Outcome {
	o.Red++
	if o.Red > h.FailureLimit {
		return refuse(o, fmt.Sprintf("red reading %d, failureLimit %d", o.Red, h.FailureLimit))
	}
	o.Reason = fmt.Sprintf("red reading %d, tolerated by failureLimit %d: %s", o.Red, h.FailureLimit, o.Reason)
	return o
}

func pass(h config.Health, c Clock, stage state.Stage, r Record, o Outcome) Outcome {
	switch {
	case !c.AtEnd():
	case r.Verdict == Ungated:
		o.Act, o.Status = Finish, state.StageUngated
	case watched(h, c, stage):
		o.Act, o.Status = Finish, state.StagePassed
	default:
		o.Reason += "; nobody watched for more than two intervals, so one more is watched"
	}
	return o
}

// failing handles a reading in error. The run that grace is counted from
// begins anew at the end of the bake.
func failing(h config.Health, c Clock, stage state.Stage, o Outcome) Outcome {
	o.FirstError = stage.FirstError
	if o.FirstError.IsZero() || (c.AtEnd() && o.FirstError.Before(c.End())) {
		o.FirstError = c.Now
	}
	if c.AtEnd() && !c.Now.Before(o.FirstError.Add(h.Grace.Std())) {
		return refuse(o, fmt.Sprintf("could not be judged past the bake for grace %s", h.Grace))
	}
	return o
}

func refuse(o Outcome, why string) Outcome {
	o.Act, o.Status, o.Reason = Refuse, state.StageFailed, why+": "+o.Reason
	return o
}

// watched reports whether somebody looked during the last two intervals. If
// the previous reading was itself the first after such a gap, one interval
// since it is enough however late this one comes: a driver that only calls
// now and then must be able to finish.
func watched(h config.Health, c Clock, stage state.Stage) bool {
	last := c.LastRead
	if last.IsZero() {
		if c.Bake <= 0 {
			return true // the one reading of a stage that nobody has to watch
		}
		last = c.InForce
	}
	i := interval(h)
	before := readBefore(stage, last)
	if before.Before(c.InForce) {
		before = c.InForce
	}
	late := last.Sub(before) > 2*i
	if late && !last.Before(c.End()) {
		return c.Now.Sub(last) >= i
	}
	return c.Now.Sub(last) <= 2*i
}

// nextAfter is the first reading due after t: every interval from InForce, the
// end of the bake and the deadline. Without a bake there is none before its end.
func nextAfter(h config.Health, c Clock, t time.Time) time.Time {
	if c.Bake <= 0 && t.Before(c.End()) {
		return c.End()
	}
	i := interval(h)
	since := max(0, t.Sub(c.InForce))
	next := c.InForce.Add(since - since%i + i)
	for _, fixed := range []time.Time{c.End(), c.Deadline()} {
		if fixed.After(t) && fixed.Before(next) {
			next = fixed
		}
	}
	return next
}

func interval(h config.Health) time.Duration {
	if h.Interval <= 0 {
		return time.Minute
	}
	return h.Interval.Std()
}

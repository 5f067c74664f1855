package routertest

import (
	"context"
	"errors"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

func crashChecks() []check {
	several := func(h Harness) bool { return h.Cut != nil && parts(h) > 1 }
	return []check{
		{"killed between write and checkpoint", nil, killedBeforeCheckpoint},
		{"write that never arrives", func(h Harness) bool { return h.Cut != nil }, writeNeverArrives},
		{"stopped in the middle", several, stoppedInTheMiddle},
		{"stopped in the middle, then back", several, stoppedThenBack},
		{"applied but unanswered", func(h Harness) bool { return h.Mute != nil }, appliedUnanswered},
		{"applied late", func(h Harness) bool { return h.Late != nil }, appliedLate},
		{"applied late after a return", func(h Harness) bool { return h.Late != nil && h.Traits.Conditional }, appliedLateAfterReturn},
	}
}

// killedBeforeCheckpoint: the next process knows the old reading and the
// wish, and no receipt.
func killedBeforeCheckpoint(w *world) {
	seen, before := w.read(), w.writes()
	want := w.plan(w.Shares[0], seen)
	w.write(w.Router, want, seen)
	receipt := w.write(w.Again(), want, seen)
	w.settled(want, receipt)
	w.at(want)
	w.wrote(before, len(want))
}

// failed checks the error of a write that the world disturbed. It is never a
// conflict: nobody else changed anything.
func (w *world) failed(err error) {
	w.Helper()
	if err == nil {
		w.Error("write: no error although it was cut off")
	}
	w.discreet("write", err)
	if providers.IsConflict(err) {
		w.Errorf("write: a lost call is called a conflict: %v", err)
	}
}

func writeNeverArrives(w *world) {
	seen, before := w.read(), w.writes()
	want := w.plan(w.Shares[0], seen)
	heal := w.Cut(1)
	_, err := w.Router.Write(w.ctx(), w.Slots, want, seen)
	heal()
	w.failed(err)
	w.wrote(before, 0)
	w.at(seen.Weights())
	w.write(w.Again(), want, seen)
	w.at(want)
	w.wrote(before, len(want))
}

// halfWay writes with the second part cut off and checks that everything is
// either as before or as wanted.
func (w *world) halfWay() (seen router.Reading, want []state.PartWeights) {
	w.Helper()
	seen = w.read()
	want = w.plan(w.Shares[0], seen)
	heal := w.Cut(max(w.PerPart, 1) + 1)
	_, err := w.Router.Write(w.ctx(), w.Slots, want, seen)
	heal()
	w.failed(err)
	written := 0
	for _, p := range w.read().Parts {
		from, _ := router.Find(seen.Weights(), p.ID)
		to, _ := router.Find(want, p.ID)
		for unit, weight := range p.Weights {
			if weight != from[unit] && weight != to[unit] {
				w.Errorf("part %s has %v, between %v and %v", p.ID, p.Weights, from, to)
			}
		}
		if router.Same(p.Weights, to) {
			written++
		}
	}
	if written != 1 && w.PerPart > 0 {
		w.Errorf("%d parts written before the second was cut off, want 1", written)
	}
	return seen, want
}

func stoppedInTheMiddle(w *world) {
	before := w.writes()
	seen, want := w.halfWay()
	receipt := w.write(w.Again(), want, seen)
	w.settled(want, receipt)
	w.at(want)
	w.wrote(before, len(want))
}

func stoppedThenBack(w *world) {
	seen, _ := w.halfWay()
	back := seen.Weights()
	receipt := w.write(w.Again(), back, w.read())
	w.settled(back, receipt)
	w.at(back)
}

func appliedUnanswered(w *world) {
	seen, before := w.read(), w.writes()
	want := w.plan(w.Shares[0], seen)
	heal := w.Mute(1)
	_, err := w.Router.Write(w.ctx(), w.Slots, want, seen)
	heal()
	w.failed(err)
	receipt := w.write(w.Again(), want, seen)
	w.settled(want, receipt)
	w.at(want)
	w.wrote(before, len(want))
}

func appliedLate(w *world) {
	seen := w.read()
	want := w.plan(w.Shares[0], seen)
	heal, land := w.Late(1)
	_, err := w.Router.Write(w.ctx(), w.Slots, want, seen)
	heal()
	w.failed(err)
	w.write(w.Again(), want, seen)
	land()
	w.at(want)
	receipt := w.write(w.Again(), want, seen)
	w.settled(want, receipt)
}

// appliedLateAfterReturn: where the system itself checks, a straggler from
// before a return must not bring the share back.
func appliedLateAfterReturn(w *world) {
	seen := w.read()
	heal, land := w.Late(1)
	_, err := w.Router.Write(w.ctx(), w.Slots, w.plan(w.Shares[0], seen), seen)
	heal()
	w.failed(err)
	w.move(w.Shares[1])
	back, _ := w.move(0)
	land()
	w.at(back)
}

func foreignChecks() []check {
	sneak := func(h Harness) bool { return h.Sneak != nil && h.Traits.Conditional }
	return []check{
		{"foreign change is a conflict", nil, foreignIsConflict},
		{"foreign change of a later part", func(h Harness) bool { return parts(h) > 1 }, foreignLaterPart},
		{"foreign change between read and write", sneak, foreignBetween},
		{"changed revision is no conflict", func(h Harness) bool { return h.Touch != nil }, touched},
		{"changed revision between read and write", func(h Harness) bool { return h.Touch != nil && h.Sneak != nil }, touchedBetween},
		{"two writers, one wins", func(h Harness) bool { return h.Traits.Conditional }, twoWriters},
	}
}

// conflict writes and expects a conflict that says what was found.
func (w *world) conflict(want []state.PartWeights, expect router.Reading) {
	w.Helper()
	_, err := w.Router.Write(w.ctx(), w.Slots, want, expect)
	w.kind("write", err, providers.Conflict)
	var drifted *router.ErrDrifted
	if err != nil && (!errors.As(err, &drifted) || drifted.Part == "" || len(drifted.Seen) == 0) {
		w.Errorf("write: %v, want an ErrDrifted with part and weights", err)
	}
}

func foreignIsConflict(w *world) {
	seen := w.read()
	w.Foreign(0)
	foreign, before := w.read(), w.writes()
	if router.SameParts(foreign.Weights(), seen.Weights()) {
		w.Fatal("the harness's Foreign changed nothing")
	}
	w.conflict(w.plan(w.Shares[0], seen), seen)
	w.wrote(before, 0)
	w.at(foreign.Weights())
}

func foreignLaterPart(w *world) {
	seen := w.read()
	last := len(seen.Parts) - 1
	w.Foreign(last)
	foreign := w.read()
	w.conflict(w.plan(w.Shares[0], seen), seen)
	after := w.read()
	if got, want := after.Parts[last].Weights, foreign.Parts[last].Weights; !router.Same(got, want) {
		w.Errorf("the foreign weights %v were overwritten with %v", want, got)
	}
}

func foreignBetween(w *world) {
	seen := w.read()
	w.Sneak(func() { w.Foreign(0) })
	w.conflict(w.plan(w.Shares[0], seen), seen)
	got := w.read().Parts[0].Weights
	if want, _ := router.Find(w.plan(w.Shares[0], seen), seen.Parts[0].ID); router.Same(got, want) {
		w.Errorf("the foreign change was overwritten with %v", got)
	}
}

func touched(w *world) {
	seen := w.read()
	w.Touch()
	want := w.plan(w.Shares[0], seen)
	w.write(w.Router, want, seen)
	w.at(want)
}

func touchedBetween(w *world) {
	seen := w.read()
	w.Sneak(w.Touch)
	want := w.plan(w.Shares[0], seen)
	w.write(w.Router, want, seen)
	w.at(want)
}

// twoWriters start from one reading; the system lets one through.
func twoWriters(w *world) {
	seen := w.read()
	wants := [][]state.PartWeights{w.plan(w.Shares[0], seen), w.plan(w.Shares[1], seen)}
	errs := make(chan error, len(wants))
	ctx, cancel := context.WithTimeout(w.Context(), hung)
	defer cancel()
	for _, want := range wants {
		r := w.Again()
		go func() {
			_, err := r.Write(ctx, w.Slots, want, seen)
			errs <- err
		}()
	}
	lost := 0
	for range wants {
		if err := <-errs; err != nil {
			lost++
			w.kind("write", err, providers.Conflict)
		}
	}
	// With several parts both may win one and lose one.
	if most := len(seen.Parts); lost < 1 || lost > most {
		w.Errorf("%d of 2 writers lost, want 1 to %d", lost, most)
	}
	for _, p := range w.read().Parts {
		first, _ := router.Find(wants[0], p.ID)
		second, _ := router.Find(wants[1], p.ID)
		if !router.Same(p.Weights, first) && !router.Same(p.Weights, second) {
			w.Errorf("part %s has %v, neither writer's", p.ID, p.Weights)
		}
	}
}

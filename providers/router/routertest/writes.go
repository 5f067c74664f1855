package routertest

import (
	"context"
	"maps"
	"math"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

func readChecks() []check {
	return []check{
		{"reading is complete and changes nothing", nil, readIsComplete},
		{"one part down hides only itself", func(h Harness) bool { return h.Down != nil && parts(h) > 1 }, onePartDown},
	}
}

func readIsComplete(w *world) {
	before := w.writes()
	first, second := w.read(), w.read()
	if !router.SameParts(first.Weights(), second.Weights()) {
		w.Errorf("two readings differ: %v, %v", first.Weights(), second.Weights())
	}
	ids := map[string]bool{}
	for _, p := range first.Parts {
		if p.ID == "" || ids[p.ID] {
			w.Errorf("part %q has no name of its own", p.ID)
		}
		ids[p.ID] = true
		if p.Shares[w.cand] != 0 || p.Shares[w.cand.Other()] != 100 {
			w.Errorf("part %s: shares %v, want all traffic on the stable", p.ID, p.Shares)
		}
		for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
			if p.Units != nil && p.Units[slot] < 1 {
				w.Errorf("part %s: units %v, want both slots up", p.ID, p.Units)
			}
		}
	}
	if first.Testers {
		w.Error("testers are on in a fresh world")
	}
	w.wrote(before, 0)
}

func onePartDown(w *world) {
	up := w.Down(0)
	seen, err := w.Again().Read(w.ctx(), w.Slots)
	if err != nil {
		w.Fatalf("read with one part down failed as a whole: %v", err)
	}
	for i, p := range seen.Parts {
		if (p.Err != nil) != (i == 0) {
			w.Errorf("part %s: error %v", p.ID, p.Err)
		}
	}
	w.discreet("part", seen.Err())
	if providers.IsConflict(seen.Err()) {
		w.Errorf("a part that does not answer is a conflict: %v", seen.Err())
	}
	up()
	w.read()
}

func writeChecks() []check {
	return []check{
		{"write then read", nil, writeThenRead},
		{"write twice is one change", nil, writeTwice},
		{"as wanted already is no write", nil, asWantedAlready},
		{"zero and hundred", nil, zeroAndHundred},
		{"unknown part is refused", nil, unknownPart},
		{"cancelled context writes nothing", nil, cancelled},
		{"unowned entries survive", func(h Harness) bool { return h.Unowned != nil }, unownedSurvive},
		{"settled", nil, settledAfterWrite},
		{"accepted is not settled", func(h Harness) bool { return h.Hold != nil }, acceptedIsNotSettled},
		{"traffic follows the weights", func(h Harness) bool { return h.Serve != nil }, trafficFollows},
	}
}

func writeThenRead(w *world) {
	for _, share := range w.Shares {
		before := w.writes()
		want, receipt := w.move(share)
		w.settled(want, receipt)
		w.wrote(before, len(want))
		seen := w.read()
		for _, p := range seen.Parts {
			if got := p.Shares[w.cand]; math.Abs(got-share) > w.Tolerance {
				w.Errorf("part %s: share %v %%, want %v %%", p.ID, got, share)
			}
			if sum := p.Shares[w.cand] + p.Shares[w.cand.Other()]; len(p.Foreign) == 0 && math.Abs(sum-100) > 1e-6 {
				w.Errorf("part %s: shares %v do not make 100 %%", p.ID, p.Shares)
			}
		}
	}
}

func writeTwice(w *world) {
	seen, before := w.read(), w.writes()
	want := w.plan(w.Shares[0], seen)
	w.write(w.Router, want, seen)
	w.wrote(before, len(want))
	once := w.writes()
	w.write(w.Router, want, seen)
	w.write(w.Again(), want, w.read())
	w.at(want)
	w.wrote(once, 0)
}

// asWantedAlready: what is there counts, not what the caller expected.
func asWantedAlready(w *world) {
	want, _ := w.move(w.Shares[0])
	stale := w.read()
	for i := range stale.Parts {
		stale.Parts[i].Weights = maps.Clone(w.plan(w.Shares[1], stale)[i].Weights)
		stale.Parts[i].Revision = "of another time"
	}
	before := w.writes()
	receipt := w.write(w.Again(), want, stale)
	w.settled(want, receipt)
	w.wrote(before, 0)
}

func zeroAndHundred(w *world) {
	for _, share := range []float64{100, 0, w.Shares[0], 0, w.Shares[1], 100} {
		want, receipt := w.move(share)
		w.settled(want, receipt)
		for _, p := range w.read().Parts {
			exact := p.Shares[w.cand] == share && p.Shares[w.cand.Other()] == 100-share
			if (share == 0 || share == 100) && !exact {
				w.Errorf("part %s: shares %v, want exactly %v %% on the candidate", p.ID, p.Shares, share)
			}
		}
	}
}

func unknownPart(w *world) {
	seen, before := w.read(), w.writes()
	want := []state.PartWeights{{ID: "there is no such part", Weights: w.plan(w.Shares[0], seen)[0].Weights}}
	_, err := w.Router.Write(w.ctx(), w.Slots, want, seen)
	w.kind("write", err, providers.NotFound, providers.Invalid, providers.Conflict)
	w.wrote(before, 0)
	w.at(seen.Weights())
}

func cancelled(w *world) {
	seen, before := w.read(), w.writes()
	ctx, cancel := context.WithCancel(w.Context())
	cancel()
	reading, err := w.Router.Read(ctx, w.Slots)
	if err == nil {
		err = reading.Err()
	}
	w.kind("read", err, providers.Unknown)
	_, err = w.Router.Write(ctx, w.Slots, w.plan(w.Shares[0], seen), seen)
	w.kind("write", err, providers.Unknown)
	if ok, err := w.Router.Settled(ctx, w.plan(w.Shares[0], seen), nil); ok || err == nil {
		w.Errorf("settled: %v, %v, want an error", ok, err)
	}
	w.wrote(before, 0)
	w.at(seen.Weights())
}

func unownedSurvive(w *world) {
	before := w.Unowned()
	for _, share := range []float64{w.Shares[0], w.Shares[1], 100, 0} {
		w.move(share)
		if got := w.Unowned(); got != before {
			w.Fatalf("at %v %% what is not the router's became\n%s\nwant\n%s", share, got, before)
		}
	}
	if t, ok := w.Router.(router.Targeter); ok {
		for _, on := range []bool{true, false} {
			if _, err := t.Target(w.ctx(), w.Slots, w.cand, w.Match, on); err != nil {
				w.Fatalf("testers %v: %v", on, err)
			}
		}
		if got := w.Unowned(); got != before {
			w.Errorf("after testers what is not the router's became\n%s\nwant\n%s", got, before)
		}
	}
}

func settledAfterWrite(w *world) {
	start := w.read().Weights()
	want, receipt := w.move(w.Shares[0])
	w.settled(want, receipt)
	if ok, err := w.Router.Settled(w.ctx(), start, receipt); ok || err != nil {
		w.Errorf("settled for weights that were replaced: %v, %v, want false", ok, err)
	}
}

func acceptedIsNotSettled(w *world) {
	release := w.Hold()
	seen := w.read()
	want := w.plan(w.Shares[0], seen)
	receipt := w.write(w.Router, want, seen)
	for range 3 {
		if ok, err := w.Again().Settled(w.ctx(), want, receipt); ok || err != nil {
			w.Errorf("settled: %v, %v before it is in force, want false", ok, err)
		}
	}
	release()
	w.settled(want, receipt)
}

func trafficFollows(w *world) {
	const n = 400 // a router may split by chance: five standard deviations at 50 % are 12.5 points
	for _, share := range []float64{0, w.Shares[1], 100, 0} {
		want, receipt := w.move(share)
		w.settled(want, receipt)
		got := w.Serve(n)
		if sum := got[w.cand] + got[w.cand.Other()]; sum != n {
			w.Fatalf("at %v %%: %d of %d requests were answered", share, sum, n)
		}
		off := math.Abs(float64(got[w.cand])*100/n - share)
		if off > 12.5 || ((share == 0 || share == 100) && off != 0) {
			w.Errorf("at %v %%: %v of %d requests", share, got, n)
		}
	}
}

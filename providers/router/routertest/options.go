package routertest

import (
	"math"
	"regexp"
	"strconv"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/router"
)

func optionChecks() []check {
	targeter := func(h Harness) bool { _, ok := h.Router.(router.Targeter); return ok }
	return []check{
		{"testers on and off twice", targeter, testersTwice},
		{"testers reach the candidate", func(h Harness) bool { return targeter(h) && h.Probe != nil }, testersReach},
		{"plan is monotone and exact at its ends", nil, planMonotone},
		{"plan refuses and names the nearest", nil, planRefuses},
		{"pinned clients", func(h Harness) bool { _, ok := h.Router.(router.Sticky); return ok }, pinned},
		{"traits", nil, traits},
	}
}

func testersTwice(w *world) {
	want, _ := w.move(w.Shares[0])
	before := w.writes()
	var first router.Access
	for i, on := range []bool{true, true, false, false, true} {
		access, err := w.Again().(router.Targeter).Target(w.ctx(), w.Slots, w.cand, w.Match, on)
		if err != nil {
			w.Fatalf("testers %v: %v", on, err)
		}
		if on && access.URL == "" && len(access.Header) == 0 {
			w.Error("testers on: no address and no header to reach the slot by")
		}
		if i == 0 {
			first = access
		}
		if on && (access.URL != first.URL || len(access.Header) != len(first.Header)) {
			w.Errorf("testers on again: %+v, want %+v as the first time", access, first)
		}
		if got := w.read().Testers; got != on {
			w.Errorf("testers %v after they were set to %v", got, on)
		}
		w.at(want)
	}
	w.wrote(before, 0)
}

func testersReach(w *world) {
	for _, share := range []float64{0, w.Shares[0]} {
		want, receipt := w.move(share)
		w.settled(want, receipt)
		access, err := w.Router.(router.Targeter).Target(w.ctx(), w.Slots, w.cand, w.Match, true)
		if err != nil {
			w.Fatalf("testers on: %v", err)
		}
		for range 10 {
			if got := w.Probe(access); got != w.cand {
				w.Fatalf("at %v %% a tester reached %q, want %q", share, got, w.cand)
			}
		}
	}
	w.move(0)
	access, err := w.Router.(router.Targeter).Target(w.ctx(), w.Slots, w.cand, w.Match, false)
	if err != nil {
		w.Fatalf("testers off: %v", err)
	}
	if len(access.Header) == 0 {
		access.Header = map[string]string{w.Match.Header: w.Match.Value}
	}
	if w.Traits.Testers == "header" {
		if got := w.Probe(access); got == w.cand {
			w.Error("a tester reached the candidate at 0 % with testers off")
		}
	}
}

// planMonotone: no share asks for less of the candidate than a smaller one.
func planMonotone(w *world) {
	seen, last := w.read(), -1.0
	for i := range 401 {
		share := float64(i) / 4
		want, achieved, err := planOf(w.Harness, share, w.Tolerance, seen)
		if err != nil {
			w.kind("plan", err, providers.Invalid)
			if share == 0 || share == 100 {
				w.Errorf("plan %v %% is refused", share)
			}
			continue
		}
		if len(want) != len(seen.Parts) {
			w.Fatalf("plan %v %% has %d parts, the reading %d", share, len(want), len(seen.Parts))
		}
		if achieved < last {
			w.Errorf("plan %v %% achieves %v %%, a smaller share %v %%", share, achieved, last)
		}
		if math.Abs(achieved-share) > w.Tolerance+1e-9 {
			w.Errorf("plan %v %% achieves %v %%, tolerance is %v", share, achieved, w.Tolerance)
		}
		if (share == 0 || share == 100 || achieved == 0) && achieved != share {
			w.Errorf("plan %v %% achieves %v %%, 0 and 100 must be exact, and no other share is nothing", share, achieved)
		}
		last = achieved
	}
}

var number = regexp.MustCompile(`\d+(\.\d+)?`)

// planRefuses asks for more precision than any router has. The refusal must
// name a share that is then reachable.
func planRefuses(w *world) {
	seen := w.read()
	const wish = 0.000123
	_, _, err := planOf(w.Harness, wish, 0, seen)
	w.kind("plan", err, providers.Invalid)
	if err == nil {
		return
	}
	for _, text := range number.FindAllString(err.Error()+" "+providers.HintOf(err), -1) {
		share, _ := strconv.ParseFloat(text, 64)
		if share <= 0 || share == wish || share >= 100 {
			continue
		}
		if _, achieved, err := planOf(w.Harness, share, 0.01, seen); err == nil && achieved > 0 {
			return
		}
	}
	w.Errorf("plan %v %%: no reachable share named in %q, hint %q", wish, err, providers.HintOf(err))
}

func pinned(w *world) {
	a, b := w.Router.(router.Sticky).PinnedFor(), w.Again().(router.Sticky).PinnedFor()
	if a != b || a < 0 {
		w.Errorf("clients are pinned for %v and, by another instance, for %v", a, b)
	}
}

func traits(w *world) {
	if w.Traits.Unit == "" {
		w.Error("the harness gives no Traits.Unit")
	}
	_, targets := w.Router.(router.Targeter)
	if targets != (w.Traits.Testers != "") {
		w.Errorf("Traits.Testers is %q, a Targeter is it: %v", w.Traits.Testers, targets)
	}
}

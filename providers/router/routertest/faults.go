package routertest

import (
	"context"
	"fmt"
	"time"

	"github.com/manent/action/providers"
)

func faultChecks() []check {
	checks := []check{
		{"read not answered", func(h Harness) bool { return h.Hang != nil }, func(w *world) { hang(w, Reads) }},
		{"write not answered", func(h Harness) bool { return h.Hang != nil }, func(w *world) { hang(w, Writes) }},
		{"read cut off", func(h Harness) bool { return h.Shorten != nil }, readCutOff},
		{"write's answer cut off", func(h Harness) bool { return h.Shorten != nil }, writeCutOff},
	}
	kinds := []struct {
		code int
		kind providers.Kind
	}{
		{401, providers.Denied}, {403, providers.Denied}, {404, providers.NotFound}, {409, providers.Conflict},
		{429, providers.Throttled}, {500, providers.Unavailable}, {503, providers.Unavailable},
	}
	able := func(h Harness) bool { return h.Status != nil }
	for _, k := range kinds {
		if k.code != 409 { // no system answers a read so
			checks = append(checks, check{fmt.Sprintf("read status %d", k.code), able, func(w *world) { readStatus(w, k.code, k.kind) }})
		}
		checks = append(checks, check{fmt.Sprintf("write status %d", k.code), able, func(w *world) { writeStatus(w, k.code, k.kind) }})
	}
	return checks
}

// readError reads and returns the error of the call or of its first part.
func (w *world) readError(ctx context.Context) error {
	seen, err := w.Router.Read(ctx, w.Slots)
	if err == nil {
		err = seen.Err()
	}
	for _, p := range seen.Parts {
		if p.Err != nil && len(p.Weights) > 0 {
			w.Errorf("part %s has weights %v beside its error", p.ID, p.Weights)
		}
	}
	return err
}

func readStatus(w *world, code int, kind providers.Kind) {
	start := w.read()
	want, before := w.plan(w.Shares[0], start), w.writes()
	w.Status(code, All)
	w.kind("read", w.readError(w.ctx()), kind)
	_, err := w.Router.Write(w.ctx(), w.Slots, want, start)
	w.kind("write", err, kind)
	ok, err := w.Router.Settled(w.ctx(), want, nil)
	w.kind("settled", err, kind)
	if ok {
		w.Error("settled although nothing could be read")
	}
	w.Status(0, All)
	w.wrote(before, 0)
	w.at(start.Weights())
}

func writeStatus(w *world, code int, kind providers.Kind) {
	seen, before := w.read(), w.writes()
	want := w.plan(w.Shares[0], seen)
	w.Status(code, Writes)
	_, err := w.Router.Write(w.ctx(), w.Slots, want, seen)
	w.kind("write", err, kind)
	w.Status(0, All)
	w.wrote(before, 0)
	w.at(seen.Weights())
	w.write(w.Again(), want, seen)
	w.at(want)
}

// hang checks that a call ends with its context, as Unknown.
func hang(w *world, on Calls) {
	seen := w.read()
	want := w.plan(w.Shares[0], seen)
	heal := w.Hang(on)
	ctx, cancel := context.WithTimeout(w.Context(), 60*time.Millisecond)
	defer cancel()
	began := time.Now()
	var err error
	if on == Reads {
		err = w.readError(ctx)
	} else {
		_, err = w.Router.Write(ctx, w.Slots, want, seen)
	}
	took := time.Since(began)
	heal()
	w.kind("call", err, providers.Unknown)
	if took > 12*time.Second { // shorter than what providers themselves wait for an answer
		w.Errorf("the call took %v, its context 60 ms", took)
	}
	w.write(w.Again(), want, seen)
	w.at(want)
}

func readCutOff(w *world) {
	start := w.read()
	heal := w.Shorten(Reads)
	w.kind("read", w.readError(w.ctx()), providers.Unknown)
	ok, err := w.Router.Settled(w.ctx(), start.Weights(), nil)
	w.kind("settled", err, providers.Unknown)
	if ok {
		w.Error("settled although the answer was cut off")
	}
	heal()
	w.at(start.Weights())
}

// writeCutOff: the write was done. The router may find out by itself or say
// that it does not know; it must not say no.
func writeCutOff(w *world) {
	seen := w.read()
	want := w.plan(w.Shares[0], seen)
	heal := w.Shorten(Writes)
	_, err := w.Router.Write(w.ctx(), w.Slots, want, seen)
	heal()
	if err != nil {
		w.kind("write", err, providers.Unknown)
	}
	receipt := w.write(w.Again(), want, seen)
	w.settled(want, receipt)
	w.at(want)
}

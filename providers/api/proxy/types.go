package proxy

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// The slots, as named in the admin interface.
const (
	SlotA = "a"
	SlotB = "b"
)

// State is what the admin interface shows: GET /v1/state, and the answer to
// every accepted change.
type State struct {
	Revision string             `json:"revision"` // changes with every effective change, and never comes back
	Weights  map[string]float64 `json:"weights"`  // percent of the split by slot, in steps of 0.01; their sum is 100
	Testers  Testers            `json:"testers"`
	Slots    map[string]Slot    `json:"slots"`
	Measured Measured           `json:"measured"`
	Sticky   *Pins              `json:"sticky,omitempty"` // nil without stickiness
}

// Testers is the entry that sends requests with a header to one slot. While
// it is on, the header's value "never" sends a request to the other slot;
// while it is off, the header means nothing.
type Testers struct {
	On     bool   `json:"on"`
	Header string `json:"header,omitempty"`
	Value  string `json:"value,omitempty"`
	Slot   string `json:"slot,omitempty"`
}

// Slot is where a slot's requests go.
type Slot struct {
	URL string `json:"url"`
	Up  *bool  `json:"up,omitempty"` // a TCP connection could be made; nil when it was not tried
}

// Measured is what was served since the weights last changed, testers'
// requests left out.
type Measured struct {
	Requests uint64             `json:"requests"`
	Shares   map[string]float64 `json:"shares,omitempty"` // percent by slot; none without requests
}

// Pins is the state of stickiness.
type Pins struct {
	Cookie  string         `json:"cookie"`
	Seconds float64        `json:"seconds"` // how long a pin holds
	Pinned  map[string]int `json:"pinned"`  // pins by slot that may still be honoured
}

// hundred is 100 % in the proxy's own unit, hundredths of a percent.
const hundred = 10_000

// hundredths checks weights in percent and returns slot b's in hundredths.
func hundredths(weights map[string]float64) (uint64, error) {
	for _, slot := range slices.Sorted(maps.Keys(weights)) {
		w := weights[slot]
		if slot != SlotA && slot != SlotB {
			return 0, fmt.Errorf("unknown slot %q, expected a and b", slot)
		}
		if !(w >= 0 && w <= 100) || math.Abs(w*100-math.Round(w*100)) > 1e-7 {
			return 0, fmt.Errorf("weight %v of slot %s, expected 0 to 100 in steps of 0.01", w, slot)
		}
	}
	if len(weights) != 2 {
		return 0, fmt.Errorf("%d weights, expected one for a and one for b", len(weights))
	}
	a, b := uint64(math.Round(weights[SlotA]*100)), uint64(math.Round(weights[SlotB]*100))
	if a+b != hundred {
		return 0, fmt.Errorf("weights %v and %v add up to %v, expected 100", weights[SlotA], weights[SlotB], float64(a+b)/100)
	}
	return b, nil
}

// percent is the inverse of hundredths.
func percent(b uint64) map[string]float64 {
	return map[string]float64{SlotA: float64(hundred-b) / 100, SlotB: float64(b) / 100}
}

func (t Testers) check() (Testers, error) {
	switch {
	case !t.On:
		return Testers{}, nil
	case t.Slot != SlotA && t.Slot != SlotB:
		return t, fmt.Errorf("testers' slot %q, expected a or b", t.Slot)
	case !token(t.Header):
		return t, fmt.Errorf("testers' header %q is not a header's name", t.Header)
	case t.Value == "" || len(t.Value) > 256 || t.Value == never || strings.ContainsFunc(t.Value, func(r rune) bool { return r < ' ' || r > '~' }):
		return t, fmt.Errorf("testers' value %q, expected 1 to 256 printable characters and not %q", t.Value, never)
	}
	return t, nil
}

func token(s string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	return s != "" && len(s) <= 64 && strings.Trim(s, allowed) == ""
}

// Sticky pins clients to the slot they were first given.
type Sticky struct {
	Cookie string        // name; "" for no stickiness
	TTL    time.Duration // how long a pin holds, from its first request
}

package proxy

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// never is the value of the testers' header that keeps a request on the slot
// that is not being tested.
const never = "never"

// table is what a request is routed by. It is replaced as a whole, so that a
// request sees one set of weights and no change waits for a request.
type table struct {
	*split
	testers  Testers
	header   string // of testers, canonical
	revision string
}

// split deals requests to the slots. Of any run of n requests slot b gets
// n × share, off by less than 1; of 10,000 exactly its hundredths of a percent.
type split struct {
	b      uint64   // hundredths of a percent for slot b
	since  [2]int64 // when each slot last got a weight after having none, Unix ms
	n      atomic.Uint64
	served [2]atomic.Uint64 // testers left out
}

// next gives the slot (0 or 1) of the next request: b's count so far is
// n × share, rounded, so a request is b's where that grows.
func (s *split) next() int {
	i := (s.n.Add(1) - 1) % hundred
	if ((i+1)*s.b+hundred/2)/hundred > (i*s.b+hundred/2)/hundred {
		return 1
	}
	return 0
}

// weight is a slot's, in hundredths of a percent.
func (s *split) weight(slot int) uint64 {
	if slot == 1 {
		return s.b
	}
	return hundred - s.b
}

// How a request came to its slot.
const (
	viaSplit   = "split"
	viaSticky  = "sticky"
	viaTesters = "testers"
)

// choose picks the slot: testers first, then a pin, then the split.
func (p *Proxy) choose(t *table, r *http.Request) (slot int, via string) {
	if t.testers.On {
		if values := r.Header[t.header]; len(values) > 0 {
			switch values[0] {
			case t.testers.Value:
				return index(t.testers.Slot), viaTesters
			case never:
				return 1 - index(t.testers.Slot), viaTesters
			}
		}
	}
	if slot, ok := p.pinned(t, r); ok {
		return slot, viaSticky
	}
	return t.next(), viaSplit
}

// pinned reads the client's pin. It is not honoured when its slot has no
// weight (so that a return is instant), when it is older than that slot's
// weight (a pin to the version that was there before), or than the TTL.
func (p *Proxy) pinned(t *table, r *http.Request) (slot int, ok bool) {
	if p.opts.Sticky.Cookie == "" {
		return 0, false
	}
	cookie, err := r.Cookie(p.opts.Sticky.Cookie)
	if err != nil {
		return 0, false
	}
	name, stamp, _ := strings.Cut(cookie.Value, "-")
	issued, err := strconv.ParseInt(stamp, 36, 64)
	if err != nil || (name != SlotA && name != SlotB) {
		return 0, false
	}
	slot = index(name)
	age := time.Duration(p.now().UnixMilli()-issued) * time.Millisecond
	return slot, t.weight(slot) > 0 && issued >= t.since[slot] && age <= p.opts.Sticky.TTL
}

// pin gives the client a cookie. Nothing in it is secret, and a forged one
// reaches only a slot that has traffic anyway.
func (p *Proxy) pin(w http.ResponseWriter, r *http.Request, slot int) {
	now := p.now()
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // without TLS a browser would drop a Secure cookie
		Name: p.opts.Sticky.Cookie, Value: slotName(slot) + "-" + strconv.FormatInt(now.UnixMilli(), 36), Path: "/",
		MaxAge: int(p.opts.Sticky.TTL.Seconds()), HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: r.TLS != nil || (p.opts.TrustForwarded && r.Header.Get("X-Forwarded-Proto") == "https"),
	})
	p.pins.add(slot, now)
	p.metrics.pins[slot].Inc()
}

func index(slot string) int {
	if slot == SlotB {
		return 1
	}
	return 0
}

func slotName(slot int) string {
	if slot == 1 {
		return SlotB
	}
	return SlotA
}

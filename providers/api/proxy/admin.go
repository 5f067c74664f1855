package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Limits of an admin request.
const (
	maxAdminBody = 4 << 10
	adminRead    = 5 * time.Second // for a body
	dialLimit    = 500 * time.Millisecond
)

// Admin is the admin interface:
//
//	GET /v1/state               State, with its revision as ETag
//	PUT /v1/weights If-Match    {"a": 95, "b": 5}; answers State
//	PUT /v1/testers If-Match    {"on": true, "header": "x-canary", "value": "always", "slot": "b"}; answers State
//	GET /metrics                Prometheus
//
// 412: the revision has changed; 428: no If-Match; 422: not a possible
// state; 400, 413 and 415: not a usable body. Who can reach it can move the
// traffic, so it answers only this machine: a peer or a Host header that is
// not loopback, and anything a browser sends for another site, is refused.
func (p *Proxy) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/state", func(w http.ResponseWriter, r *http.Request) {
		state := p.State()
		p.look(r.Context(), state.Slots)
		answer(w, http.StatusOK, state)
	})
	mux.HandleFunc("PUT /v1/weights", func(w http.ResponseWriter, r *http.Request) {
		put(p, w, r, func(k *kept, weights map[string]float64) error { k.Weights = weights; return nil })
	})
	mux.HandleFunc("PUT /v1/testers", func(w http.ResponseWriter, r *http.Request) {
		put(p, w, r, func(k *kept, testers Testers) (err error) { k.Testers, err = testers.check(); return err })
	})
	mux.Handle("GET /metrics", p.Metrics())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if reason := stranger(r); reason != "" {
			refuse(w, http.StatusForbidden, reason)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// stranger says why a request is not from this machine, "" when it is.
func stranger(r *http.Request) string {
	switch {
	case !loopback(host(r.RemoteAddr)):
		return "the peer is not on loopback"
	case !loopback(hostname(r.Host)):
		return "the Host header is not a loopback address"
	case r.Header.Get("Origin") != "":
		return "no origin may call this"
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return ""
	}
	return "no other site may call this"
}

// hostname is a Host header without its port.
func hostname(h string) string {
	if name, _, err := net.SplitHostPort(h); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(h, "["), "]")
}

func loopback(name string) bool {
	ip := net.ParseIP(name)
	return name == "localhost" || (ip != nil && ip.IsLoopback())
}

// put reads a T and applies it under If-Match.
func put[T any](p *Proxy, w http.ResponseWriter, r *http.Request, f func(*kept, T) error) {
	expect, ok := revision(r.Header.Get("If-Match"))
	if !ok {
		refuse(w, http.StatusPreconditionRequired, `If-Match: "<revision>" is missing`)
		return
	}
	var body T
	if status, reason := decode(w, r, p.patience, &body); status != 0 {
		refuse(w, status, reason)
		return
	}
	err := p.change(expect, func(k *kept) error { return f(k, body) })
	switch {
	case errors.Is(err, errStale):
		refuse(w, http.StatusPreconditionFailed, err.Error())
	case errors.Is(err, errKeep):
		refuse(w, http.StatusInternalServerError, err.Error())
	case err != nil:
		refuse(w, http.StatusUnprocessableEntity, err.Error())
	default:
		answer(w, http.StatusOK, p.State())
	}
}

// revision reads one strong entity tag.
func revision(tag string) (string, bool) {
	inner, ok := strings.CutPrefix(tag, `"`)
	inner, end := strings.CutSuffix(inner, `"`)
	return inner, ok && end && inner != "" && !strings.Contains(inner, `"`)
}

// decode reads one JSON value, within limits of size and time.
func decode(w http.ResponseWriter, r *http.Request, patience time.Duration, into any) (status int, reason string) {
	if typ, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || typ != "application/json" {
		return http.StatusUnsupportedMediaType, "Content-Type is not application/json"
	}
	// A writer without deadlines has its server's.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(patience))
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAdminBody))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return http.StatusRequestEntityTooLarge, "the body is longer than 4 KiB"
	}
	if err != nil {
		return http.StatusBadRequest, "the body ended early"
	}
	return parse(data, into)
}

func parse(data []byte, into any) (status int, reason string) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil || !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return http.StatusBadRequest, "the body is not the expected JSON object"
	}
	if _, err := dec.Token(); err != io.EOF {
		return http.StatusBadRequest, "there is something after the JSON value"
	}
	return 0, ""
}

// State is the present state; Slot.Up is left open.
func (p *Proxy) State() State {
	t := p.table.Load()
	s := State{
		Revision: t.revision, Weights: percent(t.b), Testers: t.testers, Slots: map[string]Slot{},
	}
	served := [2]uint64{t.served[0].Load(), t.served[1].Load()}
	s.Measured.Requests = served[0] + served[1]
	for slot, b := range p.slots {
		s.Slots[slotName(slot)] = Slot{URL: b.url.String()}
	}
	if all := s.Measured.Requests; all > 0 {
		s.Measured.Shares = map[string]float64{
			SlotA: float64(served[0]) * 100 / float64(all), SlotB: float64(served[1]) * 100 / float64(all),
		}
	}
	if c := p.opts.Sticky; c.Cookie != "" {
		s.Sticky = &Pins{Cookie: c.Cookie, Seconds: c.TTL.Seconds(), Pinned: map[string]int{}}
		for slot := range p.slots {
			if t.weight(slot) > 0 {
				s.Sticky.Pinned[slotName(slot)] = p.pins.count(slot, p.now(), time.UnixMilli(t.since[slot]))
			}
		}
	}
	return s
}

// look tries a connection to each slot.
func (p *Proxy) look(ctx context.Context, slots map[string]Slot) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	var up [2]bool
	var wg sync.WaitGroup
	for slot, b := range p.slots {
		wg.Go(func() {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address(b))
			if up[slot] = err == nil; up[slot] {
				_ = conn.Close() // nothing was sent
			}
		})
	}
	wg.Wait()
	for slot := range p.slots {
		s := slots[slotName(slot)]
		s.Up = &up[slot]
		slots[slotName(slot)] = s
	}
}

func address(b *backend) string {
	if b.url.Port() != "" {
		return b.url.Host
	}
	return net.JoinHostPort(b.url.Hostname(), map[string]string{"http": "80", "https": "443"}[b.url.Scheme])
}

func answer(w http.ResponseWriter, status int, v any) {
	if s, ok := v.(State); ok {
		w.Header().Set("ETag", `"`+s.Revision+`"`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

func refuse(w http.ResponseWriter, status int, reason string) {
	answer(w, status, map[string]string{"error": reason})
}

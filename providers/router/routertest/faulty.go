package routertest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
)

// Faulty stands in front of a system's HTTP interface and disturbs it. Fill
// gives a Harness its ways. The zero value needs Next and IsWrite.
type Faulty struct {
	Next    http.Handler
	IsWrite func(*http.Request) bool // whether a request changes weights

	// Refuse answers with a status as the system itself does; nil for plain text.
	Refuse func(w http.ResponseWriter, text string, code int)

	mu      sync.Mutex
	act     func(write bool) action // what happens to a request; nil for nothing
	sneak   func()
	pending []func()
}

// action is what happens to one request.
type action struct {
	deliver bool // reaches the system
	later   bool // reaches it when landed
	status  int  // answered so
	lose    bool // the connection is closed without an answer
	shorten bool // the answer is cut off
	hang    bool // no answer before the client goes away
}

// Fill sets what a Faulty can do on a harness.
func (f *Faulty) Fill(h *Harness) {
	h.Sneak = func(change func()) { f.mu.Lock(); defer f.mu.Unlock(); f.sneak = change }
	h.Status = func(code int, on Calls) {
		f.set(func(write bool) action {
			if code == 0 || !on.hit(write) {
				return action{deliver: true}
			}
			return action{status: code}
		})
	}
	h.Hang = func(on Calls) func() { return f.set(f.when(on, action{hang: true})) }
	h.Shorten = func(on Calls) func() { return f.set(f.when(on, action{deliver: true, shorten: true})) }
	h.Cut = func(n int) func() { return f.set(nth(n, action{lose: true})) }
	h.Mute = func(n int) func() { return f.set(nth(n, action{deliver: true, lose: true})) }
	h.Late = func(n int) (heal, land func()) { return f.set(nth(n, action{later: true, lose: true})), f.land }
}

func (c Calls) hit(write bool) bool {
	if write {
		return c&Writes != 0
	}
	return c&Reads != 0
}

func (f *Faulty) set(act func(write bool) action) (heal func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.act = act
	return func() { f.mu.Lock(); defer f.mu.Unlock(); f.act = nil }
}

func (f *Faulty) when(on Calls, a action) func(bool) action {
	return func(write bool) action {
		if on.hit(write) {
			return a
		}
		return action{deliver: true}
	}
}

// nth does a to the n-th write and loses all requests after it.
func nth(n int, a action) func(bool) action {
	writes := 0
	return func(write bool) action {
		if write {
			writes++
		}
		switch {
		case writes < n:
			return action{deliver: true}
		case writes == n && write:
			return a
		}
		return action{lose: true}
	}
}

func (f *Faulty) land() {
	f.mu.Lock()
	late := f.pending
	f.pending = nil
	f.mu.Unlock()
	for _, do := range late {
		do()
	}
}

// decide picks the action of a request, and the change to sneak in first.
func (f *Faulty) decide(write bool) (action, func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a, sneak := action{deliver: true}, func() {}
	if f.act != nil {
		a = f.act(write)
	}
	if write && f.sneak != nil {
		sneak, f.sneak = f.sneak, nil
	}
	return a, sneak
}

// ServeHTTP implements http.Handler. Panicking with ErrAbortHandler closes
// the connection.
func (f *Faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body) // before anything is decided: what was half sent did not happen
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	a, sneak := f.decide(f.IsWrite(r))
	sneak()
	if a.hang {
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	if a.status != 0 {
		refuse := f.Refuse
		if refuse == nil {
			refuse = http.Error
		}
		refuse(w, "refused by the test: "+r.Header.Get("Authorization")+" "+r.URL.RawQuery, a.status)
		return
	}
	answer := httptest.NewRecorder()
	do := func() {
		again := r.Clone(context.WithoutCancel(r.Context()))
		again.Body = io.NopCloser(bytes.NewReader(body))
		f.Next.ServeHTTP(answer, again)
	}
	if a.deliver {
		do()
	}
	if a.later {
		f.mu.Lock()
		f.pending = append(f.pending, do)
		f.mu.Unlock()
	}
	if a.lose {
		panic(http.ErrAbortHandler)
	}
	reply(w, answer, a.shorten)
}

func reply(w http.ResponseWriter, answer *httptest.ResponseRecorder, short bool) {
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	data := answer.Body.Bytes()
	if !short {
		w.WriteHeader(answer.Code)
		_, _ = w.Write(data) // the client may be gone
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(data)+1))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(data[:len(data)/2])
	panic(http.ErrAbortHandler)
}

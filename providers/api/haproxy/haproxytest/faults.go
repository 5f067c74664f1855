package haproxytest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
)

// Fate is what happens to a call.
type Fate int

// Fates.
const (
	Done  Fate = iota // served
	Lost              // never arrives; the connection ends without an answer
	Mute              // served; the answer is lost
	Late              // as Lost, but served when Land is called
	Short             // served; the answer is cut off
	Hang              // never answered, not served
	Page              // answered 404 with a page, not served, as by a proxy in front
	Away              // redirected to a login at the same host, likewise
)

// Call is what decides a fate.
type Call struct {
	Write  bool
	Number int // of this write, or of the last one, from 1
	Path   string
}

type faults struct {
	mu     sync.Mutex
	fate   func(Call) Fate
	status func(Call) int
	count  int
	late   []func()
	ended  chan struct{}
}

// Doom sets the fate of calls until the returned function is called. Writes
// are counted from now.
func (f *faults) Doom(fate func(Call) Fate) (heal func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fate, f.count = fate, 0
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.fate = nil
	}
}

// Answer makes calls be answered with a status, and not served, where it is
// not 0; nil ends it.
func (f *faults) Answer(status func(Call) int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status = status
}

// Land serves what was late.
func (f *faults) Land() {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	for _, serve := range late {
		serve()
	}
}

func (f *faults) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended == nil {
		f.ended = make(chan struct{})
	}
	close(f.ended)
}

// decide counts a call and says what becomes of it.
func (f *faults) decide(path string, write bool) (fate Fate, status int, ended chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if write {
		f.count++
	}
	if f.ended == nil {
		f.ended = make(chan struct{})
	}
	call := Call{Write: write, Number: f.count, Path: path}
	if f.fate != nil {
		fate = f.fate(call)
	}
	if f.status != nil {
		status = f.status(call)
	}
	return fate, status, f.ended
}

func (f *faults) strike(w http.ResponseWriter, r *http.Request, write bool, serve http.HandlerFunc) {
	fate, status, ended := f.decide(r.URL.Path, write)
	if status != 0 {
		answer(w, status, problem(status, "as the test wants it; sent "+r.Header.Get("Authorization")))
		return
	}
	switch fate {
	case Done:
		serve(w, r)
		return
	case Page:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<html><h1>404</h1>no such site</html>")
		return
	case Away:
		http.Redirect(w, r, "/login", http.StatusFound)
		return
	case Mute:
		serve(httptest.NewRecorder(), r)
	case Late:
		f.keep(r, serve)
	case Short:
		rec := httptest.NewRecorder()
		serve(rec, r)
		for name, values := range rec.Header() {
			w.Header()[name] = values
		}
		w.Header().Set("Content-Length", "4096")
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes()[:rec.Body.Len()/2])
	case Hang:
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	}
	panic(http.ErrAbortHandler) // ends the connection
}

// keep reads a call whole, for Land.
func (f *faults) keep(r *http.Request, serve http.HandlerFunc) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	kept := r.Clone(context.WithoutCancel(r.Context()))
	kept.Body = io.NopCloser(bytes.NewReader(body))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late = append(f.late, func() { serve(httptest.NewRecorder(), kept) })
}

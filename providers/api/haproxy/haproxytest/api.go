// Package haproxytest stands in for HAProxy's Data Plane API: the part of
// versions 2 and 3 that a router or a pool uses, with what was seen of the
// real one about versions, whole objects, what is applied at run time and what
// takes a reload. It drives a real HAProxy by its stats socket and its file,
// or one in memory. It must not be used outside of tests.
package haproxytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// User and Password of the API.
const (
	User     = "admin"
	Password = "dp-s3cr3t"
)

// API is one instance's.
type API struct {
	URL  string // http://127.0.0.1:port
	Path string // of the configuration file, which may be edited by hand

	t       testing.TB
	version string
	haproxy HAProxy
	server  *httptest.Server
	faults

	mu      sync.Mutex
	reloads []*reload
	good    file // the last that HAProxy loaded
	modes   Modes
	writes  int
	sneak   func()
}

// Modes make it behave as it was seen to in trouble. The zero value is none.
type Modes struct {
	NoRuntime   bool // every question about the running HAProxy is answered 404 "no data"
	Reloads     bool // weights are not applied at run time, but by a reload
	Held        bool // reloads stay in progress
	FailReloads bool // reloads fail, and the last good file comes back
	Conflicts   int  // so many more writes are answered 409 although the version is right
}

type reload struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	Response string `json:"response,omitempty"`
	Stamp    int64  `json:"reload_timestamp,omitempty"`
	after    file
}

// Start serves version ("v2" or "v3") for a HAProxy that has loaded the
// configuration at path, until the test ends.
func Start(t testing.TB, version string, haproxy HAProxy, path string) *API {
	t.Helper()
	a := &API{t: t, version: version, haproxy: haproxy, Path: path}
	a.good = a.load()
	a.server = httptest.NewServer(a)
	a.URL = a.server.URL
	t.Cleanup(func() {
		a.end()
		a.server.Close()
	})
	return a
}

// InMemory starts both, with this configuration.
func InMemory(t testing.TB, version, configuration string) (*API, *Memory) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "haproxy.cfg")
	f := file{strings.Split(configuration, "\n")}
	f.setVersion(1)
	m := &Memory{}
	if err := f.save(path); err != nil {
		t.Fatal(err)
	}
	if err := m.Reload(path); err != nil {
		t.Fatal(err)
	}
	return Start(t, version, m, path), m
}

// load reads the file; the caller holds mu or is alone.
func (a *API) load() file {
	f, err := load(a.Path)
	if err != nil {
		a.t.Errorf("haproxytest: %v", err)
		return file{[]string{versionMark + "1"}}
	}
	return f
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() { // the server would make a lost answer of it, which a test may be waiting for
		found := recover()
		if found == nil {
			return
		}
		if err, _ := found.(error); !errors.Is(err, http.ErrAbortHandler) {
			a.t.Errorf("haproxytest: %s %s: %v", r.Method, r.URL.Path, found)
		}
		panic(http.ErrAbortHandler)
	}()
	write := r.Method != http.MethodGet
	a.strike(w, r, write, a.serve)
}

func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Method != http.MethodGet && a.sneak != nil {
		sneak := a.sneak
		a.sneak = nil
		a.mu.Unlock()
		sneak()
		a.mu.Lock()
	}
	user, password, _ := r.BasicAuth()
	rest, ours := strings.CutPrefix(r.URL.Path, "/"+a.version+"/services/haproxy/")
	switch {
	case user != User || password != Password:
		answer(w, http.StatusUnauthorized, problem(401, "unauthenticated for invalid credentials"))
	case !ours:
		answer(w, http.StatusNotFound, problem(404, "path "+r.URL.Path+" was not found"))
	default:
		if a.version == "v3" {
			w.Header().Set("Configuration-Version", strconv.FormatInt(a.load().version(), 10))
		}
		a.route(w, r, rest)
	}
}

func problem(code int, message string) object { return object{"code": code, "message": message} }

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// route makes one form of both versions' paths: area, backend, what, name.
func (a *API) route(w http.ResponseWriter, r *http.Request, rest string) {
	seg := strings.Split(rest, "/")
	backend := r.URL.Query().Get("backend")
	nested := len(seg) > 3 && seg[1] == "backends"
	if nested != (a.version == "v3") && (nested || backend != "") {
		a.t.Errorf("haproxytest: %s %s is not of version %s", r.Method, r.URL, a.version)
	}
	if nested {
		backend, seg = seg[2], append(seg[:1:1], seg[3:]...)
	}
	what := strings.Join(seg[:min(len(seg), 2)], "/")
	switch {
	case r.Method == http.MethodPut && what == "configuration/servers" && len(seg) == 3:
		a.replace(w, r, backend, seg[2])
	case r.Method != http.MethodGet:
		a.t.Errorf("haproxytest: unexpected request %s %s", r.Method, r.URL)
		answer(w, http.StatusMethodNotAllowed, problem(405, "method not allowed"))
	case seg[0] == "configuration":
		a.configuration(w, seg, backend)
	case seg[0] == "reloads" && len(seg) == 2:
		a.showReload(w, seg[1])
	case what == "runtime/servers" && len(seg) == 2:
		a.runtime(w, backend)
	case what == "stats/native":
		a.stats(w, r)
	default:
		a.t.Errorf("haproxytest: unexpected request %s %s", r.Method, r.URL)
		answer(w, http.StatusNotFound, problem(404, "not found"))
	}
}

func (a *API) configuration(w http.ResponseWriter, seg []string, backend string) {
	f := a.load()
	switch {
	case len(seg) == 2 && seg[1] == "version":
		answer(w, http.StatusOK, f.version())
		return
	case len(seg) == 3 && seg[1] == "backends":
		backend = seg[2]
	}
	b, found := f.backend(backend)
	servers, _ := f.servers(backend)
	switch {
	case !found:
		answer(w, http.StatusNotFound, problem(404, "backend "+backend+" does not exist"))
	case seg[1] == "backends":
		a.wrap(w, f, b)
	case seg[1] == "servers" && len(seg) == 2:
		a.wrap(w, f, append([]object{}, servers...))
	case seg[1] == "stick_rules":
		a.wrap(w, f, f.stickRules(backend))
	default:
		a.t.Errorf("haproxytest: unexpected read of configuration %v", seg)
		answer(w, http.StatusNotFound, problem(404, "not found"))
	}
}

// wrap answers with something of the configuration.
func (a *API) wrap(w http.ResponseWriter, f file, data any) {
	if a.version == "v2" {
		data = object{"_version": f.version(), "data": data}
	}
	answer(w, http.StatusOK, data)
}

// replace is the PUT of a server.
func (a *API) replace(w http.ResponseWriter, r *http.Request, backend, name string) {
	f := a.load()
	query := r.URL.Query()
	if query.Has("transaction_id") || r.Header.Get("Content-Type") != "application/json" {
		a.t.Errorf("haproxytest: PUT %s as %q, expected JSON and no transaction", r.URL, r.Header.Get("Content-Type"))
	}
	given, _ := strconv.ParseInt(query.Get("version"), 10, 64)
	servers, places := f.servers(backend)
	at := slices.IndexFunc(servers, func(s object) bool { return s["name"] == name })
	var next object
	err := json.NewDecoder(r.Body).Decode(&next)
	switch {
	case given == 0:
		answer(w, http.StatusBadRequest, problem(400, "version or transaction not specified, specify only one"))
	case given != f.version() || a.modes.Conflicts > 0:
		a.modes.Conflicts = max(a.modes.Conflicts-1, 0)
		answer(w, http.StatusConflict, problem(409, fmt.Sprintf("version in configuration file is %d, given version is %d", f.version(), given)))
	case at < 0:
		answer(w, http.StatusNotFound, problem(404, "server "+name+" does not exist in backend "+backend))
	case err != nil || next["name"] != name || next["address"] == nil || next["port"] == nil:
		answer(w, http.StatusUnprocessableEntity, problem(422, "not a server"))
	default:
		a.complete(name, servers[at], next)
		f.lines[places[at]] = lineOf(next)
		a.change(w, f, backend, servers[at], next)
	}
}

// complete finds what a careless client loses.
func (a *API) complete(name string, was, next object) {
	for field := range was {
		if _, ok := next[field]; !ok {
			a.t.Errorf("haproxytest: PUT of %s loses its %s", name, field)
		}
	}
	for field, value := range next {
		if field != "weight" && !equal(was[field], value) {
			a.t.Errorf("haproxytest: PUT of %s changes its %s to %v", name, field, value)
		}
	}
	if w, ok := next["weight"].(float64); !ok || w < 0 || w > 256 {
		a.t.Errorf("haproxytest: PUT of %s with weight %v", name, next["weight"])
	}
}

// change stores the file, brings it into force and answers.
func (a *API) change(w http.ResponseWriter, f file, backend string, was, next object) {
	a.writes++
	f.setVersion(f.version() + 1)
	if err := f.save(a.Path); err != nil {
		a.t.Errorf("haproxytest: %v", err)
	}
	if a.version == "v3" {
		w.Header().Set("Configuration-Version", strconv.FormatInt(f.version(), 10))
	}
	if a.live(backend, was, next) {
		answer(w, http.StatusOK, next)
		return
	}
	w.Header().Set("Reload-ID", a.reload(f).ID)
	answer(w, http.StatusAccepted, next)
}

// live applies a change by the stats socket, if it is one of those for which
// there are commands and HAProxy takes it.
func (a *API) live(backend string, was, next object) bool {
	for field := range next {
		if field != "weight" && !equal(was[field], next[field]) {
			return false
		}
	}
	if equal(was, next) {
		return true
	}
	if next["weight"] == nil || a.modes.Reloads || a.modes.NoRuntime {
		return false
	}
	said, err := a.haproxy.Command(fmt.Sprintf("set weight %s/%s %v", backend, next["name"], next["weight"]))
	return err == nil && strings.TrimSpace(said) == ""
}

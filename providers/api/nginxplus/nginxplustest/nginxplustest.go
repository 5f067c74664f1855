// Package nginxplustest has one instance of NGINX Plus in memory: the part of
// its API that concerns the servers of one upstream, as the description of
// version 9 has it, and the choice of a server for a request. It refuses what
// NGINX would refuse, and fails the test for what nobody should send.
package nginxplustest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Server is one entry of the upstream.
type Server struct {
	ID      int
	Address string
	Name    string // as the configuration has it; "" for the address
	Host    string // the domain name it was resolved from
	Parent  int    // id of the entry with that name, -1 for none
	Weight  int
	Backup  bool
	Down    bool
	Drain   bool
	State   string // where it is not up: unavail, checking, unhealthy
	SRV     bool   // its weight comes from a record
	Only    bool   // only holds a domain name: no peer

	current int // of the smooth weighted round robin
}

// Instance is one NGINX.
type Instance struct {
	Upstream string
	Versions []int
	User     string // of basic authentication, "" for none
	Password string
	ReadOnly bool // no write=on
	Readers  bool // the user may only GET
	Static   bool // no zone
	Keep     bool // has a state file

	t       testing.TB
	mu      sync.Mutex
	servers []*Server
	file    []Server // as a reload finds them without a state file
	changes int
	next    int
	paths   []string
}

// New returns an instance with the upstream "app".
func New(t testing.TB, servers ...Server) *Instance {
	i := &Instance{Upstream: "app", Versions: []int{1, 2, 3, 4, 5, 6, 7, 8, 9}, t: t, file: servers}
	i.Reload()
	return i
}

// Add makes a server with an id of its own, as in a configuration.
func Add(id int, address string, weight int) Server {
	return Server{ID: id, Address: address, Weight: weight, Parent: -1}
}

// Reload does what nginx -s reload does: what the API changed is gone, unless
// there is a state file.
func (i *Instance) Reload() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.Keep && i.servers != nil {
		return
	}
	i.servers = nil
	for _, s := range i.file {
		i.servers = append(i.servers, &s)
		i.next = max(i.next, s.ID+1)
	}
}

// Renumber gives each server another id, and their parents with them.
func (i *Instance) Renumber() {
	i.mu.Lock()
	defer i.mu.Unlock()
	by := i.next
	for _, s := range i.servers {
		s.ID += by
		if s.Parent >= 0 {
			s.Parent += by
		}
		i.next = max(i.next, s.ID+1)
	}
}

// Swap exchanges the ids of two servers.
func (i *Instance) Swap(a, b string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	x, y := i.find(a), i.find(b)
	x.ID, y.ID = y.ID, x.ID
}

// Edit changes a server as somebody else would.
func (i *Instance) Edit(address string, change func(*Server)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change(i.find(address))
}

// Server returns one.
func (i *Instance) Server(address string) Server {
	i.mu.Lock()
	defer i.mu.Unlock()
	return *i.find(address)
}

func (i *Instance) find(address string) *Server {
	for _, s := range i.servers {
		if s.Address == address {
			return s
		}
	}
	i.t.Fatalf("the upstream has no server %s", address)
	return nil
}

// Changes counts the PATCHes that were carried out.
func (i *Instance) Changes() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.changes
}

// Requests are the methods and paths that arrived.
func (i *Instance) Requests() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.paths)
}

// Dump is all but weight and draining of the servers that ours names, and all
// of the others.
func (i *Instance) Dump(ours ...string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	var out strings.Builder
	for _, s := range i.servers {
		copied := *s
		copied.current = 0
		if slices.Contains(ours, s.Address) {
			copied.Weight, copied.Drain = 0, false
		}
		fmt.Fprintf(&out, "%+v\n", copied)
	}
	return out.String()
}

// Request picks a server as the round robin of NGINX does, "" for none: the
// client gets a 502.
func (i *Instance) Request() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, backup := range []bool{false, true} {
		var best *Server
		total := 0
		for _, s := range i.servers {
			if s.Backup != backup || s.state() != "up" || s.Only {
				continue
			}
			s.current += s.Weight
			total += s.Weight
			if best == nil || s.current > best.current {
				best = s
			}
		}
		if best != nil {
			best.current -= total
			return best.Address
		}
	}
	return ""
}

func (s *Server) state() string {
	switch {
	case s.Down:
		return "down"
	case s.State != "":
		return s.State
	case s.Drain:
		return "draining"
	}
	return "up"
}

// ServeHTTP implements http.Handler: the location /api.
func (i *Instance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.paths = append(i.paths, r.Method+" "+r.URL.Path)
	if user, password, _ := r.BasicAuth(); i.User != "" && (user != i.User || password != i.Password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="api"`)
		http.Error(w, "<html>401 Authorization Required</html>", http.StatusUnauthorized)
		return
	}
	if r.URL.RawQuery != "" {
		i.t.Errorf("%s with query %q", r.URL.Path, r.URL.RawQuery)
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/api/")
	if !ok {
		http.Error(w, "<html>404 Not Found</html>", http.StatusNotFound)
		return
	}
	if rest == "" {
		i.method(w, r, http.MethodGet, func() { answer(w, http.StatusOK, i.Versions) })
		return
	}
	version, path, _ := strings.Cut(rest, "/")
	if n, err := strconv.Atoi(version); err != nil || !slices.Contains(i.Versions, n) {
		refuse(w, http.StatusNotFound, "UnknownVersion")
		return
	}
	i.upstream(w, r, path)
}

func (i *Instance) upstream(w http.ResponseWriter, r *http.Request, path string) {
	parts := strings.Split(strings.TrimSuffix(path, "/"), "/")
	if len(parts) < 3 || parts[0] != "http" || parts[1] != "upstreams" || len(parts) > 5 || len(parts) > 3 && parts[3] != "servers" {
		i.t.Errorf("path %q is none of this API's", path)
		refuse(w, http.StatusNotFound, "PathNotFound")
		return
	}
	switch {
	case parts[2] != i.Upstream:
		refuse(w, http.StatusNotFound, "UpstreamNotFound")
	case i.Static:
		refuse(w, http.StatusBadRequest, "UpstreamStatic")
	case len(parts) == 3:
		i.method(w, r, http.MethodGet, func() { answer(w, http.StatusOK, i.live()) })
	case len(parts) == 4:
		i.method(w, r, http.MethodGet, func() { answer(w, http.StatusOK, i.entries()) })
	default:
		i.method(w, r, http.MethodPatch, func() { i.patch(w, r, parts[4]) })
	}
}

// method takes one method, and nothing else from anybody in a test.
func (i *Instance) method(w http.ResponseWriter, r *http.Request, want string, do func()) {
	switch {
	case r.Method != want:
		i.t.Errorf("%s %s, expected %s only", r.Method, r.URL.Path, want)
		refuse(w, http.StatusMethodNotAllowed, "MethodDisabled")
	case want != http.MethodGet && i.Readers:
		http.Error(w, "<html>403 Forbidden</html>", http.StatusForbidden)
	case want != http.MethodGet && i.ReadOnly:
		refuse(w, http.StatusMethodNotAllowed, "MethodDisabled")
	default:
		do()
	}
}

func (i *Instance) entries() []map[string]any {
	out := []map[string]any{}
	for _, s := range i.servers {
		out = append(out, s.entry())
	}
	return out
}

func (s *Server) entry() map[string]any {
	e := map[string]any{
		"id": s.ID, "server": s.Address, "weight": s.Weight, "max_conns": 0, "max_fails": 1, "fail_timeout": "10s",
		"slow_start": "0s", "route": "", "backup": s.Backup, "down": s.Down,
	}
	if s.Drain {
		e["drain"] = true
	}
	if s.Parent >= 0 {
		e["parent"], e["host"] = strconv.Itoa(s.Parent), s.Host
	}
	return e
}

func (i *Instance) live() map[string]any {
	peers := []map[string]any{}
	for _, s := range i.servers {
		if s.Only {
			continue
		}
		name := s.Name
		if name == "" {
			name = s.Address
		}
		p := map[string]any{
			"id": s.ID, "server": s.Address, "name": name, "backup": s.Backup, "weight": s.Weight, "state": s.state(),
			"active": 0, "requests": 0, "health_checks": map[string]any{"checks": 0, "fails": 0, "unhealthy": 0},
		}
		if s.State != "" {
			p["health_checks"] = map[string]any{"checks": 9, "fails": 3, "unhealthy": 1, "last_passed": false}
		}
		peers = append(peers, p)
	}
	return map[string]any{"peers": peers, "keepalive": 0, "zombies": 0, "zone": i.Upstream}
}

func (i *Instance) patch(w http.ResponseWriter, r *http.Request, id string) {
	at := slices.IndexFunc(i.servers, func(s *Server) bool { return strconv.Itoa(s.ID) == id })
	if _, err := strconv.Atoi(id); err != nil {
		i.t.Errorf("PATCH of server %q", id)
		refuse(w, http.StatusBadRequest, "UpstreamBadServerId")
		return
	}
	if at < 0 {
		refuse(w, http.StatusNotFound, "UpstreamServerNotFound")
		return
	}
	var sent map[string]any
	if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
		i.t.Errorf("PATCH with no JSON: %v", err)
		refuse(w, http.StatusUnsupportedMediaType, "JsonError")
		return
	}
	changed := *i.servers[at]
	for key, value := range sent {
		if code := changed.set(key, value); code != "" {
			if code != "UpstreamServerWeightImmutable" {
				i.t.Errorf("PATCH with %s: %v", key, value)
			}
			refuse(w, http.StatusBadRequest, code)
			return
		}
	}
	if len(sent) == 0 {
		i.t.Error("PATCH that changes nothing")
	}
	*i.servers[at] = changed
	i.changes++
	answer(w, http.StatusOK, changed.entry())
}

// set changes one parameter; those that manent has no business with are
// refused here, although NGINX takes them.
func (s *Server) set(key string, value any) string {
	switch v := value.(type) {
	case bool:
		if key == "drain" {
			s.Drain = v
			return ""
		}
	case float64:
		if key != "weight" {
			break
		}
		if v < 1 || v != float64(int(v)) {
			return "UpstreamBadWeight"
		}
		if s.SRV {
			return "UpstreamServerWeightImmutable"
		}
		s.Weight = int(v)
		return ""
	}
	return "UpstreamConfFormatError"
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

func refuse(w http.ResponseWriter, status int, code string) {
	Refuse(w, status, code, "refused: "+code)
}

// Refuse answers with an error of the API.
func Refuse(w http.ResponseWriter, status int, code, text string) {
	answer(w, status, map[string]any{
		"error":      map[string]any{"status": status, "text": text, "code": code},
		"request_id": "0123456789abcdef", "href": "https://nginx.org/en/docs/http/ngx_http_api_module.html",
	})
}

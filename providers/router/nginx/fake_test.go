package nginx

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/host/hosttest"
	"github.com/manent/action/providers/api/nginx"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

const managed = "/etc/nginx/manent/shop.conf"

// fakeNginx is NGINX 1.22 on a machine in memory: it refuses what the real one
// refuses, loads what it was told to, and routes requests by it.
type fakeNginx struct {
	machine hosttest.Machine

	mu      sync.Mutex
	broken  string // the test of the rest of the configuration fails so
	held    bool   // reloads take no effect until release
	waiting []byte
	loaded  []nginx.Directive
	tests   int
	writes  int // loads that changed a share
	turns   map[string]int
}

func newFakeNginx(content string) *fakeNginx {
	f := &fakeNginx{turns: map[string]int{}}
	f.machine.Apply = f.apply
	f.machine.Program = f.program
	f.machine.Network = http.HandlerFunc(f.status)
	if content != "" {
		f.machine.Edit(managed, func([]byte) []byte { return []byte(content) })
		f.load([]byte(content))
	}
	return f
}

func (f *fakeNginx) apply(path, check, apply string, content []byte) (int, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tests++
	if path != managed || check != "nginx -t" || apply != "nginx -s reload" {
		return 25, fmt.Sprintf("unexpected commands %q, %q for %s", check, apply, path)
	}
	if f.broken != "" {
		return 25, f.broken
	}
	if err := refused(string(content)); err != nil {
		return 25, "nginx: [emerg] " + err.Error()
	}
	if f.held {
		f.waiting = content
		return 0, ""
	}
	f.load(content)
	return 0, ""
}

func (f *fakeNginx) load(content []byte) {
	before := f.shares()
	f.loaded, _ = nginx.Parse(string(content))
	f.turns = map[string]int{}
	if len(before) > 0 && !router.Same(before, f.shares()) {
		f.writes++
	}
}

func (f *fakeNginx) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = false
	if f.waiting != nil {
		f.load(f.waiting)
	}
}

// shares is what was loaded, as text of the directives that split.
func (f *fakeNginx) shares() map[string]float64 {
	out := map[string]float64{}
	for _, d := range f.loaded {
		for _, line := range d.Block {
			switch d.Name {
			case "split_clients":
				out[line.Name+" "+line.Args[0]] = 1
			case "upstream":
				out[line.Name+" "+strings.Join(line.Args, " ")] = 1
			}
		}
	}
	return out
}

func (f *fakeNginx) program(args []string) host.Result {
	if len(args) == 2 && args[0] == "nginx" && args[1] == "-v" {
		return host.Result{Stderr: []byte("nginx version: nginx/1.22.1\n")}
	}
	return host.Result{Exit: 127, Stderr: []byte("unexpected program")}
}

func (f *fakeNginx) status(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Host != "127.0.0.1:8319" || r.URL.Path != "/manent_status" || r.Method != http.MethodGet || !r.Close {
		http.Error(w, "not the status location over a connection of its own", http.StatusNotFound)
		return
	}
	_, _ = fmt.Fprint(w, f.value("$manent_generation", nil))
}

// request routes one request as the loaded file says.
func (f *fakeNginx) request(user string, header map[string]string) state.Slot {
	f.mu.Lock()
	defer f.mu.Unlock()
	vars := map[string]string{"$http_x_user_id": user, "$remote_addr": "192.0.2.7", "$http_user_agent": "test"}
	for name, value := range header {
		vars["$http_"+strings.ReplaceAll(strings.ToLower(name), "-", "_")] = value
	}
	route := f.value("$manent_route", vars)
	if route == "weights" {
		return f.turn()
	}
	return state.Slot(route)
}

// value evaluates a variable.
func (f *fakeNginx) value(name string, vars map[string]string) string {
	for _, d := range f.loaded {
		if len(d.Args) != 2 || d.Args[1] != name {
			continue
		}
		source := f.expand(d.Args[0], vars)
		if d.Name == "split_clients" {
			return bucket(d.Block, source)
		}
		result := ""
		for _, line := range d.Block {
			if line.Name == source && line.Name != "default" {
				return f.expand(line.Args[0], vars)
			}
			if line.Name == "default" {
				result = line.Args[0]
			}
		}
		return f.expand(result, vars)
	}
	return vars[name]
}

var percentText = regexp.MustCompile(`^\d{1,3}(\.\d{1,2})?%$`)

var variable = regexp.MustCompile(`\$[a-z0-9_]+`)

func (f *fakeNginx) expand(text string, vars map[string]string) string {
	return variable.ReplaceAllStringFunc(text, func(name string) string { return f.value(name, vars) })
}

// bucket is split_clients: hash against cumulated shares.
func bucket(block []nginx.Directive, source string) string {
	hash, bound := murmur2([]byte(source)), uint64(0)
	for _, line := range block {
		if line.Name == "*" {
			return line.Args[0]
		}
		percent, _ := strconv.ParseFloat(strings.TrimSuffix(line.Name, "%"), 64)
		bound += uint64(percent*100+0.5) * 0xffffffff / 10000
		if uint64(hash) < bound {
			return line.Args[0]
		}
	}
	return ""
}

// murmur2 is MurmurHash2 by Austin Appleby, seeded with the length.
func murmur2(data []byte) uint32 {
	const m = 0x5bd1e995
	h := uint32(len(data))
	for len(data) >= 4 {
		k := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		k *= m
		k ^= k >> 24
		h = h*m ^ k*m
		data = data[4:]
	}
	for i := len(data) - 1; i >= 0; i-- {
		h ^= uint32(data[i]) << (8 * i)
		if i == 0 {
			h *= m
		}
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

// turn is one choice of the smooth weighted round robin among the servers.
func (f *fakeNginx) turn() state.Slot {
	best, sum := "", 0
	for _, d := range f.loaded {
		for _, line := range d.Block {
			if d.Name == "upstream" && line.Name == "server" {
				weight, _ := strconv.Atoi(strings.TrimPrefix(line.Args[1], "weight="))
				f.turns[line.Args[0]] += weight
				sum += weight
				if best == "" || f.turns[line.Args[0]] > f.turns[best] {
					best = line.Args[0]
				}
			}
		}
	}
	f.turns[best] -= sum
	if strings.HasPrefix(best, "10.0.0.1:") {
		return state.SlotA
	}
	return state.SlotB
}

// refused is what nginx -t says about the file.
func refused(content string) error {
	all, err := nginx.Parse(content)
	if err != nil {
		return err
	}
	known := map[string]bool{"$status": true, "$remote_addr": true, "$upstream_addr": true, "$upstream_status": true, "$manent_first": true}
	for _, d := range all {
		if len(d.Args) == 2 {
			known[d.Args[1]] = true
		}
	}
	for _, d := range all {
		switch {
		case d.Name == "map" && len(d.Args) == 2:
			err = refusedMap(d)
		case d.Name == "split_clients" && len(d.Args) == 2:
			err = refusedSplit(d)
		case d.Name == "upstream" && len(d.Args) == 1:
			err = refusedUpstream(d)
		default:
			err = fmt.Errorf("unknown directive %q", d.Name)
		}
		if err != nil {
			return err
		}
		for _, name := range variable.FindAllString(fmt.Sprint(d), -1) {
			if !known[name] && !strings.HasPrefix(name, "$http_") && !strings.HasPrefix(name, "$cookie_") {
				return fmt.Errorf("unknown %q variable", name[1:])
			}
		}
	}
	return nil
}

func refusedMap(d nginx.Directive) error {
	seen := map[string]bool{}
	for _, line := range d.Block {
		if seen[line.Name] {
			return fmt.Errorf("conflicting parameter %q", line.Name)
		}
		if seen[line.Name] = true; len(line.Args) != 1 && line.Name != "volatile" {
			return fmt.Errorf("invalid number of the map parameters")
		}
	}
	return nil
}

func refusedSplit(d nginx.Directive) error {
	sum := 0.0
	for i, line := range d.Block {
		if line.Name == "*" {
			if i != len(d.Block)-1 {
				return fmt.Errorf(`"*" is not the last`) // the real one takes it; manent never writes it
			}
			continue
		}
		percent, err := strconv.ParseFloat(strings.TrimSuffix(line.Name, "%"), 64)
		if err != nil || percent == 0 || !percentText.MatchString(line.Name) {
			return fmt.Errorf("invalid percent value %q", line.Name)
		}
		if sum += percent; sum > 100 {
			return fmt.Errorf("percent total is greater than 100%%")
		}
	}
	return nil
}

func refusedUpstream(d nginx.Directive) error {
	servers := 0
	for _, line := range d.Block {
		switch line.Name {
		case "zone", "keepalive":
		case "server":
			servers++
			for _, param := range line.Args[1:] {
				if name, value, _ := strings.Cut(param, "="); value == "0" && name == "weight" || (name != "weight" && name != "max_fails" && name != "down") {
					return fmt.Errorf("invalid parameter %q", param)
				}
			}
		default:
			return fmt.Errorf("unknown directive %q", line.Name)
		}
	}
	if servers == 0 {
		return fmt.Errorf("no servers are inside upstream")
	}
	return nil
}

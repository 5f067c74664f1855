package haproxytest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// HAProxy is what the stand-in drives: a process, or Memory.
type HAProxy interface {
	// Command sends a line to the stats socket and returns the answer.
	Command(line string) (string, error)
	// Reload loads the configuration file, or says why HAProxy refuses it.
	Reload(path string) error
}

// Memory is a HAProxy without a process. It answers the commands that the
// stand-in sends in the words of HAProxy 2.6.
type Memory struct {
	mu       sync.Mutex
	backends map[string]*memoryBackend
	held     []string
	holds    bool
}

type memoryBackend struct {
	algorithm string
	servers   []*memoryServer
}

type memoryServer struct {
	name            string
	weight, initial int
	admin           int // bits of srv_admin_state
	down, backup    bool
	effective       int // less than weight by an agent or slowstart, -1 for as weight
	current         int // of the smooth round robin
}

const drained, maintained = 8, 1

// Reload implements HAProxy.
func (m *Memory) Reload(path string) error {
	f, err := load(path)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	next := map[string]*memoryBackend{}
	for _, line := range f.lines {
		words := strings.Fields(line)
		if len(words) > 0 && words[0] == "broken" {
			return fmt.Errorf("[ALERT] config : unknown keyword %q", words[0])
		}
		if len(words) == 2 && words[0] == "backend" {
			next[words[1]] = backendOf(f, words[1])
		}
	}
	m.backends, m.held = next, nil
	return nil
}

func backendOf(f file, name string) *memoryBackend {
	b, usual := &memoryBackend{algorithm: "roundrobin"}, 1
	read := func(_ int, words []string) {
		switch words[0] {
		case "balance":
			b.algorithm = words[1]
		case "default-server":
			d := object{}
			if optionsOf(words[1:], d); d["weight"] != nil {
				usual = int(d["weight"].(float64))
			}
		case "server-template": // server-template PREFIX COUNT ADDRESS …
			count, _ := strconv.Atoi(words[2])
			for i := range count {
				b.servers = append(b.servers, serverFrom(serverOf(append([]string{words[1] + strconv.Itoa(i+1)}, words[3:]...)), 1))
			}
		}
	}
	f.section("defaults", "", read)
	f.section("backend", name, read)
	list, _ := f.servers(name)
	for _, s := range list {
		b.servers = append(b.servers, serverFrom(s, usual))
	}
	return b
}

func serverFrom(s object, usual int) *memoryServer {
	out := &memoryServer{name: s["name"].(string), weight: usual, effective: -1, backup: s["backup"] == "enabled"}
	if w, ok := s["weight"].(float64); ok {
		out.weight = int(w)
	}
	if s["maintenance"] == "enabled" {
		out.admin = maintained
	}
	out.initial = out.weight
	return out
}

// Command implements HAProxy.
func (m *Memory) Command(line string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.holds && strings.HasPrefix(line, "set weight") {
		m.held = append(m.held, line)
		return "\n", nil
	}
	return m.do(strings.Fields(line)), nil
}

func (m *Memory) do(words []string) string {
	switch {
	case words[0] == "show" && words[1] == "stat":
		return m.stat()
	case words[0] == "show":
		return m.state(words[3])
	}
	name, server, _ := strings.Cut(words[2], "/")
	b := m.backends[name]
	if b == nil {
		return "No such backend.\n"
	}
	i := slices.IndexFunc(b.servers, func(s *memoryServer) bool { return s.name == server })
	if i < 0 {
		return "No such server.\n"
	}
	if words[1] == "weight" {
		return b.setWeight(b.servers[i], words[3])
	}
	b.servers[i].set(words[3], words[4])
	return "\n"
}

func (b *memoryBackend) setWeight(s *memoryServer, text string) string {
	w, err := strconv.Atoi(text)
	if err != nil || w < 0 || w > 256 {
		return "Absolute weight can only be between 0 and 256 inclusive.\n"
	}
	if b.algorithm != "roundrobin" && b.algorithm != "leastconn" && b.algorithm != "random" && w != 0 && w != s.initial {
		return "Backend is using a static LB algorithm and only accepts weights '0%' and '100%'.\n"
	}
	s.weight = w
	return "\n"
}

func (s *memoryServer) set(what, value string) {
	switch what + " " + value {
	case "state ready":
		s.admin = 0
	case "state drain":
		s.admin = drained
	case "state maint":
		s.admin = maintained
	case "health down":
		s.down = true
	case "health up":
		s.down = false
	default:
		panic("haproxytest: set server " + what + " " + value)
	}
}

func (s *memoryServer) up() bool { return s.admin == 0 && !s.down }

func (s *memoryServer) inForce() int {
	switch {
	case s.admin == drained:
		return 0
	case s.effective >= 0:
		return s.effective
	}
	return s.weight
}

func (m *Memory) state(backend string) string {
	b := m.backends[backend]
	if b == nil {
		return "Can't find backend.\n"
	}
	out := "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight\n"
	for i, s := range b.servers {
		op := 2
		if s.down || s.admin == maintained {
			op = 0
		}
		out += fmt.Sprintf("3 %s %d %s 127.0.0.1 %d %d %d %d\n", backend, i+1, s.name, op, s.admin, s.weight, s.initial)
	}
	return out
}

func (m *Memory) stat() string {
	out := "# pxname,svname,status,weight,type,algo,\n"
	for _, name := range slices.Sorted(maps.Keys(m.backends)) {
		for _, s := range m.backends[name].servers {
			status := "UP"
			if !s.up() {
				status = "DOWN"
			}
			out += fmt.Sprintf("%s,%s,%s,%d,2,,\n", name, s.name, status, s.inForce())
		}
		out += fmt.Sprintf("%s,BACKEND,UP,1,1,%s,\n", name, m.backends[name].algorithm)
	}
	return out
}

// Hold keeps the weights set from now on out of force until the returned
// function is called.
func (m *Memory) Hold() (release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holds = true
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, line := range m.held {
			m.do(strings.Fields(line))
		}
		m.holds, m.held = false, nil
	}
}

// Effective makes a server count as having another weight than the one set,
// as an agent or slowstart does; -1 ends it.
func (m *Memory) Effective(backend, server string, weight int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.backends[backend].servers {
		if s.name == server {
			s.effective = weight
		}
	}
}

// Weights are those in force of the servers that are up.
func (m *Memory) Weights(backend string) map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]int{}
	for _, s := range m.backends[backend].servers {
		if s.up() && !s.backup {
			out[s.name] = s.inForce()
		}
	}
	return out
}

// Request says which server gets the next request, "" for none.
func (m *Memory) Request(backend string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var best *memoryServer
	total := 0
	for _, s := range m.backends[backend].servers {
		if !s.up() || s.backup || s.inForce() == 0 {
			continue
		}
		total += s.inForce()
		s.current += s.inForce()
		if best == nil || s.current > best.current {
			best = s
		}
	}
	if best == nil {
		return ""
	}
	best.current -= total
	return best.name
}

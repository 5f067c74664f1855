package haproxytest

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// object is what the API says of a section or a line.
type object map[string]any

// option is a word of a server line and its field.
type option struct {
	word, field string
	kind        byte // 'f' flag, 'n' number, 's' text
}

func options() []option {
	return []option{
		{"check", "check", 'f'}, {"backup", "backup", 'f'}, {"disabled", "maintenance", 'f'}, {"agent-check", "agent-check", 'f'},
		{"weight", "weight", 'n'}, {"maxconn", "maxconn", 'n'}, {"inter", "inter", 'n'}, {"rise", "rise", 'n'}, {"fall", "fall", 'n'},
		{"slowstart", "slowstart", 'n'}, {"agent-port", "agent-port", 'n'}, {"cookie", "cookie", 's'}, {"on-marked-down", "on-marked-down", 's'},
	}
}

// file is a configuration file.
type file struct{ lines []string }

func load(path string) (file, error) {
	text, err := os.ReadFile(path)
	return file{strings.Split(string(text), "\n")}, err
}

func (f file) save(path string) error {
	return os.WriteFile(path, []byte(strings.Join(f.lines, "\n")), 0o600)
}

const versionMark = "# _version="

// version is that of the first line, 1 where a hand has taken it away.
func (f file) version() int64 {
	if text, ok := strings.CutPrefix(f.lines[0], versionMark); ok {
		if v, err := strconv.ParseInt(text, 10, 64); err == nil {
			return v
		}
	}
	return 1
}

func (f *file) setVersion(v int64) {
	mark := versionMark + strconv.FormatInt(v, 10)
	if strings.HasPrefix(f.lines[0], versionMark) {
		f.lines[0] = mark
		return
	}
	f.lines = append([]string{mark}, f.lines...)
}

// section calls each with the words of every line of a section, by its place.
func (f file) section(kind, name string, each func(at int, words []string)) (found bool) {
	in := false
	for at, line := range f.lines {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if line[0] != ' ' && line[0] != '\t' {
			in = words[0] == kind && (len(words) > 1 && words[1] == name || len(words) == 1 && name == "")
			found = found || in
			continue
		}
		if in {
			each(at, words)
		}
	}
	return found
}

// servers are those of a backend, with the place of each line.
func (f file) servers(backend string) (list []object, places []int) {
	f.section("backend", backend, func(at int, words []string) {
		if words[0] == "server" {
			list, places = append(list, serverOf(words[1:])), append(places, at)
		}
	})
	return list, places
}

func serverOf(words []string) object {
	host, port, err := net.SplitHostPort(words[1])
	if err != nil {
		panic("haproxytest: server address " + words[1])
	}
	s := object{"name": words[0], "address": host, "port": number(port)}
	optionsOf(words[2:], s)
	return s
}

func optionsOf(words []string, s object) {
	for i := 0; i < len(words); i++ {
		o, ok := find(func(o option) bool { return o.word == words[i] })
		if !ok {
			panic("haproxytest: server option " + words[i])
		}
		if o.kind == 'f' {
			s[o.field] = "enabled"
			continue
		}
		i++
		if s[o.field] = words[i]; o.kind == 'n' {
			s[o.field] = number(words[i])
		}
	}
}

func find(ok func(option) bool) (option, bool) {
	for _, o := range options() {
		if ok(o) {
			return o, true
		}
	}
	return option{}, false
}

func number(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic("haproxytest: number " + text)
	}
	return n
}

// lineOf writes a server. What the object lacks is not in the line.
func lineOf(s object) string {
	line := fmt.Sprintf("  server %s %s:%v", s["name"], s["address"], s["port"])
	for _, o := range options() {
		v, ok := s[o.field]
		switch {
		case !ok || v == "disabled":
		case o.kind == 'f':
			line += " " + o.word
		default:
			line += fmt.Sprintf(" %s %v", o.word, v)
		}
	}
	return line
}

// backend is the section as the API shows it. What it has from a defaults
// section is not in it.
func (f file) backend(name string) (object, bool) {
	b := object{"name": name}
	found := f.section("backend", name, func(_ int, w []string) {
		switch w[0] {
		case "balance":
			b["balance"] = object{"algorithm": w[1]}
		case "hash-type":
			b["hash_type"] = object{"method": w[1]}
		case "cookie":
			c := object{"name": w[1], "type": "insert"}
			for i, word := range w {
				if word == "maxlife" {
					c["maxlife"] = number(w[i+1])
				}
			}
			b["cookie"] = c
		case "stick-table":
			table := object{"type": w[2]}
			for i, word := range w {
				if word == "expire" {
					table["expire"] = number(w[i+1])
				}
			}
			b["stick_table"] = table
		case "default-server":
			d := object{}
			optionsOf(w[1:], d)
			b["default_server"] = d
		}
	})
	return b, found
}

// stickRules are the backend's.
func (f file) stickRules(name string) []object {
	rules := []object{}
	f.section("backend", name, func(_ int, w []string) {
		if w[0] == "stick" {
			rules = append(rules, object{"index": len(rules), "type": w[1], "pattern": w[2]})
		}
	})
	return rules
}

func equal(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

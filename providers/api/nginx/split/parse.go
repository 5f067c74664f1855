package split

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/manent/action/providers/api/nginx"
	"github.com/manent/action/state"
)

// Parse reads a file whose names have the prefix. The directives count; byHand
// says that they are not what manent wrote. What the data does not hold must
// not be there: the file is written again and compared, directive by directive.
func Parse(text, prefix string) (f File, byHand bool, err error) {
	byHand, err = checkMeta(text)
	if err != nil {
		return File{}, false, err
	}
	all, err := nginx.Parse(text)
	if err != nil {
		return File{}, false, err
	}
	f = File{Setup: Setup{Prefix: prefix, Mode: Hashed}}
	for _, directive := range all {
		if err := f.take(directive); err != nil {
			return File{}, false, fmt.Errorf("line %d: %w", directive.Line, err)
		}
	}
	again, err := nginx.Parse(f.body())
	if err != nil {
		return File{}, false, fmt.Errorf("not manent's: %w", err)
	}
	if line, ok := differs(plain(all), plain(again)); ok {
		return File{}, false, fmt.Errorf("line %d: not manent's", line)
	}
	return f, byHand, nil
}

// checkMeta reads the comment line. Without one, or with another digest, the
// file was changed by hand; a newer format cannot be read.
func checkMeta(text string) (byHand bool, err error) {
	_, rest, ok := strings.Cut(text, metaMark)
	line, body, _ := strings.Cut(rest, "\n")
	var m meta
	if ok {
		ok = json.Unmarshal([]byte(line), &m) == nil
	}
	if m.Format > format {
		return false, fmt.Errorf("format %d, expected %d or less: a newer manent wrote it", m.Format, format)
	}
	return !ok || m.Digest != digest(body), nil
}

// take takes over what one directive says. It is lenient where the comparison
// with what is written again is strict.
func (f *File) take(directive nginx.Directive) error {
	if len(directive.Args) == 0 {
		return fmt.Errorf("%s without arguments", directive.Name)
	}
	last := directive.Args[len(directive.Args)-1]
	switch directive.Name + " " + strings.TrimPrefix(last, "$"+f.Prefix) {
	case "map _key":
		f.Key = directive.Args[0]
	case "map _generation":
		f.Generation = entry(directive.Block, "default")
	case "map _route":
		return f.takeRoute(directive)
	case "map _track":
		f.takeAddresses(directive.Block)
	case "split_clients _bucket":
		f.Salt, _ = strings.CutSuffix(directive.Args[0], ":$"+f.Prefix+"_key")
		return f.takeLines(directive.Block)
	case "upstream " + f.Prefix + "_weights":
		return f.takeServers(directive.Block)
	}
	return nil
}

// entry is the value of one line of a map.
func entry(block []nginx.Directive, name string) string {
	for _, line := range block {
		if line.Name == name && len(line.Args) == 1 {
			return line.Args[0]
		}
	}
	return ""
}

func (f *File) takeRoute(directive nginx.Directive) error {
	name, ok := strings.CutPrefix(directive.Args[0], "$http_")
	if !ok {
		return nil
	}
	t := Testers{Header: strings.ReplaceAll(name, "_", "-")}
	for _, line := range directive.Block {
		if line.Name != "default" && line.Name != never && len(line.Args) == 1 {
			t.Value, t.Slot = line.Name, state.Slot(line.Args[0])
		}
	}
	if err := t.Check(); err != nil {
		return err
	}
	if t.Slot.Other() == "" {
		return fmt.Errorf("testers go to %q, expected a or b", t.Slot)
	}
	f.Testers = t
	return nil
}

var percentText = regexp.MustCompile(`^(\d{1,3})(?:\.(\d{1,2}))?%$`)

func (f *File) takeLines(block []nginx.Directive) error {
	for _, entry := range block {
		hundredths := -1
		if entry.Name != "*" {
			var err error
			if hundredths, err = hundredthsOf(entry.Name); err != nil {
				return err
			}
		}
		if len(entry.Args) != 1 || (hundredths < 0 && len(f.Lines) != len(block)-1) {
			return errors.New("expected lines such as 5.00% b; and * a; as the last")
		}
		f.Lines = append(f.Lines, Line{hundredths, entry.Args[0]})
	}
	return nil
}

// hundredthsOf reads a percentage as NGINX does, with at most two decimals.
func hundredthsOf(text string) (int, error) {
	m := percentText.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%q, expected a percentage such as 5.00%%", text)
	}
	n, err := strconv.Atoi(m[1] + (m[2] + "00")[:2])
	if err != nil || n < 1 || n > 10000 {
		return 0, fmt.Errorf("%q, expected 0.01%% to 100%%", text)
	}
	return n, nil
}

func (f *File) takeServers(block []nginx.Directive) error {
	f.Mode = Weighted
	for _, entry := range block {
		switch {
		case entry.Name == "server" && len(entry.Args) > 0:
			s, err := serverOf(entry.Args)
			if err != nil {
				return err
			}
			f.Servers = append(f.Servers, s)
		case entry.Name == "sticky" && len(entry.Args) > 2:
			f.Cookie = entry.Args[1]
			f.Expires, _ = strings.CutPrefix(entry.Args[2], "expires=")
		}
	}
	return nil
}

// serverOf reads a server with its parameters; those that change no share may
// be anything.
func serverOf(args []string) (Server, error) {
	s := Server{Address: args[0], Weight: 1}
	for _, param := range args[1:] {
		name, value, _ := strings.Cut(param, "=")
		switch name {
		case "weight":
			w, err := strconv.Atoi(value)
			if err != nil || w < 1 || w > math.MaxInt32 {
				return s, fmt.Errorf("%q, expected a weight of 1 or more", param)
			}
			s.Weight = w
		case "down":
			s.Down = true
		case "route":
			s.Route = value
		case "max_fails", "fail_timeout":
		default:
			return s, fmt.Errorf("server %s has %q, which is not manent's", s.Address, param)
		}
	}
	return s, nil
}

// takeAddresses reads which servers are whose from the map that logs them.
func (f *File) takeAddresses(block []nginx.Directive) {
	for _, entry := range block {
		quoted, ok := strings.CutPrefix(entry.Name, addressBegin)
		if !ok || len(entry.Args) != 1 {
			continue
		}
		f.Mode = Weighted
		if f.Addresses == nil {
			f.Addresses = map[state.Slot][]string{}
		}
		slot := state.Slot(entry.Args[0])
		address := strings.ReplaceAll(strings.TrimSuffix(quoted, addressEnd), `\`, "")
		f.Addresses[slot] = append(f.Addresses[slot], address)
	}
}

// plain writes alike what means the same: percentages, parameters of servers.
func plain(all []nginx.Directive) []nginx.Directive {
	out := slices.Clone(all)
	for i, d := range out {
		switch d.Name {
		case "split_clients":
			out[i].Block = slices.Clone(d.Block)
			for k, line := range d.Block {
				if n, err := hundredthsOf(line.Name); err == nil {
					out[i].Block[k].Name = percent(n)
				}
			}
		case "upstream":
			out[i].Block = slices.Clone(d.Block)
			for k, line := range d.Block {
				if line.Name != "server" || len(line.Args) == 0 {
					continue
				}
				if s, err := serverOf(line.Args); err == nil {
					out[i].Block[k].Args = append([]string{s.Address}, s.params()...)
				}
			}
		}
	}
	return out
}

// differs returns the line of the first directive of a that is not in b.
func differs(a, b []nginx.Directive) (int, bool) {
	last := 0
	for i, x := range a {
		last = x.Line
		if i >= len(b) || x.Name != b[i].Name || !slices.Equal(x.Args, b[i].Args) || (x.Block == nil) != (b[i].Block == nil) {
			return x.Line, true
		}
		if line, ok := differs(x.Block, b[i].Block); ok {
			return max(line, x.Line), true
		}
	}
	return last, len(a) != len(b)
}

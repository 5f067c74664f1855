package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Nginx compiles a log_format, as it is between the quotes of the directive:
//
//	$msec $status $backend $request_time $http_x_user_id
//
// A variable takes the text up to the literal that follows it; the last takes
// the rest. The format has to tell where each field in use begins, whatever a
// client sends: two variables without a literal between them are refused, and
// so is a variable that a client fills (a header, the URL) in front of a field
// in use, unless it is in double quotes, which nginx escapes (but not with
// escape=none).
func Nginx(format string, f Fields) (Parser, error) {
	head, vars, err := splitFormat(format)
	if err != nil {
		return nil, err
	}
	if err := checkFormat(vars, f); err != nil {
		return nil, err
	}
	roles, parts := f.roles(), make([]part, 0, len(vars))
	for i, v := range vars {
		p := part{role: roles[v.name], until: []byte(v.until)}
		if fromClient(v.name) && !quoted(v) && i+1 < len(vars) && fenced(v, vars[i+1]) {
			p.fence = []byte(vars[i+1].until)
		}
		parts = append(parts, p)
	}
	prefix := []byte(head)
	return func(line []byte) (Entry, error) {
		rest, ok := bytes.CutPrefix(line, prefix)
		if !ok {
			return Entry{}, errForm
		}
		return match(parts, rest, f)
	}, nil
}

// part is a variable's use and the literal behind it. With a fence, which no
// client can write, the literal is the last one in front of the fence.
type part struct {
	role  role
	until []byte
	fence []byte
}

// end is where the variable ends, -1 for nowhere.
func (p part) end(rest []byte) int {
	if p.fence == nil {
		return bytes.Index(rest, p.until)
	}
	return bytes.LastIndex(rest[:max(0, bytes.Index(rest, p.fence))], p.until)
}

func match(parts []part, rest []byte, f Fields) (Entry, error) {
	var e Entry
	for _, p := range parts {
		value := rest
		if len(p.until) > 0 {
			i := p.end(rest)
			if i < 0 {
				return Entry{}, errForm
			}
			value, rest = rest[:i], rest[i+len(p.until):]
		} else {
			rest = nil
		}
		if p.role != unused {
			if err := e.set(p.role, value, f.Unit); err != nil {
				return Entry{}, err
			}
		}
	}
	if len(rest) > 0 {
		return Entry{}, errForm
	}
	return e, nil
}

// variable is one of a format, with the literal behind it.
type variable struct{ name, until string }

func splitFormat(format string) (head string, vars []variable, err error) {
	head, rest, found := strings.Cut(format, "$")
	for found {
		var v variable
		if inner, ok := strings.CutPrefix(rest, "{"); ok {
			v.name, rest, ok = strings.Cut(inner, "}")
			if !ok {
				return "", nil, errors.New("log format has ${ without }")
			}
		} else {
			n := strings.IndexFunc(rest, func(r rune) bool { return !nameRune(r) })
			if n < 0 {
				n = len(rest)
			}
			v.name, rest = rest[:n], rest[n:]
		}
		if v.name == "" || strings.ContainsFunc(v.name, func(r rune) bool { return !nameRune(r) }) {
			return "", nil, errors.New("log format has a $ without the name of a variable")
		}
		v.until, rest, found = strings.Cut(rest, "$")
		vars = append(vars, v)
	}
	if len(vars) == 0 {
		return "", nil, fmt.Errorf("log format %q has no variables, expected nginx's log_format", format)
	}
	return head, vars, nil
}

func nameRune(r rune) bool {
	return r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

// checkFormat refuses a format in which fields are missing or can be forged.
func checkFormat(vars []variable, f Fields) error {
	roles := f.roles()
	var names []string
	last := -1 // the last variable in use
	for i, v := range vars {
		names = append(names, v.name)
		if roles[v.name] != unused {
			last = i
		}
	}
	for _, want := range []string{f.Time, f.Status, f.Track, f.Duration} {
		if want != "" && !slices.Contains(names, bare(want)) {
			return fmt.Errorf("log format has no $%s, only $%s", bare(want), strings.Join(names, ", $"))
		}
	}
	for i, v := range vars[:len(vars)-1] {
		if v.until == "" {
			return fmt.Errorf("log format has nothing between $%s and $%s", v.name, vars[i+1].name)
		}
		if v.name == "time_local" && roles[v.name] != unused && strings.HasPrefix(v.until, " ") {
			return errors.New("log format has $time_local, which has a space in it, in front of a space: put it in brackets")
		}
		if i < last && fromClient(v.name) && !fenced(v, vars[i+1]) {
			return fmt.Errorf("log format has $%s, which a client fills, unquoted in front of $%s: put it in double quotes or at the end", v.name, vars[last].name)
		}
	}
	return nil
}

// fromClient reports whether a client decides what a variable holds.
func fromClient(name string) bool {
	for _, prefix := range []string{"http_", "arg_", "cookie_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{
		"request", "request_uri", "request_body", "uri", "document_uri", "args", "query_string", "remote_user",
	}, name)
}

// quoted reports whether a double quote ends the variable.
func quoted(v variable) bool { return strings.Contains(v.until, `"`) }

// fenced reports whether it is certain where a variable ends whatever it
// holds: a double quote follows it, or follows the next variable and that one
// is not the client's, like the time after the user in nginx's own format.
func fenced(v, next variable) bool { return quoted(v) || (quoted(next) && !fromClient(next.name)) }

// HasVariable reports whether a log_format has a variable.
func HasVariable(format, name string) bool {
	_, vars, err := splitFormat(format)
	return err == nil && slices.ContainsFunc(vars, func(v variable) bool { return v.name == bare(name) })
}

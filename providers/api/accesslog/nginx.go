package accesslog

import (
	"bytes"
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
	for _, v := range vars {
		parts = append(parts, part{roles[v.name], []byte(v.until)})
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

// part is a variable's use and the literal behind it.
type part struct {
	role  role
	until []byte
}

func match(parts []part, rest []byte, f Fields) (Entry, error) {
	var e Entry
	for _, p := range parts {
		value := rest
		if len(p.until) > 0 {
			i := bytes.Index(rest, p.until)
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
				return "", nil, fmt.Errorf("log format has ${ without }")
			}
		} else {
			n := strings.IndexFunc(rest, func(r rune) bool { return !nameRune(r) })
			if n < 0 {
				n = len(rest)
			}
			v.name, rest = rest[:n], rest[n:]
		}
		if v.name == "" || strings.ContainsFunc(v.name, func(r rune) bool { return !nameRune(r) }) {
			return "", nil, fmt.Errorf("log format has a $ without the name of a variable")
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
		if i < last && fromClient(v.name) && !fenced(v) {
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

// fenced reports whether a client cannot write what ends the variable. The
// user in front of the time, as in nginx's own combined format, can only make
// its own line unreadable: the time would not parse.
func fenced(v variable) bool {
	return strings.Contains(v.until, `"`) || (v.name == "remote_user" && strings.HasSuffix(v.until, "["))
}

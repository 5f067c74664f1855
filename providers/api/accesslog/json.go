package accesslog

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"
)

// JSON returns the parser of logs with one object a line. Only the object's
// own keys count, not those of objects in it. Numbers may be quoted, as nginx
// with escape=json has them. A missing or null track is ""; a missing or null
// duration leaves the request untimed.
func JSON(f Fields) (Parser, error) {
	if f.Time == "" || f.Status == "" || f.Track == "" {
		return nil, errors.New("fields of time, status and track are needed")
	}
	roles := f.roles()
	return func(line []byte) (Entry, error) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] != '{' || !json.Valid(line) {
			return Entry{}, errJSON
		}
		var e Entry
		var err error
		status := false
		members(line, func(key, value []byte) {
			r := roles[string(key)]
			if r == unused || err != nil || string(value) == "null" {
				return
			}
			err = e.member(r, value, f.Unit)
			status = status || r == roleStatus
		})
		switch {
		case err != nil:
			return Entry{}, err
		case e.At.IsZero():
			return Entry{}, errTime
		case !status:
			return Entry{}, errStatus
		}
		return e, nil
	}, nil
}

// member sets a field from a JSON value.
func (e *Entry) member(r role, value []byte, unit time.Duration) error {
	switch value[0] {
	case '"':
		return e.set(r, unquote(value), unit)
	case '{', '[', 't', 'f':
		return [...]error{roleTime: errTime, roleStatus: errStatus, roleTrack: errTrack, roleDuration: errDuration}[r]
	}
	return e.set(r, value, unit)
}

// members walks over the members of an object that is known to be valid JSON.
func members(object []byte, each func(key, value []byte)) {
	rest := skipSpace(object[1:])
	for rest[0] != '}' {
		n := valueEnd(rest)
		key := rest[:n]
		rest = skipSpace(rest[n:])
		rest = skipSpace(rest[1:]) // the colon
		n = valueEnd(rest)
		each(unquote(key), rest[:n])
		rest = skipSpace(rest[n:])
		if rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
	}
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:]
	}
	return b
}

// valueEnd is the length of the value that b begins with.
func valueEnd(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i += stringEnd(b[i:]) - 1
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // the end of the object a number stood in
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return len(b)
}

// stringEnd is the length of the string that b begins with.
func stringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// unquote is the text of a JSON string.
func unquote(quoted []byte) []byte {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var text string
	if err := json.Unmarshal(quoted, &text); err != nil {
		return inner // cannot be: the line is valid
	}
	return []byte(text)
}

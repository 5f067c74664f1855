package store

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// MaxSegment bounds one escaped segment of a key or of an object's name, in
// bytes: file systems and the ref files of a Git server take 255.
const MaxSegment = 200

// EscapeKey turns a key of exactly three segments
// (project/application/environment) into a path of three segments that is a
// legal Git ref, file name and object key on every system but one that folds
// case: letters, digits, '-', '_' and a '.' inside a word stay, every other
// byte becomes %xx. UnescapeKey gives the key back.
func EscapeKey(key string) (string, error) {
	if n := strings.Count(key, "/"); n != 2 {
		return "", fmt.Errorf("key %q has %d segments, expected project/application/environment", key, n+1)
	}
	path, err := escape(key)
	if err != nil {
		return "", fmt.Errorf("key %q: %w", key, err)
	}
	return path, nil
}

// EscapeName does the same to the name of a side object, which has at least
// two segments. The first is not "state.json" or "lock": a store may keep
// those beside it.
func EscapeName(name string) (string, error) {
	switch folder, _, ok := strings.Cut(name, "/"); {
	case !ok:
		return "", fmt.Errorf("object %q has one segment, expected a folder and a name", name)
	case folder == "state.json" || folder == "lock":
		return "", fmt.Errorf("object %q: the folder %q is reserved", name, folder)
	}
	path, err := escape(name)
	if err != nil {
		return "", fmt.Errorf("object %q: %w", name, err)
	}
	return path, nil
}

// EscapePrefix does the same to a prefix of Change.Drop, whole segments with
// a slash at the end.
func EscapePrefix(prefix string) (string, error) {
	trimmed, ok := strings.CutSuffix(prefix, "/")
	if !ok {
		return "", fmt.Errorf("prefix %q, expected whole segments and a slash at the end", prefix)
	}
	path, err := escape(trimmed)
	if err != nil {
		return "", fmt.Errorf("prefix %q: %w", prefix, err)
	}
	return path + "/", nil
}

// UnescapeKey gives the key an escaped path stands for; false for a path that
// EscapeKey does not make.
func UnescapeKey(path string) (string, bool) {
	var key strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] != '%' {
			key.WriteByte(path[i])
			continue
		}
		if i+2 >= len(path) {
			return "", false
		}
		c, err := hex.DecodeString(path[i+1 : i+3])
		if err != nil {
			return "", false
		}
		key.Write(c)
		i += 2
	}
	again, err := EscapeKey(key.String())
	return key.String(), err == nil && again == path
}

// Below reports whether a key lies below a prefix of whole segments: "shop"
// and "shop/" hold "shop/web/prod" but not "shops/web/prod"; "" holds all.
func Below(key, prefix string) bool {
	prefix = strings.TrimSuffix(prefix, "/")
	return prefix == "" || key == prefix || strings.HasPrefix(key, prefix+"/")
}

func escape(path string) (string, error) {
	var out strings.Builder
	for i, segment := range strings.Split(path, "/") {
		if segment == "" {
			return "", fmt.Errorf("segment %d is empty", i+1)
		}
		if i > 0 {
			out.WriteByte('/')
		}
		start := out.Len()
		for j := range len(segment) {
			if c := segment[j]; plain(segment, j) {
				out.WriteByte(c)
			} else {
				fmt.Fprintf(&out, "%%%02x", c)
			}
		}
		if n := out.Len() - start; n > MaxSegment {
			return "", fmt.Errorf("segment %d takes %d bytes when escaped, expected at most %d", i+1, n, MaxSegment)
		}
	}
	return out.String(), nil
}

// plain reports whether byte i of a segment stays as it is. A dot does
// between two word characters, unless it begins ".lock" at the end, which Git
// forbids.
func plain(segment string, i int) bool {
	if segment[i] != '.' {
		return word(segment[i])
	}
	return i > 0 && i+1 < len(segment) && word(segment[i-1]) && word(segment[i+1]) && segment[i:] != ".lock"
}

func word(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

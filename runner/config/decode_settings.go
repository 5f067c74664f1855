package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// settings reads a provider's block: any keys, plain values.
func (d *decoder) settings(n *yaml.Node, v reflect.Value, path string, depth int) bool {
	got, ok := d.anyMap(n, map[string]any(v.Interface().(Settings)), path, depth)
	if len(got) > 0 {
		v.Set(reflect.ValueOf(Settings(got)))
	}
	return ok
}

func (d *decoder) anyMap(n *yaml.Node, old map[string]any, path string, depth int) (map[string]any, bool) {
	out := make(map[string]any, len(n.Content)/2+len(old))
	for key, value := range old {
		out[key] = value
	}
	ok := d.keys(n, path, "settings", func(key, value *yaml.Node) bool {
		got, ok := d.anyValue(value, out[key.Value], join(path, key.Value), depth+1)
		out[key.Value] = got
		return ok
	})
	return out, ok
}

func (d *decoder) anyValue(n *yaml.Node, old any, path string, depth int) (any, bool) {
	if !d.usable(n, path, "one", depth) {
		return nil, false
	}
	switch n.Kind {
	case yaml.MappingNode:
		before, _ := old.(map[string]any)
		return d.anyMap(n, before, path, depth)
	case yaml.SequenceNode:
		ok := true
		out := make([]any, len(n.Content))
		for i, item := range n.Content {
			got, fine := d.anyValue(item, nil, fmt.Sprintf("%s[%d]", path, i), depth+1)
			out[i], ok = got, ok && fine
		}
		return out, ok
	}
	return d.anyScalar(n, path)
}

// anyScalar gives a value the type it is written in, see Settings.
func (d *decoder) anyScalar(n *yaml.Node, path string) (any, bool) {
	switch n.Tag {
	case "!!bool":
		return strings.EqualFold(n.Value, "true"), true
	case "!!int", "!!float":
		if x, err := strconv.Atoi(n.Value); err == nil {
			return x, true
		}
		if x, err := parseNumber(n.Value); err == nil && (n.Tag == "!!float" || math.Abs(x) < 1<<53) {
			return plainFloat(x), true
		}
		return nil, d.fail(n, path, "quote it if it is meant as text", "found %s, which is out of range or in a form that is not supported", show(n.Value))
	}
	return n.Value, true
}

// parseNumber reads a decimal number; infinities and NaN are none.
func parseNumber(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(x, 0) || math.IsNaN(x) || strings.ContainsAny(text, "xXpP_") {
		return 0, errors.New("not a number")
	}
	return x, nil
}

// ParseTime reads RFC 3339, also without seconds.
func ParseTime(text string) (time.Time, error) {
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04Z07:00"} {
		if t, err := time.Parse(form, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%s, expected a time such as 2026-12-24T00:00Z", show(text))
}

// found describes a node for a message, without its text where that may be a
// secret that was put into the wrong place.
func found(n *yaml.Node, path string) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "alias *" + n.Value
	}
	if strings.Contains(path, "secret") {
		return "text (not shown)"
	}
	if n.Tag == "!!str" {
		return show(n.Value)
	}
	return cut(n.Value)
}

// expected describes a type for a message.
func expected(t reflect.Type) string {
	switch w := word(t); w {
	case "true or false", "text", "settings":
		return w
	case "percentage":
		return "a percentage such as 1%"
	default:
		return "a " + w
	}
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

func didYouMean(given string, allowed []string) string {
	if near := Nearest(given, allowed); near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return ""
}

// unknownHint names the nearest key, or where the key belongs when there is
// one place for it, and the keys allowed here.
func unknownHint(key string, allowed []string) string {
	hint := didYouMean(key, allowed)
	if hint == "" {
		var at []string
		for _, row := range Rows() {
			if row.Path == key || strings.HasSuffix(row.Path, "."+key) {
				at = append(at, row.Path)
			}
		}
		if len(at) == 1 {
			hint = fmt.Sprintf("did you mean %s?", at[0])
		}
	}
	return strings.TrimSpace(hint + " allowed here: " + strings.Join(allowed, ", "))
}

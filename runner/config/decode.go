package config

import (
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Bounds of a file, besides its size.
const (
	deepest      = 32   // the types need 5, settings may go on from there
	longest      = 2000 // items of a list
	mostProblems = 200  // a file that is no configuration at all has one on every line
)

// decoder walks the nodes of one file along the types of Config. It notes the
// place of every value given, and goes on after a problem to find the others.
type decoder struct {
	file     string
	at       map[string]Position
	problems *Problems
}

func (d *decoder) place(n *yaml.Node) Position { return Position{d.file, n.Line, n.Column} }

func (d *decoder) fail(n *yaml.Node, path, hint, format string, args ...any) bool {
	if len(*d.problems) < mostProblems {
		*d.problems = append(*d.problems, Problem{
			File: d.file, Line: n.Line, Col: n.Column, Path: cut(path),
			Message: fmt.Sprintf(format, args...), Hint: hint, Severity: Error,
		})
	}
	return false
}

// value fills v from a node. What v holds already stays where the node says
// nothing: sections and maps are merged, lists are replaced.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string, depth int) bool {
	t := v.Type()
	if !d.usable(n, path, word(t), depth) {
		return false
	}
	switch {
	case t.Kind() == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(t.Elem()))
		}
		return d.value(n, v.Elem(), path, depth)
	case isSettings(t):
		return d.settings(n, v, path, depth)
	case isSection(t):
		return d.section(n, v, path, depth)
	case t.Kind() == reflect.Slice:
		return d.list(n, v, path, depth)
	case t.Kind() == reflect.Map:
		return d.mapping(n, v, path, depth)
	case n.Kind != yaml.ScalarNode:
		return d.fail(n, path, "", "found %s, expected %s", found(n, path), expected(t))
	}
	return d.scalar(n, v, path)
}

// usable refuses what no type can hold.
func (d *decoder) usable(n *yaml.Node, path, want string, depth int) bool {
	switch {
	case depth > deepest:
		return d.fail(n, path, "", "nested more than %d deep", deepest)
	case n.Kind == yaml.AliasNode:
		return d.fail(n, path, "write the value out", "found alias *%s, aliases are not supported", n.Value)
	case n.Style&yaml.TaggedStyle != 0:
		return d.fail(n, path, "leave the tag out", "found tag %s, tags are not supported", n.Tag)
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return d.fail(n, path, "give a value or leave the key out", "no value, expected %s", want)
	}
	return true
}

func (d *decoder) section(n *yaml.Node, v reflect.Value, path string, depth int) bool {
	fields := fieldsOf(v.Type())
	return d.keys(n, path, "a section with the keys "+strings.Join(keysOf(fields), ", "), func(key, value *yaml.Node) bool {
		for _, f := range fields {
			if f.Key == key.Value {
				child := join(path, f.Key)
				return d.value(value, v.Field(f.Index), child, depth+1) && d.enum(value, f, child)
			}
		}
		return d.unknown(key, path, keysOf(fields))
	})
}

func (d *decoder) unknown(key *yaml.Node, path string, allowed []string) bool {
	if len(*d.problems) >= mostProblems {
		return false
	}
	return d.fail(key, join(path, key.Value), unknownHint(key.Value, allowed), "unknown key %s", show(key.Value))
}

// keys visits the keys of a mapping, each once, and notes the places.
func (d *decoder) keys(n *yaml.Node, path, want string, visit func(key, value *yaml.Node) bool) bool {
	if n.Kind != yaml.MappingNode {
		return d.fail(n, path, "", "found %s, expected %s", found(n, path), want)
	}
	ok := true
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Tag == "!!merge":
			ok = d.fail(key, path, "write the keys out", "found a merge key, merge keys are not supported")
		case key.Kind != yaml.ScalarNode || key.Style&yaml.TaggedStyle != 0:
			ok = d.fail(key, path, "", "found %s as a key, expected text", found(key, path))
		case first[key.Value] > 0:
			ok = d.fail(key, join(path, key.Value), "", "key %s is given twice, first in line %d", show(key.Value), first[key.Value])
		default:
			first[key.Value] = key.Line
			child := join(path, key.Value)
			d.at[child] = d.place(key)
			if value.Kind == yaml.ScalarNode {
				d.at[child] = d.place(value)
			}
			ok = visit(key, value) && ok
		}
	}
	return ok
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string, depth int) bool {
	if n.Kind != yaml.SequenceNode {
		return d.fail(n, path, "", "found %s, expected %s", found(n, path), expected(v.Type()))
	}
	if len(n.Content) > longest {
		return d.fail(n, path, "", "found %d items, expected at most %d", len(n.Content), longest)
	}
	if v.Len() > 0 { // the descriptor's list, which this one replaces
		maps.DeleteFunc(d.at, func(given string, _ Position) bool { return strings.HasPrefix(given, path+"[") })
	}
	ok := true
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		child := fmt.Sprintf("%s[%d]", path, i)
		d.at[child] = d.place(item)
		ok = d.value(item, out.Index(i), child, depth+1) && ok
	}
	v.Set(out)
	if len(n.Content) == 0 {
		v.SetZero()
	}
	return ok
}

// mapping fills maps of labels and of settings.
func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string, depth int) bool {
	return d.keys(n, path, expected(v.Type()), func(key, value *yaml.Node) bool {
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		child := join(path, key.Value)
		name := reflect.ValueOf(key.Value)
		item := reflect.New(v.Type().Elem()).Elem()
		if old := v.MapIndex(name); old.IsValid() {
			item.Set(old)
		}
		var ok bool
		if isSettings(item.Type()) {
			ok = d.value(value, item, child, depth+1)
		} else { // a label: canary=true is text too
			ok = d.usable(value, child, "text", depth+1) && (value.Kind == yaml.ScalarNode || d.fail(value, child, "", "found %s, expected text", found(value, child)))
			item.SetString(value.Value)
		}
		v.SetMapIndex(name, item)
		return ok
	})
}

// scalar reads one word. Numbers are taken for text as they are written.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) bool {
	t := v.Type()
	if isDuration(t) || isPercent(t) || isTime(t) {
		if err := ownForm(n.Value, v); err != nil {
			return d.fail(n, path, "", "found %v", err)
		}
		return true
	}
	if !plainForm(n, v) {
		return d.fail(n, path, "", "found %s, expected %s", found(n, path), expected(t))
	}
	return true
}

// ownForm reads what is one word in a file and something else in Go.
func ownForm(text string, v reflect.Value) (err error) {
	switch x := v.Addr().Interface().(type) {
	case *Duration:
		*x, err = ParseDuration(text)
	case *Percent:
		err = x.UnmarshalText([]byte(text))
	case *time.Time:
		*x, err = ParseTime(text)
	}
	return err
}

// plainForm reads what YAML itself has a type for.
func plainForm(n *yaml.Node, v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(strings.EqualFold(n.Value, "true"))
		return n.Tag == "!!bool"
	case reflect.Int:
		x, err := strconv.Atoi(n.Value)
		v.SetInt(int64(x))
		return err == nil && n.Tag == "!!int"
	case reflect.Float64:
		x, err := parseNumber(n.Value)
		v.SetFloat(x)
		return err == nil && (n.Tag == "!!int" || n.Tag == "!!float")
	}
	v.SetString(n.Value)
	return n.Tag != "!!bool"
}

func (d *decoder) enum(n *yaml.Node, f field, path string) bool {
	if len(f.Enum) == 0 {
		return true
	}
	items, ok := []*yaml.Node{n}, true
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	for _, item := range items {
		if !contains(f.Enum, item.Value) {
			ok = d.fail(item, path, didYouMean(item.Value, f.Enum), "found %s, expected one of %s", show(item.Value), strings.Join(f.Enum, ", "))
		}
	}
	return ok
}

// literal reads a default as if it had been written in a file.
func (d *decoder) literal(v reflect.Value, text string) bool {
	n := &yaml.Node{}
	n.SetString(text)
	if v.Kind() != reflect.String {
		n.Tag = ""
		n.Tag = n.ShortTag()
	}
	return d.scalar(n, v, "")
}

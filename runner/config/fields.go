package config

import (
	"reflect"
	"strings"
	"time"
)

// field is one key of a section, as its tags describe it.
type field struct {
	Key     string
	Default string // as it would be written
	Rule    string // the default in words
	Help    string
	Enum    []string
	Type    reflect.Type
	Index   int
}

// fieldsOf lists the keys of a section in the order of their declaration.
func fieldsOf(t reflect.Type) []field {
	fields := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		sf := t.Field(i)
		f := field{
			Key: sf.Tag.Get("yaml"), Default: sf.Tag.Get("default"), Rule: sf.Tag.Get("rule"),
			Help: sf.Tag.Get("help"), Type: sf.Type, Index: i,
		}
		if enum := sf.Tag.Get("enum"); enum != "" {
			f.Enum = strings.Split(enum, ",")
		}
		fields = append(fields, f)
	}
	return fields
}

func keysOf(fields []field) []string {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.Key
	}
	return keys
}

// Types that are written as one word although Go has them as something else.
func isDuration(t reflect.Type) bool { return t == reflect.TypeFor[Duration]() }
func isPercent(t reflect.Type) bool  { return t == reflect.TypeFor[Percent]() }
func isTime(t reflect.Type) bool     { return t == reflect.TypeFor[time.Time]() }
func isSettings(t reflect.Type) bool { return t == reflect.TypeFor[Settings]() }

// isSection reports whether the type is a mapping with keys of its own.
func isSection(t reflect.Type) bool { return t.Kind() == reflect.Struct && !isTime(t) }

// bare is the type without the pointer that tells given from not given.
func bare(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// word names a type for people.
func word(t reflect.Type) string {
	t = bare(t)
	switch {
	case isDuration(t):
		return "duration"
	case isPercent(t):
		return "percentage"
	case isTime(t):
		return "time"
	case isSettings(t):
		return "settings"
	}
	switch t.Kind() {
	case reflect.Struct:
		return "section"
	case reflect.Slice:
		return "list of " + plural(word(t.Elem()))
	case reflect.Map:
		return "map of " + plural(word(t.Elem()))
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "whole number"
	case reflect.Float64:
		return "number"
	}
	return "text"
}

func plural(word string) string {
	if word == "text" || strings.HasSuffix(word, "s") {
		return word
	}
	return word + "s"
}

// join makes the path of a key.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

package external

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Limits of a result, since much of it goes into the state.
const (
	MaxText    = 1 << 10 // bytes of a text
	MaxEntries = 256     // of a map such as weights or a receipt
)

// field is one key of a document, as its type declares it.
type field struct {
	Name     string
	Help     string
	Enum     []string
	Duration bool
	Required bool
	Type     reflect.Type
}

// fieldsOf are the keys of a document, those of embedded types in their place.
func fieldsOf(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			out = append(out, fieldsOf(f.Type)...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, field{
			Name: name, Help: f.Tag.Get("help"), Enum: enums(f.Tag.Get("enum")), Duration: f.Tag.Get("format") == "duration",
			Required: options == "", Type: f.Type,
		})
	}
	return out
}

// fits says what in a decoded document (with numbers as json.Number) is not
// as its type declares it: an unknown or a missing key, another type, a word
// that is not in its list. Texts must be plain and at most MaxText long.
func fits(value any, t reflect.Type, path string) error {
	switch t.Kind() {
	case reflect.Interface:
		return nil
	case reflect.Pointer:
		return fits(value, t.Elem(), path)
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return fitsTime(value, path)
		}
		return fitsStruct(value, t, path)
	case reflect.Map:
		return fitsMap(value, t.Elem(), path)
	case reflect.Slice:
		if t == reflect.TypeFor[json.RawMessage]() {
			return nil
		}
		return fitsList(value, t.Elem(), path)
	case reflect.String:
		return fitsText(value, path)
	case reflect.Bool:
		if _, ok := value.(bool); !ok {
			return unlike(path, value, "true or false")
		}
		return nil
	}
	return fitsNumber(value, t, path)
}

func unlike(path string, value any, expected string) error {
	if value == nil { // also what was NaN or Infinity
		value = "null"
	}
	return fmt.Errorf("%s is %.40q, expected %s", path, fmt.Sprint(value), expected)
}

func fitsStruct(value any, t reflect.Type, path string) error {
	object, ok := value.(map[string]any)
	if !ok {
		return unlike(path, value, "an object")
	}
	fields := fieldsOf(t)
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if !slices.ContainsFunc(fields, func(f field) bool { return f.Name == key }) {
			return fmt.Errorf("%s has an unknown key %.40q", path, key)
		}
	}
	for _, f := range fields {
		inner, given := object[f.Name]
		switch {
		case !given && f.Required:
			return fmt.Errorf("%s lacks %s", path, f.Name)
		case !given:
			continue
		}
		if err := f.fits(inner, path+"."+f.Name); err != nil {
			return err
		}
	}
	return nil
}

func (f field) fits(value any, path string) error {
	if err := fits(value, f.Type, path); err != nil {
		return err
	}
	words := []any{value}
	if list, ok := value.([]any); ok {
		words = list
	}
	for _, word := range words {
		text, _ := word.(string)
		if len(f.Enum) > 0 && !slices.Contains(f.Enum, text) {
			return unlike(path, word, "one of "+strings.Join(f.Enum, ", "))
		}
		if f.Duration {
			if d, err := time.ParseDuration(text); err != nil || d < 0 {
				return unlike(path, word, "a duration such as 30s or 5m")
			}
		}
	}
	return nil
}

func fitsMap(value any, inner reflect.Type, path string) error {
	object, ok := value.(map[string]any)
	if !ok {
		return unlike(path, value, "an object")
	}
	if len(object) > MaxEntries {
		return fmt.Errorf("%s has %d entries, expected at most %d", path, len(object), MaxEntries)
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if err := fitsText(key, "a key of "+path); err != nil {
			return err
		}
		if err := fits(object[key], inner, path+"."+key); err != nil {
			return err
		}
	}
	return nil
}

func fitsList(value any, inner reflect.Type, path string) error {
	list, ok := value.([]any)
	if !ok {
		return unlike(path, value, "a list")
	}
	for i, item := range list {
		if err := fits(item, inner, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	return nil
}

func fitsText(value any, path string) error {
	text, ok := value.(string)
	switch {
	case !ok:
		return unlike(path, value, "a text")
	case len(text) > MaxText:
		return fmt.Errorf("%s has %d bytes, expected at most %d", path, len(text), MaxText)
	case strings.ContainsFunc(text, unicode.IsControl):
		return fmt.Errorf("%s has control characters, expected plain text", path)
	}
	return nil
}

func fitsTime(value any, path string) error {
	text, _ := value.(string)
	if _, err := time.Parse(time.RFC3339, text); err != nil {
		return unlike(path, value, "a time such as 2026-11-30T12:00:00Z")
	}
	return nil
}

func fitsNumber(value any, t reflect.Type, path string) error {
	number, ok := value.(json.Number)
	if !ok {
		return unlike(path, value, "a number")
	}
	if _, err := number.Float64(); err != nil {
		return unlike(path, value, "a finite number")
	}
	if _, err := number.Int64(); err != nil && t.Kind() == reflect.Int {
		return unlike(path, value, "an integer")
	}
	return nil
}

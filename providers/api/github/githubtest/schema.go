package githubtest

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"time"
	"unicode/utf8"
)

// Schema is a JSON schema as OpenAPI 3.0 writes it. Only what the description
// uses is understood; any other keyword fails, so that none is passed over.
// Properties that a schema does not name are refused where it names some:
// stricter than JSON schema, since what GitHub does not document nobody should
// send, or rely on.
type Schema map[string]any

// Check returns what is wrong with a value, where it is.
func (s Schema) Check(where string, value any) error {
	if value == nil && s["nullable"] == true {
		return nil
	}
	if std, given := s["default"]; given && reflect.DeepEqual(std, value) {
		return nil // "" is the default of a URL
	}
	for _, keyword := range slices.Sorted(maps.Keys(s)) {
		if err := s.keyword(keyword, where, value); err != nil {
			return err
		}
	}
	return nil
}

func (s Schema) keyword(keyword, where string, value any) error {
	argument := s[keyword]
	switch keyword {
	case "nullable", "default":
	case "properties", "required", "additionalProperties":
		return s.object(where, value)
	case "type":
		if !isType(argument, value) {
			return fmt.Errorf("%s is %.60q, expected a value of type %v", where, fmt.Sprint(value), argument)
		}
	case "format":
		return format(argument, where, value)
	case "enum":
		if !slices.ContainsFunc(list(argument), func(allowed any) bool { return reflect.DeepEqual(allowed, value) }) {
			return fmt.Errorf("%s is %v, expected one of %v", where, value, argument)
		}
	case "maxLength":
		if text, ok := value.(string); ok && float64(utf8.RuneCountInString(text)) > argument.(float64) {
			return fmt.Errorf("%s has %d characters, expected at most %v", where, utf8.RuneCountInString(text), argument)
		}
	case "items":
		for i, item := range list(value) {
			if err := schema(argument).Check(fmt.Sprintf("%s[%d]", where, i), item); err != nil {
				return err
			}
		}
	case "oneOf", "anyOf", "allOf":
		return several(keyword, list(argument), where, value)
	default:
		return fmt.Errorf("%s: the schema's keyword %q is not understood", where, keyword)
	}
	return nil
}

// object checks names and values of an object's properties.
func (s Schema) object(where string, value any) error {
	fields, ok := value.(map[string]any)
	if !ok {
		return nil // "type" says whether it has to be one
	}
	for _, key := range list(s["required"]) {
		if _, given := fields[key.(string)]; !given {
			return fmt.Errorf("%s has no %s", where, key)
		}
	}
	known, _ := s["properties"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		below, found := known[key]
		if !found {
			below = s["additionalProperties"]
		}
		switch below := below.(type) {
		case map[string]any:
			if err := Schema(below).Check(where+"."+key, fields[key]); err != nil {
				return err
			}
		case bool:
			if !below {
				return fmt.Errorf("%s.%s is not allowed", where, key)
			}
		default:
			return fmt.Errorf("%s.%s is not described", where, key)
		}
	}
	return nil
}

func several(keyword string, schemas []any, where string, value any) error {
	fit, last := 0, error(nil)
	for _, one := range schemas {
		if err := schema(one).Check(where, value); err != nil {
			last = err
		} else {
			fit++
		}
	}
	if (keyword == "anyOf" && fit > 0) || (keyword == "oneOf" && fit == 1) || (keyword == "allOf" && fit == len(schemas)) {
		return nil
	}
	return fmt.Errorf("%s fits %d of %d schemas, expected %s; the last: %w", where, fit, len(schemas), keyword, last)
}

func isType(want, value any) bool {
	switch v := value.(type) {
	case string:
		return want == "string"
	case bool:
		return want == "boolean"
	case float64:
		return want == "number" || (want == "integer" && v == float64(int64(v)))
	case []any:
		return want == "array"
	case map[string]any:
		return want == "object"
	}
	return false
}

func format(want any, where string, value any) error {
	text, isText := value.(string)
	var err error
	switch want {
	case "uri":
		var u *url.URL
		if u, err = url.Parse(text); err == nil && isText && u.Scheme == "" {
			err = fmt.Errorf("no scheme")
		}
	case "date-time":
		_, err = time.Parse(time.RFC3339, text)
	case "int64", "email":
	default:
		return fmt.Errorf("%s: the schema's format %v is not understood", where, want)
	}
	if err != nil && isText {
		return fmt.Errorf("%s is %q, expected a %v: %w", where, text, want, err)
	}
	return nil
}

func schema(value any) Schema {
	s, _ := value.(map[string]any)
	return s
}

func list(value any) []any {
	l, _ := value.([]any)
	return l
}

package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"github.com/manent/action/providers"
)

// Schema is the JSON Schema (draft 2020-12) of an environment's file, for
// editors. It says what a file may look like; validate also knows what its
// parts have to do with each other.
func Schema(cat Catalog) ([]byte, error) {
	root := object(reflect.TypeFor[Config]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "manent: configuration of an environment"
	top := root["properties"].(schema)
	settingsOf(at(top, "plugin"), "name", common(cat.Plugins))
	settingsOf(at(top, "traffic", "router"), "provider", common(cat.Routers))
	settingsOf(at(top, "traffic", "pool"), "provider", cat.Pools)
	systems := schema{}
	for _, e := range common(cat.Metrics) {
		systems[e.Name] = settingsSchema(e)
	}
	providers := at(top, "rollout", "providers")
	providers["properties"], providers["additionalProperties"] = systems, false
	for _, list := range []string{"metrics", "alarms"} {
		items := at(top, "rollout", "health", list)["items"].(schema)
		at(items["properties"].(schema), "provider")["enum"] = namesOf(cat.Metrics, false)
	}
	data, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return append(data, '\n'), nil
}

type schema = map[string]any

// at goes down a path of properties.
func at(properties schema, path ...string) schema {
	s := properties[path[0]].(schema)
	for _, key := range path[1:] {
		s = s["properties"].(schema)[key].(schema)
	}
	return s
}

func object(t reflect.Type) schema {
	properties := schema{}
	for _, f := range fieldsOf(t) {
		s := typeSchema(bare(f.Type), f.Enum)
		s["description"] = f.Help
		if f.Default != "" {
			s["default"] = defaultValue(bare(f.Type), f.Default)
		} else if f.Rule != "" {
			s["description"] = f.Help + "; default: " + f.Rule
		}
		properties[f.Key] = s
	}
	return schema{"type": "object", "properties": properties, "additionalProperties": false}
}

func typeSchema(t reflect.Type, enum []string) schema {
	switch {
	case isDuration(t):
		return schema{"type": []string{"string", "integer"}, "pattern": `^(0|([0-9]+d)?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))*)$`, "maximum": 0, "minimum": 0}
	case isPercent(t):
		return schema{"type": "string", "pattern": `^[0-9]+(\.[0-9]+)?%$`}
	case isTime(t):
		return schema{"type": "string", "pattern": `^[0-9]{4}-[0-9]{2}-[0-9]{2}T`}
	case isSettings(t):
		return schema{"type": "object"}
	}
	switch t.Kind() {
	case reflect.Struct:
		return object(t)
	case reflect.Slice:
		return schema{"type": "array", "items": typeSchema(t.Elem(), enum)}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": labelSchema(t.Elem())}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int:
		return schema{"type": "integer"}
	case reflect.Float64:
		return schema{"type": "number"}
	}
	if len(enum) > 0 {
		return schema{"type": "string", "enum": enum}
	}
	return schema{"type": []string{"string", "number"}}
}

// labelSchema: a label takes any plain value, as text.
func labelSchema(t reflect.Type) schema {
	if t.Kind() == reflect.String {
		return schema{"type": []string{"string", "number", "boolean"}}
	}
	return typeSchema(t, nil)
}

// defaultValue is a literal default in the type a file would have it in.
func defaultValue(t reflect.Type, text string) any {
	switch {
	case isDuration(t):
		return text
	case t.Kind() == reflect.Bool:
		return text == "true"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Float64:
		return json.Number(text)
	}
	return text
}

// settingsOf ties the settings of a provider to its name.
func settingsOf(s schema, name string, entries []Entry) {
	var names []string
	var rules []schema
	for _, e := range entries {
		names = append(names, e.Name)
		if e.InBuild {
			rules = append(rules, schema{
				"if":   schema{"properties": schema{name: schema{"const": e.Name}}, "required": []string{name}},
				"then": schema{"properties": schema{"settings": settingsSchema(e)}},
			})
		}
	}
	at(s["properties"].(schema), name)["enum"] = names
	at(s["properties"].(schema), name)["type"] = "string"
	if len(rules) > 0 {
		s["allOf"] = rules
	}
}

func settingsSchema(e Entry) schema {
	if !e.InBuild {
		return schema{"type": "object", "description": "not in this build"}
	}
	properties := schema{}
	for _, f := range e.Fields {
		properties[f.Name] = fieldSchema(f)
	}
	return schema{"type": "object", "properties": properties, "additionalProperties": false}
}

// fieldSchema also admits the same value as text, as the decoder does. What is
// required may also stand in another file, or with a cluster, so that only its
// help says it.
func fieldSchema(f providers.Field) schema {
	types := map[string][]string{
		"integer": {"integer", "string"}, "number": {"number", "string"}, "boolean": {"boolean", "string"},
		"duration": {"string"}, "list": {"array", "string"}, "map": {"object"}, "string": {"string"}, "secret": {"string"},
	}
	s := schema{"type": types[f.Type], "description": helpOf(f)}
	if f.Default != "" {
		s["default"] = fieldDefault(f)
	}
	if len(f.Enum) > 0 {
		s["enum"] = f.Enum
	}
	return s
}

func fieldDefault(f providers.Field) any {
	switch f.Type {
	case "integer", "number":
		return json.Number(f.Default)
	case "boolean":
		on, err := strconv.ParseBool(f.Default)
		return err == nil && on
	}
	return f.Default
}

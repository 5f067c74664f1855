package external

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// object is a JSON Schema, or a part of one; encoding sorts its keys.
type object = map[string]any

// Schema is the JSON Schema (draft 2020-12) of the protocol. Its $defs hold
// one request:<name> and one answer:<name> for each request, and every
// document in them by the name of its type.
func Schema() ([]byte, error) {
	defs := object{}
	var requests, answers []any
	for _, m := range Methods() {
		define(defs, m.Params)
		define(defs, m.Result)
		defs["request:"+m.Name] = m.request(defs)
		defs["answer:"+m.Name] = m.answer(defs)
		requests = append(requests, ref("request:"+m.Name))
		answers = append(answers, ref("answer:"+m.Name))
	}
	defs["request"] = object{"description": "what the program reads from its standard input", "oneOf": requests}
	defs["answer"] = object{"description": "what the program writes to its standard output", "anyOf": answers}
	data, err := json.MarshalIndent(object{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   fmt.Sprintf("manent: protocol %d of external plugins", Protocol),
		"anyOf":   []any{ref("request"), ref("answer")},
		"$defs":   defs,
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return append(data, '\n'), nil
}

func ref(name string) object { return object{"$ref": "#/$defs/" + name} }

func (m Method) request(defs object) object {
	s := structSchema(defs, reflect.TypeFor[Request]())
	properties, _ := s["properties"].(object)
	properties["protocol"] = object{"const": Protocol}
	properties["request"] = object{"const": m.Name}
	properties["params"] = schemaOf(defs, m.Params)
	s["description"] = m.Does
	if m.Unused != "" {
		s["$comment"] = m.Unused
	}
	return s
}

func (m Method) answer(defs object) object {
	s := structSchema(defs, reflect.TypeFor[Answer]())
	properties, _ := s["properties"].(object)
	properties["protocol"] = object{"const": Protocol}
	properties["result"] = schemaOf(defs, m.Result)
	s["oneOf"] = []any{object{"required": []string{"result"}}, object{"required": []string{"error"}}}
	return s
}

// define puts a document and all that are in it among the definitions.
func define(defs object, t reflect.Type) {
	if _, known := defs[t.Name()]; known {
		return
	}
	defs[t.Name()] = object{} // so that a document inside itself ends
	defs[t.Name()] = structSchema(defs, t)
}

func structSchema(defs object, t reflect.Type) object {
	properties, required := object{}, []string{}
	for _, f := range fieldsOf(t) {
		properties[f.Name] = f.schema(defs)
		if f.Required {
			required = append(required, f.Name)
		}
	}
	return object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

func (f field) schema(defs object) object {
	s := schemaOf(defs, f.Type)
	inner := s
	if items, ok := s["items"].(object); ok {
		inner = items
	}
	if len(f.Enum) > 0 {
		inner["enum"] = f.Enum
	}
	if f.Duration {
		inner["pattern"] = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$`
	}
	s["description"] = f.Help
	return s
}

func schemaOf(defs object, t reflect.Type) object {
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(defs, t.Elem())
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return object{"type": "string", "format": "date-time"}
		}
		define(defs, t)
		return ref(t.Name())
	case reflect.Map:
		return object{"type": "object", "additionalProperties": schemaOf(defs, t.Elem())}
	case reflect.Slice:
		if t == reflect.TypeFor[json.RawMessage]() {
			return object{}
		}
		return object{"type": "array", "items": schemaOf(defs, t.Elem())}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	}
	return object{}
}

package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"github.com/manent/action/providers"
)

// schema is the part of JSON Schema that is needed here.
type schema struct {
	Schema      string             `json:"$schema,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        []string           `json:"type,omitempty"`
	Enum        []string           `json:"enum,omitempty"`
	Const       string             `json:"const,omitempty"`
	Pattern     string             `json:"pattern,omitempty"`
	Minimum     *int               `json:"minimum,omitempty"`
	Maximum     *int               `json:"maximum,omitempty"`
	Default     any                `json:"default,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Additional  any                `json:"additionalProperties,omitempty"` // false, or a *schema
	Items       *schema            `json:"items,omitempty"`
	AllOf       []*schema          `json:"allOf,omitempty"`
	If          *schema            `json:"if,omitempty"`
	Then        *schema            `json:"then,omitempty"`
}

// Schema is the JSON Schema (draft 2020-12) of an environment's file, for
// editors. It says what a file may look like; validate also knows what its
// parts have to do with each other.
func Schema(cat Catalog) ([]byte, error) {
	root := sectionSchema(reflect.TypeFor[Config]())
	root.Schema = "https://json-schema.org/draft/2020-12/schema"
	root.Title = "manent: configuration of an environment"
	root.at("plugin").settingsOf("name", common(cat.Plugins))
	root.at("traffic", "router").settingsOf("provider", common(cat.Routers))
	root.at("traffic", "pool").settingsOf("provider", cat.Pools)
	systems := root.at("rollout", "providers")
	systems.Properties, systems.Additional = map[string]*schema{}, false
	for _, e := range common(cat.Metrics) {
		systems.Properties[e.Name] = settingsSchema(e)
	}
	for _, list := range []string{"metrics", "alarms"} {
		root.at("rollout", "health", list).Items.at("provider").names(namesOf(cat.Metrics, false))
	}
	data, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return append(data, '\n'), nil
}

// at goes down a path of properties.
func (s *schema) at(path ...string) *schema {
	for _, key := range path {
		s = s.Properties[key]
	}
	return s
}

func (s *schema) names(names []string) { s.Type, s.Enum = []string{"string"}, names }

// settingsOf ties the settings of a provider to its name.
func (s *schema) settingsOf(key string, entries []Entry) {
	s.at(key).names(namesOf(entries, false))
	for _, e := range entries {
		if e.InBuild {
			s.AllOf = append(s.AllOf, &schema{
				If:   &schema{Properties: map[string]*schema{key: {Const: e.Name}}, Required: []string{key}},
				Then: &schema{Properties: map[string]*schema{"settings": settingsSchema(e)}},
			})
		}
	}
}

func sectionSchema(t reflect.Type) *schema {
	s := &schema{Type: []string{"object"}, Properties: map[string]*schema{}, Additional: false}
	for _, f := range fieldsOf(t) {
		p := typeSchema(bare(f.Type), f.Enum)
		p.Description = f.Help
		if f.Rule != "" {
			p.Description += "; default: " + f.Rule
		}
		p.Default = defaultValue(word(f.Type), f.Default)
		s.Properties[f.Key] = p
	}
	return s
}

func typeSchema(t reflect.Type, enum []string) *schema {
	zero := 0
	switch {
	case isDuration(t):
		return &schema{Type: []string{"string", "integer"}, Pattern: `^(0|([0-9]+d)?([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))*)$`, Minimum: &zero, Maximum: &zero}
	case isPercent(t):
		return &schema{Type: []string{"string"}, Pattern: `^[0-9]+(\.[0-9]+)?%$`}
	case isTime(t):
		return &schema{Type: []string{"string"}, Pattern: `^[0-9]{4}-[0-9]{2}-[0-9]{2}T`}
	case isSettings(t):
		return &schema{Type: []string{"object"}}
	case isSection(t):
		return sectionSchema(t)
	}
	switch t.Kind() {
	case reflect.Slice:
		return &schema{Type: []string{"array"}, Items: typeSchema(t.Elem(), enum)}
	case reflect.Map:
		return &schema{Type: []string{"object"}, Additional: labelSchema(t.Elem())}
	case reflect.Bool:
		return &schema{Type: []string{"boolean"}}
	case reflect.Int:
		return &schema{Type: []string{"integer"}}
	case reflect.Float64:
		return &schema{Type: []string{"number"}}
	}
	if len(enum) > 0 {
		return &schema{Type: []string{"string"}, Enum: enum}
	}
	return &schema{Type: []string{"string", "number"}} // a number is taken for text as it is written
}

// labelSchema: a label takes any plain value, as text.
func labelSchema(t reflect.Type) *schema {
	if t.Kind() == reflect.String {
		return &schema{Type: []string{"string", "number", "boolean"}}
	}
	return typeSchema(t, nil)
}

func settingsSchema(e Entry) *schema {
	if !e.InBuild {
		return &schema{Type: []string{"object"}, Description: "not in this build"}
	}
	s := &schema{Type: []string{"object"}, Properties: map[string]*schema{}, Additional: false}
	for _, f := range e.Fields {
		s.Properties[f.Name] = fieldSchema(f)
	}
	return s
}

// fieldSchema also admits the same value as text, as the decoder does. What is
// required may also stand in another file, or with a cluster, so that only its
// help says it.
func fieldSchema(f providers.Field) *schema {
	types := map[string][]string{
		"integer": {"integer", "string"}, "number": {"number", "string"}, "boolean": {"boolean", "string"},
		"duration": {"string"}, "list": {"array", "string"}, "map": {"object"}, "secrets": {"object"}, "string": {"string"}, "secret": {"string"},
	}
	return &schema{Type: types[f.Type], Description: helpOf(f), Default: defaultValue(f.Type, f.Default), Enum: f.Enum}
}

// defaultValue is a literal default in the type a file would have it in.
func defaultValue(typ, text string) any {
	switch typ {
	case "integer", "number", "whole number":
		if text != "" {
			return json.Number(text)
		}
	case "boolean", "true or false":
		if on, err := strconv.ParseBool(text); err == nil {
			return on
		}
	}
	if text == "" {
		return nil
	}
	return text
}

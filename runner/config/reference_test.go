package config

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestReference(t *testing.T) { golden(t, "testdata/reference.md", Reference(testCatalog())) }

func TestSchema(t *testing.T) {
	data, err := Schema(testCatalog())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/schema.json", string(data))
}

// Every key has a help, a default that its type understands, and stands in the
// schema.
func TestEveryKeyIsDocumented(t *testing.T) {
	data, err := Schema(testCatalog())
	if err != nil {
		t.Fatal(err)
	}
	var root schema
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	for _, row := range Rows() {
		if row.Help == "" || strings.HasSuffix(row.Help, ".") || row.Type == "" {
			t.Errorf("%s: help %q, type %q", row.Path, row.Help, row.Type)
		}
		s := &root
		for _, key := range strings.Split(row.Path, ".") {
			name, isList := strings.CutSuffix(key, "[]")
			if s = s.at(name); s != nil && isList {
				s = s.Items
			}
		}
		if s == nil || s.Description == "" {
			t.Errorf("%s is not in the schema", row.Path)
		}
	}
	checkTags(t, reflect.TypeFor[Config]())
}

// checkTags holds yaml and json names together: what validate says about a key
// and what status --json calls it are one name.
func checkTags(t *testing.T, typ reflect.Type) {
	t.Helper()
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != f.Tag.Get("yaml") || name == "" {
			t.Errorf("%s.%s: yaml %q, json %q", typ.Name(), f.Name, f.Tag.Get("yaml"), name)
		}
		inner := bare(f.Type)
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if isSection(inner) {
			checkTags(t, inner)
		}
	}
}

//go:build unix

package external

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

const docs = "../../../docs/"

// TestGeneratedSchema keeps docs/external-schema.json what the types say.
func TestGeneratedSchema(t *testing.T) {
	got, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	fresh(t, "external-schema.json", string(got))
}

// TestGeneratedTables keeps the tables of docs/external.md what the types say.
func TestGeneratedTables(t *testing.T) {
	page, err := os.ReadFile(docs + "external.md")
	if err != nil {
		t.Fatal(err)
	}
	got := string(page)
	for name, table := range map[string]string{"requests": requestTable(), "documents": documentTables(), "kinds": kindTable()} {
		part := regexp.MustCompile(`(?s)<!-- generated: ` + name + ` -->\n.*?<!-- end -->`)
		if !part.MatchString(got) {
			t.Fatalf("docs/external.md has no part %q", name)
		}
		got = part.ReplaceAllLiteralString(got, "<!-- generated: "+name+" -->\n"+table+"<!-- end -->")
	}
	fresh(t, "external.md", got)
}

func fresh(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(docs+name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(docs + name); err != nil || string(have) != got {
		t.Errorf("docs/%s is stale (error %v): run make generate, and commit it", name, err)
	}
}

func requestTable() string {
	var b strings.Builder
	b.WriteString("| request | capability | what it asks for | params | result |\n|---|---|---|---|---|\n")
	for _, m := range Methods() {
		capability := "every program"
		if m.Capability != "" {
			capability = "`" + m.Capability + "`"
		}
		if m.Trait != "" {
			capability += ", trait `" + m.Trait + "`"
		}
		does := m.Does
		if m.Unused != "" {
			does += " (" + m.Unused + ")"
		}
		if m.Changes {
			does += ". *Changes something*: may come again after a crash"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.Name, capability, does, link(m.Params), link(m.Result))
	}
	return b.String()
}

func kindTable() string {
	var b strings.Builder
	b.WriteString("| kind | what it means | what manent does |\n|---|---|---|\n")
	for _, k := range Kinds() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.Kind, k.Meaning, k.Then)
	}
	return b.String()
}

// documentTables lists every document once, in the order in which they are
// met.
func documentTables() string {
	queue := []reflect.Type{typ[Request](), typ[Answer](), typ[Error]()}
	for _, m := range Methods() {
		queue = append(queue, m.Params, m.Result)
	}
	var b strings.Builder
	seen := map[string]bool{"None": true}
	for len(queue) > 0 {
		t := queue[0]
		queue = queue[1:]
		if seen[t.Name()] {
			continue
		}
		seen[t.Name()] = true
		fmt.Fprintf(&b, "\n#### %s\n\n| key | type | required | meaning |\n|---|---|---|---|\n", t.Name())
		var inside []reflect.Type
		for _, f := range fieldsOf(t) {
			required := ""
			if f.Required {
				required = "yes"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Name, typeText(f), required, f.Help)
			if inner := element(f.Type); inner.Kind() == reflect.Struct && inner.PkgPath() == typ[Request]().PkgPath() {
				inside = append(inside, inner)
			}
		}
		queue = append(inside, queue...)
	}
	return b.String() + "\n"
}

func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

func link(t reflect.Type) string {
	if t == typ[None]() {
		return "`{}`"
	}
	return fmt.Sprintf("[%s](#%s)", t.Name(), strings.ToLower(t.Name()))
}

func typeText(f field) string {
	t := f.Type
	switch {
	case f.Duration:
		return "text such as 30s"
	case len(f.Enum) > 0 && t.Kind() == reflect.Slice:
		return "list of " + strings.Join(f.Enum, ", ")
	case len(f.Enum) > 0:
		return strings.Join(f.Enum, ", ")
	}
	return text(t)
}

func text(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct:
		if t.PkgPath() == "time" {
			return "time, RFC 3339"
		}
		return link(t)
	case reflect.Pointer:
		return text(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "object"
		}
		return "list of " + text(t.Elem())
	case reflect.Map:
		return "object, text to " + text(t.Elem())
	case reflect.Interface:
		return "object"
	}
	return map[reflect.Kind]string{reflect.String: "text", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Float64: "number"}[t.Kind()]
}

// TestEveryFieldIsExplained: the page and the schema have a meaning for each.
func TestEveryFieldIsExplained(t *testing.T) {
	for _, m := range Methods() {
		for _, document := range []reflect.Type{m.Params, m.Result, typ[Request](), typ[Error]()} {
			for _, f := range fieldsOf(document) {
				if f.Help == "" || f.Name == "" {
					t.Errorf("%s.%s has no help", document.Name(), f.Name)
				}
			}
		}
	}
}

// TestDocumentedDocuments: the page's examples are documents of the protocol.
func TestDocumentedDocuments(t *testing.T) {
	page, err := os.ReadFile(docs + "external.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 3 {
		t.Fatalf("%d examples, expected a request and two answers", len(blocks))
	}
	value, err := decode([]byte(blocks[0][1]))
	if err != nil {
		t.Fatal(err)
	}
	request, _ := value.(map[string]any)
	if err := fits(value, typ[Request](), "request"); err != nil {
		t.Error(err)
	}
	if err := fits(request["params"], typ[WriteParams](), "params"); err != nil {
		t.Error(err)
	}
	id, _ := request["id"].(string)
	p := parser{id: id, result: typ[WriteResult](), redact: line}
	if result, _, err := p.parse([]byte(blocks[1][1]), 0); err != nil || result.(WriteResult).Receipt["revision"] != "7" {
		t.Errorf("result %v, error %v", result, err)
	}
	if _, no, err := p.parse([]byte(blocks[2][1]), 1); err != nil || no == nil || no.Drift == nil || no.Drift.Seen["b"] != 10 {
		t.Errorf("no %+v, error %v", no, err)
	}
}

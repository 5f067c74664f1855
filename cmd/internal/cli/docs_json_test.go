package cli

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/manent/action/cmd/internal/wire"
	"github.com/manent/action/runner/plan"
	"github.com/manent/action/runner/report"
	"github.com/manent/action/runner/simulate"
)

// documents are the types that --json prints, by verb.
func documents() []struct {
	verbs string
	of    reflect.Type
} {
	return []struct {
		verbs string
		of    reflect.Type
	}{
		{"run, step, retry, approve, reject, revert, resume, and every call that fails", reflect.TypeFor[callJSON]()},
		{"status", reflect.TypeFor[report.Status]()},
		{"activity", reflect.TypeFor[activityJSON]()},
		{"validate", reflect.TypeFor[validateJSON]()},
		{"plan", reflect.TypeFor[plan.Plan]()},
		{"doctor", reflect.TypeFor[doctorJSON]()},
		{"judge", reflect.TypeFor[judgeJSON]()},
		{"simulate", reflect.TypeFor[simulate.Result]()},
		{"power", reflect.TypeFor[simulate.PowerResult]()},
		{"unlock", reflect.TypeFor[unlockJSON]()},
		{"generate github, generate gitlab", reflect.TypeFor[filesJSON]()},
		{"setup github, setup gitlab", reflect.TypeFor[setupJSON]()},
		{"generate nginx", reflect.TypeFor[wire.NginxFiles]()},
		{"proxy, once it serves", reflect.TypeFor[proxyJSON]()},
		{"version", reflect.TypeFor[versionJSON]()},
		{"completion", reflect.TypeFor[completionJSON]()},
	}
}

// jsonPage lists every field of every document, with the comment that it has
// in the code.
func jsonPage(t *testing.T, _ *app) string {
	says := comments(t, ".", "../wire", "../../../runner/report", "../../../runner/plan", "../../../runner/config", "../../../runner/simulate", "../../../runner/generate", "../../../runner/setup", "../../../state")
	var b strings.Builder
	b.WriteString("# JSON documents\n\n" + generatedNote + `
What each verb prints with ` + "`--json`" + `. Field names are stable: they are added, not
renamed. Times are RFC 3339 in UTC, durations text such as 10m, shares percent.
A field that is missing is empty. ` + "`schema`" + ` prints the schema itself.
`)
	for _, d := range documents() {
		fmt.Fprintf(&b, "\n## %s\n\n| field | type | meaning |\n|---|---|---|\n", d.verbs)
		fieldRows(&b, d.of, "", says, nil)
	}
	return b.String()
}

func fieldRows(b *strings.Builder, t reflect.Type, path string, says map[string]string, inside []reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		inner, list := element(f.Type)
		if f.Anonymous {
			fieldRows(b, inner, path, says, inside)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", path+name, jsonType(f.Type), cell(says[t.Name()+"."+f.Name]))
		if inner.Kind() == reflect.Struct && jsonType(inner) == "object" && !slices.Contains(inside, inner) {
			fieldRows(b, inner, path+name+list+".", says, append(inside, inner))
		}
	}
}

// element is what a pointer or a list is made of.
func element(t reflect.Type) (reflect.Type, string) {
	list := ""
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 {
		if t.Kind() == reflect.Slice {
			list += "[]"
		}
		t = t.Elem()
	}
	return t, list
}

func jsonType(t reflect.Type) string {
	inner, list := element(t)
	if list != "" {
		return "list of " + strings.TrimSuffix(jsonType(inner), "s") + "s"
	}
	switch inner.String() {
	case "time.Time":
		return "time"
	case "json.RawMessage":
		return "any"
	case "config.Duration":
		return "duration"
	}
	switch inner.Kind() {
	case reflect.Struct:
		return "object"
	case reflect.Map:
		return "map of " + jsonType(inner.Elem()) + "s"
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "text"
	}
	return "number"
}

// comments reads the line comments of struct fields, as Type.Field.
func comments(t *testing.T, dirs ...string) map[string]string {
	out := map[string]string{}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no code in %s: %v", dir, err)
		}
		for _, file := range files {
			syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(syntax, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				if s, ok := spec.Type.(*ast.StructType); ok {
					for _, f := range s.Fields.List {
						for _, name := range f.Names {
							out[spec.Name.Name+"."+name.Name] = strings.TrimSpace(f.Comment.Text())
						}
					}
				}
				return true
			})
		}
	}
	return out
}

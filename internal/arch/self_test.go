package arch

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

// sample makes a project of the given files. Every file "x.go" that does not
// say otherwise gets the package clause of its folder, with a comment.
func sample(t *testing.T, files map[string]string) tree {
	t.Helper()
	root := fstest.MapFS{}
	for name, text := range files {
		if strings.HasSuffix(name, ".go") && !strings.Contains(text, "package ") {
			parts := strings.Split(name, "/")
			pkg := parts[len(parts)-2]
			text = fmt.Sprintf("// Package %s is for the tests of the architecture, and knows nothing.\npackage %s\n%s", pkg, pkg, text)
		}
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return load(t, root)
}

func imports(targets ...string) string {
	var out strings.Builder
	for _, target := range targets {
		fmt.Fprintf(&out, "import _ %q\n", strings.Replace(target, "~", module, 1))
	}
	return out.String()
}

// expect fails unless the findings are the expected ones, by a part of each.
func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	for _, w := range want {
		found := false
		for _, g := range got {
			found = found || strings.Contains(g, w)
		}
		if !found {
			t.Errorf("findings %q, expected one with %q", got, w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d findings %q, expected %d", len(got), got, len(want))
	}
}

// TestArrowsAreHeld breaks each rule once.
func TestArrowsAreHeld(t *testing.T) {
	cases := map[string]struct{ file, target, finding string }{
		"data":               {"state/doc.go", "gopkg.in/yaml.v3", "state/doc.go imports gopkg.in/yaml.v3"},
		"data to data":       {"state/doc.go", "~/providers", "standard library only"},
		"analysis":           {"analysis/rank/rank.go", "~/state", "standard library only"},
		"checkpoint":         {"state/checkpoint/c.go", "~/providers/store/git", "must not know a particular one"},
		"contract":           {"providers/router/router.go", "~/providers/router/nginx", "must not know who implements"},
		"provider to runner": {"providers/router/nginx/nginx.go", "~/runner/plan", "never the runner"},
		"provider to other":  {"providers/router/nginx/nginx.go", "~/providers/store/git", "never another provider's folder"},
		"provider to helper": {"providers/router/nginx/nginx.go", "~/providers/router/routertest", "test helper"},
		"client":             {"providers/api/nginx/client.go", "~/providers/router", "without any contract"},
		"engine":             {"runner/next.go", "~/providers/router/nginx", "knows no provider by name"},
		"engine to client":   {"runner/next.go", "~/providers/api/process", "knows no provider by name"},
		"engine to cmd":      {"runner/next.go", "~/cmd/internal/cli", "knows no provider by name"},
		"cli":                {"cmd/internal/cli/run.go", "~/providers/router/nginx", "only cmd/internal/wire"},
		"wire":               {"cmd/internal/wire/routers.go", "~/providers/router/memory", "do not belong into the binary"},
		"a provider's test":  {"providers/router/nginx/nginx_test.go", "~/providers/store/git", "never another provider's folder"},
		"an engine's test":   {"runner/next_test.go", "~/providers/store/git", "knows no provider by name"},
		"a test to cmd":      {"runner/next_test.go", "~/cmd/internal/cli", "knows no provider by name"},
		"helper":             {"providers/router/routertest/suite.go", "~/providers/router/nginx", "must not know one"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			expect(t, badArrows(sample(t, map[string]string{tc.file: imports(tc.target)})), tc.finding)
		})
	}
}

func TestArrowsLetThrough(t *testing.T) {
	expect(t, badArrows(sample(t, map[string]string{
		"state/doc.go":                         imports("time"),
		"state/doc_test.go":                    imports("github.com/google/go-cmp/cmp"),
		"state/checkpoint/c.go":                imports("~/state", "~/providers/store", "~/providers"),
		"state/checkpoint/c_test.go":           imports("~/providers/store/memory"),
		"providers/router/nginx/nginx.go":      imports("~/providers/router", "~/providers/api/nginx", "~/state", "~/providers/router/nginx/internal/parse"),
		"providers/router/nginx/nginx_test.go": imports("~/providers/router/routertest"),
		"providers/plugin/plugin.go":           imports("~/providers/router"),
		"runner/next.go":                       imports("~/runner/plan", "~/state/checkpoint", "~/analysis", "~/providers/router"),
		"runner/next_test.go":                  imports("~/providers/router/memory"),
		"cmd/manent/main.go":                   imports("~/cmd/internal/cli"),
		"cmd/internal/cli/run.go":              imports("~/cmd/internal/wire", "~/runner"),
		"cmd/internal/wire/routers.go":         imports("~/providers/router/nginx", "~/providers/api/process"),
	})))
}

func TestDocsAreHeld(t *testing.T) {
	expect(t, badDocs(sample(t, map[string]string{
		"runner/none/a.go":       "package none\n",
		"runner/short/a.go":      "// Package short is short.\npackage short\n",
		"runner/other/a.go":      "// Package something is about something that is long enough to read.\npackage other\n",
		"runner/good/a.go":       "",
		"runner/tests/a_test.go": "package tests\n",
		"cmd/manent/main.go":     "// Command manent moves traffic from a running version to a new one.\npackage main\n",
	})), "runner/none", "runner/short", "runner/other")
}

func TestSizesAreHeld(t *testing.T) {
	long := "func long() {\n" + strings.Repeat("\tprintln()\n", maxFunc) + "}\n"
	project := sample(t, map[string]string{
		"runner/a.go":                     long,
		"runner/b_test.go":                strings.Repeat("//\n", maxFile),
		"runner/c.go":                     "// Code generated by a test. DO NOT EDIT.\n\npackage runner\n" + long + strings.Repeat("//\n", maxFile),
		"providers/router/nginx/nginx.go": strings.Repeat("//\n", maxProvider/2),
		"providers/router/nginx/types.go": strings.Repeat("//\n", maxProvider/2),
	})
	expect(t, badSizes(project), "runner/a.go: long has 82 lines", "runner/b_test.go has 502 lines", "providers/router/nginx has 604 lines")
	expect(t, badQuantiles(project), "the median file", "the median function", "nine of ten functions")
	expect(t, badQuantiles(sample(t, map[string]string{"runner/a.go": "func short() {}\n"})))
}

func TestGlobalsAreHeld(t *testing.T) {
	project := sample(t, map[string]string{
		"runner/a.go": `import ("errors"; "regexp"; _ "embed")
func init() {}
var table = map[string]int{}
var count int
var unit = "percent"
var made = make(map[string]int)
var (
	ErrGone = errors.New("gone")
	pattern = regexp.MustCompile("x")
	_ error = ErrGone
	//go:embed a.txt
	text string
)
//go:embed b.txt
var more string
type t struct{}
func (t) init() {}
`,
		"runner/a_test.go":   "var update = new(bool)\n",
		"cmd/manent/main.go": "package main\nvar version = \"dev\"\nvar other = \"dev\"\n",
	})
	expect(t, badGlobals(project), "has an init function", "variable table", "variable count", "variable unit", "variable made", "variable other")
}

func TestProvidersAreHeld(t *testing.T) {
	files := map[string]string{
		"providers/router/routertest/suite.go": "func Run() {}\n",
		"providers/router/nginx/client.go":     "",
		"providers/router/nginx/nginx_test.go": `import "` + module + `/providers/router/routertest"
var suite = routertest.Run
`,
		"providers/pool/f5/f5.go": "func Spec() {}\n",
	}
	expect(t, badProviders(sample(t, files)), "no file nginx.go", "no function Spec", "no test in providers/router/nginx calls", "contract pool has no conformance suite")

	files["providers/router/nginx/nginx.go"] = "func Spec() {}\n"
	files["providers/router/nginx/nginx_test.go"] = `import suite "` + module + `/providers/router/routertest"
func TestConformance() { suite.Run() }
`
	files["providers/pool/pooltest/suite.go"] = ""
	files["providers/pool/f5/f5_test.go"] = `import "` + module + `/providers/pool/pooltest"
func TestConformance() { pooltest.Run() }
`
	expect(t, badProviders(sample(t, files)))
}

func TestRegistrationsAreHeld(t *testing.T) {
	files := map[string]string{"providers/router/nginx/nginx.go": "func Spec() {}\n"}
	expect(t, badRegistrations(sample(t, files)))

	files["cmd/manent/main.go"] = "package main\n"
	expect(t, badRegistrations(sample(t, files)), "cmd/internal/wire is missing")

	files["cmd/internal/wire/routers.go"] = `import "` + module + `/providers/router/nginx"
func Routers() { nginx.New() }
`
	files["docs/dependencies.md"] = "`nginx`"
	expect(t, badRegistrations(sample(t, files)), "is not registered", "is not documented")

	files["cmd/internal/wire/routers.go"] = `import "` + module + `/providers/router/nginx"
func Routers() { nginx.Spec() }
`
	files["docs/reference/routers.md"] = "## `nginx`\n"
	expect(t, badRegistrations(sample(t, files)))
}

func TestDependenciesAreHeld(t *testing.T) {
	page := "# x\n\n## Direct\n\n| module | why | cost |\n|---|---|---|\n| `a/b` | why | 1 MB |\n| `c/d` | why |  |\n\n## Planned\n\n| `e/f` | why | cost |\n"
	expect(t, badDependencies([]string{"a/b", "g/h"}, page), "row of c/d has an empty cell", "go.mod requires g/h", "has a row for c/d")
}

func TestWorkflowsAreHeld(t *testing.T) {
	good := "on: push\npermissions: {contents: read}\njobs:\n  x:\n    steps:\n      - uses: actions/checkout@" + strings.Repeat("a", 40) + " # v7.0.1\n      - uses: ./\n"
	expect(t, badWorkflow("good.yml", good))
	expect(t, badWorkflow("tag.yml", strings.Replace(good, strings.Repeat("a", 40), "v7", 1)), "uses actions/checkout@v7, expected a full commit")
	expect(t, badWorkflow("bare.yml", strings.Replace(good, " # v7.0.1", "", 1)), "without its version")
	expect(t, badWorkflow("open.yml", strings.Replace(good, "permissions", "defaults", 1)), "no permissions")
}

package arch

import (
	"fmt"
	"go/ast"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
)

const wireDir = "cmd/internal/wire"

// implementations returns the folders of providers, without folders below.
func implementations(project tree) []string {
	var out []string
	for _, dir := range project.dirs() {
		if partOf(dir) == provider && strings.Count(dir, "/") == 2 {
			out = append(out, dir)
		}
	}
	return out
}

// badProviders finds what an implementation lacks. Each finding names what is
// to be done, in the order of the recipe in CONTRIBUTING.md.
func badProviders(project tree) []string {
	var out []string
	for _, dir := range implementations(project) {
		kind, name := path.Base(path.Dir(dir)), path.Base(dir)
		suite := path.Join(path.Dir(dir), kind+"test")
		if !slices.ContainsFunc(project.in(dir), func(f source) bool { return f.path == dir+"/"+name+".go" }) {
			out = append(out, fmt.Sprintf("%s has no file %s.go: all provider folders look alike, so that who knows one knows all", dir, name))
		}
		if !declares(project, dir, "Spec") {
			out = append(out, fmt.Sprintf("%s has no function Spec: cmd/internal/wire needs it to list the provider", dir))
		}
		if !slices.Contains(project.dirs(), suite) {
			out = append(out, fmt.Sprintf("contract %s has no conformance suite %s: without one each implementation means something else by it", kind, suite))
		} else if !calls(project, dir, suite, true) {
			out = append(out, fmt.Sprintf("no test in %s calls the conformance suite %s: a provider is done when it passes", dir, suite))
		}
	}
	return out
}

// declares reports whether a folder's code has a function of this name.
func declares(project tree, dir, name string) bool {
	for _, f := range project.in(dir) {
		for _, decl := range f.syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && !f.test && fn.Recv == nil && fn.Name.Name == name {
				return true
			}
		}
	}
	return false
}

// calls reports whether the tests, or the code, of a folder call a function
// of another one; with names only one of these.
func calls(project tree, dir, target string, tests bool, names ...string) bool {
	for _, f := range project.in(dir) {
		if f.test != tests {
			continue
		}
		known := f.imports()
		found := false
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if selector, ok := call.Fun.(*ast.SelectorExpr); ok {
				pkg, isName := selector.X.(*ast.Ident)
				found = found || isName && known[pkg.Name] == module+"/"+target &&
					(len(names) == 0 || slices.Contains(names, selector.Sel.Name))
			}
			return true
		})
		if found {
			return true
		}
	}
	return false
}

// badRegistrations holds as soon as there is a command: what is not in wire
// is not in the binary, and what is not in the documentation nobody finds.
func badRegistrations(project tree) []string {
	if !slices.ContainsFunc(project.dirs(), func(dir string) bool { return strings.HasPrefix(dir, "cmd/") }) {
		return nil
	}
	if !slices.Contains(project.dirs(), wireDir) {
		return []string{wireDir + " is missing although there is a command: nothing would be registered, and no test would see it"}
	}
	var out []string
	docs := strings.ReplaceAll(documentation(project), "-", "") // the folder of gcp-sm is gcpsm
	for _, dir := range implementations(project) {
		if !calls(project, wireDir, dir, false, "Spec") {
			out = append(out, fmt.Sprintf("%s is not registered: call its Spec in %s", dir, wireDir))
		}
		if name := path.Base(dir); !strings.Contains(docs, "`"+name+"`") {
			out = append(out, fmt.Sprintf("%s is not documented: no page below docs has `%s`; run make generate", dir, name))
		}
	}
	return out
}

// documentation is the text of all pages but the list of dependencies.
func documentation(project tree) string {
	var out strings.Builder
	pages, _ := fs.Glob(project.all, "docs/*.md")
	deeper, _ := fs.Glob(project.all, "docs/*/*.md")
	for _, page := range append(pages, deeper...) {
		if text, err := fs.ReadFile(project.all, page); err == nil && page != dependencies {
			out.Write(text)
		}
	}
	return out.String()
}

func TestProvidersAreComplete(t *testing.T) {
	project := here(t)
	if n := len(implementations(project)); n < 2 {
		t.Fatalf("found %d implementations, expected more: the layout has changed", n)
	}
	check(t, badProviders(project))
}

func TestProvidersAreRegistered(t *testing.T) { check(t, badRegistrations(here(t))) }
